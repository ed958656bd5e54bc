"""Exact aggregation, in process and as whole processes, beside plain DuckDB in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import resolve
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
print(status, time.perf_counter() - start, usage.ru_maxrss / 1024)
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
class Comparison:
    """Median seconds (and peak megabytes, of whole processes) of ours and of plain DuckDB.

    `by_hand`: the process that aggregates by DuckDB and draws OpenDP's noise; None without it.
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

    @property
    def ratio(self) -> float:
        """Return ours / plain."""
        return self.ours / self.plain


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_process(folder: Path, work: Workload, rows: int) -> Comparison:
    """Return the medians of the exact step of our run and of plain SQL, taken in turn."""
    queries = resolve(read_declaration(folder / f"{work.name}.yaml"))
    plain_sql = _plain(folder, work)

    def ours() -> object:
        with Engine.open(queries[0].declared) as engine:
            engine.expect(queries)
            return [engine.run(query) for query in queries]

    def plain() -> object:
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            return connection.execute(plain_sql).fetchnumpy()

    pairs = [(_seconds(ours), _seconds(plain)) for _ in range(_rounds(rows) + 1)][1:]
    mine, theirs = zip(*pairs, strict=True)
    return Comparison(
        f"{work.name}, in process",
        rows,
        statistics.median(mine),
        statistics.median(theirs),
        least=min(mine),
    )


def _rounds(rows: int) -> int:
    return ROUNDS if rows <= MANY_ROWS else FEW_ROUNDS


def _process(command: list[str]) -> tuple[float, float]:
    """Return seconds and peak megabytes of a process, started by a small one.

    A child begins with the peak of what started it, and this process is large by now.
    """
    launch = [sys.executable, "-I", "-c", LAUNCH, *command]
    done = subprocess.run(launch, check=True, capture_output=True, text=True)
    status, seconds, megabytes = done.stdout.split()
    if int(status):
        raise RuntimeError(f"{command[0]} ended with status {status}")
    return float(seconds), float(megabytes)


def whole_process(folder: Path, work: Workload, rows: int, peers: Path | None) -> Comparison:
    """Return medians of the processes of `dprelease run`, of Python with DuckDB, and by hand.

    `peers`: the Python that has OpenDP.
    """
    out = folder / "out" / work.name
    copy = f"COPY ({_plain(folder, work)}) TO '{folder / 'plain.parquet'}'"
    script = f"import duckdb; duckdb.connect().execute({copy!r})"
    ours = [sys.executable, "-m", "dprelease", "run", str(folder / f"{work.name}.yaml")]
    ours += ["--overwrite", "--output", str(out), "--json"]
    commands = [ours, [sys.executable, "-c", script]]
    runs = [[_process(command) for command in commands] for _ in range(_rounds(rows) + 1)][1:]
    columns = list(zip(*runs, strict=True))
    seconds = [statistics.median(taken for taken, _ in column) for column in columns]
    peaks = [max(size for _, size in column) for column in columns]
    by_hand = _by_hand(folder, work, peers)
    least = min(taken for taken, _ in columns[0])
    return Comparison(f"{work.name}, whole process", rows, *seconds, *peaks, by_hand, least)


def _by_hand(folder: Path, work: Workload, peers: Path | None) -> float | None:
    """Return the median seconds of DuckDB's aggregates with OpenDP's vector noise."""
    # OpenDP chooses quantiles one by one: by hand it is no vector of noise.
    if peers is None or work.name.startswith("W5"):
        return None
    published = work.published.format(plain=_plain(folder, work))
    command = [str(peers), "-c", BY_HAND, published, str(folder)]
    rounds = min(ROUNDS, FEW_ROUNDS)
    return statistics.median(_process(command)[0] for _ in range(rounds))


def _plain(folder: Path, work: Workload) -> str:
    return work.plain.format(source=folder / f"{work.table}.parquet")


def compare(folder: Path, rows: int, peers: Path | None) -> list[Comparison]:
    """Return every comparison over tables of `rows` rows, generated in `folder` when missing."""
    make(folder, rows)
    found = [in_process(folder, work, rows) for work in WORKLOADS]
    return found + [whole_process(folder, work, rows, peers) for work in WORKLOADS]


def show(found: list[Comparison]) -> None:
    """Print a table of the comparisons over one size of tables."""
    heads = ("ours s", "DuckDB s", "ratio", "ours MB", "DuckDB MB", "by hand s")
    print(f"{f'workload, {found[0].rows:,} rows':<32}" + "".join(f"{head:>11}" for head in heads))
    for row in found:
        figures = (row.ours, row.plain, row.ratio, row.ours_mb, row.plain_mb, row.by_hand)
        forms = (".3f", ".3f", ".2f", ".0f", ".0f", ".3f")
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
