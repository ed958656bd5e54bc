"""Read tables of lakehouse formats: Parquet files that a log lists, each with its own columns.

A file may lack a column that was added later, or that has the same value in all its rows and is
written only in the log; and it may have a column under another name than the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import duckdb

from dprelease.exact.connection import CONNECTION_OPTIONS
from dprelease.exact.lakes.lake_version import (
    LakeColumn,
    LakeFile,
    LakeProblem,
    LakeVersion,
    null_sql,
)
from dprelease.exact.reading.sources import (
    OpenedSource,
    escape_pattern,
    file_stamp,
    parquet_sql,
    stored_columns,
    unreadable_error,
)
from dprelease.exact.reading.stored_types import (
    SCHEMA_SQL,
    Part,
    SchemaRow,
    Types,
    millisecond_columns,
    top_level_rows,
    union_sql,
)
from dprelease.exact.sources.duckdb_reader import propose_type
from dprelease.exact.sources.parquet_reader import (
    SPELLING_REMEDY,
    noted_collations,
    parts_of_files,
    schema_rows,
    types_of_file,
)
from dprelease.exact.sources.source_reader import (
    Description,
    Opening,
    RunMetadataQuery,
    SourceReader,
)
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.source_types.source import Source
from dprelease.schema.source_types.source_type import SourceType
from dprelease.system.deferred_signals import reraise_handler_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.detection.csv_layout import KeyValue
    from dprelease.exact.inputs import Input


DAMAGED = (TypeError, AttributeError, RecursionError)
"""What may be raised for a log whose values have other types than its format defines."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns of a table are stored in a file.

    `stored`: pairs of a column's name in the table and in the file. `constants`: columns that the
    file lacks, each with its type and the SQL of its value.
    """

    stored: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, str, str], ...]

    def select_sql(self, relation: str) -> str:
        """Return SQL of a relation with the columns of the table."""
        columns = [
            *((quoting.identifier(stored), name) for name, stored in self.stored),
            *((value, name) for name, _, value in self.constants),
        ]
        selected = [f"{sql} AS {quoting.identifier(name)}" for sql, name in columns]
        return f"(SELECT {', '.join(selected) or '1 AS one'} FROM {relation})"

    def types(self, types: Types) -> dict[str, str]:
        """Return the types of the table's columns, from those of the file's columns."""
        stored = {name: types[own] for name, own in self.stored}
        return stored | {name: kind for name, kind, _ in self.constants}

    def declared_as_stored(self, declared: Declared) -> Declared:
        """Return a declared table with the stored columns alone, under their names in the file."""
        columns = {own: declared.table.columns[name] for name, own in self.stored}
        return replace(declared, table=declared.table.model_copy(update={"columns": columns}))


class LakeReader(SourceReader):
    """Reads tables of one lakehouse format; a subclass reads its log."""

    source_type: ClassVar[SourceType]

    def version_of(
        self, path: Path, version: int | None, *, can_guess: bool = False
    ) -> LakeVersion:
        """Return a version of the table at a path; the latest one if `version` is None.

        `can_guess`: whether the latest version may be guessed where only a catalogue knows it.

        Raises
        ------
        LakeProblem
            If the version does not exist, or can't be read exactly.
        OSError, ValueError, LookupError, or one of `DAMAGED`
            If the log can't be read.
        """
        raise NotImplementedError

    def latest_version(self, declared: Declared, source: Source) -> int:
        """Return the latest version of a table."""
        return self._version_or_error(declared, source, None).version

    def open(self, declared: Declared, source: Source, opening: Opening) -> OpenedSource:
        """Return the files of the declared version, or of the latest one."""
        lake = self._version_or_error(declared, source, source.table_version)
        stamps = tuple(map(file_stamp, lake.paths))
        read = parquet_sql(lake.paths)
        return OpenedSource(
            lake.paths, stamps, relation=read, collations=lake.collations, lake=lake
        )

    def _version_or_error(
        self, declared: Declared, source: Source, version: int | None
    ) -> LakeVersion:
        """Return a version of a declared table; raise DP-DATA-024 if it can't be read exactly."""
        try:
            return self.version_of(declared.folder / (source.path or ""), version)
        except LakeProblem as problem:
            reason, way = problem.args
        except DAMAGED:
            raise ValueError("a damaged log") from None
        raise unreadable_error(declared, reason, way)

    def relation(
        self, given: Input, relation: str, ask: RunMetadataQuery, *, can_use_arrow: bool
    ) -> str:
        """Return the relation of a version, in which each file is read by its own types.

        The errors are those of `ParquetReader.relation`; DP-DATA-024 also for a file or a value
        that the log does not describe exactly.
        """
        lake = None if given.opened is None else given.opened.lake
        if lake is None:
            return relation
        names = [name for name in stored_columns(given.declared) if name in lake.columns]
        ask = cache(ask)  # the metadata of a file are needed twice
        groups: Mapping[Layout, Sequence[Path]] = {}
        reason, way = "", ""
        try:
            groups = _group_by_layout(lake, names, lambda file: schema_rows(given, file, ask))
        except LakeProblem as problem:
            reason, way = problem.args
        if reason:
            raise unreadable_error(given.declared, reason, way)
        kinds: dict[str, set[str]] = {name: set() for name in names}
        parts: list[Part] = []
        for layout, files in groups.items():
            parts += _parts_of_layout(given, layout, files, ask, kinds, can_use_arrow=can_use_arrow)
        noted = noted_collations(lake.paths, kinds, ask)
        stored = (pair for layout in groups for pair in layout.stored if pair[1] in noted)
        given.collations = {**given.collations, **{name: noted[own] for name, own in stored}}
        given.types_differ = len(parts) > 1
        given.millisecond_columns = millisecond_columns(kinds)
        return union_sql(parts, given.declared) if parts else _relation_without_rows(lake, names)

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of the latest version, and its number."""
        lake = self._latest_version(file)
        if lake is None:
            return Description()
        columns = [(name, propose_type(one.type)) for name, one in lake.columns.items()]
        kind, key = self.source_type.name, str(self.source_type.version_key)
        keys: dict[str, KeyValue] = {"format": kind, key: lake.version}
        return Description(columns, keys, collations=lake.collations)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all rows of the latest version."""
        lake = self._latest_version(file)
        if lake is None:
            raise OSError("no columns")
        names = [*lake.columns]
        try:
            with reraise_handler_errors(), duckdb.connect(config=CONNECTION_OPTIONS) as link:
                groups = _group_by_layout(lake, names, partial(_rows_of_schema, link))
                selects = (
                    f"FROM {one.select_sql(parquet_sql(files))}" for one, files in groups.items()
                )
                sql = " UNION ALL BY NAME ".join(selects)
                return link.sql(
                    sql or f"FROM {_relation_without_rows(lake, names)}"
                ).to_arrow_table()
        except (duckdb.Error, LakeProblem):
            raise OSError("a file can't be read") from None

    def _latest_version(self, path: Path) -> LakeVersion | None:
        """Return the latest version of the table at a path; None if its log can't be read.

        Raises
        ------
        LakeProblem
            If the version can't be read exactly.
        """
        try:
            return self.version_of(path, None, can_guess=True)
        except (OSError, ValueError, LookupError, *DAMAGED):
            return None


def _rows_of_schema(link: duckdb.DuckDBPyConnection, file: Path) -> list[SchemaRow]:
    """Return the rows of `SCHEMA_SQL` for a file."""
    return link.execute(SCHEMA_SQL.format(quoting.text(escape_pattern(file)))).fetchall()


def _group_by_layout(
    lake: LakeVersion, names: Sequence[str], rows_of: Callable[[Path], Sequence[SchemaRow]]
) -> dict[Layout, list[Path]]:
    """Return the files of a version by their layout.

    `names`: the columns that are read. `rows_of`: a function that returns the rows of `SCHEMA_SQL`
    for a file.

    Raises
    ------
    LakeProblem
        If a column of a file is not described exactly.
    """
    groups: dict[Layout, list[Path]] = {}
    for file in lake.files:
        groups.setdefault(_layout_of(file, lake, names, rows_of(file.path)), []).append(file.path)
    return groups


def _layout_of(
    file: LakeFile, lake: LakeVersion, names: Sequence[str], rows: Sequence[SchemaRow]
) -> Layout:
    """Return how the columns of a table are stored in a file; raise LakeProblem as above."""
    columns = [(row[0], row[5]) for row in top_level_rows(rows)]
    stored, constants = [], []
    for name in names:
        column = lake.columns[name]
        own = _stored_name(column, columns)
        value = file.constants.get(name, null_sql(column.type))
        if own is not None:
            stored.append((name, own))
        elif value is not None:
            constants.append((name, column.type, value))
        else:
            reason = f"the log writes the values of '{name}' in a form that can't be read exactly"
            raise LakeProblem(reason, f"do not declare '{name}', or copy the table into a file")
    return Layout(tuple(stored), tuple(constants))


def _stored_name(column: LakeColumn, columns: Sequence[tuple[str, int | None]]) -> str | None:
    """Return the name that a column has in a file; None if the file does not have the column.

    `columns`: the names of the file's columns, each with its number if it has one.
    """
    if column.field_id is not None:
        # Names can't replace ids: a renamed column keeps its old name in old files.
        if columns and all(number is None for _, number in columns):
            way = "write the rows into files whose columns have ids, or into a Parquet file"
            raise LakeProblem("the columns of some files have no ids", way)
        return next((name for name, number in columns if number == column.field_id), None)
    if column.stored is None:
        return None
    names = [name for name, _ in columns]
    if column.stored not in names and column.stored.casefold() in map(str.casefold, names):
        reason = f"a file has the column '{column.stored}' with other upper or lower case"
        raise LakeProblem(reason, SPELLING_REMEDY)
    return column.stored if column.stored in names else None


def _parts_of_layout(
    given: Input,
    layout: Layout,
    files: Sequence[Path],
    ask: RunMetadataQuery,
    kinds: Mapping[str, set[str]],
    *,
    can_use_arrow: bool,
) -> list[Part]:
    """Return relations with the rows of files that have one layout.

    Rows that Arrow must read are added to `given`, and the types of columns to `kinds`.
    """
    declared = layout.declared_as_stored(given.declared)
    name = f"{given.relation}_{len(given.rows)}_of"
    group = replace(
        given, declared=declared, relation=name, opened=OpenedSource(tuple(files)), rows={}
    )
    types = {file: types_of_file(group, file, ask) for file in files}
    for one in types.values():
        for column, kind in layout.types(one).items():
            kinds[column].add(kind)
    parts = parts_of_files(group, types, can_use_arrow=can_use_arrow)
    given.rows |= group.rows
    return [(layout.select_sql(sql), layout.types(after), file) for sql, after, file in parts]


def _relation_without_rows(lake: LakeVersion, names: Sequence[str]) -> str:
    """Return SQL of a relation with the columns of a version, and without rows."""
    columns = tuple(
        (name, lake.columns[name].type, null_sql(lake.columns[name].type)) for name in names
    )
    return Layout((), columns).select_sql("(SELECT 1 WHERE false)")
