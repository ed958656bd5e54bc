"""Write the report on single records: the guarantee of each record, the estimates from all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dprelease.documents.local_manifest import NumberRecord, RecordsManifest, ResponseRecord
from dprelease.documents.metadata import ColumnMetadata, TableMetadata
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.planning.local_plan import LocalColumn
from dprelease.planning.plan import PlannedColumn
from dprelease.query.local_records import RecordColumn, Records, resolve_records
from dprelease.query.resolve import Query
from dprelease.report.accuracy.rehearsal_errors import Errors, with_error_section
from dprelease.report.facts import (
    Checks,
    Facts,
    LabelSource,
    ProtectedUnit,
    ReleaseFiles,
    fraction_of_text,
)
from dprelease.report.numbers.cells import Number
from dprelease.report.numbers.charts import Bar, Panel, Scale, mark_of
from dprelease.report.numbers.number_texts import NumberText
from dprelease.report.page import render_page
from dprelease.report.pictures import IntervalPicture, PageTable, interval_picture
from dprelease.report.privacy_section import label_of
from dprelease.report.provenance_section import (
    LONGEST,
    ProvenanceSection,
    parameter_text,
    provenance_section,
)
from dprelease.report.section_context import Context
from dprelease.report.words import Names, Words, printable_text, round_up_to_three_digits
from dprelease.tables.record_table import Estimate, record_estimates

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RecordFacts(Facts):
    """A verified manifest of single records, each of which is protected by its own noise."""

    record: RecordsManifest

    @cached_property
    def parts(self) -> tuple[Records, ...]:
        """Return the declared columns of records, table by table."""
        return resolve_records(self.declaration)

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """Return the records as queries by name, whose measurements are the columns of records."""
        return {part.name: part.query for part in self.parts}

    @cached_property
    def mechanisms(self) -> Mapping[tuple[str, str], Mechanism]:
        """Return the noise mechanism of each column."""
        return {
            name: registry.record_mechanism_of_event(held.event)
            for name, held in self.measurement_records.items()
        }

    @property
    def label(self) -> LabelSource:
        """Return the facts for the label: each record is a privacy unit."""
        tables = dict.fromkeys(part.declared.table.name for part in self.parts)
        units, record = [ProtectedUnit(table, None) for table in tables], self.record
        return LabelSource(units, record.guarantee, record.reading, record.ledger)

    def planned_columns(self) -> Iterator[PlannedColumn]:
        """Yield every column with its noise."""
        for part in self.parts:
            for column in part.columns:
                name = part.name, column.name
                chosen = self.measurement_records[name].chosen_by
                yield LocalColumn(
                    part.query, column.measurement, self.mechanisms[name], chosen, column
                )


PARTS = ("records", "label", "made")
CONFIDENCE = 0.95
MOST_VALUES = 20
"""Maximum number of listed values of a column, most frequent first; the records have all values."""

DIGITS = 4
"""Decimals of an estimated frequency."""


@dataclass(frozen=True)
class RecordsPart:
    """The content of the section on the records, ready for the page."""

    singles: PageTable
    tables: list[tuple[Panel, PageTable]]
    example: list[Markup]
    picture: IntervalPicture | None


@dataclass(frozen=True)
class _EstimatedColumn:
    """One column of records, and the estimates from all of its published values."""

    table: TableMetadata
    metadata: ColumnMetadata
    column: RecordColumn
    records: int
    found: tuple[Estimate, ...]


def page_of_records(
    release: ReleaseFiles,
    *,
    language: str | None = None,
    checks: Checks | None = None,
    errors: Errors | None = None,
) -> bytes:
    """Return the report on a release of single records; parameters as for `page_of`.

    `errors`: the errors of a rehearsal.
    """
    assert isinstance(release.record, RecordsManifest)
    facts = RecordFacts(release.record)
    columns = list(_estimated_columns(release, facts))

    def fill_page(words: Words, names: Names, most: int) -> Mapping[str, Any]:
        """Return the parts of the page by name."""
        context = Context(facts, words, names, most)
        label = label_of(facts, words, names)
        return {
            **with_error_section(PARTS, context, errors, "simulated.lead.records"),
            "label": label,
            "records": _records_part(context, facts, columns),
            "made": _provenance(context, facts, checks),
            "shortened": any(len(one.found) > _most_listed_values(context) for one in columns),
        }

    return render_page(release, language, fill_page)


def _estimated_columns(release: ReleaseFiles, facts: RecordFacts) -> Iterator[_EstimatedColumn]:
    """Yield every column with estimates from its published values."""
    import pyarrow as pa

    by_name = {table.name: table for table in release.metadata.tables}
    for part in facts.parts:
        table = by_name[part.name]
        described = {column.name: column for column in table.columns}
        for column in part.columns:
            batches = list(release.batches(table, [column.name]))
            values = pa.chunked_array([batch.column(0) for batch in batches]) if batches else None
            yield _estimated_column(facts, part, table, described[column.name], column, values)


def _estimated_column(
    facts: RecordFacts,
    part: Records,
    table: TableMetadata,
    metadata: ColumnMetadata,
    column: RecordColumn,
    values: pa.ChunkedArray | None,
) -> _EstimatedColumn:
    """Return a column with the estimates from its values; without values it has none."""
    number = 0 if values is None else len(values)
    mechanism = facts.mechanisms[part.name, column.name]
    found = record_estimates(values, column, mechanism, CONFIDENCE) if number else ()
    return _EstimatedColumn(table, metadata, column, number, found)


def _records_part(
    context: Context, facts: RecordFacts, columns: list[_EstimatedColumn]
) -> RecordsPart:
    """Return the content of the section on the records."""
    example = next((one for one in columns if one.found), None)
    sentences: list[Markup] = []
    picture: IntervalPicture | None = None
    if example is not None:
        sentences, picture = _example_sentences(context, example)
    return RecordsPart(
        singles=_single_record_table(context, facts),
        tables=[
            (_estimates_panel(context, one), _estimates_table(context, one))
            for one in columns
            if one.found
        ],
        example=sentences or [context.words.say("records.none")],
        picture=picture,
    )


def _single_record_table(context: Context, facts: RecordFacts) -> PageTable:
    """Return the table of the noise's effect on one record, column by column."""
    words, names, rows = context.words, context.names, []
    for held in facts.record.measurements[: context.most]:
        one = held.one_record
        if isinstance(one, ResponseRecord):
            says = words.say(
                "records.kept",
                keep=words.percent(one.keep),
                values=words.number(one.values),
            )
        else:
            margin = words.number(round_up_to_three_digits(float(fraction_of_text(one.margin_95))))
            says = words.say("records.moved", margin=margin, unit=names.name(held.unit))
        rows.append(context.cells(names.name(f"{held.query}.{held.column}"), says))
    heads = [words.say("records.head.column"), words.say("records.head.single")]
    return PageTable(words.say("records.single"), heads, rows)


def _most_listed_values(context: Context) -> int:
    """Return the maximum number of listed values of a column."""
    return min(context.most, MOST_VALUES)


def _provenance(context: Context, facts: RecordFacts, checks: Checks | None) -> ProvenanceSection:
    """Return how the records were made: bounds of numeric columns, and the noise of one record."""
    words, names = context.words, context.names
    bounds, noise = [], []
    for held in facts.record.measurements[: context.most]:
        shown = names.name(f"{held.query}.{held.column}")
        shape = ", ".join(
            f"{key} {parameter_text(text, context)}" for key, text in held.parameters.items()
        )
        noise.append(context.cells(shown, names.name(held.mechanism), names.name(shape, LONGEST)))
        one = held.one_record
        if isinstance(one, NumberRecord):
            low, high = (words.exactly(fraction_of_text(end)) for end in (one.lower, one.upper))
            says = words.say("made.range", low=low, high=high, unit=names.name(held.unit))
            bounds.append(context.cells(shown, says, words.exactly(fraction_of_text(held.step))))
    heads = [words.say(f"made.head.{name}") for name in ("column", "bounds", "step")]
    mechanisms = [words.say(f"made.head.{name}") for name in ("column", "noise", "parameters")]
    return replace(
        provenance_section(context, checks),
        bounds=PageTable(words.say("made.bounds"), heads, bounds) if bounds else None,
        noise_lead=words.say("records.noise.lead"),
        noise=PageTable(words.say("made.noise"), mechanisms, noise),
    )


def _estimates_table(context: Context, one: _EstimatedColumn) -> PageTable:
    """Return the table of a column's estimates; for many values, only the most frequent values."""
    words, names = context.words, context.names
    shown = sorted(one.found, key=lambda each: -each.estimate)[: _most_listed_values(context)]
    rows = [
        context.cells(
            _value_label(context, one, each), *_estimate_and_margin_text(context, one, each)
        )
        for each in one.found
        if each in shown
    ]
    left = len(one.found) - len(rows)
    if left:
        rows.append(context.cells(words.say("page.more", number=words.number(left)), "", ""))
    heads = [words.say(f"records.head.{name}") for name in ("value", "estimate", "margin")]
    caption = words.say(
        "records.table",
        column=names.column(one.metadata),
        table=names.table(one.table),
        records=words.number(one.records),
    )
    return PageTable(caption, heads, rows)


def _estimates_panel(context: Context, one: _EstimatedColumn) -> Panel:
    """Return the bar chart of a column's largest estimates, in the order of their values."""
    largest = sorted(one.found, key=lambda each: -each.estimate)[: _most_listed_values(context)]
    found = [each for each in one.found if each in largest]
    ends = [(each.estimate - each.margin, each.estimate + each.margin) for each in found]
    numbers = [
        Number(each.estimate, each.margin, *end) for each, end in zip(found, ends, strict=True)
    ]
    scale = Scale.around(numbers)
    bars = [
        Bar(
            _value_label(context, one, each),
            NumberText(*_estimate_and_margin_text(context, one, each)),
            mark_of(number, scale),
        )
        for each, number in zip(found, numbers, strict=True)
    ]
    return Panel("bars", context.names.column(one.metadata), Markup(""), bars=bars)


def _value_label(context: Context, one: _EstimatedColumn, each: Estimate) -> Markup:
    """Return the label of an estimated value, or the word for a mean."""
    if each.value is None:
        return context.words.say("records.mean")
    codes: Any = each.value
    return context.names.value(one.metadata, codes)


def _estimate_and_margin_text(
    context: Context, one: _EstimatedColumn, each: Estimate
) -> tuple[str, str]:
    """Return an estimate and its margin as text, in the column's unit or as shares of records."""
    words = context.words
    if each.value is not None:
        return words.number(each.estimate, DIGITS), f"± {words.number(each.margin, DIGITS)}"
    unit = f" {printable_text(one.metadata.unit)}" if one.metadata.unit else ""
    return (
        f"{words.number(float(f'{each.estimate:.6g}'))}{unit}",
        f"± {words.number(round_up_to_three_digits(each.margin))}{unit}",
    )


def _example_sentences(
    context: Context, one: _EstimatedColumn
) -> tuple[list[Markup], IntervalPicture]:
    """Return sentences on how to read the first estimate, and its picture."""
    words, names = context.words, context.names
    each = max(one.found, key=lambda found: found.estimate)
    ends = each.estimate - each.margin, each.estimate + each.margin
    decimals = DIGITS if each.value is not None else None

    def number(value: float) -> str:
        """Return a number as text, with the decimals of the column."""
        return words.number(float(f"{value:.6g}"), decimals)

    low, high = (Markup("<strong>{}</strong>").format(number(end)) for end in ends)
    what, column = _value_label(context, one, each), names.column(one.metadata)
    which = "mean" if each.value is None else "part"
    confidence = words.percent(CONFIDENCE)
    sentences = [
        words.say("records.example", column=column, what=what, value=number(each.estimate)),
        words.say(f"records.range.{which}", low=low, high=high, confidence=confidence),
        words.say("records.single.only"),
        words.say("margin.only"),
    ]
    title = names.plain(one.metadata.label, one.metadata.name)
    axis = {"column": title, "unit": printable_text(one.metadata.unit)}
    name = words.plain("records.axis.part", **axis)
    if each.value is None:
        name = words.plain("records.axis.unit" if one.metadata.unit else "records.axis", **axis)
    return sentences, interval_picture(words, name, each.estimate, ends, number)
