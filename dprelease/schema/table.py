"""Table schemas: a table, its source, its privacy unit, and its columns."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dprelease.errors.local_paths import URI_CODE, uri_fields
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
    Pivot,
    ShortForm,
    Text,
    TimeFormat,
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
from dprelease.schema.rehearsal_form import RehearsalSpec, refuse_unknown_values
from dprelease.schema.source_texts import (
    COMPRESSED,
    UTC,
    UTF_8,
    Compression,
    Encoding,
    Thousands,
    TimeZone,
)
from dprelease.schema.source_types import source_hints as hints
from dprelease.schema.source_types.registry import (
    Format,
    source_type,
    type_of_address,
    type_of_suffix,
)
from dprelease.schema.source_types.source_type import OPTIONS, SourceType
from dprelease.system.stores import address as stores

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SECRET = re.compile(_URI.pattern + r"[^/@]*:[^/]*@")


class Source(Model):
    """Where the rows are: files (a path or a glob), a table of a database file, or a frame.

    A path that ends in / is a folder of Parquet files, including its subfolders. A SQLite file
    needs `table`. An Excel workbook with several sheets needs `sheet`; `header` is the number of
    the row with the column names. A path that begins with postgresql:// is the address of a server,
    and needs `table`, such as census.people; libpq reads the password.

    Parquet, CSV and JSON lines can be in a store: s3://bucket/visits/*.parquet, gs://, az://,
    abfss:// or https://. The environment has the credentials.

    A table of Delta Lake or Iceberg needs its `format`; its path is that of its folder, or for
    Iceberg of a metadata file. Without `version` (Delta Lake) or `snapshot` (Iceberg), a run reads
    the latest one.

    For the engine spark only: a table of Spark's catalogue (`table` without a path), or Parquet in
    another place (a path with another scheme, such as hdfs://server/visits).

    The keys from `delimiter` on describe how the values of a CSV or JSON lines file are written;
    nothing is ever guessed. Of these keys, workbooks accept `nulls` and the date formats, and
    SQLite files the date formats. `pivot` is the latest year that two digits (%y) can mean, for all
    columns without a `pivot` of their own. `time_zone` is the time zone of local timestamps, in any
    source.
    """

    path: Text | None = None
    frame: Name | None = None
    format: Format | None = None
    table: Text | None = None
    version: Annotated[Whole, Field(ge=0, lt=1 << 63)] | None = None
    snapshot: Annotated[Whole, Field(ge=0, lt=1 << 63)] | None = None
    sheet: Text | None = None
    header: Annotated[Whole, Field(ge=1, le=1 << 20)] = 1
    delimiter: Text | None = None
    quote: Text = '"'
    nulls: tuple[Text, ...] = ("",)
    encoding: Encoding = UTF_8
    compression: Compression | None = None
    decimal: Literal[".", ","] = "."
    thousands: Thousands | None = None
    date_format: TimeFormat | None = None
    timestamp_format: TimeFormat | None = None
    pivot: Pivot | None = None
    time_zone: TimeZone = UTC

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        """Refuse keys that contradict each other or the type of the source."""
        self._check_uri()
        if self.kind == "catalogue":
            if not self.table or self.format is not None:
                hints.refuse_source("it does not say where the rows are", hints.ONE_OF)
        elif self.path is not None and self.frame is not None:
            hints.refuse_source("it has both a path and a frame", hints.ONE_OF)
        elif self.path is not None and self.kind is None:
            hints.refuse_source(
                "the extension of its path is not that of a known format", hints.NAME_IT
            )
        elif self.type.has_tables and self.table is None:
            hints.refuse_source(
                "it names no table of its DuckDB or SQLite file or server", hints.NAME_TABLE
            )
        elif not self.type.has_tables and self.table is not None:
            hints.refuse_source("it names a `table`, which only databases have", hints.NO_TABLE)
        for key, mark in (("delimiter", self.delimiter), ("quote", self.quote)):
            if mark is not None and (len(mark.encode()) != 1 or mark in "\r\n"):
                problem = "it must be one ASCII character, such as ;"
                refuse("DP-DECL-003", problem=problem, key=key)
        self._check_texts()
        return self

    def _check_uri(self) -> None:
        """Raise an error for a password in a URI, and for keys that a URI does not support."""
        path = self.path or ""
        addressed = type_of_address(path)
        if addressed is not (self.type if self.type.schemes else None):
            reason = "a server needs an address with postgresql://, and nothing else has one"
            hints.refuse_source(reason, hints.PATHS)
        if addressed is not None:
            addressed.check_address(path)
            return
        if self.store is not None and (problem := stores.address_problem(self.store)):
            hints.refuse_source(*problem)
        is_readable = self.type.is_read_from_stores if self.store else self.type.has_uris
        if self.is_uri and self.kind is not None and not is_readable:
            kinds = "Parquet, CSV and JSON lines" if self.store else "Parquet"
            hints.refuse_source(f"of files with this scheme, only {kinds} can be read", hints.PATHS)
        if _SECRET.match(path):
            hints.refuse_source(
                "its URI contains a password, and schemas are published", hints.NO_PASSWORD
            )
        if not self.is_uri and (fields := uri_fields(path)):  # such as hdfs:/people, with one slash
            refuse(URI_CODE, **fields, key="path")

    def _check_texts(self) -> None:
        """Raise DP-SCHEMA-014 for a key that does not apply, or for two equal separators."""
        for key in OPTIONS:
            if key in self.model_fields_set and key not in self.type.options:
                reason = f"{self.type.label} does not store values this way"
                refuse("DP-SCHEMA-014", key=key, reason=reason)
        if not self.nulls:
            problem = "it must be a list of texts, such as [''] or [NA]"
            refuse("DP-DECL-003", problem=problem, key="nulls")
        if self.thousands == self.decimal:
            refuse("DP-SCHEMA-014", key="thousands", reason="it is also the decimal mark")
        self.type.check_options({key: getattr(self, key) for key in OPTIONS})

    @property
    def is_uri(self) -> bool:
        """Whether the path is a URI with a scheme, and not a local path."""
        return self.path is not None and _URI.match(self.path) is not None

    @property
    def is_folder(self) -> bool:
        """Whether the path names a folder, which a slash at its end shows."""
        return (self.path or "").endswith("/") and (not self.is_uri or self.store is not None)

    @property
    def store(self) -> stores.StoreAddress | None:
        """The address in a store that the engine duckdb reads; None for any other path."""
        return stores.store_address(self.path)

    @property
    def pattern(self) -> str | None:
        """The path, or for a folder the pattern of the files that may be read."""
        if self.table_folder is not None:
            return f"{self.table_folder.rstrip('/') or '/'}/**/*.parquet"
        return f"{self.path}**/*.parquet" if self.is_folder else self.path

    @property
    def table_folder(self) -> str | None:
        """The folder of a table that has versions; None for any other source."""
        return None if self.path is None else self.type.table_folder(self.path)

    @property
    def table_version(self) -> int | None:
        """The declared version of a table that has versions; None if none is declared."""
        key = self.type.version_key
        return None if key is None else getattr(self, key)

    @property
    def is_only_for_spark(self) -> bool:
        """Whether only Spark can read the source."""
        return self.kind == "catalogue" or (self.is_uri and not self.type.schemes)

    @property
    def kind(self) -> str | None:
        """The format, declared or inferred from the ending of the path; None for a frame."""
        if self.path is None and self.frame is None:
            return "catalogue"
        if self.format is not None or self.path is None:
            return self.format
        addressed = type_of_address(self.path)
        if addressed is not None:
            return addressed.name
        if self.is_folder:
            return "parquet"
        plain, packed = self._ending
        found = type_of_suffix(plain)
        return None if found is None or (packed and not found.is_compressible) else found.name

    @property
    def type(self) -> SourceType:
        """The source type; a source without `kind` is a data frame."""
        return source_type(self.kind or "frame")

    @property
    def _ending(self) -> tuple[str, str]:
        """The ending of the path, and the ending for its compression, which may be empty."""
        parts = ["", *(self.path or "").lower().rsplit(".", 2)]
        ends = ["." + part for part in parts[-2:]]
        return (ends[0], ends[1]) if ends[1] in COMPRESSED else (ends[1], "")

    @property
    def effective_compression(self) -> Compression:
        """The compression of a text file, declared or inferred from the ending of the path."""
        return self.compression or COMPRESSED.get(self._ending[1], "none")

    @property
    def separator(self) -> str:
        """The delimiter of a CSV file."""
        return self.delimiter or ("\t" if self._ending[0] == ".tsv" else ",")


_BOUNDS = ("max_groups", "max_rows_per_group")


class UnitSpec(Model):
    """The declared privacy unit with its limits; without an id every row is its own unit."""

    id: Text | None = None
    max_groups: Annotated[Whole, Field(ge=1, le=10**6)] | None = None
    max_rows_per_group: Annotated[Whole, Field(ge=1, le=10**9)] | None = None
    max_rows: Annotated[Whole, Field(ge=1, le=10**9)] | None = None
    """The rows of one privacy unit in all groups of a query together."""

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        """Refuse an id without both limits or `max_rows`, and limits without an id."""
        if self.id is None and (self.max_groups or self.max_rows_per_group or self.max_rows):
            refuse("DP-SCHEMA-009")
        missing = [name for name in _BOUNDS if getattr(self, name) is None]
        if self.max_rows is not None:  # which limits the rows of each group as well
            missing = []
        if self.id is not None and missing:  # a default limit would silently leave out rows
            refuse("DP-SCHEMA-013", missing=" and no ".join(f"`{name}`" for name in missing))
        return self


def _expand_source(value: object) -> object:
    """Expand a path to the long form of a source."""
    return {"path": value} if isinstance(value, str) else value


class Table(Model):
    """One declared table."""

    name: Name = Field(alias="table")
    owner: Text | None = None
    size: Annotated[Whole, Field(ge=1)] | None = None
    """The number of people, where it is public knowledge: no noise depends on it."""
    source: Annotated[Source, BeforeValidator(_expand_source), ShortForm(TEXT_SCHEMA)] | None = None
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
        for name, column in self.columns.items():
            if not isinstance(column, DateColumn | TimestampColumn) or self.source is None:
                continue
            days = isinstance(column, DateColumn)
            format_ = self.source.date_format if days else self.source.timestamp_format
            if format_ and is_stored(column) and "format" not in column.model_fields_set:
                column = column.model_copy(update={"format": format_})
            if has_two_digit_years(column.format) and column.pivot is None and is_stored(column):
                column = column.model_copy(update={"pivot": self.source.pivot})
            self.columns[name] = column
        return self

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Check all columns, the privacy unit and the rehearsal; raise all errors together."""
        check_column_names(self.columns)
        leaning = [partial(self._check_column, name, one) for name, one in self.columns.items()]
        rehearsed = partial(refuse_unknown_values, self.rehearsal, self.columns)
        refuse_all(
            errors_of_checks(
                self._sort_nested_columns, *leaning, self._check_pivot, self._check_unit, rehearsed
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
        if isinstance(column, CutColumn):
            cut = self.columns.get(column.cut)
            if not isinstance(cut, IntegerColumn | NumberColumn):
                refuse("DP-SCHEMA-007", column=name, source=column.cut)

        if isinstance(column, DateColumn | TimestampColumn):
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
        formats = [getattr(column, "format", "") for column in self.columns.values()]
        if self.source and self.source.pivot and not any(map(has_two_digit_years, formats)):
            layout = self.source.date_format or self.source.timestamp_format or "dates"
            refuse("DP-YEAR-002", spot=("source", "pivot"), layout=layout)

    def _check_unit(self) -> None:
        """Refuse a privacy unit that the table can't have, or whose id can't identify people."""
        if self.public and self.privacy_unit != UnitSpec():
            refuse("DP-JOIN-002")
        unit = self.privacy_unit.id
        named = self.columns.get(unit or "")
        kept = isinstance(named, IntegerColumn | TextColumn) and is_stored(named)
        if unit is not None and not kept:
            refuse("DP-SCHEMA-008", column=unit)

    def _refuse_missing(self, name: str, column: CategoryColumn) -> None:
        """Raise an error for a declared value that the source reads as missing."""
        nulls = () if self.source is None or not is_stored(column) else self.source.nulls
        for text in filter(None, nulls):
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
