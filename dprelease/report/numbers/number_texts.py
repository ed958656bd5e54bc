"""Write published numbers with their margins and quality, and notes on how to read them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.documents.metadata import TableMetadata
from dprelease.planning.bounded_words import cutting_limits, read_keys
from dprelease.query.aggregates.aggregate import IDS
from dprelease.query.quality import SIGNS
from dprelease.query.resolve import Query
from dprelease.report.accuracy.quality import ColumnQuality
from dprelease.report.numbers.cells import Number, TableCells
from dprelease.report.section_context import Context
from dprelease.report.words import round_up_to_three_digits

UNITS_OF_COUNTS = frozenset(("rows", ""))
"""Units that a label says better."""


@dataclass(frozen=True, slots=True)
class NumberText:
    """A number in words: the value or the sign of an empty cell, its margin, and its quality.

    `badge`: the letter of the quality class, or the sign of a value at a bound. `label`: what the
    badge or the sign means.
    """

    value: str | Markup
    margin: str = ""
    badge: str = ""
    label: str = ""
    interval: str = ""

    @classmethod
    def plain_number(cls, value: str) -> NumberText:
        """Return a number without a margin, such as a number of cells."""
        return cls(value)


@dataclass(frozen=True, slots=True)
class NumberTexts:
    """Writes the numbers of one column."""

    context: Context
    one: ColumnQuality

    @property
    def title(self) -> Markup:
        """Return the label of the column, and its unit if the label does not say it."""
        label, unit = self.context.names.column(self.one.column), self.unit
        return Markup("{}, {}").format(label, unit) if unit else label

    @property
    def unit(self) -> Markup:
        """Return the unit of the column, unless it counts rows or values of an id."""
        unit, table = self.one.column.unit, self.one.table
        query = self.context.facts.query_of(table)
        is_column = query is not None and unit in query.table.columns
        if unit in UNITS_OF_COUNTS or is_column or unit == self.one.column.name:
            return Markup("")
        return self.context.names.name(unit)

    def of(self, number: Number) -> NumberText:
        """Return a number as text."""
        quality = self.one.quality_column
        label = ""
        if quality is not None and number.quality:
            label = self.context.names.plain_value(quality, number.quality)
        sign = SIGNS.get(number.quality, "")
        interval = self._interval(number)
        if number.value is None:
            return NumberText(sign or "–", interval, "", label, interval)
        badge = sign or (number.quality if len(number.quality) == 1 else "")
        return NumberText(self.value(number), self._margin(number), badge, label, interval)

    def value(self, number: Number) -> str | Markup:
        """Return a value with the decimals of its column, or the label of a value."""
        column = self.one.column
        if number.number is None or not column.is_number:
            return self.context.names.value(column, number.value)
        return self._text(number.number)

    def _text(self, value: float) -> str:
        return self.context.words.number(value, self.one.column.decimals)

    def _margin(self, number: Number) -> str:
        """Return the margin of error, or the interval of a column that publishes its ends."""
        if self.one.end_columns is not None or number.margin is None:
            return self._interval(number)
        decimals = self.one.column.decimals
        margin = number.margin
        if decimals is not None:
            # Rounded up, so that the margin does not become narrower than it is; the tolerance is
            # for margins that have these decimals already, but not as floats.
            margin = math.ceil(margin * 10**decimals - 1e-9) / 10**decimals
        elif margin != int(margin):
            margin = round_up_to_three_digits(margin)
        return f"± {self.context.words.number(margin, decimals)}"

    def _interval(self, number: Number) -> str:
        """Return an interval as text; empty without one."""
        if number.low is None or number.high is None:
            return ""
        low, high = self._text(number.low), self._text(number.high)
        return self.context.words.plain("numbers.interval", low=low, high=high)

    def plain(self, number: Number) -> str:
        """Return a number with its interval and its quality as plain text."""
        text = self.of(number)
        parts = [str(text.value) if number.value is not None else text.label or "–"]
        parts += [text.interval, text.badge]
        return ", ".join(part for part in parts if part)


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
