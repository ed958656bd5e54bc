"""Table schemas: a table, its source, its privacy unit, and its columns."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dprelease.privacy.unit import PrivacyUnit
from dprelease.schema.columns import (
    Column,
    CutColumn,
    IntegerColumn,
    NumberColumn,
    TextColumn,
    is_stored,
)
from dprelease.schema.model import Model, refuse_twins
from dprelease.schema.values import TEXT_SCHEMA, Flag, Name, ShortForm, Text, Whole, refuse

Format = Literal["parquet", "csv", "json_lines", "duckdb"]
Kind = Literal[Format, "catalogue"]
_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json_lines",
    ".ndjson": "json_lines",
    ".duckdb": "duckdb",
    ".db": "duckdb",
}


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SECRET = re.compile(_URI.pattern + r"[^/@]*:[^/]*@")


class Source(Model):
    """Where the rows are: files (a path or a glob), a table of a DuckDB file, or a frame.

    For the engine spark alone: a table of Spark's catalogue (`table` without a path), or Parquet
    somewhere else (a path with a scheme, such as s3a://bucket/visits).
    """

    path: Text | None = None
    frame: Name | None = None
    format: Format | None = None
    table: Text | None = None
    delimiter: Text | None = None
    quote: Text = '"'
    nulls: tuple[Text, ...] = ("",)

    @model_validator(mode="after")
    def _tell_format(self) -> Self:
        if self.kind == "catalogue":
            if not self.table or self.format is not None:
                refuse("DP-SCHEMA-011", reason="give a path, a frame, or a table and no format")
        elif self.path is not None and self.frame is not None:
            refuse("DP-SCHEMA-011", reason="give either a path or a frame")
        elif self.path is not None and self.kind is None:
            refuse("DP-SCHEMA-011", reason="the ending of the path says nothing")
        elif (self.kind == "duckdb") != (self.table is not None):
            refuse("DP-SCHEMA-011", reason="a DuckDB file, and only that, needs `table`")
        if self.is_uri and self.kind != "parquet":
            refuse("DP-SCHEMA-011", reason="by a URI only Parquet is read")
        if self.path is not None and _SECRET.match(self.path):
            refuse("DP-SCHEMA-011", reason="schemas are published: a URI may hold no password")
        for mark in (self.delimiter, self.quote):
            if mark is not None and (len(mark.encode()) != 1 or mark in "\r\n"):
                refuse("DP-SCHEMA-011", reason="delimiter and quote are one ASCII character")
        return self

    @property
    def is_uri(self) -> bool:
        """Return whether the path has a scheme, and so is not one of this machine's."""
        return self.path is not None and _URI.match(self.path) is not None

    @property
    def is_sparks(self) -> bool:
        """Return whether Spark alone can read it."""
        return self.is_uri or self.kind == "catalogue"

    @property
    def kind(self) -> Kind | None:
        """Return the format, declared or told by the ending; None for a frame."""
        if self.path is None and self.frame is None:
            return "catalogue"
        if self.format is not None or self.path is None:
            return self.format
        return _ENDINGS.get("." + self.path.rsplit(".", 1)[-1].lower())

    @property
    def separator(self) -> str:
        """Return the delimiter of a CSV file."""
        tabs = self.path is not None and self.path.lower().endswith(".tsv")
        return self.delimiter or ("\t" if tabs else ",")


class UnitSpec(Model):
    """The privacy unit as declared; without an id every row is a unit."""

    id: Text | None = None
    max_groups: Annotated[Whole, Field(ge=1, le=10**6)] | None = None
    max_rows_per_group: Annotated[Whole, Field(ge=1, le=10**9)] | None = None

    @model_validator(mode="after")
    def _bounds_need_an_id(self) -> Self:
        if self.id is None and (self.max_groups or self.max_rows_per_group):
            refuse("DP-SCHEMA-009")
        return self


def _short_source(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


class Table(Model):
    """One declared table."""

    name: Name = Field(alias="table")
    owner: Text | None = None
    size: Annotated[Whole, Field(ge=1)] | None = None
    """How many units there are, where everybody may know it: only warnings use it."""
    source: Annotated[Source, BeforeValidator(_short_source), ShortForm(TEXT_SCHEMA)] | None = None
    public: Flag = False
    """Nobody's data: read without a price, to be joined to tables that are about people."""
    privacy_unit: UnitSpec = UnitSpec()
    columns: dict[Text, Column]

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_twins(self.columns)
        for name, column in self.columns.items():
            if isinstance(column, CutColumn):
                cut = self.columns.get(column.cut)
                if not isinstance(cut, IntegerColumn | NumberColumn):
                    refuse("DP-SCHEMA-007", column=name, source=column.cut)
        if self.public and self.privacy_unit != UnitSpec():
            refuse("DP-JOIN-002")
        unit = self.privacy_unit.id
        named = self.columns.get(unit or "")
        kept = isinstance(named, IntegerColumn | TextColumn) and is_stored(named)
        if unit is not None and not kept:
            refuse("DP-SCHEMA-008", column=unit)
        return self

    @property
    def identity(self) -> str:
        """Return what names the table in a ledger, whatever its file is called."""
        return f"{self.owner or ''}/{self.name}"

    @property
    def unit(self) -> PrivacyUnit:
        """Return the privacy unit; a bound that is not declared is 1."""
        spec = self.privacy_unit
        return PrivacyUnit(spec.id, spec.max_groups or 1, spec.max_rows_per_group or 1)
