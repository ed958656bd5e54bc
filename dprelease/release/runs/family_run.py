"""Add noise to the tables of one release and write them, family after family.

A query is published in batches of cells, so memory does not grow with the number of cells. True
vectors are held in memory (see `exact/results/vectors.py`), and so are selections and private keys;
values that are noised elsewhere arrive batch by batch. One worker thread computes noise,
post-processing and Arrow arrays of a batch, while the previous batch is encoded and written. All
code that draws randomness or uses ball arithmetic runs in that thread: there is one stream of bits
in one order, whatever the timing of threads, and one precision context.

Another thread writes the files of tables while noise is added to the following tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dprelease.documents.encoding import sha256_of
from dprelease.documents.file_records import FileDigest, PartRecord, files_of_parts
from dprelease.documents.metadata import Metadata, field_notes
from dprelease.exact.engine_api import QueryEngine
from dprelease.noise.noised_answers import answer_query, noisy_batches
from dprelease.noise.noised_vectors import NoisyTable
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.postprocess.families import Family, FamilyStep, FamilyTable
from dprelease.postprocess.partition import Parts
from dprelease.release.execute import Publication
from dprelease.system.deferred_signals import defer_signals
from dprelease.system.prefetch import prefetch_chunks
from dprelease.tables import formats
from dprelease.tables.family_tables import (
    MeasuredTables,
    Piece,
    published_table,
    split_into_parts,
    step_tables,
)
from dprelease.tables.field_notes import Notes, noted_tables, with_field_notes
from dprelease.tables.formats import ROW_GROUP
from dprelease.tables.published_tables import PublishedTables

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import pyarrow as pa


WriteTask = Callable[[], dict[str, FileDigest]]
"""A function that writes noised tables, and returns the digests of their files by name."""

MOST_WAITING_TABLES = 2
"""Maximum number of tables in memory in addition to the one that is being noised."""


class TableWriters:
    """Writes tables whose rows are complete, in a thread if there is one, else in the caller."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool
        self._coming: deque[Future[dict[str, FileDigest]]] = deque()
        self._written: dict[str, FileDigest] = {}

    def write(self, work: WriteTask, *, at_once: bool = False) -> None:
        """Write some tables, or submit them to the thread; raises errors of earlier tables.

        `at_once`: whether the caller writes, because the rows are still being produced.
        """
        self._wait_for_tasks(0 if at_once else MOST_WAITING_TABLES - 1)
        coming = None if at_once else self._submit(work)
        if coming is None:
            self._written |= work()
        else:
            self._coming.append(coming)

    def finish(self) -> dict[str, FileDigest]:
        """Return the digests of all written tables in order; raises the same errors as `write`."""
        self._wait_for_tasks(0)
        return self._written

    def _wait_for_tasks(self, left: int) -> None:
        """Wait until at most `left` tables remain to be written, and keep their digests."""
        while len(self._coming) > left:
            self._written |= self._coming.popleft().result()

    def _submit(self, work: WriteTask) -> Future[dict[str, FileDigest]] | None:
        """Submit work to the thread; return None without a thread, or if it can't be started."""
        if self._pool is None:
            return None
        try:
            with defer_signals():  # the pool must know every started thread
                return self._pool.submit(work)
        except RuntimeError:  # no thread has started, so nothing else would run the work
            self._pool = None
            return None


@contextmanager
def table_writers(tables: int) -> Iterator[TableWriters]:
    """Yield the writer for this number of tables of a release; its thread ends with the block.

    The thread ends first, even after signals, because a failed release removes the folder next. For
    a single table no thread is started.
    """
    if tables < 2:
        yield TableWriters(None)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, "dprelease-write")
    try:
        yield TableWriters(pool)
    finally:
        with defer_signals():
            pool.shutdown(cancel_futures=True)


class TableMaker(Protocol):
    """Builds Arrow tables of noised cells, batch after batch."""

    def of(self, noisy: NoisyTable) -> pa.Table:
        """Return the Arrow table of the next noised cells."""
        ...


@contextmanager
def streaming(
    engine: QueryEngine,
    columns: Sequence[PlannedColumn],
    bits: BitSource,
    most: int = ROW_GROUP,
    shown: Callable[[Sequence[PlannedColumn]], TableMaker] = PublishedTables,
) -> Iterator[Iterator[pa.Table]]:
    """Yield the table of one query as Arrow tables of `most` rows, in key order.

    `columns`: all planned columns of the query. `shown`: converts noised integers into the written
    columns, which are the published columns or the measurements. Concatenated, the tables equal the
    result of `answer_query` and `shown` bit by bit, for the same stream of random bits. At the end
    no thread is running.

    Raises DataError: the errors of `QueryEngine.run`.
    """
    query = columns[0].query
    if query.private is not None:
        answer = answer_query(engine, columns, bits)
        yield iter([shown(answer.columns).of(answer.noisy)])
        return
    batches = noisy_batches(engine, query, columns, bits, most)
    tables = shown(columns)
    chunks = (tables.of(noisy) for noisy in batches)
    with prefetch_chunks(chunks, "dprelease-noise", few=query.keys.size <= most) as made:
        yield made


def write_family_tables(
    plan: Plan,
    engines: Mapping[str, QueryEngine],
    bits: BitSource,
    release: Publication,
    metadata: Metadata,
    progress: Callable[[str], None],
) -> dict[str, FileDigest]:
    """Write all tables into a release's private folder, and return their digests by name.

    A table of few cells is written while noise is added to the next one. The same holds for
    measurements of a family with a step; the step reads them from the files that will be published,
    as a verifier does. `metadata`: the column metadata of the files.

    Raises DataError: the errors of `QueryEngine.run`.
    """
    notes = {table.name: field_notes(table) for table in metadata.tables}
    with table_writers(sum(len(family.tables) for family in plan.families)) as writers:
        run = _Run(plan, engines, bits, release, notes, writers)
        for family in plan.families:
            for table in family.tables:
                progress(table.query.name)
                run.measure(family, table)
            if family.step is not None:
                # The step reads the measurements from their files, which must be complete.
                writers.finish()
                run.write_step_results(family, family.step)
        return writers.finish()


@dataclass(frozen=True, slots=True)
class _Run:
    """The state that the families of a release share during a run."""

    plan: Plan
    engines: Mapping[str, QueryEngine]
    bits: BitSource
    release: Publication
    notes: Mapping[str, Notes]
    writers: TableWriters

    def measure(self, family: Family, table: FamilyTable) -> None:
        """Write the noised table of one query of a family."""
        name, query = table.query.name, table.query
        folder = self.release.folder  # raises in a forked child, which must not continue
        shown = PublishedTables if family.step is None else partial(MeasuredTables, coded=True)
        named = name if family.step is None else table.measurements_name
        planned = self.plan.of_query(name)
        engine = self.engines[name]
        with streaming(engine, planned, self.bits, shown=shown) as tables:
            noticed = noted_tables(tables, self.notes[named])
            pieces = split_into_parts(named, noticed, family.parts.get(named))
            is_whole = query.private is not None or query.keys.size <= ROW_GROUP
            if is_whole:  # computed here, since bits and ball arithmetic belong to one thread
                pieces = iter(list(pieces))
            work = partial(write_pieces, folder, pieces, family.parts, self.release.notes)
            self.writers.write(work, at_once=not is_whole)

    def write_step_results(self, family: Family, step: FamilyStep) -> None:
        """Write the results of a step, which post-processes a family's measurements."""
        engines = list({id(one): one for one in self.engines.values()}.values())
        for engine in engines:
            engine.drop_shared_data()  # the step needs the memory, and reads no rows
        noised = [published_table(table, self.release.folder) for table in family.tables]
        values = step.values(noised, engines[0].spread)
        made = step_tables(family.outputs, values, family.parts)
        noticed = (
            replace(one, rows=with_field_notes(one.rows, self.notes[one.name])) for one in made
        )
        with prefetch_chunks(noticed, "dprelease-step") as made_ahead:
            folder, notes = self.release.folder, self.release.notes
            work = partial(write_pieces, folder, made_ahead, family.parts, notes)
            self.writers.write(work, at_once=True)


def write_pieces(
    folder: Path, pieces: Iterator[Piece], parts: Mapping[str, Parts], notes: Mapping[str, str]
) -> dict[str, FileDigest]:
    """Write several tables into a folder as their rows arrive; return their digests by name.

    - `folder`: the folder of a release, which is private until everything is written.
    - `pieces`: rows of each table in ascending order, so that only one of its parts is open at a
      time.
    - `parts`: the files of partitioned tables, by the name of the table.
    - `notes`: the metadata that every file gets, as keys and values.
    """
    tables: dict[str, _OpenTable] = {}
    with ExitStack() as files:
        for piece in pieces:
            if piece.name not in tables:
                one = _OpenTable(
                    folder / formats.table_file_name(piece.name), parts.get(piece.name), notes
                )
                tables[piece.name] = one
                files.callback(one.close)
            tables[piece.name].write(piece)
    return {name: one.record_of_files() for name, one in tables.items()}


@dataclass
class _OpenTable:
    """One table that is being written: its file, or the folder of its parts."""

    path: Path
    parts: Parts | None
    notes: Mapping[str, str]
    _rows: list[int] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)
    _writer: formats.Writer | None = None

    def write(self, piece: Piece) -> None:
        """Add rows to the file to which they belong."""
        rows, at = _with_metadata(piece.rows, self.notes), piece.part or 0
        if self._writer is None or at >= len(self._rows):
            self.close()
            path = self._written_files[at]
            path.parent.mkdir(exist_ok=True, parents=True)
            self._writer = self._open.enter_context(
                formats.PUBLISHED_FORMAT.writer(path, rows.schema)
            )
            self._rows.append(0)
        self._writer.write(rows)
        self._rows[at] += len(rows)

    def close(self) -> None:
        """Close the open file, if any."""
        self._open.close()

    def record_of_files(self) -> FileDigest:
        """Return the digests of the written files; call it after `close`."""
        digests = [sha256_of(path) for path in self._written_files]
        if self.parts is None:
            return FileDigest(digests[0], self._rows[0])
        named = zip(files_of_parts(self.parts), digests, self._rows, strict=True)
        return FileDigest.of(
            [PartRecord(name=name, sha256=digest, rows=rows) for name, digest, rows in named]
        )

    @cached_property
    def _written_files(self) -> list[Path]:
        """Return the paths of the files of the table: one, or one for each part."""
        if self.parts is None:
            return [self.path]
        return [self.path / name for name in files_of_parts(self.parts)]


def _with_metadata(table: pa.Table, notes: Mapping[str, str]) -> pa.Table:
    if not notes:
        return table
    more = {name.encode(): text.encode() for name, text in notes.items()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **more})
