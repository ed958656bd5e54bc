"""Fake Spark frames in this process, which are fast enough for many cases. Tasks are pickled as
in Spark, and run in random order."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from dprelease.exact.spark.sessions.spark_session import SparkSettings
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.exact.spark.spark_input import DriverReader
from dprelease.schema.load import Declared

Batches = list[pa.RecordBatch]
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Frame:
    """Rows in partitions; a partition that has no rows is a task all the same."""

    def __init__(self, partitions: list[Batches]) -> None:
        self.partitions = partitions

    def mapInArrow(self, task: Task, schema: str) -> Frame:
        """Run a task over each partition; some run twice, as a lost one does."""
        names = [field.split()[0] for field in schema.split(", ")]
        ran: list[Batches] = []
        for batches in self.partitions:
            for _ in range(random.choice([1, 1, 2])):
                there: Task = pickle.loads(cloudpickle.dumps(task))
                found = list(there(iter(batches)))
            assert all(batch.schema.names == names for batch in found)
            ran.append(found)
        return Frame(ran)

    def repartitionById(self, number: int, column: str) -> Frame:
        """Bring rows together by a number, modulo the number of partitions, in any order."""
        partitions: list[Batches] = [[] for _ in range(number)]
        for batch in (batch for batches in self.partitions for batch in batches):
            for i, place in enumerate(batch.column(column).to_pylist()):
                partitions[place % number].append(batch.slice(i, 1))
        for batches in partitions:
            random.shuffle(batches)
        return Frame(partitions)

    def unionAll(self, other: Frame) -> Frame:
        """Return both."""
        return Frame(self.partitions + other.partitions)

    def toArrow(self) -> pa.Table:
        """Return all rows."""
        batches = [batch for batches in self.partitions for batch in batches]
        return pa.Table.from_batches(batches) if batches else pa.table({})


class FakeSpark:
    """A session; `jobs` are counted by what they begin with."""

    def __init__(self) -> None:
        self.jobs = 0

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        """Return numbers, each in a partition of its own."""
        self.jobs += 1
        ids = [[pa.RecordBatch.from_pydict({"id": [i]})] for i in range(start, end, step)]
        return Frame(ids or [[] for _ in range(partitions)])

    def createDataFrame(self, table: pa.Table) -> Frame:
        """Return the rows of a table, two in each partition, in batches of their own."""
        self.jobs += 1
        rows = [table.slice(i, 1).to_batches() for i in range(len(table))]
        return Frame(
            [[one for pair in rows[i : i + 2] for one in pair] for i in range(0, len(rows), 2)]
        )


@contextmanager
def fake_spark_engine(
    declared: Declared, frame: object = None, joined: Declared | None = None, other: object = None
) -> Iterator[tuple[SparkEngine, FakeSpark]]:
    """Yield the Spark engine over a fake session."""
    spark: Any = FakeSpark()
    with DriverReader.open(declared, frame, joined, other) as reader:
        yield SparkEngine(spark, reader, SparkSettings(), (None, None)), spark
