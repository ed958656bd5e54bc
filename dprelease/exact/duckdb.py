"""The engine duckdb: a private, locked connection for each table, or pair of tables, of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from dprelease.errors import DataError, DpReleaseError, State
from dprelease.exact import input_checks
from dprelease.exact.connection import OUT_OF_MEMORY_ERRORS, lock_statements, open_connection
from dprelease.exact.engine_api import RecordEngine, tables_to_open
from dprelease.exact.families import FinestTables, SortedFamilies
from dprelease.exact.inputs import Input, cache_statements, find_inputs
from dprelease.exact.key_tables import KeyTables
from dprelease.exact.nan_safety import DISABLE_STATISTICS, FloatColumns
from dprelease.exact.postgres.server_link import Servers, open_servers
from dprelease.exact.reading.file_unions import union_of_parts
from dprelease.exact.reading.person_lookups import rows_of_persons
from dprelease.exact.reading.sources import (
    OpenedSource,
    locate_errors,
    source_fields,
    stored_columns,
)
from dprelease.exact.results.true_table import ExactTable, Partitions
from dprelease.exact.results.vectors import fetch_batches, most_added
from dprelease.exact.settings import DEFAULT_SETTINGS, Settings
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.sources.text_files_reader import require_memory_for_text_files
from dprelease.exact.table_reader import TableReader
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.statements.compiled_queries import (
    compile_partitions,
    compile_query,
    compile_rows_within_limits,
)
from dprelease.statements.compiled_statements import CompiledQuery, KeyTable
from dprelease.statements.compiler import KEPT_RELATION
from dprelease.system.deferred_signals import reraise_handler_errors
from dprelease.system.forks import Maker

if TYPE_CHECKING:
    from dprelease.exact.bounding.shared_rows import HeldRows, SharedRows
    from dprelease.exact.results.true_records import ExactRecords
    from dprelease.exact.shared_scan import ScannedTables, ScannedVectors
    from dprelease.query.local_records import Records
    from dprelease.query.scan_planning import Scan, SharedSource
    from dprelease.statements.coded_rows import CompiledRows
    from dprelease.statements.record_statements import CompiledRecords

Result = TypeVar("Result")


class Engine(RecordEngine):
    """A connection that can read one declared table and the table joined to it, and nothing else.

    After `open` the connection has no access to files beyond the declared ones, to the network, to
    extensions or to Python variables, and its settings are locked. Use it as a context manager.
    """

    _can_use_arrow: ClassVar[bool] = True
    """Whether Arrow reads rows that the engine can't read unchanged."""

    def __init__(self, inputs: list[Input], scratch: Path, link: duckdb.DuckDBPyConnection) -> None:
        self.declared = inputs[0].declared
        self._inputs, self._scratch = inputs, scratch
        self._floats = FloatColumns(())
        self._unique: set[str] = set()
        self._compiled: tuple[Query, CompiledQuery] | None = None
        self._keys = KeyTables()
        self._tables: ScannedTables | None = None
        self._rows: SharedRows | None = None
        self._maker = Maker()
        self._connection = link
        self._reader = TableReader(self._read_rows, scratch)
        steps = self._read_rows, self._add_key_tables, self._create_kept_rows, self._drop_kept_rows
        self._families = FinestTables(*steps)
        self._sorted = SortedFamilies(*steps, scratch)

    @property
    def physical(self) -> dict[str, str]:
        """Return the engine's types of the table's stored columns."""
        return self._inputs[0].physical

    @property
    def joined_types(self) -> dict[str, str]:
        """Return the engine's types of the joined table's stored columns."""
        return self._inputs[1].physical if len(self._inputs) > 1 else {}

    @classmethod
    @contextmanager
    def open(
        cls,
        declared: Declared,
        frame: object | None = None,
        joined: Declared | None = None,
        joined_frame: object | None = None,
        settings: Settings = DEFAULT_SETTINGS,
        servers: Servers | None = None,
        queries: Sequence[Query] | None = None,
    ) -> Iterator[Self]:
        """Yield an engine that reads the declared source, or `frame` instead of the source.

        `joined`: the declaration of a second table, for queries that join it. `servers`: the
        connections of a run to servers; if None, the engine opens its own connections. `queries`:
        all queries that the engine will run; None if they are not known.

        Raises DataError: DP-DATA-001, 003, 008 or 009 if a source can't be opened as declared,
        DP-DATA-006 if a relation fails while it is fetched, DP-ENGINE-003 to 005 for unusable
        settings.
        """
        with ExitStack() as stack:
            tables = [(declared, frame), *([] if joined is None else [(joined, joined_frame)])]
            read = (one for table, given in tables for one in tables_to_open(table, given))
            servers = servers or stack.enter_context(open_servers(read, settings))
            inputs = find_inputs(tables, servers)
            scratch = stack.enter_context(settings.scratch())
            engine = cls(inputs, scratch, stack.enter_context(open_connection(scratch, settings)))
            engine._register_and_lock(queries)
            yield engine

    def compile(self, query: Query) -> CompiledQuery:
        """Return the SQL of a query over the actual types of the source.

        The method reads no row except the keys of a joined public table, which must be unique.

        Raises DataError: DP-DATA-002 for a missing column, DP-DATA-004 or 005 for an unusable type,
        DP-DATA-012 for a public table with a duplicate key.
        """
        if self._compiled is None or self._compiled[0] is not query:
            self._floats.refuse_others(query, [given.physical for given in self._inputs])
            input_checks.refuse_unusable_columns(self._inputs, query)
            if query.join is not None:
                input_checks.refuse_duplicate_keys(
                    query, self._inputs[1], self._unique, self._query_metadata
                )
            with locate_errors(self._inputs):
                self._compiled = query, compile_query(query, self.physical, self.joined_types)
        return self._compiled[1]

    def expect(self, queries: Sequence[Query]) -> None:
        """Plan which of these queries, each of which will run once, share a scan of the rows."""
        if len(queries) < 2:  # the code for reading several tables at once is slow to import
            return
        from dprelease.exact.shared_scan import ScannedTables

        self._tables = ScannedTables(queries, self._read_table, self._scan_joint_tables)
        if any(query.unit.id is not None for query in queries):
            from dprelease.exact.bounding.shared_rows import SharedRows

            self._rows = SharedRows(queries, self._load_shared_rows)

    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, which are zero for a cell without rows.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        return self._read_table(query) if self._tables is None else self._tables.table(query)

    def _read_table(self, query: Query) -> ExactTable:
        """Return the true table of one query, read without other queries."""
        compiled, bounded = self.compile(query), None
        held = self._sorted.vectors(query, self.physical, self.joined_types)
        if held is not None:
            self.refuse_change()
            return ExactTable(query.name, query.keys.size, held)
        if query.finest is not None:
            compiled = self._families.prepare_statements(query, self.physical, self.joined_types)
        elif query.unit.id is not None:
            bounded = self._statements_over_kept_rows(query)
        size = query.keys.size
        if bounded is None:
            self._add_key_tables(self._reader.tables(compiled, size))
        compiled = bounded or compiled
        added = {m.name: most_added(m) for m in query.measurements}
        # Profiles are read first, because vectors may arrive in pieces.
        profiles = self._reader.profiles(compiled, size)
        table = ExactTable(query.name, size, self._reader.vectors(compiled, added, size), profiles)
        if bounded is not None and table.is_in_memory:
            self._drop_kept_rows()
        self.refuse_change()
        return table

    def _scan_joint_tables(self, scan: Scan) -> ScannedVectors | None:
        """Return the joint tables of a scan; None if their sums might exceed 64 bits."""
        from dprelease.exact.shared_scan import fill_joint_tables
        from dprelease.statements.coded_rows import compile_scan

        compiled = compile_scan(scan, self.physical, self.joined_types)
        self._add_key_tables(compiled.key_tables)

        def fill_from_batches(link: duckdb.DuckDBPyConnection) -> ScannedVectors | None:
            with closing(fetch_batches(link, compiled.sql, compiled.wide)) as stream:
                return fill_joint_tables(stream, compiled.filled)

        scanned = self._read_rows(fill_from_batches)
        self.refuse_change()
        return scanned

    def _statements_over_kept_rows(self, query: Query) -> CompiledQuery | None:
        """Return statements over rows that are kept in memory; None if they can't be kept there."""
        sql, compiled = compile_rows_within_limits(query, self.physical, self.joined_types)
        unit, cells = query.unit, query.keys.size
        if not sql:  # no row is needed: the keys were selected already
            return compiled
        self._drop_kept_rows()  # leftovers of a query that failed
        shared = None if self._rows is None else self._rows.of(query)
        if shared is not None:
            rows, columns = shared
            self._connection.register(
                KEPT_RELATION, rows.select_rows(self._connection, columns, unit, cells)
            )
            return compiled
        self._add_key_tables(compiled.key_tables)
        return compiled if self._create_kept_rows(sql, unit, cells) else None

    def _create_kept_rows(self, sql: str, unit: PrivacyUnit, cells: int) -> bool:
        """Create the table of the kept rows; return False, without a table, if they do not fit."""
        from dprelease.exact.bounding.bounding_in_memory import limit_contributions

        done = self._read_rows(lambda link: limit_contributions(link, sql, unit, cells))
        if not done:
            self._drop_kept_rows()
        return done

    def _load_shared_rows(
        self, sources: SharedSource, taken: int
    ) -> tuple[HeldRows, CompiledRows] | None:
        """Return the rows that several queries share, and their statement; None if they do not fit.

        `taken`: the bytes of other rows that are already held.
        """
        from dprelease.exact.bounding.shared_rows import HeldRows
        from dprelease.statements.coded_rows import compile_rows

        compiled = compile_rows(sources, self.physical, self.joined_types)
        self._add_key_tables(compiled.key_tables)
        rows = self._read_rows(lambda link: HeldRows.read(link, compiled, taken))
        return None if rows is None else (rows, compiled)

    def refuse_change(self) -> None:
        """Raise DP-DATA-007 if a file changed since it was opened."""
        for given in self._inputs:
            if given.has_changed:
                raise DataError("DP-DATA-007", table=given.declared.table.name, state=State.READ)

    def _drop_kept_rows(self) -> None:
        drop = f"DROP TABLE IF EXISTS {KEPT_RELATION}"
        self._read_rows(lambda link: link.unregister(KEPT_RELATION).execute(drop))

    def partitions(self, query: Query) -> Partitions:
        """Return the partitions of a query with private keys, and their numbers of privacy units.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        self.compile(query)
        sql = compile_partitions(query, self.physical, self.joined_types)
        columns = self._read_rows(lambda link: link.execute(sql).fetchnumpy())
        self.refuse_change()
        return Partitions.of(list(columns["cell"]), np.asarray(columns["n"], dtype=np.int64))

    def compile_records(self, records: Records) -> CompiledRecords:
        """Return the SQL of records over the actual types of the source.

        Raises DataError: DP-DATA-002 for a missing column, DP-DATA-004 for an unusable type.
        """
        from dprelease.statements.record_statements import compile_records, stored_columns_of

        input_checks.refuse_missing_columns(self._inputs[0], stored_columns_of(records))
        with locate_errors(self._inputs):
            return compile_records(records, self.physical)

    def records(self, records: Records) -> ExactRecords:
        """Return the true records, in the order of the source, which must never be published.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        from dprelease.exact.results.true_records import exact_records

        compiled = self.compile_records(records)
        read = self._read_rows(lambda link: link.sql(compiled.sql).to_arrow_table())
        self.refuse_change()
        return exact_records(records.name, compiled, read)

    def _read_rows(self, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        return self._attempt("DP-DATA-006", State.READ, work)

    def _add_key_tables(self, tables: Iterable[KeyTable]) -> None:
        """Create the tables (code, value) of public values that do not exist yet."""
        self._read_rows(lambda link: self._keys.make(link, tables))

    def drop_shared_data(self) -> None:
        """Drop the finest cells of a family, and all tables of keys."""
        self._sorted.drop_shared_data()
        self._families.drop_shared_data()
        self._read_rows(self._keys.drop)

    def _attempt(
        self,
        code: str,
        state: State,
        work: Callable[[duckdb.DuckDBPyConnection], Result],
        given: Input | None = None,
    ) -> Result:
        """Return the result of work on the connection; raise `code` if the engine fails.

        The engine's message is dropped, because it may quote a cell.
        """
        failure: DpReleaseError | None = None
        if not self._maker.is_here:
            raise DataError("DP-DATA-019", table=self.declared.table.name)
        with reraise_handler_errors():
            try:
                if state is State.READ:  # relations run only when their rows are needed
                    for relation in self._inputs:
                        relation.fetch(self._connection)
                return work(self._connection)
            except (duckdb.Error, MemoryError, OSError, ValueError, pa.ArrowException) as problem:
                given = given or self._inputs[0]
                code = "DP-DATA-006" if isinstance(problem, OUT_OF_MEMORY_ERRORS) else code
                fields = source_fields(given.declared, given.opened is not None)
                failure = DataError(code, state=state, **fields, format=given.kind)
        raise failure

    def _register_and_lock(self, queries: Sequence[Query] | None) -> None:
        """Register the sources, read their types, and then refuse access to everything else."""
        for statement in cache_statements(self._inputs):
            self._query_metadata(statement, self._inputs[0])
        require_memory_for_text_files(self._connection, self._inputs)
        for given in self._inputs:
            with locate_errors([given]):
                self._define_relation(given)
        self._floats = FloatColumns.of([given.physical for given in self._inputs], queries)
        # No setting can be changed after the locks, so the one for NaN comes first.
        locks = lock_statements([file for given in self._inputs for file in given.accessible_paths])
        settings = [DISABLE_STATISTICS] if self._may_read_nan() else []
        self._query_metadata("; ".join([*settings, *locks]), self._inputs[0])

    def _may_read_nan(self) -> bool:
        """Return whether a query may read floats, also those that are texts in a union of files."""
        parts = [part for given in self._inputs for part in given.nested]
        return (
            self._floats.has_any
            or FloatColumns.of([part.physical for part in parts], None).has_any
            or any(given.types_differ for given in [*self._inputs, *parts])
        )

    def _define_relation(self, given: Input) -> None:
        """Define the relation of an input, and read the types of its stored columns."""
        relation = given.relation
        if given.opened is not None:
            for statement in given.opened.attach:
                self._query_metadata(statement, given)
            relation = self._relation_to_read(given, given.opened)
        for part in given.parts:
            with locate_errors([part]):
                self._define_relation(part)
        if given.parts:
            relation = rows_of_persons(given) if given.has_lookup else union_of_parts(given)
        self._set_up(given.describe, given)
        if relation != given.relation:
            self._query_metadata(f"CREATE VIEW {given.relation} AS SELECT * FROM {relation}", given)
        if given.physical:
            return  # the types were read from the metadata of the file
        rows = self._query_metadata(f"DESCRIBE {given.relation}", given)
        stored = {str(name): str(kind) for name, kind, *_ in rows}
        stored |= {name: kind for name, kind in given.millisecond_columns.items() if name in stored}
        stored |= given.object_columns
        given.physical = {n: stored[n] for n in stored_columns(given.declared) if n in stored}

    def _relation_to_read(self, given: Input, opened: OpenedSource) -> str:
        """Return the relation to read, in which each file is read by the file's own types."""
        source = given.declared.table.source
        if not opened.relation or source is None:
            return given.relation
        if opened.reader is not None:
            return given.place_copies(self._scratch)
        ask, can_use_arrow = partial(self._query_metadata, given=given), self._can_use_arrow
        return reader_of(source.type).relation(
            given, opened.relation, ask, can_use_arrow=can_use_arrow
        )

    def _query_metadata(self, sql: str, given: Input) -> list[Any]:
        """Return the rows of a statement that reads no row about people."""
        return self._set_up(lambda link: link.execute(sql).fetchall(), given)

    def _set_up(self, work: Callable[[duckdb.DuckDBPyConnection], Result], given: Input) -> Result:
        return self._attempt("DP-DATA-001", State.NOTHING, work, given)
