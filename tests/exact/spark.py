"""One Spark session for all tests, and answers of both engines side by side."""

from __future__ import annotations

import datetime
import decimal
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_table import ExactTable
from dprelease.exact.spark import pieces
from dprelease.exact.spark.sessions.spark_session import SparkSettings
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.noise.noised_vectors import FreshNoise
from dprelease.numerics.entropy import Entropy
from dprelease.query.resolve import Query
from tests.exact.build import _vector_or_scores, ask, declare

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of Java: for so few rows, compiling its own code well takes longer than the work."""

CONFIG = {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "2",
    "spark.sql.warehouse.dir": f"file://{tempfile.gettempdir()}/dprelease-warehouse",  # else made here
}


class ConstantNoise:
    """Adds one number to all cells of a block; fails once, after it has drawn."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, exact: ExactTable) -> dict[str, np.ndarray]:
        drawn = int(Entropy().words(1)[0] >> np.uint64(8))
        (self.folder / f"drawn-{drawn}").touch()
        try:
            (self.folder / "failed").touch(exist_ok=False)
        except FileExistsError:
            return {"rows": exact.vector("rows") + drawn}
        (self.folder / f"drawn-{drawn}").rename(self.folder / f"lost-{drawn}")
        raise RuntimeError("SECRET-4711")


@dataclass(frozen=True)
class KilledOnce:
    """Adds fresh noise; of all calls, one ends its worker after it has drawn."""

    columns: tuple[Any, ...]
    folder: Path

    def __call__(self, exact: ExactTable) -> dict[str, np.ndarray]:
        found = FreshNoise(self.columns)(exact)
        try:
            (self.folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            return found
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives that")


@contextmanager
def small_pieces(rows: int = 32) -> Iterator[None]:
    """Let few rows be as many tasks as many are: some for each core."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LEAST_ROWS", "LEAST_FRAME_ROWS"):
            patch.setattr(pieces, name, rows)
        patch.setattr(pieces, "LEAST_BYTES", 64)
        yield


@contextmanager
def local_spark(master: str = "local[2,3]") -> Iterator[Any]:
    """Yield a session of this machine, which the engine then takes for its own."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in CONFIG.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    try:
        with small_pieces():
            yield session
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.stop()


def vectors(query: Query, found: ExactTable) -> dict[str, list[Any]]:
    """Return vectors, and scores of candidates."""
    return {
        measurement.name: _vector_or_scores(found, measurement).tolist()
        for measurement in query.measurements
    }


def assert_engines_agree(
    queries: list[Query],
    frame: object = None,
    joined: object = None,
    settings: SparkSettings | None = None,
) -> None:
    """Assert that both engines give the same vectors."""
    other = None if queries[0].join is None else queries[0].join.declared
    with (
        Engine.open(queries[0].declared, frame, other, joined) as one,
        SparkEngine.open(queries[0].declared, frame, other, joined, settings) as two,
    ):
        for query in queries:
            wanted = vectors(query, one.run(query))
            assert vectors(query, two.run(query)) == wanted
            assert any(np.any(values) for values in wanted.values())


def some_rows(seed: int, size: int) -> list[dict[str, Any]]:
    """Return rows of the table that the reference is tested with."""
    one = random.Random(seed).choice
    floats = [None, float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 1e308, 0.125, -0.375]
    return [
        {
            "id": one([None, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8]),
            "k": one(["a", "b", "c", "zz", "", None]),
            "m": one(["x", "y", "q", None]),
            "n": one([None, -(2**31), -9, -5, 0, 3, 7, 20, 99]),
            "s": one([None, -99, -7, 0, 5, 31, 2**62]),
            "x": one([*floats, 3.3, -2.375, 9.875]),
            "flag": one([None, True, False]),
        }
        for _ in range(size)
    ]


COLUMNS: dict[str, Any] = {
    "id": {"type": "text"},
    "k": {"type": "category", "values": ["a", "b"], "others": "b", "fill": "b"},
    "n": {"type": "integer", "lower": 0, "upper": 9},
    "x": {"type": "number", "lower": 0, "upper": 10, "step": "0.5"},
    "d": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "format": "%d.%m.%Y"},
    "flag": {"type": "boolean"},
    "t": {"type": "timestamp"},
}
MEASURES = {
    "rows": {"count": "*"},
    "n": {"sum": "n"},
    "x": {"sum": "x"},
    "d": {"count": "d"},
    "flags": {"count": "flag"},
}


def of_source(path: str | None, unit: bool, **source: Any) -> Query:
    given = {"privacy_unit": {"id": "id", "max_groups": 2, "max_rows_per_group": 1}} if unit else {}
    where = "t > '2024-01-01 12:00:00' OR t IS NULL OR n > 3"
    where_from = source if path is None else {"path": path, **source}
    declared = declare(COLUMNS, source=where_from, **given)
    return ask(declared, MEASURES, ["k"], where)


def some_table(size: int) -> pa.Table:
    """Return rows of types that are not those of the declared columns."""
    one = random.Random(7).choice
    day, instant = datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 11)
    return pa.table(
        {
            "id": pa.array([one(["u", "v", "w", "ü", None]) for _ in range(size)]),
            "k": pa.array([one(["a", "b", "", None]) for _ in range(size)]).dictionary_encode(),
            "n": pa.array([decimal.Decimal(one(["1.50", "2.00", "99"])) for _ in range(size)], pa.decimal128(9, 2)),
            "x": pa.array([one([0.1, None, float("nan"), -3.0, 4.75]) for _ in range(size)], pa.float32()),
            "d": pa.array([day + datetime.timedelta(i) for i in range(size)]),
            "flag": pa.array([one([True, None]) for _ in range(size)]),
            "t": pa.array([instant + datetime.timedelta(minutes=i) for i in range(size)], pa.timestamp("us", "UTC")),
            "spare": pa.array([[1]] * size),
        }
    )  # fmt: skip
