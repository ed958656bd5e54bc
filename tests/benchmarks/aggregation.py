"""Exact steps, releases and processes, each compared with plain DuckDB in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.benchmarks.workloads import WORKLOADS, Workload, make

ROUNDS = 7
FEW_ROUNDS = 3
"""Rounds over more than `MANY_ROWS`, and by hand."""

MANY_ROWS = 10_000_000
NOTICED = 1.15
"""How much a ratio has to grow to be called slower."""

LAUNCH = """
import os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
# An installed package has its bytecode; without it every start compiles all sources.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
start = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - start
print(status, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""

BY_HAND = """
import sys
import duckdb
import opendp.prelude as dp
dp.enable_features("contrib")
link = duckdb.connect()
found = link.execute(sys.argv[1]).to_arrow_table()
laplace = dp.m.make_laplace(
    dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=10.0
)
for i, kind in enumerate(found.schema.types):
    if str(kind).startswith(("int", "decimal")):
        noised = laplace([int(x or 0) for x in found.column(i).to_pylist()])
        found = found.set_column(i, found.schema.names[i], [noised])
link.execute(f"COPY (SELECT * FROM found) TO '{sys.argv[2]}/by_hand.parquet'")
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds by the clock, those of all processors, and megabytes (of whole processes)."""

    seconds: float
    processors: float
    megabytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Median seconds (and peak megabytes, of whole processes) of ours and of plain DuckDB.

    `by_hand`: the process that aggregates by DuckDB and draws OpenDP's noise; None without it.
    `ours_cpu`, `plain_cpu`: median processor seconds, which other work on the machine moves less.
    """

    name: str
    rows: int
    ours: float
    plain: float
    ours_mb: float | None = None
    plain_mb: float | None = None
    by_hand: float | None = None
    least: float | None = None
    """Least seconds of ours: what other work on the machine adds is never negative."""
    ours_cpu: float | None = None
    plain_cpu: float | None = None

    @property
    def ratio(self) -> float:
        """Return ours / plain."""
        return self.ours / self.plain

    @property
    def cpu_ratio(self) -> float | None:
        """Return the same of processor seconds."""
        return self.ours_cpu / self.plain_cpu if self.ours_cpu and self.plain_cpu else None


def _measure(work: Callable[[], object]) -> Taken:
    start, processors = time.perf_counter(), time.process_time()
    work()
    return Taken(time.perf_counter() - start, time.process_time() - processors)


def _comparison(
    name: str, rows: int, runs: Sequence[tuple[Taken, Taken]], by_hand: float | None = None
) -> Comparison:
    """Return the medians of pairs of runs, ours first."""
    ours, plain = zip(*runs, strict=True)
    return Comparison(
        name,
        rows,
        statistics.median(each.seconds for each in ours),
        statistics.median(each.seconds for each in plain),
        max(each.megabytes for each in ours) or None,
        max(each.megabytes for each in plain) or None,
        by_hand,
        min(each.seconds for each in ours),
        statistics.median(each.processors for each in ours),
        statistics.median(each.processors for each in plain),
    )


def _in_turn(
    name: str,
    rows: int,
    ours: Callable[[], object],
    plain: Callable[[], object],
    rounds: int | None = None,
) -> Comparison:
    """Return the medians of two kinds of work, done in turn after one round of each."""
    rounds = (rounds or _rounds(rows)) + 1
    return _comparison(name, rows, [(_measure(ours), _measure(plain)) for _ in range(rounds)][1:])


def in_process(folder: Path, work: Workload, rows: int, rounds: int | None = None) -> Comparison:
    """Return the exact step of our run beside plain SQL that finds the same numbers."""
    queries = resolve(read_declaration(folder / f"{work.name}.yaml"))
    plain_sql = work.plain.format(source=folder / f"{work.table}.parquet")

    def ours() -> object:
        with Engine.open(queries[0].declared, queries=queries) as engine:  # as releases do
            engine.expect(queries)
            return [engine.run(query) for query in queries]

    def plain() -> object:
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            return connection.execute(plain_sql).fetchnumpy()

    return _in_turn(f"{work.name}, in process", rows, ours, plain, rounds)


def whole_release(folder: Path, work: Workload, rows: int, rounds: int | None = None) -> Comparison:
    """Return our run, with its noise, beside DuckDB that writes the same exact tables."""
    path, statements = folder / f"{work.name}.yaml", work.writing(folder)

    def ours() -> object:
        return run(read_declaration(path), overwrite=True)

    def plain() -> None:
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            for statement in statements:
                connection.execute(statement)

    return _in_turn(f"{work.name}, release", rows, ours, plain, rounds)


def _rounds(rows: int) -> int:
    return ROUNDS if rows <= MANY_ROWS else FEW_ROUNDS


def process(command: list[str]) -> Taken:
    """Return what a process took, started by a small one.

    A child begins with the peak of what started it, and this process is large by now.
    """
    launch = [sys.executable, "-I", "-c", LAUNCH, *command]
    done = subprocess.run(launch, check=True, capture_output=True, text=True)
    status, *taken = done.stdout.split()
    if int(status):
        raise RuntimeError(f"{command[0]} ended with status {status}")
    return Taken(*map(float, taken))


def whole_process(folder: Path, work: Workload, rows: int, peers: Path | None) -> Comparison:
    """Return the processes of `dprelease run`, of Python with DuckDB that writes, and by hand.

    `peers`: the Python that has OpenDP.
    """
    out = folder / "out" / work.name
    script = (
        f"import duckdb; link = duckdb.connect(); [*map(link.execute, {work.writing(folder)!r})]"
    )
    ours = [sys.executable, "-m", "dprelease", "run", str(folder / f"{work.name}.yaml")]
    ours += ["--overwrite", "--output", str(out), "--json"]
    plain = [sys.executable, "-c", script]
    runs = [(process(ours), process(plain)) for _ in range(_rounds(rows) + 1)][1:]
    name, by_hand = f"{work.name}, whole process", _by_hand(folder, work, peers)
    return _comparison(name, rows, runs, by_hand)


def _by_hand(folder: Path, work: Workload, peers: Path | None) -> float | None:
    """Return the median seconds of DuckDB's aggregates with OpenDP's vector noise."""
    # OpenDP chooses quantiles one by one: by hand it is no vector of noise. Several tables would be
    # a loop, and the minute for 4.4 million cells is the same whatever the columns are.
    if peers is None or work.parts or work.name[:2] in ("W5", "U5", "U4"):
        return None
    plain = work.plain.format(source=folder / f"{work.table}.parquet")
    command = [str(peers), "-c", BY_HAND, work.published.format(plain=plain), str(folder)]
    rounds = min(ROUNDS, FEW_ROUNDS)
    return statistics.median(process(command).seconds for _ in range(rounds))


def compare(folder: Path, rows: int, peers: Path | None) -> list[Comparison]:
    """Return every comparison over tables of `rows` rows, generated in `folder` when missing."""
    make(folder, rows)
    found = [in_process(folder, work, rows) for work in WORKLOADS]
    found += [whole_release(folder, work, rows) for work in WORKLOADS]
    return found + [whole_process(folder, work, rows, peers) for work in WORKLOADS]


def once(folder: Path, rows: int, names: tuple[str, ...]) -> list[Comparison]:
    """Return exact steps and releases of workloads whose names start so, one round after another.

    Where the machine has other work that is what there is time for: processor seconds tell most.
    """
    make(folder, rows)
    chosen = [work for work in WORKLOADS if work.name.startswith(names)]
    taken = [(in_process(folder, w, rows, 1), whole_release(folder, w, rows, 1)) for w in chosen]
    return [row for pair in taken for row in pair]


def show(found: list[Comparison]) -> None:
    """Print a table of the comparisons over one size of tables."""
    heads = ("ours s", "DuckDB s", "ratio", "ours CPU s", "DuckDB's", "ratio")
    heads += ("ours MB", "DuckDB MB", "by hand s")
    print(f"{f'workload, {found[0].rows:,} rows':<32}" + "".join(f"{head:>11}" for head in heads))
    for row in found:
        figures = (row.ours, row.plain, row.ratio, row.ours_cpu, row.plain_cpu, row.cpu_ratio)
        figures += (row.ours_mb, row.plain_mb, row.by_hand)
        forms = (".3f", ".3f", ".2f", ".3f", ".3f", ".2f", ".0f", ".0f", ".3f")
        texts = [
            "-" if x is None else format(x, form) for x, form in zip(figures, forms, strict=True)
        ]
        print(f"{row.name:<32}" + "".join(f"{text:>11}" for text in texts))


def slower(found: list[dict[str, Any]], old: list[dict[str, Any]]) -> list[str]:
    """Return a line for each workload whose ratio to DuckDB grew by more than `NOTICED`."""
    before = {(row["name"], row["rows"]): row["ours"] / row["plain"] for row in old}
    lines = []
    for row in found:
        was, now = before.get((row["name"], row["rows"])), row["ours"] / row["plain"]
        if was is not None and now > was * NOTICED:
            what = f"{row['name']}, {row['rows']:,} rows"
            lines.append(f"slower: {what}, {was:.2f} times DuckDB before, {now:.2f} now")
    return lines


def growth(found: list[Comparison]) -> list[str]:
    """Return a line for each workload measured at three sizes or more: how straight it grows.

    The straight line of least seconds over rows is the one of least squares of relative deviations.
    """
    lines = []
    for name in dict.fromkeys(row.name for row in found):
        sizes = [row for row in found if row.name == name]
        if len(sizes) < 3:
            continue
        rows = np.array([row.rows for row in sizes], dtype=np.float64)
        seconds = np.array([row.least or row.ours for row in sizes])
        slope, start = np.polyfit(rows, seconds, 1, w=1.0 / seconds)
        off = np.abs((start + slope * rows) / seconds - 1.0).max()
        cost = f"{start:.2f} s and {slope * 1e6:.3f} s a million rows"
        lines.append(f"{name:<32}{cost:>42}, at most {off:.0%} off that line")
    return lines
