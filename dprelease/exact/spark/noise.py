"""Work on noised data on the executors: draw noise there, and send further tasks and their results.

Noise is added to large results on the executors, so that true values never reach the driver. It is
drawn in the last stage, by the task that writes the result. Spark may attempt a task several times
(if the task is lost, fails, or is run twice by speculation). Spark then commits the file of one
attempt, and discards the files of the other attempts unread. A committed task is never repeated,
because no stage follows it. After all tasks are committed, the driver reads the files once, some
blocks of cells at a time, and refuses them unless every block exists exactly once. So every
published cell has a single noise draw, whichever committer Spark uses.

Further work on noised data is a function of its task, so a repeated task has the same result.

Privacy does not depend on the removal of files, because files, tasks and results are encrypted with
keys that exist only as long as the driver works: a killed driver leaves its folder, an abandoned
attempt may write a file after the folder is removed, and Spark writes the data that it moves to
disk.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from dprelease.exact.results.true_table import DenseProfile, ExactTable, Integers, Profile
from dprelease.exact.results.vectors import MOST_ROWS
from dprelease.exact.shared_scan import ScannedVectors
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.executors.sums import add_up
from dprelease.exact.spark.executors.task_rows import from_ipc_bytes, to_ipc_bytes
from dprelease.exact.spark.executors.tasks import ROWS_SEEN, redact_failures
from dprelease.exact.spark.pieces import cores_of, noise_task_count
from dprelease.statements.coded_rows import JointTable
from dprelease.statements.partial import GROUP_COLUMNS, PartialQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Combine the sums that tasks return to the true aggregates of cells.


def exact_table(
    name: str, partial: PartialQuery, merged: pa.Table | None, size: int, first: int = 0
) -> ExactTable:
    """Return the true aggregates of a range of `size` cells, which starts at the cell `first`.

    `merged`: a table with the columns part, cell, v, m0, ..., with at most one row for each
    combination of part, cell and v, and only with cells of the range; None if no row of the source
    has a cell of the range.
    """
    if merged is None:
        merged = _empty_sums(partial)
    part, cell, value = (np.asarray(merged[column], dtype=np.int64) for column in GROUP_COLUMNS)
    cell = cell - first
    vectors = {}
    mine = part == 0
    for j, vector in enumerate(partial.vectors):
        vectors[vector] = np.zeros(size, dtype=np.int64)
        vectors[vector][cell[mine]] = np.asarray(merged[f"m{j}"], dtype=np.int64)[mine]
    for counted, number in partial.distinct.items():
        # Each row of this part is a different value of the cell, so the rows are counted.
        vectors[counted] = np.bincount(cell[part == number], minlength=size).astype(np.int64)
    profiles: dict[str, Profile | DenseProfile] = {}
    counts = np.asarray(merged["m0"], dtype=np.int64)
    for chosen, number in partial.profiles.items():
        mine = part == number
        profiles[chosen] = Profile.of(cell[mine], value[mine], counts[mine], size)
    return ExactTable(name, size, vectors, profiles)


def _empty_sums(partial: PartialQuery) -> pa.Table:
    """Return an empty table of sums."""
    import pyarrow as pa

    names = [*GROUP_COLUMNS, *(f"m{j}" for j in range(partial.width))]
    return pa.table({name: pa.array([], pa.int64()) for name in names})


def sum_joint_tables(
    filled: Sequence[JointTable], found: Mapping[int, Sequence[pa.Table]]
) -> ScannedVectors | None:
    """Return the joint tables filled with the sums of tasks; None if sums might not fit 64 bits.

    `found`: the sums by the index of their joint table, and by `ROWS_SEEN` the number of rows.
    """
    seen = sum(sum(table["m0"].to_pylist()) for table in found.get(ROWS_SEEN, ()))
    if seen > MOST_ROWS:
        return None
    scanned: ScannedVectors = []
    for place, joint in enumerate(filled):
        vectors = {name: np.zeros(joint.size, dtype=np.int64) for name in joint.joint.vectors}
        for table in found.get(place, ()):
            cells = np.asarray(table["cell"], dtype=np.int64)
            for j, vector in enumerate(vectors.values()):  # each cell occurs once per table
                vector[cells] += np.asarray(table[f"m{j}"].cast("int64"), dtype=np.int64)
        scanned.append((joint, dict(vectors)))
    return scanned


NOISY_BLOCK_COLUMNS = "block bigint, content binary"

BLOCKS_AT_ONCE = 16
"""Number of blocks that the driver reads at a time: 8 MB of each vector."""

Noise = Callable[[ExactTable], Mapping[str, Integers]]
"""A function from true values to noisy values, with fresh randomness at every call."""


@dataclass(frozen=True)
class BlockNoise:
    """Adds up the sums of blocks of cells in a task, and adds noise to the totals."""

    partial: PartialQuery
    size: int
    noise: Noise
    block: int
    seal: Seal

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows (block, content): the noisy vectors of a block of cells, encrypted."""
        yield from redact_failures(lambda: self._add_noise(batches))

    def _add_noise(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each block of cells with noise, encrypted, from the sums of its parts."""
        found: dict[int, list[pa.Buffer]] = {}
        for batch in batches:
            numbers = batch.column("place").to_pylist()
            for number, content in zip(numbers, batch.column("content"), strict=True):
                held = found.setdefault(number, [])
                if len(content.as_buffer()):
                    held.append(content.as_buffer())
        with task_link(Access()) as (link, _):
            for number, packs in sorted(found.items()):
                tables = map(from_ipc_bytes, packs)
                merged = add_up(link, tables, final=True) if packs else None
                yield self._draw_block(number, merged)

    def _draw_block(self, number: int, merged: pa.Table | None) -> pa.RecordBatch:
        """Return the encrypted noisy values of one block, from its exact sums (None: all zero)."""
        first = number * self.block
        size = min(self.block, self.size - first)
        true = exact_table("block", self.partial, merged, size, first)
        answers = {name: pa.array(vector) for name, vector in self.noise(true).items()}
        content = self.seal.encrypt_block(number, to_ipc_bytes(pa.table(answers)))
        columns = [pa.array([number], pa.int64()), pa.array([content], pa.binary())]
        return pa.RecordBatch.from_arrays(columns, names=["block", "content"])


def write_noisy_blocks(spark: SparkSession, sums: DataFrame, task: BlockNoise, folder: str) -> None:
    """Draw all noise, once for each cell, and write the noisy vectors to a folder.

    `sums`: a frame with the columns of `SUMS_COLUMNS`, for the table 0 in blocks of cells; the
    column `place` has the number of the block.
    """
    from pyspark.sql import functions

    blocks = _count_blocks(task)
    # Cells without rows need noise as well, so every block has a row.
    marks = spark.range(blocks).select(
        functions.lit(0).alias("number"),
        functions.col("id").cast("int").alias("place"),
        functions.lit(b"").alias("content"),
    )
    tasks = noise_task_count(blocks, cores_of(spark))
    rows = sums.unionAll(marks).repartitionById(tasks, "place")
    # Never into an existing folder: two draws of noise for one cell could be averaged.
    rows.mapInArrow(task.run, NOISY_BLOCK_COLUMNS).write.mode("errorifexists").parquet(folder)


def read_noisy_blocks(
    spark: SparkSession, task: BlockNoise, folder: str
) -> Iterator[dict[str, Integers]]:
    """Yield the noisy vectors of each block; the driver holds only some blocks at a time.

    Raises LookupError or ValueError if a block of cells does not exist exactly once, or is not of
    this run.
    """
    from pyspark.sql import functions

    blocks = _count_blocks(task)
    group = functions.expr(f"CAST(block DIV {BLOCKS_AT_ONCE} AS INT)")
    written = spark.read.schema(NOISY_BLOCK_COLUMNS).parquet(folder).withColumn("together", group)
    ordered = written.repartitionById(-(-blocks // BLOCKS_AT_ONCE), "together").drop("together")
    rows = ordered.sortWithinPartitions("block").toLocalIterator()
    return _decrypt_blocks(
        ((row["block"], bytes(row["content"])) for row in rows), blocks, task.seal
    )


def _count_blocks(task: BlockNoise) -> int:
    return -(-task.size // task.block)


def _decrypt_blocks(
    rows: Iterable[tuple[int, bytes]], blocks: int, seal: Seal
) -> Iterator[dict[str, Integers]]:
    """Yield the noisy vectors of each block; refuse a block that is missing or repeated."""
    expected = 0
    for block, content in rows:
        if block != expected:
            raise LookupError("a block of cells is missing, or there twice")
        expected += 1
        table = from_ipc_bytes(seal.decrypt_block(block, content))
        yield {name: np.array(table[name], dtype=np.int64) for name in table.column_names}
    if expected != blocks:
        raise LookupError("a block of cells is missing")


def noisy_blocks_folder(staging: str, seal: Seal) -> str:
    """Return the folder of the files that are encrypted with a key."""
    return f"{staging.rstrip('/')}/dprelease-{seal.name}"


def remove_folder(spark: Any, folder: str) -> None:
    """Remove the files of executors; if this fails, the release goes on, as files are encrypted."""
    with contextlib.suppress(Exception):
        _remove(spark, folder)


def _remove(spark: Any, folder: str) -> None:
    """Remove the files of executors, on any file system."""
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


Task = TypeVar("Task")
TaskResult = TypeVar("TaskResult")

TASK_COLUMNS = "number int, content binary"

RESULT_BYTES = 1 << 28
"""Maximum bytes of the results of one wave, estimated from the size of earlier results."""

FIRST_WAVE_TASKS = 4
"""Tasks to send while the size of results is unknown."""

MOST_WAVE_TASKS = 16
"""Maximum tasks at a time: a single process writes their results."""

CODEC = "zstd"

LENGTH_BYTES = 8
"""Bytes of the uncompressed length before the content."""


@dataclass(frozen=True)
class EncryptedWork:
    """Decrypts tasks on an executor, does the work on them, and encrypts the results.

    `given`: the key of the tasks. `made`: the key of the results.
    """

    work: Callable[[Any], Any]
    given: Seal
    made: Seal

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of `TASK_COLUMNS`, a result for each task."""
        yield from redact_failures(lambda: self._process_tasks(batches))

    def _process_tasks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the encrypted result of each encrypted task."""
        for batch in batches:
            numbers = batch.column("number").to_pylist()
            for number, content in zip(numbers, batch.column("content"), strict=True):
                task = decrypt_object(self.given, number, content.as_buffer().to_pybytes())
                yield _task_row(number, encrypt_object(self.made, number, self.work(task)))


class Waves:
    """Tasks that are sent in waves; a wave is one job with as many tasks as fit in memory.

    - `spark`: the session; its executors have been checked for the version.
    - `work`: the work on each task; a deterministic function.
    - `tasks`: in the order of the results; generated as they are sent.
    """

    def __init__(
        self, spark: SparkSession, work: Callable[[Task], TaskResult], tasks: Iterable[Task]
    ) -> None:
        self._spark, self._tasks = spark, enumerate(tasks)
        self._doing = EncryptedWork(work, Seal.fresh(), Seal.fresh())
        self._most = min(FIRST_WAVE_TASKS, cores_of(spark))

    def next_results(self) -> list[Any]:
        """Return the results of the next wave, in the order of its tasks; none after the last wave.

        Raises LookupError or ValueError if a result does not exist exactly once, or is not of this
        run.
        """
        sent = list(itertools.islice(self._tasks, self._most))
        if not sent:
            return []
        content = [encrypt_object(self._doing.given, number, task) for number, task in sent]
        rows = pa.Table.from_batches(
            [_task_row(number, one) for (number, _), one in zip(sent, content, strict=True)]
        )
        frame: DataFrame = self._spark.createDataFrame(rows)
        placed = frame.repartitionById(len(sent), "number").mapInArrow(
            self._doing.run, TASK_COLUMNS
        )
        found: dict[int, bytes] = {}
        for batch in placed.toArrow().to_batches():
            for number, held in zip(
                batch.column("number").to_pylist(), batch.column("content"), strict=True
            ):
                if number in found:
                    raise LookupError("a result is there twice")
                found[number] = held.as_buffer().to_pybytes()
        self._widen(max(map(len, found.values()), default=0))
        return [decrypt_object(self._doing.made, number, found[number]) for number, _ in sent]

    def _widen(self, largest: int) -> None:
        """Set the number of tasks of the next wave, from the size of the largest result."""
        cores = min(MOST_WAVE_TASKS, 2 * cores_of(self._spark))
        self._most = max(1, min(cores, RESULT_BYTES // max(1, largest)))


def encrypt_object(seal: Seal, number: int, thing: object) -> bytes:
    """Return the bytes of an object, encrypted together with its number."""
    plain = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    packed: bytes = pa.compress(plain, CODEC, asbytes=True)
    return seal.encrypt_block(number, len(plain).to_bytes(LENGTH_BYTES, "little") + packed)


def decrypt_object(seal: Seal, number: int, content: bytes) -> Any:
    """Return a decrypted object; raise ValueError if it is of another run or another number."""
    plain = seal.decrypt_block(number, content)
    size = int.from_bytes(plain[:LENGTH_BYTES], "little")
    return pickle.loads(pa.decompress(plain[LENGTH_BYTES:], size, CODEC))


def _task_row(number: int, content: bytes) -> pa.RecordBatch:
    """Return a batch with one row: the number of a task and its encrypted content."""
    columns = [pa.array([number], pa.int32()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["number", "content"])
