"""Large results, noised by the executors: true values of cells never come to the driver.

Noise is drawn in the last stage, and by the task that writes what it draws. Of all attempts of a
task (lost, failed, or run twice by speculation) Spark commits the file of one, and drops those of
the others unread; a committed task is never done again, for no stage stands behind it. Only then is
anything read, once, and refused unless every block of cells is there exactly once: so whatever a
committer does, every published cell has the noise of one draw.

Removed files are not relied on. A driver that is killed leaves its folder, and an attempt that was
given up may write after the folder is gone: everything is sealed with a key of this run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dprelease.exact.spark.merge import exact_table
from dprelease.exact.spark.seal import Seal
from dprelease.exact.spark.task_rows import packed
from dprelease.exact.spark.tasks import silenced
from dprelease.exact.true_table import ExactTable, Integers
from dprelease.statements.partial import PLACE, Partial

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK = 2**16
"""Cells that are noised together."""

Noise = Callable[[ExactTable], Mapping[str, Integers]]
"""From true values to noised ones, with fresh randomness at every call."""


@dataclass(frozen=True)
class Noised:
    """Adds noise to the blocks of cells that a task has got."""

    partial: Partial
    size: int
    noise: Noise
    block: int
    seal: Seal

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows (block, content): the noised vectors of its cells, packed and sealed."""
        yield from silenced(lambda: self._noised(batches))

    def _noised(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        rows = pa.Table.from_batches(held)
        blocks = np.asarray(rows["cell"], dtype=np.int64) // self.block
        for block in np.unique(blocks).tolist():
            first = block * self.block
            size = min(self.block, self.size - first)
            mine = rows.filter(pa.array(blocks == block))
            true = exact_table("block", self.partial, mine, size, first)
            answers = {name: pa.array(vector) for name, vector in self.noise(true).items()}
            content = self.seal.closed(block, packed(pa.table(answers)))
            columns = [pa.array([block], pa.int64()), pa.array([content], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["block", "content"])


def noised(
    spark: SparkSession, merged: DataFrame, task: Noised, staging: str
) -> dict[str, Integers]:
    """Return noised vectors over all cells, read back from files that were committed.

    Raises
    ------
    LookupError, ValueError
        If a block of cells is not there exactly once, or not one of this run.
    """
    from pyspark.sql import functions

    blocks, width = -(-task.size // task.block), task.partial.width
    # Cells without rows have noise as well: a row of no part stands in every block.
    marks = spark.range(blocks).select(
        functions.lit(-1).cast("int").alias("part"),
        (functions.col("id") * task.block).alias("cell"),
        functions.lit(0).cast("bigint").alias("v"),
        *[functions.lit(0).cast("bigint").alias(f"m{j}") for j in range(width)],
    )
    block = functions.floor(functions.col("cell") / functions.lit(task.block)).cast("bigint")
    rows = merged.select(*PLACE, *[f"m{j}" for j in range(width)]).unionAll(marks)
    drawn = rows.repartition(blocks, block).mapInArrow(task.run, "block bigint, content binary")
    folder = f"{staging.rstrip('/')}/dprelease-{task.seal.name}"
    try:
        drawn.write.mode("errorifexists").parquet(folder)
        written = spark.read.schema("block bigint, content binary").parquet(folder).toArrow()
    finally:
        with contextlib.suppress(Exception):  # what stays is sealed, and fails no release
            _remove(spark, folder)
    return _joined(written, blocks, task.seal)


def _joined(written: pa.Table, blocks: int, seal: Seal) -> dict[str, Integers]:
    order = np.argsort(np.asarray(written["block"], dtype=np.int64))
    if np.asarray(written["block"])[order].tolist() != list(range(blocks)):
        raise LookupError("a block of cells is missing, or there twice")
    contents = written["content"]
    opened = (seal.opened(block, contents[int(i)].as_py()) for block, i in enumerate(order))
    tables = [pa.ipc.open_stream(content).read_all() for content in opened]
    whole = pa.concat_tables(tables)
    return {name: np.array(whole[name], dtype=np.int64) for name in whole.column_names}


def _remove(spark: Any, folder: str) -> None:
    """Remove what the executors wrote, wherever that is."""
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)
