"""Process noised data on executors: send tasks to them, and receive the results.

The work is a function of its task, so a repeated task has the same result. Tasks and results hold
noisy numbers that are not published yet, and Spark writes the data that it moves to disk. So tasks
and results are encrypted with keys that exist only as long as the driver works, as in the module
`noise`, and nothing of an aborted run can be read.
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
