"""Work on what is published, done by executors: tasks are sent to them, and results come back.

The work is a function of its task, so one that is lost and done again, or twice at a time, has the
same result. What is sent and what comes back are noised numbers that nobody has been shown yet, and
Spark writes what it moves to disks: as with noise (`noise`), all of it is sealed with keys that end
with the driver's work, so that of a run that was given up nothing can be read.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.executors.tasks import redact_failures
from dprelease.exact.spark.pieces import cores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Task = TypeVar("Task")
Done = TypeVar("Done")

SENT = "number int, content binary"

ROOM = 1 << 28
"""Bytes of results that come at a time, of a size that those before them had."""

AT_FIRST = 4
"""Tasks that are sent while no result has a size."""

AT_ONCE = 16
"""Tasks that are sent at a time: who writes what they made is one process."""

CODEC = "zstd"

SIZE = 8
"""Bytes that say how long the rest is when it is not compressed."""


@dataclass(frozen=True)
class Doing:
    """Does the work on the tasks that come, sealed, and seals what it makes of them."""

    work: Callable[[Any], Any]
    given: Seal
    made: Seal

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of `SENT`, a result for each task."""
        yield from redact_failures(lambda: self._done(batches))

    def _done(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column("number").to_pylist()
            for number, content in zip(numbers, batch.column("content"), strict=True):
                task = decrypt_object(self.given, number, content.as_buffer().to_pybytes())
                yield _row(number, encrypt_object(self.made, number, self.work(task)))


class Waves:
    """Tasks in waves of as many as there is room for; each wave is one job.

    Parameters
    ----------
    spark
        The session, whose executors have this version.
    work
        What is done with each task: the same wherever and however often it is done.
    tasks
        In the order of the results; they are made as they are sent.
    """

    def __init__(
        self, spark: SparkSession, work: Callable[[Task], Done], tasks: Iterable[Task]
    ) -> None:
        self._spark, self._tasks = spark, enumerate(tasks)
        self._doing = Doing(work, Seal.fresh(), Seal.fresh())
        self._most = min(AT_FIRST, cores_of(spark))

    def following(self) -> list[Any]:
        """Return the results of the next wave, in order; none after the last.

        Raises
        ------
        LookupError, ValueError
            If a result is not there exactly once, or not one of this run.
        """
        sent = list(itertools.islice(self._tasks, self._most))
        if not sent:
            return []
        content = [encrypt_object(self._doing.given, number, task) for number, task in sent]
        rows = pa.Table.from_batches(
            [_row(number, one) for (number, _), one in zip(sent, content, strict=True)]
        )
        frame: DataFrame = self._spark.createDataFrame(rows)
        placed = frame.repartitionById(len(sent), "number").mapInArrow(self._doing.run, SENT)
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
        """Let the next wave have as many tasks as there is room for results of that size."""
        cores = min(AT_ONCE, 2 * cores_of(self._spark))
        self._most = max(1, min(cores, ROOM // max(1, largest)))


def encrypt_object(seal: Seal, number: int, thing: object) -> bytes:
    """Return what is sent, sealed for its number."""
    plain = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    packed: bytes = pa.compress(plain, CODEC, asbytes=True)
    return seal.encrypt_block(number, len(plain).to_bytes(SIZE, "little") + packed)


def decrypt_object(seal: Seal, number: int, content: bytes) -> Any:
    """Return what was sent; ValueError if it was sealed in another run or for another number."""
    plain = seal.decrypt_block(number, content)
    size = int.from_bytes(plain[:SIZE], "little")
    return pickle.loads(pa.decompress(plain[SIZE:], size, CODEC))


def _row(number: int, content: bytes) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int32()), pa.array([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["number", "content"])
