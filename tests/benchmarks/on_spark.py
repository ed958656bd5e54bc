"""Exact tables on Spark, beside Spark's own SQL for the same tables, in one session."""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.exact.spark.sessions.workers import require_same_versions
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.query.resolve import resolve
from dprelease.schema.load import read_declaration
from tests.benchmarks.workloads import INSIDE, PLAIN, WORKLOADS, Workload, make

ROUNDS = 3
ENOUGH = 60.0
"""Seconds of a workload after which no other round is begun."""

CONFIG = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

OWN = {
    "W3_bounded": "SELECT store, count(*) AS n, sum(least(greatest(spent, 0), 50000)) AS total FROM "
    "(SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY hash(user_id, store, spent)) AS i "
    "FROM {source}) WHERE i <= 5 GROUP BY store",
    "W5_quartiles": "SELECT state, percentile_disc(0.25) WITHIN GROUP (ORDER BY x) AS low, "
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS middle, percentile_disc(0.75) WITHIN GROUP "
    f"(ORDER BY x) AS high FROM (SELECT state, {INSIDE} AS x FROM {{source}}) GROUP BY state",
}
"""What Spark's SQL says otherwise than DuckDB's."""


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Median seconds, and processor seconds of Java and all Pythons, of ours and of Spark's own."""

    name: str
    rows: int
    ours: float
    own: float
    ours_cpu: float
    own_cpu: float

    @property
    def ratio(self) -> float:
        """Return ours / Spark's own."""
        return self.ours / self.own


def compare(
    folder: Path, rows: int, names: tuple[str, ...] = (), rounds: int | None = None
) -> Iterator[OnSpark]:
    """Yield comparisons over tables of `rows` rows, of all workloads of plain columns, or these."""
    make(folder, rows)
    plain = [work for work in WORKLOADS if work.table in (PLAIN.people, PLAIN.visits)]
    chosen = [work for work in plain if not names or work.name.startswith(names)]
    with _session() as spark:
        require_same_versions(spark)  # so that a Python of executors has been started
        for work in chosen:
            yield _comparison(spark, folder, work, rows, rounds or ROUNDS)


@contextmanager
def _session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master("local[*]")
        for name, value in CONFIG.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


def _comparison(spark: Any, folder: Path, work: Workload, rows: int, rounds: int) -> OnSpark:
    queries = resolve(read_declaration(folder / f"{work.name}.yaml"))
    source = f"parquet.`{folder}/{work.table}.parquet`"
    text = OWN.get(work.name, work.plain.replace("'{source}'", "{source}")).format(source=source)

    def ours() -> object:
        with SparkEngine.open(queries[0].declared) as engine:
            for query in queries:
                engine.compile(query)
            engine.expect(queries)
            return [engine.run(query) for query in queries]

    def own() -> object:
        return spark.sql(text).toArrow()

    mine, my_cpu, theirs, their_cpu = map(
        statistics.median, zip(*_pairs(ours, own, rounds), strict=True)
    )
    return OnSpark(work.name, rows, mine, theirs, my_cpu, their_cpu)


def _pairs(
    ours: Callable[[], object], own: Callable[[], object], rounds: int
) -> list[tuple[float, ...]]:
    """Return what rounds cost in turn, without the first; the first alone if it took so long."""
    start = time.perf_counter()
    pairs = [(*_cost(ours), *_cost(own))]
    while len(pairs) <= rounds and time.perf_counter() - start < ENOUGH:
        pairs.append((*_cost(ours), *_cost(own)))
    return pairs[1:] or pairs


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of some work, and the processor seconds of all processes below this."""
    before, start = _processor_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - start, _processor_seconds() - before


def _processor_seconds() -> float:
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                told = (process / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(process.name)] = int(told[1])
            used[int(process.name)] = sum(map(int, told[11:15]))  # of its ended children, too
    mine = sum(taken for one, taken in used.items() if _is_below(one, parents))
    return mine / os.sysconf("SC_CLK_TCK")


def _is_below(process: int, parents: Mapping[int, int]) -> bool:
    while process and process != os.getpid():
        process = parents.get(process, 0)
    return process == os.getpid()


def show(found: Iterable[OnSpark]) -> list[OnSpark]:
    """Print a table of comparisons, each when it has been made; return them."""
    heads = ("ours s", "Spark s", "ratio", "ours CPU", "Spark CPU")
    shown: list[OnSpark] = []
    for row in found:
        if not shown:
            told = "".join(f"{head:>11}" for head in heads)
            print(f"{f'on Spark, {row.rows:,} rows':<32}" + told)
        figures = (row.ours, row.own, row.ratio, row.ours_cpu, row.own_cpu)
        print(f"{row.name:<32}" + "".join(f"{figure:>11.2f}" for figure in figures), flush=True)
        shown.append(row)
    return shown
