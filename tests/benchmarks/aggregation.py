"""Exact aggregation, in process and as whole processes, beside plain DuckDB in the same run."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import resolve
from dprelease.schema.load import read_declaration
from tests.benchmarks.people import EXACT_SQL, WORKLOADS, make

ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Comparison:
    """Median seconds (and peak megabytes, of whole processes) of ours and of plain DuckDB."""

    name: str
    ours: float
    plain: float
    ours_mb: float | None = None
    plain_mb: float | None = None

    @property
    def ratio(self) -> float:
        """Return ours / plain."""
        return self.ours / self.plain


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_process(folder: Path, name: str) -> Comparison:
    """Return the medians of the exact step of our run and of plain SQL, taken in turn."""
    (query,) = resolve(read_declaration(folder / f"{name}.yaml"))
    plain_sql = EXACT_SQL[name].format(source=folder / "people.parquet")

    def ours() -> object:
        with Engine.open(query.declared) as engine:
            return engine.run(query)

    def plain() -> object:
        with duckdb.connect() as connection:
            return connection.execute(plain_sql).fetchall()

    pairs = [(_seconds(ours), _seconds(plain)) for _ in range(ROUNDS + 1)][1:]
    mine, theirs = zip(*pairs, strict=True)
    return Comparison(f"{name}, in process", statistics.median(mine), statistics.median(theirs))


def _process(command: list[str]) -> tuple[float, float]:
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{command} ended with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def whole_process(folder: Path, name: str) -> Comparison:
    """Return medians of the `dprelease run` process and of a Python process that runs DuckDB."""
    out = folder / "out" / name
    source = folder / "people.parquet"
    copy = f"COPY ({EXACT_SQL[name].format(source=source)}) TO '{folder / 'plain.parquet'}'"
    script = f"import duckdb; duckdb.connect().execute({copy!r})"
    ours = [sys.executable, "-m", "dprelease", "run", str(folder / f"{name}.yaml")]
    ours += ["--overwrite", "--output", str(out), "--json"]
    plain = [sys.executable, "-c", script]
    with open(os.devnull, "w") as sink:
        saved = os.dup(1)
        os.dup2(sink.fileno(), 1)
        try:
            pairs = [(_process(ours), _process(plain)) for _ in range(ROUNDS + 1)][1:]
        finally:
            os.dup2(saved, 1)
            os.close(saved)
    mine, theirs = zip(*pairs, strict=True)
    return Comparison(
        f"{name}, whole process",
        statistics.median(seconds for seconds, _ in mine),
        statistics.median(seconds for seconds, _ in theirs),
        max(megabytes for _, megabytes in mine),
        max(megabytes for _, megabytes in theirs),
    )


def compare(folder: Path, rows: int) -> list[Comparison]:
    """Return every comparison over a table of `rows` rows, generated in `folder` when missing."""
    make(folder, rows)
    found = [in_process(folder, name) for name in WORKLOADS]
    return found + [whole_process(folder, name) for name in WORKLOADS]
