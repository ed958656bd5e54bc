"""Milliseconds of a question to a session, the first and then, beside DuckDB's over the frame."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq

import dprelease
from tests.benchmarks import workloads

ROWS = 1_000_000
TIMES = 21
TABLES = ("people", "residents")
KEYS = ([], ["state"], ["state", "sex"], ["state", "sex", "race"])


@dataclass(frozen=True, slots=True)
class Asked:
    """Milliseconds by the clock of one count; `plain` of DuckDB's, `cpu` of the processor."""

    table: str
    by: str
    first: float
    then: float
    cpu: float
    plain: float


def run(folder: Path, rows: int = ROWS) -> list[Asked]:
    """Measure, print and return the table: counts of frames, medians but for the first."""
    workloads.make(folder, rows)
    found = [row for table in TABLES for row in _run_queries(folder, table)]
    heads = ("first ms", "then ms", "CPU ms", "DuckDB ms")
    print(f"{f'count of a frame, {rows:,} rows':<44}" + "".join(f"{head:>11}" for head in heads))
    for row in found:
        figures = (row.first, row.then, row.cpu, row.plain)
        name = f"{row.table} by {row.by}" if row.by else row.table
        print(f"{name:<44}" + "".join(f"{figure:>11.1f}" for figure in figures))
    return found


def _run_queries(folder: Path, table: str) -> list[Asked]:
    frame: pd.DataFrame = pq.read_table(folder / f"{table}.parquet").to_pandas()
    session = dprelease.Session(folder / f"{table}.yaml", epsilon=1000)
    frame.dp.use(session)
    rows = []
    with duckdb.connect() as link:
        link.execute("SET enable_progress_bar = false")
        link.register("frame", frame)
        for by in KEYS:
            sql = f"SELECT {', '.join([*by, 'count(*)'])} FROM frame GROUP BY ALL"
            plain = _times(partial(_answer, link, sql))
            ours = _times(partial(frame.dp.count, by=by or None, epsilon=1))
            seconds, cpu = zip(*ours[1:], strict=True)
            medians = statistics.median(seconds), statistics.median(cpu)
            others = statistics.median(one for one, _ in plain[1:])
            rows.append(Asked(table, ", ".join(by), ours[0][0], *medians, others))
    return rows


def _answer(link: duckdb.DuckDBPyConnection, sql: str) -> object:
    return link.sql(sql).fetchall()


def _times(work: Callable[[], object]) -> list[tuple[float, float]]:
    """Return milliseconds by the clock and of the processor, of each time."""
    taken = []
    for _ in range(TIMES):
        start, cpu = time.perf_counter(), time.process_time()
        work()
        taken.append((1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu)))
    return taken
