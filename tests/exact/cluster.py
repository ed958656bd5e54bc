"""A standalone cluster on loopback: executors are processes of their own, on two hosts.

Master and workers live in the driver's JVM, as they do for Spark's master `local-cluster`, and end
with it. That master's workers share one host, though, where Spark never runs a task a second time
beside the first; 127.0.0.1 and 127.0.0.2 are two.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.exact.results.true_table import ExactTable
from dprelease.exact.spark.executors.tasks import Batches
from dprelease.exact.spark.executors.unit_tasks import BoundRows
from dprelease.numerics.entropy import Entropy
from tests.exact.spark import CONFIG

ROOT = Path(__file__).parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
PATIENCE = 60.0
EAGER = {
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.driver.host": HOSTS[0],
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.shuffle.io.retryWait": "200ms",
}


@contextmanager
def cluster(folder: Path) -> Iterator[Any]:
    """Yield a session on two executors of one core each; `folder` is where they work."""
    import pyspark
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SparkContext._ensure_initialized()
        with _workers(SparkContext, folder) as master:
            builder = SparkSession.builder.master(master)
            for name, value in (CONFIG | EAGER).items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
            try:
                yield session
            finally:
                session.stop()


@contextmanager
def _workers(context: Any, folder: Path) -> Iterator[str]:
    jvm, gateway = context._jvm, context._gateway
    spark = jvm.org.apache.spark
    conf = spark.SparkConf(False)
    for name in ("spark.master.rest.enabled", "spark.worker.cleanup.enabled"):
        conf.set(name, "false")
    conf.set("spark.log.level", "OFF")
    spark.util.Utils.setLogLevel(jvm.org.apache.logging.log4j.Level.OFF)
    master = spark.deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)._1()
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = f"spark://{master.address()}"
    start, none = spark.deploy.worker.Worker.startRpcEnvAndEndpoint, jvm.scala.Option.empty()
    started = [
        start(host, 0, 0, 1, 1024, urls, str(folder), jvm.scala.Some(i), conf, none)
        for i, host in enumerate(HOSTS)
    ]
    try:
        yield urls[0]
    finally:
        for one in [*started, master]:
            one.shutdown()
        for one in [*started, master]:
            one.awaitTermination()


@dataclass(frozen=True)
class Drawn:
    """What one attempt of a task drew for one block."""

    partition: int
    attempt: int
    executor: int
    noise: int


@dataclass(frozen=True)
class WatchedNoise:
    """Adds one number to all cells of a block, and leaves a mark of it; waits where it is told to.

    `until`: "two attempts" lets the first task to come wait, with its noise drawn, until another
    attempt of it has drawn as well; "a kill" lets all wait once a task is committed in `staging`.
    """

    marks: Path
    staging: Path
    until: str = ""

    def __call__(self, exact: ExactTable) -> dict[str, np.ndarray]:
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is None:
            raise RuntimeError("not in a task")
        noise = int(Entropy().words(1)[0] >> np.uint64(8))
        drawn = Drawn(task.partitionId(), task.attemptNumber(), _executor(), noise)
        self._mark(drawn)
        if self.until == "two attempts" and self._is_first(drawn):
            wait(lambda: len(self.of(drawn.partition)) > 1)
        if self.until == "a kill" and committed(self.staging):
            (self.marks / f"waiting-{drawn.executor}").touch()
            wait((self.marks / "killed").exists)
        return {"rows": exact.vector("rows") + noise}

    def found(self) -> list[Drawn]:
        """Return all that was drawn."""
        names = [path.name.split("-")[1:] for path in self.marks.glob("drawn-*")]
        return [Drawn(*map(int, name)) for name in names]

    def of(self, partition: int) -> list[Drawn]:
        """Return what was drawn by all attempts of one task."""
        return [drawn for drawn in self.found() if drawn.partition == partition]

    def victim(self) -> int | None:
        """Return an executor that has committed a task and is at work on another."""
        done = {one.executor for one in self.found() if one.partition in committed(self.staging)}
        waiting = {int(path.name.split("-")[1]) for path in self.marks.glob("waiting-*")}
        return next(iter(done & waiting), None)

    def _mark(self, one: Drawn) -> None:
        name = f"drawn-{one.partition}-{one.attempt}-{one.executor}-{one.noise}"
        (self.marks / name).touch()

    def _is_first(self, one: Drawn) -> bool:
        """Return whether the task of this attempt is the one that is to wait."""
        try:
            (self.marks / "first").mkdir()
            (self.marks / f"first/{one.partition}").touch()
        except FileExistsError:
            return (self.marks / f"first/{one.partition}").exists()
        return True


@dataclass(frozen=True)
class WatchedBound(BoundRows):
    """Bounds rows that met in the shuffle; before it does, it leaves a mark and waits for a kill.

    It holds the rows that this attempt has got. Those of others are fetched from where the rows
    were spread, and one of these places is gone by then.
    """

    marks: Path = Path()

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield rows of sums."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is None:
            raise RuntimeError("not in a task")
        (self.marks / f"met-{task.partitionId()}-{task.taskAttemptId()}-{_executor()}").touch()
        wait((self.marks / "killed").exists)
        yield from super().run(batches)

    @staticmethod
    def met(marks: Path) -> list[tuple[int, int, int]]:
        """Return the partition, the attempt and the executor of every attempt."""
        found = (path.name.split("-")[1:] for path in marks.glob("met-*"))
        return [(int(one), int(two), int(three)) for one, two, three in found]


@dataclass(frozen=True)
class FatalOnce:
    """Work that squares numbers; the first that is begun kills the executor that does it."""

    marks: Path

    def __call__(self, task: np.ndarray) -> np.ndarray:
        mark = self.marks / f"begun-{int(task[0])}-{time.monotonic_ns()}"
        mark.touch()
        try:
            (self.marks / "fatal").mkdir()
        except FileExistsError:
            return task * task
        os.kill(_executor(), signal.SIGKILL)
        time.sleep(PATIENCE)
        raise TimeoutError("the executor lives")


def committed(staging: Path) -> set[int]:
    """Return the tasks that Spark has committed, of a job that it has not."""
    return {int(path.name.rsplit("_", 1)[-1]) for path in staging.glob("*/_temporary/0/task_*")}


def wait(reached: Any) -> None:
    """Wait until something is so; raise TimeoutError if it does not come."""
    end = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.02)


def _executor() -> int:
    """Return the process of the executor: the parent of the daemon that forked this one."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid"))
