"""Add noise to large results on the executors, so that true values never reach the driver.

Noise is drawn in the last stage, by the task that writes the result. Spark may attempt a task
several times (if the task is lost, fails, or is run twice by speculation). Spark then commits the
file of one attempt, and discards the files of the other attempts unread. A committed task is never
repeated, because no stage follows it. After all tasks are committed, the driver reads the files
once, some blocks of cells at a time, and refuses them unless every block exists exactly once. So
every published cell has a single noise draw, whichever committer Spark uses.

Privacy does not depend on the removal of files, because all files are encrypted with a key of this
run: a killed driver leaves its folder, and an abandoned attempt may write a file after the folder
is removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    import pyarrow as pa
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
