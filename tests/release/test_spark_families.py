"""Families with invariants on Spark: the same bits as on one machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.exact import duckdb
from dprelease.exact.engine_api import Sources
from dprelease.exact.results.true_table import ExactTable
from dprelease.exact.spark import noise as spark_noise
from dprelease.exact.spark import spark_engine, spark_factory
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.noise import noised_answers
from dprelease.noise.noised_vectors import perturb
from dprelease.planning.plan import PlannedColumn
from dprelease.query.resolve import Query
from dprelease.release.runs.pipeline import run
from tests.exact.fake_spark import fake_spark_engine
from tests.exact.spark import local_spark, small_pieces
from tests.release.area_family import BY_ID, publish_family, read_family
from tests.release.test_consistent import read_tables
from tests.release.test_consistent_runs import files
from tests.release.test_invariants import (
    CASES,
    REPLACE,
    as_counts,
    invariant_tables,
    true_counts,
    with_invariants,
)
from tests.release.test_levels import AT_TOWNS
from tests.release.test_shared_families import two_queries
from tests.replay import Keyed

ROWS = 100
STATES = with_invariants("{level: state}")
TREE = "hierarchy: [state, town]\n    marginals: [[], [sex], [band, sex]]"
SHARED = with_invariants("{level: state}", "")

SITUATIONS: dict[str, dict[str, Any]] = {
    **CASES,
    "ids by sex": {"unit": BY_ID, "consistent": with_invariants("{level: town, table: [sex]}")},
    "levels of their own": {
        "asked": AT_TOWNS, "consistent": with_invariants("{level: state, table: [sex]}"),
    },
    "parts": {"consistent": with_invariants("{level: town}", "non_negative: true, publish: {partition: state}")},
    "a condition": {"asked": f"{TREE}\n    where: age >= 18", "consistent": STATES},
    "two queries": {
        **two_queries(), "consistent": f"{SHARED}\n    family: all",
        "more": two_queries()["more"].replace("consistent: true", f"consistent: {SHARED}"),
    },
    "no rows": {"rows": 0, "consistent": STATES},
}  # fmt: skip


QUICK = ("crossing", "no areas", "ids by sex", "levels of their own", "parts", "two queries")


def situations() -> list[Any]:
    """Return all situations for `parametrize`; most are marked for audits."""
    marks = {what: [] if what in QUICK else [pytest.mark.audit] for what in SITUATIONS}
    return [pytest.param(what, marks=marks[what]) for what in SITUATIONS]


def situation(what: str, **more: Any) -> dict[str, Any]:
    """Return what is asked in a situation; lines of `more` stand behind those of its own."""
    given = {"budget": REPLACE, "rows": ROWS, **SITUATIONS[what]}
    return {**given, **more, "more": given.get("more", "") + more.get("more", "")}


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Spark engine run its tasks in this process."""

    @contextmanager
    def opened(_: object, sources: Sources, *__: object) -> Iterator[SparkEngine]:
        given = sources.declared, sources.frame, sources.joined, sources.joined_frame
        with small_pieces(32), fake_spark_engine(*given) as (engine, spark):
            yield engine
        assert spark.jobs

    monkeypatch.setattr(spark_factory.SparkKind, "open", opened)


@pytest.mark.share(0.25)
@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("what", situations())
def test_spark_publishes_the_same_bytes(what: str, tmp_path: Path) -> None:
    """With the same bits all files are equal: exact tables, noised tables, and both layers."""
    one = publish_family(tmp_path / "one", **situation(what))
    given = situation(what, more="engine: spark\n")
    if what == "no areas":  # and rows may come as a frame
        declaration = read_family(tmp_path / "other", **given)
        frame = pd.read_csv(tmp_path / "other/people.csv")
        (tmp_path / "other/people.csv").unlink()
        other = run(declaration, bits=Keyed("family"), frames={"people": frame})
    else:
        other = publish_family(tmp_path / "other", **given)
    assert invariant_tables(other)
    assert files(one) == files(other)


class NoiseFromCells:
    """Noise that is computed from the true values of a block, the same on every machine."""

    def __init__(self, columns: tuple[PlannedColumn, ...]) -> None:
        self.columns = columns

    def __call__(self, exact: ExactTable) -> dict[str, np.ndarray]:
        names = [column.measurement.name for column in self.columns]
        told = [(name, exact.vector(name).tolist()) for name in names]
        return perturb(exact, self.columns, Keyed(str(told))).columns


def block_of(exact: ExactTable, cells: slice) -> ExactTable:
    vectors = {name: exact.vector(name)[cells] for name in ("n", "pay") if name in exact._vectors}
    return ExactTable(exact.name, len(next(iter(vectors.values()))), vectors)


BLOCK = 5


class BlockEngine(duckdb.Engine):
    """An engine of one machine that adds noise to each block of cells."""

    def noisy_vectors(
        self, query: Query, noise: Callable[[ExactTable], Any]
    ) -> Iterator[dict[str, Any]]:
        exact: ExactTable = self.run(query)
        starts = range(0, query.keys.size, BLOCK)
        return iter([noise(block_of(exact, slice(first, first + BLOCK))) for first in starts])


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with local_spark() as session:
        yield session


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors draw the noise of few cells, in small blocks, two of which come at a time."""
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 1)
    monkeypatch.setattr(spark_engine, "BLOCK_CELLS", BLOCK)
    monkeypatch.setattr(spark_noise, "BLOCKS_AT_ONCE", 2)


def on_executors(folder: Path, what: str) -> dict[str, Any]:
    (folder / "staging").mkdir(parents=True)
    staging = f"engine: spark\nspark: {{staging: 'file://{folder}/staging'}}\n"
    return situation(what, more=staging)


@pytest.mark.audit
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
@pytest.mark.usefixtures("spark", "spread")
@pytest.mark.parametrize("what", SITUATIONS)
def test_executors_give_the_files_of_one_machine(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noised_answers, "FreshNoise", NoiseFromCells)
    other = run(read_family(tmp_path / "other", **on_executors(tmp_path, what)))
    monkeypatch.setattr(duckdb, "Engine", BlockEngine)
    one = run(read_family(tmp_path / "one", **situation(what)))
    assert files(one) == files(other)
    assert dprelease.verify(other).ok
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.audit
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
@pytest.mark.usefixtures("spark", "spread")
@pytest.mark.parametrize("what", ["nested", "one of two columns"])
def test_executors_add_noise_to_all_but_invariants(what: str, tmp_path: Path) -> None:
    """With their own entropy: exact tables are the truth, and no other table is."""
    folder = run(read_family(tmp_path / "release", **on_executors(tmp_path, what)))
    assert dprelease.verify(folder).ok
    exact = invariant_tables(folder)
    for name, table in read_tables(folder, "measurements").items():
        of = {key: n for key, n in as_counts(table, "n").items() if n}
        assert (of == true_counts(name, ROWS)) is (name in exact), name
