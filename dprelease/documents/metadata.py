"""The texts about published tables: labels, roles of columns, lists of codes.

All are declared, plain, public texts; no number of a release depends on them. Every output takes
its texts from this module: the manifest, the exports and the reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from dprelease.query.measurement import Role as Role
from dprelease.tables.field_notes import Notes

Texts = Mapping[str, str]
"""One text in each language of a release, by its BCP 47 tag; empty where nothing was declared."""

Code = str | int | bool | date
"""A value of a key, as the published files hold it."""

ROWS_UNIT = "rows"
"""The unit of counts of rows."""


@dataclass(frozen=True, slots=True)
class CodeList:
    """The values of a key in their declared order, and the labels of the values that have one.

    `level`: the number of the level of areas in a hierarchy, from 1 on; 0 for other keys.
    `parents`: for each area, the position of the area one level up that contains it.
    """

    values: Sequence[Code]
    labels: Mapping[Code, Texts] = field(default_factory=dict)
    level: int = 0
    parents: Sequence[int] = ()

    def label(self, value: Code, language: str) -> str:
        """Return the label of a value; the value as text if no label was declared."""
        return self.labels.get(value, {}).get(language, code_text(value))


@dataclass(frozen=True, slots=True)
class ColumnMetadata:
    """The metadata of one published column.

    `kind`: its Arrow type as text, as in the manifest. `of`: for a margin, a flag or another
    companion, the name of its value column; for other columns, their own name. `decimals`: the
    number of displayed decimals; the files have all of them. `codes`: the values of a key, or of a
    column of labels. `confidence`: the confidence of a margin, or of an end of an interval, as a
    decimal text.
    """

    name: str
    kind: str
    role: Role
    of: str
    unit: str = ""
    decimals: int | None = None
    label: Texts = field(default_factory=dict)
    description: Texts = field(default_factory=dict)
    footnotes: tuple[Texts, ...] = ()
    codes: CodeList | None = None
    confidence: str = ""

    @property
    def is_number(self) -> bool:
        """Return whether the column holds numbers; codes such as those of a mode can be numbers."""
        return self.kind.startswith(("int", "double", "decimal"))

    def title(self, language: str) -> str:
        """Return the label of the column; its name if no label was declared."""
        return self.label.get(language, self.name)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The metadata of one published table.

    `name`: the name of its file in the manifest, without the extension; it may contain folders.
    `query`: the declared query to which the table belongs. `rows`: its number of rows; None if that
    number is noised and not drawn yet. `measured`: whether it holds noised integers before
    post-processing, which are published for verification and not for readers.
    """

    name: str
    file: str
    query: str
    columns: tuple[ColumnMetadata, ...]
    rows: int | None
    measured: bool = False
    label: Texts = field(default_factory=dict)
    description: Texts = field(default_factory=dict)
    footnotes: tuple[Texts, ...] = ()

    def title(self, language: str) -> str:
        """Return the label of the table; its name if no label was declared."""
        return self.label.get(language, self.name)

    def of_role(self, *roles: Role) -> tuple[ColumnMetadata, ...]:
        """Return the columns that have one of these roles, in order."""
        return tuple(column for column in self.columns if column.role in roles)

    @property
    def keys(self) -> tuple[ColumnMetadata, ...]:
        """Return the keys in order; together they identify a row."""
        return self.of_role(Role.KEY)

    @property
    def values(self) -> tuple[ColumnMetadata, ...]:
        """Return the value columns for readers, in order."""
        return self.of_role(Role.VALUE)

    def companion_of(self, value: str, role: Role) -> ColumnMetadata | None:
        """Return the companion of a value column that has this role; None if it has none."""
        return next((c for c in self.columns if c.of == value and c.role == role), None)


@dataclass(frozen=True, slots=True)
class About:
    """The declared facts about a release as a whole.

    `period`: the reference period, which is an ISO 8601 date, or two dates with a slash.
    `replaces`: the identifier of the release that this release replaces. `titles`: the title in
    each language for which one was declared.
    """

    title: str
    publisher: str = ""
    contact: str = ""
    licence: str = ""
    period: str = ""
    area: str = ""
    version: str = ""
    replaces: str = ""
    methodology: str = ""
    description: Texts = field(default_factory=dict)
    notes: tuple[Texts, ...] = ()
    titles: Texts = field(default_factory=dict)

    def heading(self, language: str) -> str:
        """Return the title in a language; the release's only title if that language has none."""
        return self.titles.get(language, self.title)


@dataclass(frozen=True, slots=True)
class Metadata:
    """All texts about a release; the first language is the fallback.

    `wide`: the keys whose values become columns in exports for reading.
    """

    about: About
    languages: tuple[str, ...]
    tables: tuple[TableMetadata, ...]
    wide: tuple[str, ...] = ()

    @property
    def language(self) -> str:
        """Return the first language."""
        return self.languages[0]

    @property
    def tables_for_readers(self) -> Iterator[TableMetadata]:
        """Yield the tables for readers."""
        return (table for table in self.tables if not table.measured)


def code_text(value: Code) -> str:
    """Return a value of a key as text, as in text files."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def field_notes(table: TableMetadata) -> Notes:
    """Return the metadata of a table's Parquet fields: role, unit and label of each column.

    The key `label` has the label in the first language; other languages have the key `label:`
    followed by the language.
    """
    return {column.name: _column_notes(column) for column in table.columns}


def _column_notes(column: ColumnMetadata) -> dict[str, str]:
    """Return the metadata of one Parquet field: role, unit, and labels."""
    notes = {"role": column.role.value}
    if column.unit:
        notes["unit"] = column.unit
    for i, (tag, text) in enumerate(column.label.items()):
        notes[f"label:{tag}" if i else "label"] = text
    return notes
