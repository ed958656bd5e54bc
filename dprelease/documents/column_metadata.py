"""What is said of published columns, from how they and the columns behind them are declared.

What stands beside a value, in words: the label of such a column is the value's, and these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from dprelease.documents.metadata import Code, CodeList, ColumnMetadata, Role
from dprelease.numerics.rounding import plain_text
from dprelease.postprocess.families import Flag, Output
from dprelease.query.forms.single_part import LABEL
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query
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
from dprelease.schema.release_parts.records import RecordColumnSpec
from dprelease.tables.family_tables import schema_of_output
from dprelease.tables.key_columns import key_types
from dprelease.tables.published_columns import published_types

if TYPE_CHECKING:
    from dprelease.query.local_records import RecordColumn


WORDS: dict[str, dict[str, str]] = {
    "moe": {
        "en": "margin of error", "de": "Fehlerspanne", "fr": "marge d’erreur",
        "es": "margen de error", "it": "margine di errore", "nl": "foutmarge",
        "pt": "margem de erro",
    },
    "se": {
        "en": "standard error", "de": "Standardfehler", "fr": "erreur type",
        "es": "error estándar", "it": "errore standard", "nl": "standaardfout",
        "pt": "erro padrão",
    },
    "lower": {
        "en": "lower bound", "de": "Untergrenze", "fr": "borne inférieure",
        "es": "límite inferior", "it": "limite inferiore", "nl": "ondergrens",
        "pt": "limite inferior",
    },
    "upper": {
        "en": "upper bound", "de": "Obergrenze", "fr": "borne supérieure",
        "es": "límite superior", "it": "limite superiore", "nl": "bovengrens",
        "pt": "limite superior",
    },
    "unreliable": {
        "en": "unreliable", "de": "unzuverlässig", "fr": "peu fiable", "es": "poco fiable",
        "it": "poco affidabile", "nl": "onbetrouwbaar", "pt": "pouco fiável",
    },
    "adjusted": {
        "en": "adjusted", "de": "angepasst", "fr": "ajusté", "es": "ajustado", "it": "corretto",
        "nl": "aangepast", "pt": "ajustado",
    },
    "label": {
        "en": "in words", "de": "in Worten", "fr": "en toutes lettres", "es": "en palabras",
        "it": "in parole", "nl": "in woorden", "pt": "por extenso",
    },
}  # fmt: skip
"""By the ending of the column's name, then by language."""


def companion_label(label: Mapping[str, str], ending: str) -> dict[str, str]:
    """Return the label of what stands beside a column, by that column's; empty if it has none.

    In a language without words for it, it is told by the ending of its name.
    """
    words = WORDS.get(ending, {})
    return {
        tag: f"{text}, {words.get(tag.partition('-')[0], ending)}" for tag, text in label.items()
    }


Columns = Mapping[str, Column]

OWN_UNIT = frozenset(("sum", "mean", "stddev", "quantile", "median", "min", "max"))
"""Words whose answers are in the unit of their column, and are shown as that is."""

BESIDE = {"moe": Role.MARGIN, "label": Role.LABEL, "unreliable": Role.FLAG}
"""What may stand beside a column that is published as it was noised, by the ending of its name."""

AT_CONFIDENCE = frozenset((Role.MARGIN, Role.LOWER, Role.UPPER))
IN_ITS_UNIT = frozenset((Role.MARGIN, Role.LOWER, Role.UPPER, Role.STANDARD_ERROR))


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """A published column, and how it was asked for; one of several most frequent has a rank."""

    query: Query
    published: OutputColumn
    spec: ColumnSpec
    rank: int | None

    @property
    def decimals(self) -> int | None:
        """Return how many decimals are shown: declared, or those of the column that is asked."""
        word, column = self.spec.aggregate_and_column
        if self.spec.decimals is not None or word not in OWN_UNIT:
            return self.spec.decimals
        return getattr(self.query.table.columns.get(str(column)), "decimals", None)

    @property
    def confidence(self) -> str:
        """Return that of its margin and interval: declared, or the usual one."""
        return plain_text(self.published.margin or DEFAULT_CONFIDENCE)


def column_requests(query: Query, spec: QuerySpec) -> dict[str, ColumnRequest]:
    """Return the published columns of a query by name, with what was asked."""
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
class Teller:
    """Tells of columns in the languages of a release."""

    languages: tuple[str, ...]

    def texts(self, said: LocalizedText | None) -> dict[str, str]:
        """Return a text in each language; nothing if none was declared."""
        return {} if said is None else said.texts(self.languages)

    def several(self, said: Sequence[LocalizedText]) -> tuple[dict[str, str], ...]:
        """Return texts in each language."""
        return tuple(map(self.texts, said))

    def keys(self, keys: Sequence[Key], query: Query, role: Role) -> Iterator[ColumnMetadata]:
        """Yield the keys of a query's table; the values of those that aren't public are unknown."""
        columns = query.table.columns
        for key, (name, kind) in zip(keys, key_types(keys), strict=True):
            declared = columns[name]
            yield ColumnMetadata(
                name,
                kind,
                role,
                of=name,
                unit=getattr(declared, "unit", None) or "",
                label=self._label(declared, columns),
                description=self.texts(declared.description),
                footnotes=self.several(declared.footnotes),
                codes=None if query.private is not None else self._codes(key, declared),
            )

    def columns_of_table(self, query: Query, spec: QuerySpec) -> Iterator[ColumnMetadata]:
        """Yield the columns of a table that is published as it was noised, without its keys."""
        asked = column_requests(query, spec)
        for published in query.columns:
            for name, kind in published_types(query, published):
                if name == published.name:
                    yield self._value(asked[name], name, kind)
                else:
                    role = BESIDE[name.removeprefix(f"{published.name}_")]
                    yield self._companion(asked[published.name], name, kind, role)

    def sums(
        self, query: Query, spec: QuerySpec, margins: Mapping[str, str]
    ) -> Iterator[ColumnMetadata]:
        """Yield the sums of all parties' messages, each before its margin of that name."""
        for name, asked in column_requests(query, spec).items():
            yield self._value(asked, name, "double")
            margin = self._companion(asked, f"{name}_moe", "double", Role.MARGIN)
            yield replace(margin, name=margins[name])

    def of_step(self, output: Output, query: Query, spec: QuerySpec) -> Iterator[ColumnMetadata]:
        """Yield the columns that a step publishes, without the keys: values, and as it says."""
        asked = column_requests(query, spec)
        for name, kind in schema_of_output(output)[len(output.keys.keys) :]:
            is_flag = isinstance(output.columns[name], Flag)
            role, of = output.roles.get(name, (Role.FLAG if is_flag else Role.VALUE, name))
            if of not in asked:
                yield ColumnMetadata(name, kind, role, of)
            elif role is Role.VALUE:
                yield self._value(asked[of], name, kind)
            else:
                yield self._companion(asked[of], name, kind, role)

    def record(
        self, column: RecordColumn, kind: str, spec: RecordColumnSpec, columns: Columns
    ) -> ColumnMetadata:
        """Return what is said of a column of single records."""
        declared = columns[column.name]
        own = getattr(declared, "decimals", None)
        return ColumnMetadata(
            column.name,
            kind,
            Role.VALUE,
            of=column.name,
            unit=column.measurement.unit,
            decimals=own if spec.decimals is None else spec.decimals,
            label=self.texts(spec.label) or self._label(declared, columns),
            description=self.texts(spec.description) or self.texts(declared.description),
            footnotes=self.several(declared.footnotes + spec.footnotes),
            codes=None if column.key is None else self._codes(column.key, declared),
        )

    def _value(self, asked: ColumnRequest, name: str, kind: str) -> ColumnMetadata:
        label = self.texts(asked.spec.label)
        if asked.rank is not None:
            label = {tag: f"{text} {asked.rank}" for tag, text in label.items()}
        return ColumnMetadata(
            name,
            kind,
            Role.VALUE,
            of=name,
            unit=asked.published.unit,
            decimals=asked.decimals,
            label=label,
            description=self.texts(asked.spec.description),
            footnotes=self.several(asked.spec.footnotes),
            codes=self._candidate_codes(asked),
        )

    def _companion(self, asked: ColumnRequest, name: str, kind: str, role: Role) -> ColumnMetadata:
        of = asked.published.name
        is_number = role in IN_ITS_UNIT
        return ColumnMetadata(
            name,
            kind,
            role,
            of=of,
            unit=asked.published.unit if is_number else "",
            decimals=asked.decimals if is_number else None,
            label=companion_label(self.texts(asked.spec.label), name.removeprefix(f"{of}_")),
            confidence=asked.confidence if role in AT_CONFIDENCE else "",
        )

    def _candidate_codes(self, asked: ColumnRequest) -> CodeList | None:
        """Return the candidates of a chosen label; None for numbers."""
        column = asked.published.parts[0].aggregate.column
        if asked.published.form != LABEL or column is None:
            return None
        declared = asked.query.table.columns[column]
        key = key_of(column, declared)
        return self._codes(key, declared) if isinstance(key, Key) else None

    def _codes(self, key: Key, declared: Column) -> CodeList:
        """Return the values of a key in order, with the labels of those that have one."""
        labels = {
            _code(key, text): said.texts(self.languages)
            for text, said in value_labels(declared).items()
        }
        return CodeList(cast("Sequence[Code]", key.values), labels)

    def _label(self, declared: Column, columns: Columns) -> dict[str, str]:
        """Return the label of a column; that of the number which it cuts, if it has none itself."""
        if declared.label is None and isinstance(declared, CutColumn):
            declared = columns[declared.cut]
        return self.texts(declared.label)


def value_labels(column: Column) -> Mapping[str, LocalizedText]:
    """Return the labels of a column's values, by their texts."""
    match column:
        case CategoryColumn():
            return column.value_labels
        case CutColumn():
            return {value: said for value, said in (column.labels or {}).items() if said}
        case BooleanColumn() | IntegerColumn():
            return column.labels
    return {}


def _code(key: Key, text: str) -> Code:
    if key.kind == "integer":
        return int(text)
    return text == "true" if key.kind == "boolean" else text
