"""Build the metadata of published columns from the declarations of these and of source columns.

A companion column, such as a margin of error, has the label of its value column, followed by words
for the companion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from dprelease.documents.counting_notes import (
    OPEN_END,
    note_on_design_error,
    notes_on_groups,
    notes_on_rows,
    notes_on_weights,
    share_label,
)
from dprelease.documents.limit_labels import (
    companion_label,
    label_with_confidence,
    label_with_limits,
)
from dprelease.documents.metadata import Code, CodeList, ColumnMetadata, Role
from dprelease.errors.printable import one_line
from dprelease.numerics.rounding import plain_text
from dprelease.planning.bounded_words import (
    CuttingLimits,
    cutting_limits,
    keys_that_leave_out_rows,
)
from dprelease.postprocess.families import Flag, Output
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.replicate_difference import ReplicateDifference
from dprelease.query.forms.share_of_total import PERCENTAGE, SHARE
from dprelease.query.forms.single_part import LABEL, MEASURED
from dprelease.query.forms.weights import DESIGN_ERROR
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import CODES, quality_labels
from dprelease.query.resolve import Query
from dprelease.schema.aggregate_keywords import TotalShareSpec
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE, ColumnSpec
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    IntegerColumn,
)
from dprelease.schema.localized_text import LocalizedText
from dprelease.schema.release import QuerySpec
from dprelease.schema.release_parts.limits import QUALITY_LIMITS
from dprelease.schema.release_parts.local_and_federated import RecordColumnSpec
from dprelease.schema.release_parts.summaries import SummarySpec
from dprelease.tables.family_tables import schema_of_output
from dprelease.tables.key_columns import key_types
from dprelease.tables.published_columns import published_types

if TYPE_CHECKING:
    from dprelease.query.local_records import RecordColumn


Columns = Mapping[str, Column]

OWN_UNIT = frozenset(("sum", "mean", "weighted_mean", "stddev", "quantile", "median", "min", "max"))
"""Keywords of aggregates that have the unit and the decimals of their source column."""

COMPANION_ROLES = {
    "moe": Role.MARGIN,
    "lower": Role.LOWER,
    "upper": Role.UPPER,
    "label": Role.LABEL,
    "quality": Role.QUALITY,
}
"""Roles of companions of a directly published column, by the ending of the companion's name."""

AT_CONFIDENCE = frozenset((Role.MARGIN, Role.LOWER, Role.UPPER))
IN_ITS_UNIT = frozenset((Role.MARGIN, Role.LOWER, Role.UPPER, Role.STANDARD_ERROR))


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """A published column and its declaration; `rank` numbers the most frequent values."""

    query: Query
    published: OutputColumn
    spec: ColumnSpec
    rank: int | None

    @property
    def decimals(self) -> int | None:
        """Return the number of displayed decimals: as declared, or that of the source column."""
        word, column = self.spec.aggregate_and_column
        if self.spec.decimals is not None or word not in OWN_UNIT:
            return self.spec.decimals
        name = column if isinstance(column, str) else column[0]
        return getattr(self.query.table.columns.get(name), "decimals", None)

    @property
    def confidence(self) -> str:
        """Return the confidence of the margin and the interval: as declared, or the default."""
        margin, interval = self.published.margin, self.published.interval
        return plain_text(margin or interval or DEFAULT_CONFIDENCE)

    @property
    def limits(self) -> CuttingLimits | None:
        """Return the contribution limits that may leave out rows; None if none can."""
        return cutting_limits(self.query, self.published.parts)


def column_requests(query: Query, spec: QuerySpec) -> dict[str, ColumnRequest]:
    """Return the published columns of a query by name, each with its declaration."""
    published = {column.name: column for column in query.columns}
    found: dict[str, ColumnRequest] = {}
    for name, column in spec.columns.items():
        ranks = range(1, column.ranks + 1) if column.ranks > 1 else (None,)
        for rank in ranks:
            own = name if rank is None else f"{name}_{rank}"
            if own in published:
                found[own] = ColumnRequest(query, published[own], column, rank)
    return found


@dataclass(frozen=True, slots=True)
class ColumnMetadataBuilder:
    """Builds the metadata of columns, with texts in the languages of a release."""

    languages: tuple[str, ...]

    def texts(self, declared: LocalizedText | None) -> dict[str, str]:
        """Return a declared text in each language; empty if none was declared."""
        return {} if declared is None else declared.texts(self.languages)

    def several_texts(self, declared: Sequence[LocalizedText]) -> tuple[dict[str, str], ...]:
        """Return several declared texts, each in every language."""
        return tuple(map(self.texts, declared))

    def key_columns(
        self, keys: Sequence[Key], query: Query, role: Role
    ) -> Iterator[ColumnMetadata]:
        """Yield the metadata of a query's keys; the values of private keys are left out."""
        columns = query.table.columns
        for key, (name, kind) in zip(keys, key_types(keys), strict=True):
            declared = columns[name]
            yield ColumnMetadata(
                name,
                kind,
                role,
                of=name,
                unit=getattr(declared, "unit", None) or "",
                label=self._column_label(declared, columns),
                description=self.texts(declared.description),
                footnotes=self.several_texts(declared.footnotes),
                # The values of private keys are only those that were found, and the table has them.
                codes=None if query.private is not None else self._code_list(key, declared),
            )

    def columns_of_table(self, query: Query, spec: QuerySpec) -> Iterator[ColumnMetadata]:
        """Yield the metadata of the columns of a table without post-processing, except its keys."""
        request = column_requests(query, spec)
        for published in query.columns:
            for name, kind in published_types(query, published):
                if name == published.name:
                    value = self._value_metadata(request[name], name, kind)
                    yield replace(
                        value, footnotes=(*value.footnotes, *self._design_notes(request, published))
                    )
                else:
                    role = COMPANION_ROLES[name.removeprefix(f"{published.name}_")]
                    yield self._companion_metadata(request[published.name], name, kind, role)

    def sum_columns(
        self, query: Query, spec: QuerySpec, margins: Mapping[str, str]
    ) -> Iterator[ColumnMetadata]:
        """Yield the metadata of the sums of all parties' messages, each followed by its margin.

        `margins`: the name of the margin column of each sum.
        """
        for name, request in column_requests(query, spec).items():
            yield self._value_metadata(request, name, "double", has_margin=True)
            margin = self._companion_metadata(request, f"{name}_moe", "double", Role.MARGIN)
            yield replace(margin, name=margins[name])

    def step_columns(
        self, output: Output, query: Query, spec: QuerySpec
    ) -> Iterator[ColumnMetadata]:
        """Yield the metadata of the columns that a step publishes, except the keys.

        The step's output declares which columns are companions of other columns.
        """
        request = column_requests(query, spec)
        for name, kind in schema_of_output(output)[len(output.keys.keys) :]:
            is_flag = isinstance(output.columns[name], Flag)
            role, of = output.roles.get(name, (Role.FLAG if is_flag else Role.VALUE, name))
            if of in spec.summaries:
                yield self._summary_metadata(
                    spec.summaries[of], ColumnMetadata(name, kind, role, of)
                )
            elif of not in request:
                yield ColumnMetadata(name, kind, role, of)
            elif role is Role.VALUE:
                yield self._value_metadata(request[of], name, kind)
            else:
                yield self._companion_metadata(request[of], name, kind, role)

    def _summary_metadata(self, spec: SummarySpec, column: ColumnMetadata) -> ColumnMetadata:
        """Return the metadata of a column of a summary, with its declared texts."""
        label = self.texts(spec.label)
        if column.role is Role.VALUE:
            texts, notes = self.texts(spec.description), self.several_texts(spec.footnotes)
            return replace(
                column, label=label, description=texts, footnotes=notes, decimals=spec.decimals
            )
        label = companion_label(label, column.name.removeprefix(f"{column.of}_"))
        if column.role is Role.QUALITY:
            labels = quality_labels(QUALITY_LIMITS, self.languages)
            codes = CodeList(CODES, cast("Mapping[Code, Mapping[str, str]]", labels))
            return replace(column, label=label, codes=codes)
        confidence = plain_text(DEFAULT_CONFIDENCE)
        return replace(column, label=label, decimals=spec.decimals, confidence=confidence)

    def record_column(
        self, column: RecordColumn, kind: str, spec: RecordColumnSpec, columns: Columns
    ) -> ColumnMetadata:
        """Return the metadata of a column of single records."""
        declared = columns[column.name]
        own = getattr(declared, "decimals", None)
        return ColumnMetadata(
            column.name,
            kind,
            Role.VALUE,
            of=column.name,
            unit=column.measurement.unit,
            decimals=own if spec.decimals is None else spec.decimals,
            label=self.texts(spec.label) or self._column_label(declared, columns),
            description=self.texts(spec.description) or self.texts(declared.description),
            footnotes=self.several_texts(declared.footnotes + spec.footnotes),
            codes=None if column.key is None else self._code_list(column.key, declared),
        )

    def _value_metadata(
        self, request: ColumnRequest, name: str, kind: str, *, has_margin: bool = False
    ) -> ColumnMetadata:
        label, query = self._label(request), request.query
        has_margin = has_margin or request.published.margin is not None
        if request.limits is not None:
            label = label_with_limits(label, request.limits, self._unit_label(query))
        return ColumnMetadata(
            name,
            kind,
            Role.VALUE,
            of=name,
            unit=request.published.unit,
            decimals=request.decimals,
            label=label,
            description=self.texts(request.spec.description),
            footnotes=(
                *self.several_texts(request.spec.footnotes),
                *notes_on_groups(query, request.published, self._unit_label(query)),
                *notes_on_weights(request.published, self.languages, has_margin=has_margin),
            ),
            codes=self._candidate_codes(request),
        )

    def _design_notes(
        self, requests: Mapping[str, ColumnRequest], published: OutputColumn
    ) -> tuple[dict[str, str], ...]:
        """Return a note on which number a design error is about; empty for other columns."""
        if published.form != DESIGN_ERROR:
            return ()
        difference = narrow_aggregate(published.parts[0].aggregate, ReplicateDifference)
        query, total = requests[published.name].query, difference.weighted_total
        title = None
        for name, one in requests.items():
            if one.published.parts[0].aggregate == total and one.published.form == MEASURED:
                title = self._label(one) or dict.fromkeys(self.languages, one_line(name))
        value = difference.value
        summed = None if value is None else self._source_label(value.column, query)
        weight = self._source_label(difference.weight.column, query)
        return (note_on_design_error(title, summed, weight),)

    def notes_on_rows(self, query: Query) -> tuple[dict[str, str], ...]:
        """Return a note on the keys because of which a table leaves out rows, if there are any."""
        columns, names = query.table.columns, keys_that_leave_out_rows(query)
        labels = {name: self._column_label(columns[name], columns) for name in names}
        return notes_on_rows(query, labels, self.languages)

    def _companion_metadata(
        self, request: ColumnRequest, name: str, kind: str, role: Role
    ) -> ColumnMetadata:
        of, limits = request.published.name, request.limits
        is_number = role in IN_ITS_UNIT
        label = companion_label(self._label(request), name.removeprefix(f"{of}_"))
        if limits is not None and role in AT_CONFIDENCE:
            unit = self._unit_label(request.query)
            label = label_with_confidence(label, limits, request.confidence, unit)
        return ColumnMetadata(
            name,
            kind,
            role,
            of=of,
            unit=request.published.unit if is_number else "",
            decimals=request.decimals if is_number else None,
            label=label,
            description=self._open_end(request.published, role),
            codes=self._quality_codes(request) if role is Role.QUALITY else None,
            confidence=request.confidence if role in AT_CONFIDENCE else "",
        )

    def _open_end(self, published: OutputColumn, role: Role) -> dict[str, str]:
        """Return what an empty end of an interval means; only some forms have such ends."""
        if role not in (Role.LOWER, Role.UPPER) or not published.form.has_open_ends:
            return {}
        return {tag: OPEN_END.get(tag.partition("-")[0], OPEN_END["en"]) for tag in self.languages}

    def _quality_codes(self, request: ColumnRequest) -> CodeList:
        labels = quality_labels(request.published.quality, self.languages)
        return CodeList(CODES, cast("Mapping[Code, Mapping[str, str]]", labels))

    def _label(self, request: ColumnRequest) -> dict[str, str]:
        """Return the label of a value column without the words on its contribution limits.

        A column without a declared label has its name as label if limits may leave out rows.
        """
        label = self.texts(request.spec.label)
        if request.rank is not None:
            label = {tag: f"{text} {request.rank}" for tag, text in label.items()}
        if not label and request.published.form in (SHARE, PERCENTAGE):
            label = self._share_label(request)
        if not label and request.limits is not None:
            label = dict.fromkeys(self.languages, one_line(request.published.name))
        return label

    def _share_label(self, request: ColumnRequest) -> dict[str, str]:
        """Return the label of a share: what it is a share of, in which total and in which unit."""
        spec, query = request.spec.options_of(TotalShareSpec), request.query
        summed = None if spec.of == "*" else self._source_label(spec.of, query)
        within = [self._source_label(name, query) for name in spec.within]
        return share_label(summed, within, self.languages, percent=spec.percent)

    def _source_label(self, name: str, query: Query) -> dict[str, str]:
        """Return the label of a column of the source, or its name, in each language."""
        columns = query.table.columns
        named = dict.fromkeys(self.languages, one_line(name))
        return self._column_label(columns[name], columns) or named

    def _unit_label(self, query: Query) -> dict[str, str]:
        """Return the label of the id of the privacy unit, or its name, in each language."""
        columns, unit = query.table.columns, str(query.unit.id)
        label = self._column_label(columns[unit], columns) if unit in columns else {}
        return label or dict.fromkeys(self.languages, unit)

    def _candidate_codes(self, request: ColumnRequest) -> CodeList | None:
        """Return the candidates of a column whose answer is a label; None for numbers."""
        column = request.published.parts[0].aggregate.column
        if request.published.form != LABEL or column is None:
            return None
        declared = request.query.table.columns[column]
        key = key_of(column, declared)
        return self._code_list(key, declared) if isinstance(key, Key) else None

    def _code_list(self, key: Key, declared: Column) -> CodeList:
        """Return the values of a key in order, with the labels of the values that have one."""
        labels = {
            _code_value(key, text): label.texts(self.languages)
            for text, label in value_labels(declared).items()
        }
        return CodeList(cast("Sequence[Code]", key.values), labels, key.level, key.parents)

    def _column_label(self, declared: Column, columns: Columns) -> dict[str, str]:
        """Return the label of a column; for a cut without a label, that of the column it cuts."""
        if declared.label is None and isinstance(declared, CutColumn):
            declared = columns[declared.cut]
        return self.texts(declared.label)


def value_labels(column: Column) -> Mapping[str, LocalizedText]:
    """Return the labels of a column's values, by the values as text."""
    match column:
        case CategoryColumn():
            return column.value_labels
        case CutColumn():
            labels = {value: label for value, label in (column.labels or {}).items() if label}
            return labels | column.unallocated_labels({})
        case BooleanColumn() | IntegerColumn():
            return column.labels
    return {}


def _code_value(key: Key, text: str) -> Code:
    """Return the value of a key from its text: an integer, a boolean or the text."""
    if key.kind == "integer":
        return int(text)
    return text == "true" if key.kind == "boolean" else text
