"""Table schemas: a table, its source, its privacy unit, and its columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from dprelease.privacy.unit import PrivacyUnit
from dprelease.schema.columns import (
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TextColumn,
    TimestampColumn,
    is_stored,
)
from dprelease.schema.field_types import (
    DROP,
    TEXT_SCHEMA,
    Flag,
    Name,
    ShortForm,
    Text,
    Whole,
    errors_of_checks,
    has_two_digit_years,
    refuse,
    refuse_all,
    refuse_two_digit_years,
)
from dprelease.schema.model import Model, check_column_names, refuse_too_many_columns, shorten
from dprelease.schema.public_values.missing_codes import check_date_codes
from dprelease.schema.public_values.nesting import nested_columns
from dprelease.schema.rehearsal_spec import RehearsalSpec, refuse_unknown_values
from dprelease.schema.source_texts import UTC
from dprelease.schema.source_types.file_parts import (
    check_part,
    parts_of,
    sources_of_parts,
    value_without_mark,
    with_formats,
)
from dprelease.schema.source_types.source import Source, expand_path

_BOUNDS = ("max_groups", "max_rows_per_group")


def _expand_name(value: object) -> object:
    """Return a mapping of a name to itself, for a name that two tables share."""
    is_name = isinstance(value, str | int) and not isinstance(value, bool)
    if not is_name and not isinstance(value, Mapping):
        problem = "it must be a column, or `{column of the table: column of the correspondence}`"
        refuse("DP-DECL-003", problem=problem)
    return {value: value} if is_name else value


class LookupSpec(Model):
    """A correspondence table, which names the person of each id that the rows have.

    `source`: where its lines are. `on`: the column of the rows with the ids, or a mapping of it to
    the column of the lines. `id`: the column of the lines with the persons, unless it has the name
    of the id of the privacy unit. An id of several persons counts for the smallest of them.
    """

    source: Annotated[Source, BeforeValidator(expand_path), ShortForm(TEXT_SCHEMA)]
    on: Annotated[dict[Text, Text], BeforeValidator(_expand_name), ShortForm(TEXT_SCHEMA)]
    id: Text | None = None

    @property
    def key(self) -> str:
        """The column of the rows with the ids."""
        return next(iter(self.on))

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        """Refuse lines that DuckDB can't read, or that may differ between the queries of a run."""
        if len(self.on) != 1:
            refuse("DP-DECL-003", problem="it must be one column of the rows", key="on")
        source, problem = self.source, ""
        if source.frame is not None or source.is_only_for_spark:
            problem = f"it can't be {source.type.label}; name a file or a table of a database"
        elif source.type.version_key is not None and source.table_version is None:
            problem = f"{source.type.label} needs its `{source.type.version_key}` here"
        if problem:
            refuse("DP-DECL-003", problem=problem, key="source")
        return self


class UnitSpec(Model):
    """The declared privacy unit with its limits; without an id every row is its own unit.

    With `lookup`, the source stores other ids, and a correspondence table names their persons.
    """

    id: Text | None = None
    lookup: LookupSpec | None = None
    max_groups: Annotated[Whole, Field(ge=1, le=10**6)] | None = None
    max_rows_per_group: Annotated[Whole, Field(ge=1, le=10**9)] | None = None
    max_rows: Annotated[Whole, Field(ge=1, le=10**9)] | None = None
    """The rows of one privacy unit in all groups of a query together."""

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        """Refuse an id without both limits or `max_rows`, and limits or a lookup without an id."""
        if self.id is None and self.lookup is not None:
            problem = "without `id`, it is not known which of its columns names the person"
            refuse("DP-DECL-003", problem=problem, key="lookup")
        if self.id is None and (self.max_groups or self.max_rows_per_group or self.max_rows):
            refuse("DP-SCHEMA-009")
        missing = [name for name in _BOUNDS if getattr(self, name) is None]
        if self.max_rows is not None:  # which limits the rows of each group as well
            missing = []
        if self.id is not None and missing:  # a default limit would silently leave out rows
            refuse("DP-SCHEMA-013", missing=" and no ".join(f"`{name}`" for name in missing))
        return self


class Table(Model):
    """One declared table."""

    name: Name = Field(alias="table")
    owner: Text | None = None
    size: Annotated[Whole, Field(ge=1)] | None = None
    """The number of people, where it is public knowledge: no noise depends on it."""
    source: Annotated[Source, BeforeValidator(expand_path), ShortForm(TEXT_SCHEMA)] | None = None
    public: Flag = False
    """Whether the table is about no person: it is read without privacy cost, for joins."""
    privacy_unit: UnitSpec = UnitSpec()
    columns: Annotated[dict[Text, Column], BeforeValidator(refuse_too_many_columns)]
    rehearsal: RehearsalSpec = RehearsalSpec()
    """Properties of the synthetic people in rehearsals; no other command reads them."""

    @property
    def max_units(self) -> int | None:
        """Twice the declared size, which is approximate; None if no size is declared."""
        return None if self.size is None else 2 * self.size

    @model_validator(mode="after")
    def _write_formats(self) -> Self:
        """Give date columns without a format, or without a pivot, those of the source."""
        if self.source is not None and not sources_of_parts(self):
            self.columns.update(with_formats(self.columns, self.source))
        return self

    @property
    def parts(self) -> tuple[Table, ...]:
        """The table as each of its files has it; empty if its source is read as declared."""
        return parts_of(self.rows)

    @property
    def rows(self) -> Table:
        """The table as its source stores it: without persons that have to be looked up."""
        unit, lookup = self.privacy_unit, self.privacy_unit.lookup
        if lookup is None:
            return self
        columns = {name: one for name, one in self.columns.items() if name != unit.id}
        stored = unit.model_copy(update={"id": lookup.key, "lookup": None})
        return self.model_copy(update={"columns": columns, "privacy_unit": stored})

    @property
    def lookup(self) -> Correspondence | None:
        """The correspondence table that names the persons; None if the source has their ids."""
        unit, lookup = self.privacy_unit.id, self.privacy_unit.lookup
        if unit is None or lookup is None:
            return None
        key = lookup.key
        names = {key: lookup.on[key], unit: lookup.id or unit}
        columns = {other: self.columns[own] for own, other in names.items() if own in self.columns}
        return Correspondence.model_construct(
            name=self.name, source=lookup.source, privacy_unit=UnitSpec(), columns=columns
        )

    @property
    def ids(self) -> frozenset[str]:
        """The columns of the source that identify people."""
        unit = self.privacy_unit
        name = unit.id if unit.lookup is None else unit.lookup.key
        return frozenset(() if name is None else (name,))

    def with_source(self, source: Source | None) -> Table:
        """Return the table with another source, which has the ids of the privacy units."""
        unit = self.privacy_unit.model_copy(update={"lookup": None})
        return self.model_copy(update={"source": source, "privacy_unit": unit})

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Check all columns, the privacy unit and the rehearsal; raise all errors together."""
        check_column_names(self.columns)
        leaning = [partial(self._check_column, name, one) for name, one in self.columns.items()]
        rehearsed = partial(refuse_unknown_values, self.rehearsal, self.columns)
        refuse_all(
            errors_of_checks(
                self._sort_nested_columns,
                *leaning,
                self._check_pivot,
                self._check_unit,
                self._check_parts,
                rehearsed,
            )
        )
        return self

    def _sort_nested_columns(self) -> None:
        """Sort the values of nested columns by the areas that contain them."""
        for name, column in nested_columns(self.columns):
            self.columns[name] = column

    def _check_column(self, name: str, column: Column) -> None:
        """Refuse a column that contradicts the source, or the column from which it is cut."""
        if isinstance(column, CategoryColumn):
            self._refuse_missing(name, column)
            self._check_marks(name, column)
        if isinstance(column, CutColumn):
            cut = self.columns.get(column.cut)
            if not isinstance(cut, IntegerColumn | NumberColumn):
                refuse("DP-SCHEMA-007", column=name, source=column.cut)

        is_read = not sources_of_parts(self) or not is_stored(column)
        if isinstance(column, DateColumn | TimestampColumn) and is_read:
            self._check_dates(name, column)

    def _check_dates(self, name: str, column: DateColumn | TimestampColumn) -> None:
        """Refuse years without a century, a pivot without use, and codes that are misspelled."""
        at = "date_format" if isinstance(column, DateColumn) else "timestamp_format"
        is_own = self.source is None or getattr(self.source, at) != column.format
        spot = ("columns", name, "format") if is_own else ("source", at)
        refuse_two_digit_years(column.format, column.pivot, name, *spot)
        if column.pivot is not None and not has_two_digit_years(column.format):
            refuse("DP-YEAR-002", spot=("columns", name, "pivot"), layout=column.format)
        check_date_codes(column.missing, column.format, name, getattr(column, "fill", DROP))

    def _check_pivot(self) -> None:
        """Refuse a pivot of the source that no column uses."""
        tables = self.parts or (self,)
        formats = [getattr(one, "format", "") for t in tables for one in t.columns.values()]
        if self.source and self.source.pivot and not any(map(has_two_digit_years, formats)):
            layout = self.source.date_format or self.source.timestamp_format or "dates"
            refuse("DP-YEAR-002", spot=("source", "pivot"), layout=layout)

    def _check_unit(self) -> None:
        """Refuse a privacy unit that the table can't have, or whose id can't identify people."""
        if self.public and self.privacy_unit != UnitSpec():
            refuse("DP-JOIN-002")
        unit, lookup = self.privacy_unit.id, self.privacy_unit.lookup
        if lookup is not None:
            problem = ""
            if lookup.key == unit or lookup.on[lookup.key] == (lookup.id or unit):
                problem = "it must be another column than the one that names the person"
            elif not self._is_id(lookup.key):
                problem = (
                    f"'{lookup.key}' is not a stored column of type integer or text in `columns`; "
                    "in `on: {a: b}`, a is a column of the table, and b one of the correspondence"
                )
            if problem:
                refuse("DP-DECL-003", problem=problem, spot=("privacy_unit", "lookup", "on"))
        if unit is not None and not self._is_id(unit):
            refuse("DP-SCHEMA-008", column=unit, spot=("privacy_unit", "id"))

    def _is_id(self, name: str) -> bool:
        """Return whether a column can hold ids; a float can't: 2^53 and 2^53 + 1 are one."""
        named = self.columns.get(name)
        return isinstance(named, IntegerColumn | TextColumn) and is_stored(named)

    def _check_parts(self) -> None:
        """Refuse files whose columns, constants, codes or dates contradict the table's."""
        lookup = self.lookup
        tables: list[tuple[Table, tuple[str, ...]]] = [(self.rows, ("source",))]
        tables += [] if lookup is None else [(lookup, ("privacy_unit", "lookup", "source"))]
        for table, keys in tables:
            for i, one in enumerate(sources_of_parts(table)):
                spot: tuple[str | int, ...] = keys
                if table.source is not one:
                    spot = (*keys, "files", i)
                check_part(one, table.columns, table.ids, *spot)
        for part in self.parts:
            for own, column in part.columns.items():
                if isinstance(column, DateColumn | TimestampColumn):
                    part._check_dates(own, column)

    def _check_marks(self, name: str, column: CategoryColumn) -> None:
        """Refuse a column of marks whose values are not the meanings and one other value."""
        if column.marks_of is None:
            return
        marked, problem = self.columns.get(column.marks_of), ""
        if marked is None or value_without_mark(column, marked) is None:
            problem = (
                "its values must be all meanings in `marks` of that column, and one other value "
                "for rows without a mark"
            )
        elif self.source is not None and "codes" not in self.source.type.options:
            label = self.source.type.label
            problem = f"marks can't be read from {label}; store them in a separate column"
        elif column.expression is not None or column.within:
            problem = "the column can't also have `expression` or `within`"
        if problem:
            refuse("DP-DECL-003", problem=problem, spot=("columns", name, "marks_of"))

    def _refuse_missing(self, name: str, column: CategoryColumn) -> None:
        """Raise an error for a declared value that the source reads as missing."""
        if self.source is None or not is_stored(column):
            return
        for text in filter(None, self.source.null_texts):
            if text in (column.values or ()):
                problem = f"'{shorten(text)}' is missing there, and a declared value of '{name}'"
                refuse("DP-DECL-003", problem=problem, spot=("source", "nulls"))

    @property
    def identity(self) -> str:
        """The table's name in a ledger, which does not depend on the name of its file."""
        return f"{self.owner or ''}/{self.name}"

    @property
    def time_zone(self) -> str:
        """The time zone of the source's local timestamps."""
        return UTC if self.source is None else self.source.time_zone

    @property
    def unit(self) -> PrivacyUnit:
        """The privacy unit with its contribution limits."""
        spec, total = self.privacy_unit, self.privacy_unit.max_rows
        groups, rows = spec.max_groups or total or 1, spec.max_rows_per_group or total or 1
        return PrivacyUnit(spec.id, groups, rows, total)


class Correspondence(Table):
    """A correspondence table, whose lines have an id of rows, and the id of a person."""

    @property
    def ids(self) -> frozenset[str]:
        """All of its columns."""
        return frozenset(self.columns)
