"""Write how to read the numbers of a report, and notes on limits and on numbers below 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from dprelease.documents.metadata import TableMetadata
from dprelease.planning.bounded_words import cutting_limits, read_keys
from dprelease.query.aggregates.aggregate import IDS
from dprelease.query.resolve import Query
from dprelease.report.numbers.cells import TableCells
from dprelease.report.numbers.number_texts import NumberTexts
from dprelease.report.section_context import Context


def reading_sentences(
    context: Context, tables: Sequence[TableCells], agreeing: Sequence[str]
) -> list[Markup]:
    """Return how to compare and add the numbers of the shown tables.

    `agreeing`: the queries whose tables add up exactly.
    """
    words, facts = context.words, context.facts
    found = [words.say("numbers.reading.parts")]
    if agreeing and {cells.table.query for cells in tables} <= {*agreeing}:
        found = []
    whole = {cells.table.query for cells in tables if facts.is_integer_table(cells.table)}
    for name, queries in (
        ("numbers.reading.agree", [one for one in agreeing if one not in whole]),
        ("numbers.reading.whole", [one for one in agreeing if one in whole]),
    ):
        if queries:
            titles, estimates = context.query_titles(queries), context.names.estimates
            found.append(words.say(name, queries=titles, estimates=estimates))
    confidences = [
        one.confidence
        for cells in tables
        for place, one in enumerate(cells.columns)
        if any(row.numbers[place].low is not None for row in cells.rows)
    ]
    if confidences:
        one_in = words.number(round(1.0 / (1.0 - min(confidences))))
        found.append(words.say("numbers.reading.misses", one_in=one_in))
        found.append(words.say("numbers.reading.differ"))
        found.append(words.say("numbers.reading.sums"))
    if any(limits_rows(query) for query in facts.queries.values()):
        found.append(words.say("numbers.reading.limits"))
    return found


def limits_rows(query: Query) -> bool:
    """Return whether contribution limits may leave out rows of a column of a query."""
    return any(cutting_limits(query, one.parts) is not None for one in query.columns)


def negative_note(context: Context, cells: TableCells) -> Iterator[Markup]:
    """Yield how to read numbers below 0, where no true one can be, or why there are none."""
    if context.facts.is_integer_table(cells.table):
        yield context.words.say("numbers.raised")
    places = [place for place, one in enumerate(cells.columns) if one.never_negative]
    if any((row.numbers[place].number or 0.0) < 0.0 for row in cells.rows for place in places):
        yield context.words.say("numbers.negative")


def full_range_note(context: Context, cells: TableCells) -> Iterator[Markup]:
    """Yield the ranges of the table that are as wide as the bounds of their column."""
    for place in cells.numeric:
        one = cells.columns[place]
        bounds = context.facts.bounds_of(one.table, one.column)
        wide = [row.numbers[place] for row in cells.rows if row.numbers[place].fills(bounds)]
        if wide:
            text = NumberTexts(context, one).of(wide[0]).interval
            yield context.words.say("numbers.full_range", range=text)


def limit_note(context: Context, table: TableMetadata) -> Iterator[Markup]:
    """Yield the contribution limits of a table that may leave out rows, if there are any."""
    query = context.facts.query_of(table)
    limit = None if query is None else limit_text(context, query)
    if query is not None and limit is not None:
        unit = context.unit_name(query.unit.id or "")
        yield context.words.say("numbers.limited", id=unit, limit=limit)


def limit_text(context: Context, query: Query) -> Markup | None:
    """Return how often a privacy unit counts at most; None if limits leave out nothing."""
    limits, words = cutting_limits(query, query.measurements), context.words
    if limits is None:
        return None
    says = {
        "rows": words.many("limit.rows", limits.rows),
        "cells": words.many("limit.cells", limits.groups),
        "keys": Markup(", ").join(context.key_name(key.column) for key in read_keys(query)),
    }
    if all(part.aggregate.counted_kind == IDS for part in query.measurements):
        return words.say("limit.in_cells", **says)
    if limits.total is not None:
        total = words.many("limit.rows", limits.total)
        return (
            words.say("limit.per_cell.total", total=total, **says) if limits.has_others else total
        )
    return says["rows"] if limits.groups == 1 else words.say("limit.per_cell", **says)
