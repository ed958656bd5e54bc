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
from dprelease.exact.connection import connection, locking
from dprelease.exact.engine_api import Recording
from dprelease.exact.engine_memory import SHORT_OF_MEMORY, refuse_little
from dprelease.exact.finest_tables import FinestTables
from dprelease.exact.inputs import (
    Input,
    find_inputs,
    metadata_settings,
    refuse_duplicates,
    refuse_lacking,
    refuse_unstored,
)
from dprelease.exact.key_tables import KeyTables
from dprelease.exact.nan_safety import FloatColumns
from dprelease.exact.postgres.server_link import Servers, servers_of
from dprelease.exact.reading.error_locations import locate_errors
from dprelease.exact.reading.sources import OpenedSource, source_fields, stored_columns
from dprelease.exact.results.partitions import Partitions
from dprelease.exact.results.true_table import ExactTable
from dprelease.exact.results.vectors import batches, most_added
from dprelease.exact.settings import DEFAULT, Settings
from dprelease.exact.sorted_families import SortedFamilies
from dprelease.exact.sources.source_reader import reader_of
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
from dprelease.statements.compiler import KEPT
from dprelease.system.forks import Maker
from dprelease.system.signal_propagation import reraise_handler_errors

if TYPE_CHECKING:
    from dprelease.exact.bounding.shared_rows import HeldRows, SharedRows
    from dprelease.exact.results.true_records import ExactRecords
    from dprelease.exact.shared_scan import Scanned, ScannedTables
    from dprelease.query.local_records import Records
    from dprelease.query.scans.scan_planning import Scan
    from dprelease.query.scans.shared_sources import SharedSource
    from dprelease.statements.record_statements import CompiledRecords
    from dprelease.statements.rows_of_ids import CompiledRows

Result = TypeVar("Result")


class Engine(Recording):
    """A connection that can read one declared table, and one joined to it, and nothing else.

    After `open` the connection has no access to files beyond the declared ones, to the network, to
    extensions or to Python variables, and its settings are locked. Use it as a context manager.
    """

    _by_arrow: ClassVar[bool] = True
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
        steps = self._read_rows, self._register, self._bound, self._forget
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
        settings: Settings = DEFAULT,
        servers: Servers | None = None,
        queries: Sequence[Query] | None = None,
    ) -> Iterator[Self]:
        """Yield an engine over the declared source, or over `frame` in its place.

        `joined`: a second table, for queries that join it. `servers`: the connections of a run, for
        tables on servers; by default those of this engine alone. `queries`: all queries that it
        will run, where they are known.

        Raises
        ------
        DataError
            DP-DATA-001, 003, 008 or 009 if a source can't be opened as declared, DP-DATA-006 if a
            relation fails while it is fetched, DP-ENGINE-003 to 005 for unusable settings.
        """
        with ExitStack() as stack:
            tables = [(declared, frame), *([] if joined is None else [(joined, joined_frame)])]
            read = (table for table, given in tables if given is None)
            servers = servers or stack.enter_context(servers_of(read))
            inputs = find_inputs(tables, servers)
            scratch = stack.enter_context(settings.scratch())
            engine = cls(inputs, scratch, stack.enter_context(connection(scratch, settings)))
            engine._prepare(queries)
            yield engine

    def compile(self, query: Query) -> CompiledQuery:
        """Return the SQL of a query over the actual types of the source.

        Reads no row but the keys of a joined public table, which must be unique.

        Raises
        ------
        DataError
            DP-DATA-002 for a missing column, DP-DATA-004 or 005 for an unusable type, DP-DATA-012
            for a public table with a duplicate key.
        """
        if self._compiled is None or self._compiled[0] is not query:
            self._floats.refuse_others(query, [given.physical for given in self._inputs])
            refuse_unstored(self._inputs, query)
            if query.join is not None:
                refuse_duplicates(query, self._inputs[1], self._unique, self._ask)
            with locate_errors(self._inputs):
                self._compiled = query, compile_query(query, self.physical, self.joined_types)
        return self._compiled[1]

    def expect(self, queries: Sequence[Query]) -> None:
        """Plan which of these queries, each of which will run once, share a scan of the rows."""
        if len(queries) < 2:  # the code for reading several tables at once is slow to import
            return
        from dprelease.exact.shared_scan import ScannedTables

        self._tables = ScannedTables(queries, self._read, self._scan)
        if any(query.unit.id is not None for query in queries):
            from dprelease.exact.bounding.shared_rows import SharedRows

            self._rows = SharedRows(queries, self._load_shared_rows)

    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, which are zero for a cell without rows.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        return self._read(query) if self._tables is None else self._tables.table(query)

    def _read(self, query: Query) -> ExactTable:
        """Return the true table of a single query."""
        compiled, bounded = self.compile(query), None
        held = self._sorted.vectors(query, self.physical, self.joined_types)
        if held is not None:
            self.refuse_change()
            return ExactTable(query.name, query.keys.size, held)
        if query.finest is not None:
            compiled = self._families.prepare_statements(query, self.physical, self.joined_types)
        elif query.unit.id is not None:
            bounded = self._limit_in_memory(query)
        size = query.keys.size
        if bounded is None:
            self._register(self._reader.tables(compiled, size))
        compiled = bounded or compiled
        added = {m.name: most_added(m) for m in query.measurements}
        # Profiles are read first, because vectors may arrive in pieces.
        profiles = self._reader.profiles(compiled, size)
        table = ExactTable(query.name, size, self._reader.vectors(compiled, added, size), profiles)
        if bounded is not None and table.is_in_memory:
            self._forget()
        self.refuse_change()
        return table

    def _scan(self, scan: Scan) -> Scanned | None:
        """Return the joint tables of a scan; None if sums might not fit 64 bits."""
        from dprelease.exact.shared_scan import fill
        from dprelease.statements.scan import compile_scan

        compiled = compile_scan(scan, self.physical, self.joined_types)
        self._register(compiled.key_tables)

        def fill_from_batches(link: duckdb.DuckDBPyConnection) -> Scanned | None:
            with closing(batches(link, compiled.sql, compiled.wide)) as stream:
                return fill(stream, compiled.filled)

        scanned = self._read_rows(fill_from_batches)
        self.refuse_change()
        return scanned

    def _limit_in_memory(self, query: Query) -> CompiledQuery | None:
        """Return statements over rows that were bounded in memory; None if they can't be."""
        sql, compiled = compile_rows_within_limits(query, self.physical, self.joined_types)
        unit, cells = query.unit, query.keys.size
        if not sql:  # no row is needed: the keys were selected already
            return compiled
        self._forget()  # leftovers of a query that failed
        shared = None if self._rows is None else self._rows.of(query)
        if shared is not None:
            rows, columns = shared
            self._connection.register(
                KEPT, rows.select_rows(self._connection, columns, unit, cells)
            )
            return compiled
        self._register(compiled.key_tables)
        return compiled if self._bound(sql, unit, cells) else None

    def _bound(self, sql: str, unit: PrivacyUnit, cells: int) -> bool:
        """Create the table of the kept rows; return False, without a table, if they do not fit."""
        from dprelease.exact.bounding.bounding_in_memory import limit_contributions

        done = self._read_rows(lambda link: limit_contributions(link, sql, unit, cells))
        if not done:
            self._forget()
        return done

    def _load_shared_rows(
        self, sources: SharedSource, taken: int
    ) -> tuple[HeldRows, CompiledRows] | None:
        """Return the rows that several queries share, and their statement; None if they do not fit.

        `taken`: the bytes of other rows that are already held.
        """
        from dprelease.exact.bounding.shared_rows import HeldRows
        from dprelease.statements.rows_of_ids import compile_rows

        compiled = compile_rows(sources, self.physical, self.joined_types)
        self._register(compiled.key_tables)
        rows = self._read_rows(lambda link: HeldRows.read(link, compiled, taken))
        return None if rows is None else (rows, compiled)

    def refuse_change(self) -> None:
        """Raise DP-DATA-007 if a file changed since it was opened."""
        for given in self._inputs:
            if given.has_changed:
                raise DataError("DP-DATA-007", table=given.declared.table.name, state=State.READ)

    def _forget(self) -> None:
        drop = f"DROP TABLE IF EXISTS {KEPT}"
        self._read_rows(lambda link: link.unregister(KEPT).execute(drop))

    def partitions(self, query: Query) -> Partitions:
        """Return the partitions of a query with private keys, and their numbers of privacy units.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        self.compile(query)
        sql = compile_partitions(query, self.physical, self.joined_types)
        columns = self._read_rows(lambda link: link.execute(sql).fetchnumpy())
        self.refuse_change()
        return Partitions.of(list(columns["cell"]), np.asarray(columns["n"], dtype=np.int64))

    def compile_records(self, records: Records) -> CompiledRecords:
        """Return the SQL of records over the actual types of the source.

        Raises
        ------
        DataError
            DP-DATA-002 for a missing column, DP-DATA-004 for an unusable type.
        """
        from dprelease.statements.record_statements import compile_records, stored_columns_of

        refuse_lacking(self._inputs[0], stored_columns_of(records))
        with locate_errors(self._inputs):
            return compile_records(records, self.physical)

    def records(self, records: Records) -> ExactRecords:
        """Return the true records, in the order of the source, which must never be published.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        from dprelease.exact.results.true_records import exact_records

        compiled = self.compile_records(records)
        read = self._read_rows(lambda link: link.sql(compiled.sql).to_arrow_table())
        self.refuse_change()
        return exact_records(records.name, compiled, read)

    def _read_rows(self, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        return self._attempt("DP-DATA-006", State.READ, work)

    def _register(self, tables: Iterable[KeyTable]) -> None:
        """Create those tables (code, value) of public values that do not exist yet."""
        self._read_rows(lambda link: self._keys.make(link, tables))

    def let_go(self) -> None:
        """Drop the finest cells of a family, and all tables of keys; see `Answering.let_go`."""
        self._sorted.let_go()
        self._families.let_go()
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
                code = "DP-DATA-006" if isinstance(problem, SHORT_OF_MEMORY) else code
                fields = source_fields(given.declared, given.opened is not None)
                failure = DataError(code, state=state, **fields, format=given.kind)
        raise failure

    def _prepare(self, queries: Sequence[Query] | None) -> None:
        """Register the sources, read their types, and then refuse access to everything else."""
        for statement in metadata_settings(self._inputs):
            self._ask(statement, self._inputs[0])
        refuse_little(self._connection, self._inputs)
        for given in self._inputs:
            with locate_errors([given]):
                self._introduce(given)
        self._floats = FloatColumns.of([given.physical for given in self._inputs], queries)
        locks = locking([file for given in self._inputs for file in given.accessible_paths])
        self._ask("; ".join([*self._floats.settings, *locks]), self._inputs[0])

    def _introduce(self, given: Input) -> None:
        """Define the relation of an input, and read the types of its stored columns."""
        relation = given.relation
        if given.opened is not None:
            for statement in given.opened.attach:
                self._ask(statement, given)
            relation = self._relation_to_read(given, given.opened)
        self._learn(given.describe, given)
        if relation != given.relation:
            self._ask(f"CREATE VIEW {given.relation} AS SELECT * FROM {relation}", given)
        if given.physical:
            return  # the metadata of its file has the types
        rows = self._ask(f"DESCRIBE {given.relation}", given)
        stored = {str(name): str(kind) for name, kind, *_ in rows}
        stored |= {name: kind for name, kind in given.coarse.items() if name in stored}
        stored |= given.objects
        given.physical = {n: stored[n] for n in stored_columns(given.declared) if n in stored}

    def _relation_to_read(self, given: Input, opened: OpenedSource) -> str:
        """Return the relation to read, in which each file is read by the file's own types."""
        source = given.declared.table.source
        if not opened.relation or source is None:
            return given.relation
        if opened.reader is not None:
            return given.place_copies(self._scratch)
        ask, by_arrow = partial(self._ask, given=given), self._by_arrow
        return reader_of(source.type).relation(given, opened.relation, ask, by_arrow=by_arrow)

    def _ask(self, sql: str, given: Input) -> list[Any]:
        """Return the rows of a statement that reads no row about people."""
        return self._learn(lambda link: link.execute(sql).fetchall(), given)

    def _learn(self, work: Callable[[duckdb.DuckDBPyConnection], Result], given: Input) -> Result:
        return self._attempt("DP-DATA-001", State.NOTHING, work, given)
