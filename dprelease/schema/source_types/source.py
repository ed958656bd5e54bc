"""Where the rows of a table are, and how the texts of its files are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dprelease.errors.local_paths import URI_CODE, uri_fields
from dprelease.schema.field_types import (
    TEXT_SCHEMA,
    Name,
    Pivot,
    ShortForm,
    Text,
    TimeFormat,
    Whole,
    refuse,
)
from dprelease.schema.model import Model
from dprelease.schema.public_values.code_changes import CodeChanges
from dprelease.schema.source_texts import (
    COMPRESSED,
    LAST_PLACE,
    MOST_LINES,
    UTC,
    UTF_8,
    Beginnings,
    Compression,
    Encoding,
    HeaderPlace,
    LineNumbers,
    Places,
    Thousands,
    TimeZone,
)
from dprelease.schema.source_types import source_hints as hints
from dprelease.schema.source_types.registry import (
    SOURCE_TYPES,
    Format,
    source_type,
    type_of_address,
    type_of_suffix,
)
from dprelease.schema.source_types.source_type import OPTIONS, SourceType
from dprelease.schema.source_types.without_format import FILES
from dprelease.system.stores import address as stores

SEPARATORS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}
"""The delimiters of files with these endings; of all others the comma."""

SHARED = frozenset({*OPTIONS, "format", "time_zone"})
"""The keys that a source may declare for all of its `files`."""


def expand_path(value: object) -> object:
    """Expand a path to the long form of a source."""
    return {"path": value} if isinstance(value, str) else value


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SECRET = re.compile(_URI.pattern + r"[^/@]*:[^/]*@")


class Source(Model):
    """Where the rows are: files (a path or a glob), a table of a database file, or a frame.

    A path that ends in / is a folder of Parquet files, including its subfolders. A SQLite file
    needs `table`. An Excel workbook with several sheets needs `sheet`. A path that begins with
    postgresql:// is the address of a server, and needs `table`, such as census.people; libpq reads
    the password.

    Parquet, CSV and JSON lines can be in a store: s3://bucket/visits/*.parquet, gs://, az://,
    abfss:// or https://. The environment has the credentials.

    A table of Delta Lake or Iceberg needs its `format`; its path is that of its folder, or for
    Iceberg of a metadata file. Without `version` (Delta Lake) or `snapshot` (Iceberg), a run reads
    the latest one.

    For the engine spark only: a table of Spark's catalogue (`table` without a path), or Parquet in
    another place (a path with another scheme, such as hdfs://server/visits).

    `header` is the number of the row or line with the column names, or one of these names; with
    several numbers, the texts of a column are joined by _. The rows are below it. `skip` leaves out
    lines of a CSV file, by their number in the file (a single number: the first lines), `comment`
    lines that begin with one of its texts, `until` the last line that begins with this text and all
    lines below it, and `footer` the last lines. `names` replaces the names in the header; without
    `header`, the file then has none. With `ragged: pad`, the fields that a line lacks are missing
    values, and a line may end with a delimiter.

    A file of fixed width needs `columns`: the places of the first and the last character of each
    column in a line, counted from 1, as a data dictionary lists them. For other files, `columns`
    has the names in the file of declared columns that have another name there. A column is null
    if the file lacks it.

    `files` are several files whose rows together are the table. Each is a source with its own keys;
    the keys of this source apply to all files whose type has them. `constants` are the values of
    columns that are the same in all rows of a file, and `codes` are new codes by old code.

    The keys from `delimiter` on describe how the values of a CSV or JSON lines file are written;
    nothing is ever guessed. Of these keys, workbooks accept `nulls`, `decimal`, `thousands` and the
    date formats, and SQLite files the date formats. A workbook also has `until` and `footer`,
    and with `merged: fill`, all of its merged cells have the value of the first one. With
    `quote: none`, quotes are characters of the texts; `escape` is a backslash before such
    characters. `pivot` is the latest year that two digits (%y) can mean, for all columns without a
    `pivot` of their own. `time_zone` is the time zone of local timestamps, in any source.
    """

    path: Text | None = None
    files: tuple[Annotated[Source, BeforeValidator(expand_path), ShortForm(TEXT_SCHEMA)], ...] = ()
    frame: Name | None = None
    format: Format | None = None
    table: Text | None = None
    version: Annotated[Whole, Field(ge=0, lt=1 << 63)] | None = None
    snapshot: Annotated[Whole, Field(ge=0, lt=1 << 63)] | None = None
    sheet: Text | None = None
    header: HeaderPlace | None = None
    names: tuple[Text, ...] = ()
    columns: Places = Field(default_factory=dict)
    constants: dict[Text, Text] = Field(default_factory=dict)
    codes: dict[Text, CodeChanges] = Field(default_factory=dict)
    skip: LineNumbers = ()
    comment: Beginnings = ()
    until: Text | None = None
    footer: Annotated[Whole, Field(ge=0, le=MOST_LINES)] = 0
    ragged: Literal["pad"] | None = None
    merged: Literal["fill"] | None = None
    delimiter: Text | None = None
    quote: Text = '"'
    escape: Literal["\\"] | None = None
    nulls: tuple[Text, ...] = ("",)
    encoding: Encoding = UTF_8
    compression: Compression | None = None
    decimal: Literal[".", ","] = "."
    thousands: Thousands | None = None
    date_format: TimeFormat | None = None
    timestamp_format: TimeFormat | None = None
    pivot: Pivot | None = None
    time_zone: TimeZone = UTC

    @model_validator(mode="before")
    @classmethod
    def _share_keys(cls, values: object) -> object:
        """Give each of several files the keys of the source that its own type has."""
        files = values.get("files") if isinstance(values, Mapping) else None
        if not isinstance(values, Mapping) or not isinstance(files, list | tuple):
            return values
        shared = {key: value for key, value in values.items() if key in SHARED}
        return {**values, "files": [_with_shared(expand_path(one), shared) for one in files]}

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        """Refuse keys that contradict each other or the type of the source."""
        self._check_uri()
        self._check_place()
        for key, mark in (("delimiter", self.delimiter), ("quote", self.quote_character or '"')):
            if mark is not None and (len(mark.encode()) != 1 or mark in "\r\n"):
                problem = "it must be one ASCII character, such as ;"
                refuse("DP-DECL-003", problem=problem, key=key)
        if not self.files:
            self._check_columns()
        self._check_lines()
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
        if self.store is None and self.is_uri and not (self.kind and self.type.has_uris):
            scheme, _, _ = path.partition(":")
            which = f" for {self.type.label}" if self.kind else ""
            hints.refuse_source(f"the scheme {scheme}:// is not supported{which}", hints.PATHS)
        if self.store is not None and self.kind and not self.type.is_read_from_stores:
            kinds = "Parquet, CSV and JSON lines"
            hints.refuse_source(f"of files in stores, only {kinds} can be read", hints.PATHS)
        if _SECRET.match(path):
            hints.refuse_source(
                "its URI contains a password, and schemas are published", hints.NO_PASSWORD
            )
        if not self.is_uri and (fields := uri_fields(path)):  # such as hdfs:/people, with one slash
            refuse(URI_CODE, **fields, key="path")

    def _check_lines(self) -> None:
        """Refuse a header among the lines that are left out, and texts that begin every line."""
        lines = self.header if isinstance(self.header, tuple) else (self.header,)
        if {*lines} & {*self.skip}:
            problem = (
                "it is one of the lines that `skip` leaves out; both count from the first line"
            )
            refuse("DP-DECL-003", problem=problem, key="header")
        if self.until == "":
            refuse("DP-DECL-003", problem="it must be a text that is not empty", key="until")
        for key, names in (("names", self.names), ("columns", (*self.places,))):
            folded = {name.casefold() for name in names}
            if "" in folded or len(folded) < len(names):
                refuse(
                    "DP-DECL-003", problem="its names must all differ, and not be empty", key=key
                )
        if any(not 1 <= first <= last <= LAST_PLACE for first, last in self.places.values()):
            problem = (
                "each column needs the numbers of its first and last character, such as [1, 8]"
            )
            refuse("DP-DECL-003", problem=problem, key="columns")

    def _check_place(self) -> None:
        """Refuse a source that does not say where its rows are, or says it twice."""
        if self.files:
            self._check_files()
        elif self.kind == "catalogue":
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

    def _check_files(self) -> None:
        """Refuse files of types that can't be parts of a table, and keys that no file has."""
        if self.path is not None or self.frame is not None or self.table is not None:
            hints.refuse_source("it has `files` and another place of its rows", hints.ONE_OF)
        for one in self.files:
            if one.files or one.is_only_for_spark or "codes" not in one.type.options:
                hints.refuse_source(
                    f"`files` can be text files, workbooks, Parquet or files of statistics "
                    f"packages, and not {one.type.label}", hints.NO_PART,
                )  # fmt: skip
        for key in OPTIONS:
            if key in self.model_fields_set and not any(key in f.type.options for f in self.files):
                refuse("DP-SCHEMA-014", key=key, reason="no file stores values this way")

    def _check_columns(self) -> None:
        """Refuse names of columns where places are needed, and places where names are needed."""
        for name, place in self.columns.items():
            if place is not None and isinstance(place, str) == (self.kind == "fixed_width"):
                form = "the first and the last character, such as [1, 8]"
                if self.kind != "fixed_width":
                    form = "a name in the file, or null if the file lacks it"
                refuse("DP-DECL-003", problem=f"'{name}' needs {form}", key="columns")

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
    def parts(self) -> tuple[Source, ...]:
        """The files that are parts of the table; empty if the one source is read as declared."""
        is_changed = self.constants or self.codes or len(self.places) < len(self.columns)
        return self.files or ((self,) if is_changed else ())

    @property
    def null_texts(self) -> tuple[str, ...]:
        """The texts that mean a missing value in some file of the source."""
        files = self.files or (self,)
        return tuple(dict.fromkeys(text for one in files for text in one.nulls))

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """The places of the columns of a file of fixed width."""
        return {name: place for name, place in self.columns.items() if isinstance(place, tuple)}

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
        if self.files:
            return FILES
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
        return self.delimiter or SEPARATORS.get(self._ending[0], ",")

    @property
    def quote_character(self) -> str:
        """The quote of a CSV file; empty if its texts are never quoted, as in fixed width."""
        return "" if self.quote == "none" or self.places else self.quote

    @property
    def has_header(self) -> bool:
        """Whether a CSV file has a line with the names of its columns."""
        return self.header is not None or not (self.names or self.places)


def _with_shared(file: object, shared: Mapping[str, object]) -> object:
    """Return the keys of a file, with those of all files that its type has."""
    if not isinstance(file, Mapping):
        return file
    path, form = file.get("path"), file.get("format", shared.get("format"))
    known = {"path": path if isinstance(path, str) else None, "format": form}
    # Not validated: only the ending of the path is needed here, and the file's errors come later.
    kind = Source.model_construct(**known).kind if form in SOURCE_TYPES or not form else None
    allowed = source_type(kind).options if kind in SOURCE_TYPES else ()
    return {key: one for key, one in shared.items() if key in allowed or key not in OPTIONS} | {
        **file
    }
