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

from dprelease.exact.results.true_table import ExactTable, Integers
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.executors.sums import added_up
from dprelease.exact.spark.executors.task_rows import packed, unpacked
from dprelease.exact.spark.executors.tasks import silenced
from dprelease.exact.spark.merge import exact_table
from dprelease.statements.partial import Partial

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Noise = Callable[[ExactTable], Mapping[str, Integers]]
"""From true values to noised ones, with fresh randomness at every call."""


@dataclass(frozen=True)
class Noised:
    """Adds up the sums of the blocks of cells that a task has got, and adds noise to them."""

    partial: Partial
    size: int
    noise: Noise
    block: int
    seal: Seal

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows (block, content): the noised vectors of its cells, packed and sealed."""
        yield from silenced(lambda: self._noised(batches))

    def _noised(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, list[pa.Table]] = {}
        for batch in batches:
            numbers = batch.column("place").to_pylist()
            for number, content in zip(numbers, batch.column("content"), strict=True):
                held = found.setdefault(number, [])
                if len(content.as_buffer()):
                    held.append(unpacked(content.as_buffer()))
        with task_link(Access()) as (link, _):
            for number, tables in sorted(found.items()):
                merged = added_up(link, tables, final=True) if tables else None
                yield self._drawn(number, merged)

    def _drawn(self, number: int, merged: pa.Table | None) -> pa.RecordBatch:
        first = number * self.block
        size = min(self.block, self.size - first)
        true = exact_table("block", self.partial, merged, size, first)
        answers = {name: pa.array(vector) for name, vector in self.noise(true).items()}
        content = self.seal.closed(number, packed(pa.table(answers)))
        columns = [pa.array([number], pa.int64()), pa.array([content], pa.binary())]
        return pa.RecordBatch.from_arrays(columns, names=["block", "content"])


def noised(spark: SparkSession, sums: DataFrame, task: Noised, staging: str) -> dict[str, Integers]:
    """Return noised vectors over all cells, read back from files that were committed.

    `sums`: of the table 0, in blocks: the place of a block is its number.

    Raises
    ------
    LookupError, ValueError
        If a block of cells is not there exactly once, or not one of this run.
    """
    from pyspark.sql import functions

    blocks = -(-task.size // task.block)
    # Cells without rows have noise as well: every block has a row.
    marks = spark.range(blocks).select(
        functions.lit(0).alias("number"),
        functions.col("id").cast("int").alias("place"),
        functions.lit(b"").alias("content"),
    )
    rows = sums.unionAll(marks).repartitionById(blocks, "place")
    drawn = rows.mapInArrow(task.run, "block bigint, content binary")
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
