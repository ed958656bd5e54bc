"""The Spark engine: the same results as the engine duckdb, for tables too large for one machine.

Tasks read ranges of rows, or get rows from Spark. If privacy units have an id, Spark sends all rows
of a privacy unit to the same task. In each task DuckDB runs the statement of the query, up to sums
that can be added over all tasks. So every value is read, clamped and rounded by DuckDB, as on one
machine.

One job computes all tables that read the same rows of privacy units with ids, so that Spark groups
these rows only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.results.true_table import ExactTable, Integers, Partitions
from dprelease.exact.shared_scan import ScannedTables, ScannedVectors
from dprelease.exact.spark import jobs
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.executors.sums import BLOCK_CELLS, add_up
from dprelease.exact.spark.executors.unit_tasks import TableTask
from dprelease.exact.spark.jobs import Sums, sums_of_joint_tables, sums_of_statement
from dprelease.exact.spark.noise import (
    BlockNoise,
    Noise,
    Waves,
    exact_table,
    noisy_blocks_folder,
    read_noisy_blocks,
    remove_folder,
    sum_joint_tables,
    write_noisy_blocks,
)
from dprelease.exact.spark.sessions.attempts import (
    attempt,
    attempt_in_thread,
    reading_failure_error,
)
from dprelease.exact.spark.sessions.spark_session import (
    SparkSettings,
    is_application_alive,
    is_classic,
    open_session,
)
from dprelease.exact.spark.sessions.workers import require_same_versions
from dprelease.exact.spark.spark_input import DriverReader, SparkSources
from dprelease.exact.spark.spark_tables import StoredTable, find_stored_table, refuse_change
from dprelease.query.resolve import Query
from dprelease.query.scan_planning import MOST_NUMBERS, Scan, groups_bounded_together
from dprelease.query.unread import unsupported_by_spark_error
from dprelease.schema.load import Declared
from dprelease.statements.coded_rows import compile_scan
from dprelease.statements.partial import PartialQuery, compile_partial, compile_partial_partitions
from dprelease.system.prefetch import prefetch_chunks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


Read = Callable[[Sequence[Query]], Mapping[str, ExactTable]]


class SharedTables:
    """The tables of planned queries, several of which one job computes.

    Each table is held until its query runs.
    """

    def __init__(self, queries: Sequence[Query], read: Read) -> None:
        """Plan for queries, each of which will run once.

        `read`: a function that computes the tables of a group of queries in one job.
        """
        self._read = read
        self._coming: dict[str, tuple[Query, list[Query]]] = {}
        self._found: dict[str, ExactTable] = {}
        few = [query for query in queries if most_values([query]) <= MOST_NUMBERS // 4]
        groups = [group.queries for group in groups_bounded_together(few)] + _group_by_family(few)
        for part in (part for group in groups for part in _split_to_fit(group)):
            self._coming |= {query.name: (query, part) for query in part}

    def table(self, query: Query) -> ExactTable:
        """Return the table of a query; raises what `read` raises."""
        known, group = self._coming.pop(query.name, (None, None))
        if group is None or known is not query:
            self._found.pop(query.name, None)
            return self._read([query])[query.name]
        if query.name not in self._found:
            self._found |= self._read(group)
        return self._found.pop(query.name)


def most_values(queries: Sequence[Query]) -> int:
    """Return the maximum number of values in the true tables of queries."""
    return sum(
        query.keys.size * sum(m.aggregate.candidates or 1 for m in query.measurements)
        for query in queries
    )


def _group_by_family(queries: Sequence[Query]) -> list[list[Query]]:
    """Return groups of queries whose tables are sums of the same finest cells of privacy units.

    Only queries whose privacy units have ids are grouped.
    """
    families: dict[object, list[Query]] = {}
    for query in queries:
        if query.unit.id is not None and query.finest is not None:
            asked = tuple(measurement.aggregate for measurement in query.measurements)
            families.setdefault((id(query.finest), asked), []).append(query)
    return list(families.values())


def _split_to_fit(group: Sequence[Query]) -> list[list[Query]]:
    """Return the queries of a group in as few parts as fit in memory, in order."""
    parts: list[list[Query]] = [[]]
    for query in group:
        if parts[-1] and most_values([*parts[-1], query]) > MOST_NUMBERS:
            parts.append([])
        parts[-1].append(query)
    return parts


MOST_TASK_VALUES = 2**25
"""Maximum numbers of joint tables in each task of an executor: 256 MB."""

Task = TypeVar("Task")
Result = TypeVar("Result")

MANY_CELLS = 2**20
"""Minimum cells for which executors add the noise, if they have a folder to write to."""


class SparkEngine(QueryEngine):
    """An engine that reads one declared table, and the table joined to it, with Spark.

    `open` returns it as a context manager.
    """

    def __init__(
        self,
        spark: SparkSession,
        reader: DriverReader,
        settings: SparkSettings,
        stored: Sequence[StoredTable | None],
    ) -> None:
        self.declared = reader.declared
        self._spark, self._reader, self._settings = spark, reader, settings
        self._stored = stored
        self._sources = SparkSources(spark, reader, stored)
        self._closing = ExitStack()
        self.expect(())

    @classmethod
    @contextmanager
    def open(
        cls,
        declared: Declared,
        frame: object | None = None,
        joined: Declared | None = None,
        joined_frame: object | None = None,
        settings: SparkSettings | None = None,
    ) -> Iterator[SparkEngine]:
        """Yield an engine that reads the declared source, or `frame` instead of the source.

        Raises DataError: the errors of the engine duckdb; DP-SPARK-001 or 002 for a table that only
        Spark can read, and that Spark does not read unchanged; DP-SPARK-003 if Spark is not
        available, DP-SPARK-004 if its executors have other versions than the driver.
        """
        settings = settings or SparkSettings()
        with open_session(settings) as spark:
            # The executors of a kept application were checked when it started.
            if not is_application_alive():
                require_same_versions(spark)
            own = _find_spark_table(spark, declared, frame)
            other = None if joined is None else _find_spark_table(spark, joined, joined_frame)
            frame = frame if own is None else own.empty
            if other is not None:
                # Rows of a public table are sent along with the statements. Those of people stay
                # with Spark.
                public = other.declared.table.public
                joined_frame = other.rows() if public else other.empty
            with DriverReader.open(declared, frame, joined, joined_frame) as reader:
                engine = cls(spark, reader, settings, (own, other))
                with engine._closing:
                    yield engine

    def compile(self, query: Query) -> PartialQuery | None:
        """Return the statement that executors run; None if private keys must be selected first.

        Raises DataError: the errors of the engine duckdb; DP-SPARK-001 or 002 for sources that
        Spark could read differently.
        """
        self._reader.compile(query)
        at = self._sources.locate_inputs(query)
        if query.private is not None and not query.keys.keys:
            return None
        bounded = query.unit.id is not None
        return compile_partial(query, *self._sources.types(at), bounded=bounded)

    def expect(self, queries: Sequence[Query]) -> None:
        """Plan which upcoming queries are answered by one job."""
        driver_queries = [query for query in queries if not self._is_for_executors(query)]
        self._scanned = ScannedTables(driver_queries, self._read_table, self._scan_joint_tables)
        self._shared = SharedTables(driver_queries, self._tables_by_unit)

    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, which are zero for a cell without rows.

        Raises DataError: DP-DATA-006 if Spark fails, DP-DATA-007 if a file changed meanwhile.
        """
        self._reader.compile(query)
        return self._scanned.table(query)

    def noisy_vectors(self, query: Query, noise: Noise) -> Iterator[dict[str, Integers]] | None:
        """Return noised vectors, a block of cells at a time; None if executors don't add noise.

        Executors add noise to tables with many cells, if a folder is configured and Spark's driver
        is in this process. Through Spark Connect files can't be removed, so the noise is then added
        in this process.

        Raises DataError: the errors of `run`.
        """
        staging = self._settings.staging
        if staging is None or not self._is_for_executors(query):
            return None
        self._reader.compile(query)
        partial, sums = self._sums_of_query(query, BLOCK_CELLS)
        task = BlockNoise(partial, query.keys.size, noise, BLOCK_CELLS, Seal.fresh())
        folder = noisy_blocks_folder(staging, task.seal)
        # Registered before the first file is written, so that a failed job leaves no folder behind.
        self._closing.callback(remove_folder, self._spark, folder)
        self._attempt(lambda: write_noisy_blocks(self._spark, sums.frame(), task, folder))
        return self._read_back(task, folder)

    def spread(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the results of tasks that run on executors, one wave of tasks at a time.

        While the results of a wave are used, the next wave runs.

        Raises DataError: DP-DATA-006 if Spark fails.
        """
        failure = reading_failure_error(self.declared.table.name, self._reader.inputs[0].kind)
        waves = Waves(self._spark, work, tasks)
        following = iter(lambda: attempt_in_thread(waves.next_results, failure), [])
        with prefetch_chunks(following, "dprelease-waves") as made:
            for results in made:
                yield from results

    def _read_back(self, task: BlockNoise, folder: str) -> Iterator[dict[str, Integers]]:
        """Yield the noisy vectors of executors, to be read once; raises DP-DATA-006."""
        failure = reading_failure_error(self.declared.table.name, self._reader.inputs[0].kind)
        blocks = attempt_in_thread(lambda: read_noisy_blocks(self._spark, task, folder), failure)
        while (block := attempt_in_thread(lambda: next(blocks, None), failure)) is not None:
            yield block
        remove_folder(self._spark, folder)

    def partitions(self, query: Query) -> Partitions:
        """Return the partitions of a query with private keys, and their numbers of privacy units.

        Raises DataError: the errors of `run`.
        """
        self._reader.compile(query)
        at = self._sources.locate_inputs(query)
        sql = compile_partial_partitions(query, *self._sources.types(at))
        if query.unit.id is None:
            sums = sums_of_statement(
                self._spark, at[0], self._sources.public_data(query, ()), sql, 0
            )
        else:
            whole = TableTask(0, query.unit, 0, (), "", sql)
            job = jobs.job_over_stored_rows(self._sources, query, at, [whole])
            sums = job.sums(self._spark, 0)
        found = self._collect_sums(sums).get(0)
        if found is None:
            return Partitions([], np.zeros(0, dtype=np.int64))
        names = [name.decode() for name in found["name"].to_pylist()]
        return Partitions.of(names, np.asarray(found["m0"], dtype=np.int64))

    def _is_for_executors(self, query: Query) -> bool:
        """Return whether executors add the noise to a table."""
        large = query.keys.size >= MANY_CELLS
        return large and self._settings.staging is not None and is_classic(self._spark)

    def _read_table(self, query: Query) -> ExactTable:
        """Return the table of one query; if rows have ids, one job may compute several tables."""
        if query.unit.id is not None and query.private is None:
            return self._shared.table(query)
        partial, sums = self._sums_of_query(query)
        found = self._collect_sums(sums).get(0) if partial.sql else None
        return exact_table(query.name, partial, found, query.keys.size)

    def _sums_of_query(self, query: Query, block: int | None = None) -> tuple[PartialQuery, Sums]:
        """Return the statement of one query, and its sums, perhaps in blocks of `block` cells."""
        sources, numbers = self._sources, most_values([query])
        if query.unit.id is None:
            at = sources.locate_inputs(query)
            partial = compile_partial(query, *sources.types(at))
            public = sources.public_data(query, partial.key_tables)
            return partial, sums_of_statement(
                self._spark, at[0], public, partial.sql, numbers, block
            )
        (partial,), job = jobs.plan_unit_job(sources, [query])
        return partial, job.sums(self._spark, numbers, block)

    def _tables_by_unit(self, group: Sequence[Query]) -> dict[str, ExactTable]:
        """Return the tables of queries whose rows are grouped by unit."""
        partials, job = jobs.plan_unit_job(self._sources, group)
        found = self._collect_sums(job.sums(self._spark, most_values(group)))
        return {
            query.name: exact_table(query.name, partial, found.get(number), query.keys.size)
            for number, (query, partial) in enumerate(zip(group, partials, strict=True))
        }

    def _scan_joint_tables(self, scan: Scan) -> ScannedVectors | None:
        """Return the joint tables of a scan; None if they or their sums might not fit."""
        if scan.integer_count > MOST_TASK_VALUES:
            return None
        at = self._sources.locate_inputs(scan.query)
        compiled = compile_scan(scan, *self._sources.types(at))
        public = self._sources.public_data(scan.query, compiled.key_tables)
        sums = sums_of_joint_tables(self._spark, at[0], public, compiled)
        return self._attempt(lambda: sum_joint_tables(compiled.filled, sums.collect()))

    def _collect_sums(self, sums: Sums) -> dict[int, pa.Table]:
        """Return the sums over all rows, by the number of their table."""

        def gather() -> dict[int, pa.Table]:
            """Return the total of the partial sums of each table, by its number."""
            found = sums.collect()
            with task_link(Access()) as (link, _):
                return {n: add_up(link, tables, final=True) for n, tables in found.items()}

        return self._attempt(gather)

    def _attempt(self, work: Callable[[], Result]) -> Result:
        """Return the result of a job; raises DP-DATA-006, and DP-DATA-007 if a source changed."""
        format_ = self._reader.inputs[0].kind
        found = attempt(work, reading_failure_error(self.declared.table.name, format_))
        self._reader.refuse_change()
        for stored in self._stored:
            if stored is not None:
                refuse_change(self._spark, stored)
        return found


def _find_spark_table(
    spark: SparkSession, declared: Declared, frame: object | None
) -> StoredTable | None:
    """Return the table to read, if only Spark can read it.

    Raises DataError: DP-SPARK-001 for files in a store that only the engine duckdb reads.
    """
    source = declared.table.source
    if frame is not None or source is None or not source.is_only_for_spark:
        return None
    refusal = unsupported_by_spark_error(declared)
    if refusal is not None:
        raise refusal
    return find_stored_table(spark, declared)
