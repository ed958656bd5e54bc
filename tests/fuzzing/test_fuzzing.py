"""Random releases keep every promise; a planted fault is found, and made small.

A few each time; in audits as many as `FUZZING_SECONDS` has room for, and on a real Spark as well.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dprelease.auditing.pairs import Tables
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.privacy.unit import Sensitivity
from dprelease.query.aggregates import sum as sums
from dprelease.query.resolve import Query
from tests.exact.spark import local_spark, small_pieces
from tests.fuzzing.checks import Broken, check, sources, tables
from tests.fuzzing.releases import RELEASE, TABLE
from tests.fuzzing.searching import Search, search, search_for

SECONDS = float(os.environ.get("FUZZING_SECONDS", "1800"))
ON_SPARK = SECONDS / 3
"""Of these, how many are spent on a real Spark, which takes seconds for what others take none."""

SHRINKING = 3600
"""Seconds that making what breaks a promise small may take, beside the search."""

KEPT = Path("out/fuzzing")
"""Where audits leave what breaks a promise."""

FEW, MANY = 4, 150


@pytest.fixture(autouse=True, scope="module")
def few_rows() -> Iterator[None]:
    with small_pieces(2):
        yield


def test_random_releases_break_no_promise(tmp_path: Path) -> None:
    found = Search(tmp_path)
    search(found, 1, FEW)
    assert found.tried > FEW // 2, found.refused


@pytest.mark.audit
@pytest.mark.timeout(1800)
def test_planted_fault_is_found_and_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are claimed to move half as far; a release of one sum, and the row that moves it."""
    right = sums.sum_sensitivity

    def half(least: int, most: int, *more: Any) -> Sensitivity:
        return right(least // 2, most // 2, *more)

    monkeypatch.setattr(sums, "sum_sensitivity", half)
    found = Search(tmp_path)
    with pytest.raises(Broken, match="claims: q0"):
        search(found, 3, MANY)
    (folder,) = found.broken.values()
    release = yaml.safe_load((folder / RELEASE).read_text())
    table = yaml.safe_load((folder / TABLE).read_text())
    (query,) = release["queries"].values()
    assert (len(query["columns"]), len(table["columns"])) == (1, 1)
    assert sum(len(side["t"]) for side in tables(folder)) <= 3
    with pytest.raises(Broken, match="claims"):
        check(folder)
    monkeypatch.undo()
    check(folder)


@pytest.mark.audit
@pytest.mark.timeout(SECONDS + SHRINKING)
def test_random_releases_for_a_long_time() -> None:
    found = search_for(SECONDS, KEPT, time.time_ns())
    assert found.tried > SECONDS / 10, found.refused


@contextmanager
def spark(query: Query, held: Tables) -> Iterator[Any]:
    with SparkEngine.open(*sources(query, held)) as engine:
        yield engine


@pytest.mark.audit
@pytest.mark.timeout(ON_SPARK + SHRINKING)
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
def test_random_releases_on_spark() -> None:
    with local_spark():
        found = search_for(ON_SPARK, KEPT, time.time_ns(), [spark])
    assert found.tried > ON_SPARK / 60, found.refused
