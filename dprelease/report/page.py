"""Write the report as one HTML file: self-contained, without scripts, of bounded size.

The page explains with one cell of the release how to read a margin of error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from dprelease.documents.metadata import ColumnMetadata, Role, TableMetadata
from dprelease.report.accuracy.quality import (
    ColumnQuality,
    column_quality,
    is_number,
    quality_of,
    to_floats,
)
from dprelease.report.accuracy.quality_part import quality_section
from dprelease.report.accuracy.totals import disagreements
from dprelease.report.accuracy.true_errors import simulated_errors
from dprelease.report.facts import Facts
from dprelease.report.localization import Words
from dprelease.report.pictures import Gallery, Picture, interval_picture
from dprelease.report.privacy_section import label_of
from dprelease.report.provenance_section import provenance_section
from dprelease.report.rendering import render_page
from dprelease.report.safe_labels import Names
from dprelease.report.section_context import Context
from dprelease.report.source import Checks, ReleaseFiles, Truth
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE


@dataclass(frozen=True)
class Example:
    """One cell explained in sentences, and its picture; empty if no cell has a margin."""

    sentences: list[Markup]
    picture: Picture | None = None


@dataclass(frozen=True)
class _ExampleCell:
    """One cell of a table, with its value, its margin and the ends of its interval."""

    one: ColumnQuality
    keys: dict[str, Any]
    value: float
    margin: float
    ends: tuple[float, float]


def example_of(
    release: ReleaseFiles, facts: Facts, words: Words, names: Names, gallery: Gallery
) -> Example:
    """Return the middle cell of the first column that has margins."""
    cell = next(_example_cells(release, facts), None)
    if cell is None:
        return Example([words.say("margin.none")])
    column, table = cell.one.column, cell.one.table
    confidence = _confidence_of(facts, cell.one)
    decimals = column.decimals

    def number(value: float) -> str:
        """Return a number as text, with the decimals of the column."""
        return words.number(value, decimals)

    says = {
        "value": Markup("<strong>{}</strong>").format(number(cell.value)),
        "unit": names.name(column.unit),
        "margin": Markup("<strong>{}</strong>").format(number(cell.margin)),
    }
    low, high = (Markup("<strong>{}</strong>").format(number(end)) for end in cell.ends)
    where = _cell_position_text(table, cell, words, names)
    first = Markup("{} {}: {}.").format(
        where, names.column(column), words.say("margin.value", **says)
    )
    sentences = [
        first,
        words.say("margin.range", low=low, high=high, confidence=words.percent(confidence)),
    ]
    if not facts.is_consistent(table):
        apart = math.sqrt(2.0) * cell.margin
        sentences.append(words.say("margin.differ", difference=number(float(f"{apart:.3g}"))))
    sentences += [words.say("margin.zero"), words.say("margin.only")]
    title = names.plain(column.label, column.name, 40)
    axis = {"column": title, "unit": column.unit}
    name = words.plain("margin.axis.unit" if column.unit else "margin.axis", **axis)
    return Example(sentences, interval_picture(gallery, name, cell.value, cell.ends, number))


def _cell_position_text(
    table: TableMetadata, cell: _ExampleCell, words: Words, names: Names
) -> Markup:
    """Return the keys of a cell and the title of its table as text."""
    title = names.table(table)
    if not cell.keys:
        return words.say("margin.cell.total", table=title)
    parts = [
        Markup("{} = {}").format(names.column(key), names.value(key, cell.keys[key.name]))
        for key in table.keys
    ]
    return words.say("margin.cell", table=title, cell=Markup(", ").join(parts))


def _example_cells(release: ReleaseFiles, facts: Facts) -> Iterator[_ExampleCell]:
    """Yield the middle cell of columns with margins, good examples first."""
    columns = [
        column_quality(facts, table, column)
        for table in release.metadata.tables_for_readers
        if facts.query_of(table) is not None
        for column in table.values
        if is_number(column)
    ]
    for one in sorted(columns, key=_example_order):
        yield from _middle_cell(release, one)


def _example_order(one: ColumnQuality) -> tuple[bool, bool]:
    """Return the order of columns as examples: published margins first, then identified cells."""
    return one.table.companion_of(one.column.name, Role.MARGIN) is None, not one.table.keys


def _middle_cell(release: ReleaseFiles, one: ColumnQuality) -> Iterator[_ExampleCell]:
    """Yield the middle cell among the first cells of a column that have a margin, if there is one.

    Cells whose value is larger than their margin are preferred.
    """
    table, name = one.table, one.column.name
    keys = [key.name for key in table.keys]
    ends = [table.companion_of(name, role) for role in (Role.LOWER, Role.UPPER)]
    companions = [end.name for end in ends if end is not None]
    batch = next(iter(release.batches(table, [*keys, *one.source_columns, *companions])), None)
    if batch is None:
        return
    values, margins = to_floats(batch.column(name)), one.margins_of(batch)
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(margins) & (margins > 0))
    if not len(known):
        return
    sure = known[np.abs(values[known]) > margins[known]]
    known = sure if len(sure) else known
    order = known[np.argsort(values[known], kind="stable")]
    row = int(order[len(order) // 2])
    value, margin = float(values[row]), float(margins[row])
    if len(companions) == 2:
        low, high = (float(to_floats(batch.column(end))[row]) for end in companions)
    else:
        low, high = value - margin, value + margin
    cell = {key: batch.column(key)[row].as_py() for key in keys}
    yield _ExampleCell(one, cell, value, margin, (low, high))


def _confidence_of(facts: Facts, one: ColumnQuality) -> float:
    """Return the confidence of the margins of a column."""
    output = facts.query_column(one.table, one.column)
    if facts.is_consistent(one.table) and one.expected is not None:
        return one.expected.confidence
    published: ColumnMetadata | None = one.table.companion_of(one.column.name, Role.MARGIN)
    if output is None or output.margin is None or published is None:
        return float(DEFAULT_CONFIDENCE)
    return float(output.margin)


PARTS = ("label", "margin", "quality", "made")
"""Names of the sections of the page in order; each is a template."""


def page_of(
    release: ReleaseFiles,
    *,
    language: str | None = None,
    checks: Checks | None = None,
    truth: Truth | None = None,
) -> bytes:
    """Return the report on a release: the same bytes for the same release.

    Parameters
    ----------
    release
        A verified release of tables; its manifest is trusted.
    language
        The language of labels, one of those of the metadata; by default the first one. The report's
        own texts are in English if they don't exist in this language.
    checks
        The results of `verify`.
    truth
        The true values of a rehearsal.
    """
    facts = Facts(release.record)
    columns = list(quality_of(release, facts))
    totals = disagreements(release, facts)
    errors = None if truth is None else simulated_errors(release, truth, columns)

    def fill_page(words: Words, names: Names, most: int) -> Mapping[str, Any]:
        """Return the parts of the page by name."""
        context = Context(facts, words, names, Gallery(words), most)
        return {
            "parts": PARTS,
            "label": label_of(facts, words, names, context.gallery),
            "example": example_of(release, facts, words, names, context.gallery),
            "quality": quality_section(context, columns, totals, errors),
            "made": provenance_section(context, checks),
            "shortened": len(columns) > most,
            "rehearsed": truth is not None,
        }

    return render_page(release, language, fill_page)
