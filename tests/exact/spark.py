"""One Spark session for all tests, and answers of both engines side by side."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.exact.duckdb import Engine
from dprelease.exact.spark.engine import SparkEngine
from dprelease.exact.spark.session import Settings
from dprelease.exact.table import ExactTable
from dprelease.numerics.entropy import Entropy
from dprelease.query.resolve import Query
from tests.exact.build import _held

CONFIG = {
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "2",
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
        yield session
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.stop()


def vectors(query: Query, found: ExactTable) -> dict[str, list[Any]]:
    """Return vectors, and scores of candidates."""
    return {measure.name: _held(found, measure).tolist() for measure in query.measures}


def both(
    queries: list[Query],
    frame: object = None,
    joined: object = None,
    settings: Settings | None = None,
) -> None:
    """Assert that both engines answer the same."""
    other = None if queries[0].join is None else queries[0].join.declared
    with (
        Engine.open(queries[0].declared, frame, other, joined) as one,
        SparkEngine.open(queries[0].declared, frame, other, joined, settings) as two,
    ):
        for query in queries:
            wanted = vectors(query, one.run(query))
            assert vectors(query, two.run(query)) == wanted
            assert any(np.any(values) for values in wanted.values())
