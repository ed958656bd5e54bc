"""The DuckDB engine: one private, locked connection for each table of a run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb
import numpy as np

from dprelease.errors import DataError, DpReleaseError, State
from dprelease.exact.frames import to_arrow
from dprelease.exact.records import ExactRecords, exact_records
from dprelease.exact.scratch import make_private, remove_stale
from dprelease.exact.sources import Opened, open_files, pattern, stored_columns
from dprelease.exact.table import ExactTable
from dprelease.query import quoting
from dprelease.query.records import Records
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.statements.compiler import SOURCE, Compiled, compile_query, needed_columns
from dprelease.statements.records import CompiledRecords, compile_records, stored_columns_of
from dprelease.statements.treatment import FLOATS, base_type

SCRATCH = "dprelease-scratch-"
Result = TypeVar("Result")


class Engine:
    """A connection that can read one declared table and nothing else.

    After `open` the connection has no access to files beyond the declared ones, to the network, to
    extensions or to Python variables, and its settings are locked. Use it as a context manager.
    """

    def __init__(self, declared: Declared, opened: Opened | None, scratch: Path) -> None:
        self.declared = declared
        self._opened = opened
        self._scratch = scratch
        self._stamps = _stamps(opened)
        self._connection = duckdb.connect(
            config={
                "temp_directory": str(scratch),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            }
        )
        self.physical: dict[str, str] = {}

    @classmethod
    @contextmanager
    def open(cls, declared: Declared, frame: object | None = None) -> Iterator[Self]:
        """Yield an engine over the declared source, or over `frame` in its place.

        Raises
        ------
        DataError
            DP-DATA-001, 003, 008 or 009 if the source can't be opened as declared.
        """
        source = declared.table.source
        arrow = None if frame is None else to_arrow(frame, declared)
        opened = None
        if arrow is None:
            if source is None or source.path is None:
                raise DataError("DP-DATA-008", table=declared.table.name)
            opened = open_files(declared, source)
        temporary = Path(tempfile.gettempdir())
        remove_stale(temporary, SCRATCH)
        scratch = make_private(temporary, SCRATCH)
        try:
            engine = cls(declared, opened, scratch)
            try:
                engine._prepare(arrow)
                yield engine
            finally:
                engine._connection.close()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def compile(self, query: Query) -> Compiled:
        """Return the SQL of a query over the types that the source really has.

        Raises
        ------
        DataError
            DP-DATA-002 for a missing column, DP-DATA-004 or 005 for a type that can't serve.
        """
        for name in needed_columns(query):
            if name not in self.physical:
                raise DataError("DP-DATA-002", table=self.declared.table.name, column=name)
        unit = query.unit.id
        if unit is not None and base_type(self.physical[unit]) in FLOATS:
            raise DataError("DP-DATA-005", column=unit)
        return compile_query(query, self.physical)

    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, zero where there is no row.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        compiled = self.compile(query)
        for table in compiled.key_tables:
            self._register_keys(table.name, table.values)
        # Rows are fetched inside the attempt: the engine is lazy, and may fail only now.
        found = self._attempt(
            "DP-DATA-006", State.READ, lambda link: link.execute(compiled.sql).fetchnumpy()
        )
        if _stamps(self._opened) != self._stamps:
            raise DataError("DP-DATA-007", table=self.declared.table.name, state=State.READ)
        size = query.keys.size
        cells = np.asarray(found["cell"], dtype=np.int64)
        vectors = {}
        for i, name in enumerate(compiled.columns):
            vector = np.zeros(size, dtype=np.int64)
            vector[cells] = np.asarray(found[f"m{i}"], dtype=np.int64)
            vectors[name] = vector
        return ExactTable(query.name, size, vectors)

    def compile_records(self, records: Records) -> CompiledRecords:
        """Return the SQL of records over the types that the source really has.

        Raises
        ------
        DataError
            DP-DATA-002 for a missing column, DP-DATA-004 for a type that can't serve.
        """
        for name in stored_columns_of(records):
            if name not in self.physical:
                raise DataError("DP-DATA-002", table=self.declared.table.name, column=name)
        return compile_records(records, self.physical)

    def records(self, records: Records) -> ExactRecords:
        """Return the true records, in the order of the source.

        The engine keeps that order for a SELECT without a join, a filter or a grouping (setting
        preserve_insertion_order), so that no value can move a record.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        compiled = self.compile_records(records)
        read = self._attempt(
            "DP-DATA-006", State.READ, lambda link: link.sql(compiled.sql).to_arrow_table()
        )
        if _stamps(self._opened) != self._stamps:
            raise DataError("DP-DATA-007", table=self.declared.table.name, state=State.READ)
        return exact_records(records.name, compiled, read)

    def _register_keys(self, name: str, values: tuple[str, ...]) -> None:
        """Make a table (code, value) of public values, given as a parameter."""
        columns = "unnest(range(len($1))) AS code, unnest($1::VARCHAR[]) AS value"
        sql = f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {columns}"
        parameters = [list(values)]
        self._attempt("DP-DATA-006", State.READ, lambda link: link.execute(sql, parameters))

    def _attempt(
        self, code: str, state: State, work: Callable[[duckdb.DuckDBPyConnection], Result]
    ) -> Result:
        """Work on the connection; the engine's own words, which may quote a cell, go no further."""
        failure: DpReleaseError | None = None
        try:
            return work(self._connection)
        except (duckdb.Error, MemoryError):
            source = self.declared.table.source
            kind = "a frame" if source is None else source.kind or "a frame"
            table = self.declared.table.name
            failure = DataError(code, state=state, table=table, format=kind)
        raise failure

    def _prepare(self, arrow: object | None) -> None:
        """Make the source known, learn its types, and lock everything else out."""
        self._ask("SET TimeZone = 'UTC'")
        self._ask("SET preserve_insertion_order = true")  # records may not move by their values
        if self._opened is None:
            self._attempt("DP-DATA-001", State.NOTHING, lambda link: link.register(SOURCE, arrow))
        else:
            for statement in self._opened.attach:
                self._ask(statement)
            self._refuse_twins()
            self._ask(f"CREATE VIEW {SOURCE} AS SELECT * FROM {self._opened.relation}")
        rows = self._ask(f"DESCRIBE {SOURCE}")
        stored = {str(name): str(kind) for name, kind, *_ in rows}
        self.physical = {n: stored[n] for n in stored_columns(self.declared) if n in stored}
        self._lock()

    def _refuse_twins(self) -> None:
        """Refuse Parquet files whose names differ by case, from each other or from the declared.

        The engine would rename one, or take one file's column for another's.
        """
        source = self.declared.table.source
        if self._opened is None or source is None or source.kind != "parquet":
            return
        for file in self._opened.files:
            sql = f"SELECT name, num_children FROM parquet_schema({quoting.text(pattern(file))})"
            rows = self._ask(sql)
            stored = _top_level(rows)
            for name in stored_columns(self.declared):
                same = [other for other in stored if other.casefold() == name.casefold()]
                if same not in ([], [name]):
                    code = "DP-DATA-003" if len(same) > 1 else "DP-DATA-002"
                    raise DataError(code, table=self.declared.table.name, column=name)

    def _lock(self) -> None:
        files = self._opened.files if self._opened else ()
        # A file whose name looks like a pattern is asked for by an escaped name.
        spelled = {name for file in files for name in (str(file), pattern(file))}
        allowed = ", ".join(quoting.text(name) for name in sorted(spelled))
        for setting in (
            f"SET allowed_paths = [{allowed}]",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            self._ask(setting)

    def _ask(self, sql: str) -> list[Any]:
        """Return the rows of a statement that reads no row of the source."""
        return self._attempt(
            "DP-DATA-001", State.NOTHING, lambda link: link.execute(sql).fetchall()
        )


def _top_level(rows: list[tuple[str, int | None]]) -> list[str]:
    """Return the names of a Parquet file's columns; `rows` is its schema tree, parents first."""
    names, skip = [], 0
    for name, children in rows[1:]:
        if skip == 0:
            names.append(name)
        else:
            skip -= 1
        skip += children or 0
    return names


def _stamps(opened: Opened | None) -> list[tuple[int, int, int]]:
    """Return what changes when a file is replaced or written to."""
    files = opened.files if opened else ()
    found = []
    for file in files:
        try:
            stat = file.stat()
        except OSError:
            found.append((0, 0, 0))  # gone meanwhile
        else:
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return found
