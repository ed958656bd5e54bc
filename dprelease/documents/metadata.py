"""What is said of published tables in words: labels, roles of columns, lists of codes.

Plain public text that was declared; no number of a release depends on it. Every output takes it
from here: the manifest, formats, reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from dprelease.query.roles import Role as Role
from dprelease.tables.field_notes import Notes

Texts = Mapping[str, str]
"""One text in each language of a release, by its BCP 47 tag; empty where nothing was declared."""

Code = str | int | bool | date
"""A value of a key, as the published files hold it."""


@dataclass(frozen=True, slots=True)
class CodeList:
    """The values of a key in their declared order, and the labels of those that have some."""

    values: Sequence[Code]
    labels: Mapping[Code, Texts] = field(default_factory=dict)

    def label(self, value: Code, language: str) -> str:
        """Return the label of a value; the value as text, if none was declared."""
        return self.labels.get(value, {}).get(language, code_text(value))


@dataclass(frozen=True, slots=True)
class ColumnMetadata:
    """What is said of one published column.

    `kind`: its Arrow type as text, as the manifest has it. `of`: the column that a margin, a flag
    or another companion stands beside; its own name for others. `decimals`: how many a reader is
    shown; the files hold all. `codes`: the values of a key, or of a chosen label. `confidence`: of
    a margin or an end of an interval, as a decimal text.
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

    def title(self, language: str) -> str:
        """Return its label; its name, if none was declared."""
        return self.label.get(language, self.name)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What is said of one published table.

    `name`: as the manifest names its file, without the extension; it may have folders. `query`:
    the declared query that asked for it. `rows`: how many it has; None before it was drawn where
    that is noised. `measured`: whether it holds noised integers before any step was taken with
    them, which are published for who checks a release and not to be read.
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
        """Return its label; its name, if none was declared."""
        return self.label.get(language, self.name)

    def of_role(self, *roles: Role) -> tuple[ColumnMetadata, ...]:
        """Return the columns that are one of some things, in order."""
        return tuple(column for column in self.columns if column.role in roles)

    @property
    def keys(self) -> tuple[ColumnMetadata, ...]:
        """Return the keys, in order; together they name a row."""
        return self.of_role(Role.KEY)

    @property
    def values(self) -> tuple[ColumnMetadata, ...]:
        """Return the columns that are read, in order."""
        return self.of_role(Role.VALUE)

    def companion_of(self, value: str, role: Role) -> ColumnMetadata | None:
        """Return what of some role stands beside a value, if anything does."""
        return next((c for c in self.columns if c.of == value and c.role == role), None)


@dataclass(frozen=True, slots=True)
class About:
    """What was declared of a release as a whole.

    `period`: reference period, an ISO 8601 date, or two with a slash. `replaces`: the identifier
    of the release that this one stands in for. `titles`: the title in each language, where it was
    declared so.
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
        """Return the title in a language; the release's own, if none was declared for it."""
        return self.titles.get(language, self.title)


@dataclass(frozen=True, slots=True)
class Metadata:
    """All that is said of a release in words; the first language is the one to fall back on.

    `wide`: keys whose values are columns where tables are laid out for reading.
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
    def read(self) -> Iterator[TableMetadata]:
        """Yield the tables that are published to be read."""
        return (table for table in self.tables if not table.measured)


def code_text(value: Code) -> str:
    """Return a value of a key as text files hold it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def field_notes(table: TableMetadata) -> Notes:
    """Return what the file of a table says of each column: its role, its unit, its label.

    `label` is that of the first language; others have the language behind a colon.
    """
    return {column.name: _notes(column) for column in table.columns}


def _notes(column: ColumnMetadata) -> dict[str, str]:
    notes = {"role": column.role.value}
    if column.unit:
        notes["unit"] = column.unit
    for i, (tag, text) in enumerate(column.label.items()):
        notes[f"label:{tag}" if i else "label"] = text
    return notes
