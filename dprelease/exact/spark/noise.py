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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dprelease.exact.results.true_table import ExactTable, Integers
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.executors.sums import add_up
from dprelease.exact.spark.executors.task_rows import from_ipc_bytes, to_ipc_bytes
from dprelease.exact.spark.executors.tasks import redact_failures
from dprelease.exact.spark.merge import exact_table
from dprelease.exact.spark.pieces import cores_of, noise_task_count
from dprelease.statements.partial import PartialQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
