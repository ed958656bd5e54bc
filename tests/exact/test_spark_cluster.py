"""Executors in separate processes: tasks that run twice, and killed executors."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.exact.spark import jobs, spark_engine
from dprelease.exact.spark import noise as spark_noise
from dprelease.exact.spark.executors.link import SCRATCH
from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.sessions import spark_session
from dprelease.exact.spark.sessions.spark_session import SparkSettings
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.query.resolve import Query
from tests import processes
from tests.exact import test_reference
from tests.exact.build import ask, declare
from tests.exact.cluster import PATIENCE, ROOT, FatalOnce, WatchedBound, WatchedNoise, cluster, wait
from tests.exact.spark import assert_engines_agree, small_pieces, some_rows, vectors

pytestmark = [
    pytest.mark.audit,  # to start two executors takes longer than the tests
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # of pyspark
]
BLOCK, CELLS = 10, 75
FRAME = pa.table({"v": [0, 0, 12, 29, 34, 41, 41, 41, 60, 74]})


@pytest.fixture(scope="module", autouse=True)
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with cluster(tmp_path_factory.mktemp("work")) as session, small_pieces():
        yield session


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small blocks; what executors wrote is copied before it is removed."""
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 1)
    monkeypatch.setattr(spark_engine, "BLOCK_CELLS", BLOCK)
    for name in ("staging", "marks"):
        (tmp_path / name).mkdir()
    remove = spark_noise._remove

    def copied(spark: Any, folder: str) -> None:
        shutil.copytree(folder.removeprefix("file://"), tmp_path / "copy")
        remove(spark, folder)

    monkeypatch.setattr(spark_noise, "_remove", copied)
    return tmp_path / "staging"


def cells() -> Query:
    column = {"type": "integer", "lower": 0, "upper": CELLS - 1}
    return ask(declare({"v": column}), {"rows": {"count": "*"}}, ["v"])


def publish_noise(noise: WatchedNoise) -> list[int]:
    """Return the noise of every block, each of one draw."""
    query, settings = cells(), SparkSettings(staging=f"file://{noise.staging}")
    with SparkEngine.open(query.declared, FRAME, settings=settings) as engine:
        noised = engine.noisy_vectors(query, noise)
        assert noised is not None
        rows = np.concatenate([some["rows"] for some in noised])
        true = engine.run(query).vector("rows")
    drawn = [set(part) for part in np.split(rows - true, range(BLOCK, CELLS, BLOCK))]
    assert [len(one) for one in drawn] == [1] * 8
    return [int(one.pop()) for one in drawn]


def blocks_in(folder: Path) -> list[int]:
    """Return the blocks that files hold, of whatever attempt; assert that nobody can read them."""
    whole = [file for file in folder.rglob("*.parquet") if file.read_bytes().endswith(b"PAR1")]
    files = [pq.ParquetFile(file).read() for file in whole]
    for row in (row for held in files for row in held.to_pylist()):
        with pytest.raises(ValueError, match="sealed"):
            Seal.fresh().decrypt_block(row["block"], row["content"])
        with pytest.raises((pa.ArrowInvalid, OSError)):
            pa.ipc.open_stream(row["content"]).read_all()
    return sorted(block for held in files for block in held["block"].to_pylist())


def assert_unreadable(folder: Path, noise: WatchedNoise) -> None:
    """Assert that one version of every block was there, and that nothing is left."""
    assert blocks_in(folder) == list(range(8))
    assert not list(noise.staging.iterdir())


@pytest.mark.parametrize("unit", test_reference.UNITS[:2], ids=str)
def test_cluster_gives_the_vectors_of_duckdb(unit: dict[str, Any]) -> None:
    query = test_reference.build(unit, test_reference.KEYS[1], test_reference.MEASURES)
    assert_engines_agree([query], test_reference.as_table(some_rows(3, 70)))


@pytest.mark.parametrize("committer", ["1", "2"])
def test_one_of_two_parallel_attempts_is_published(
    committer: str, staging: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have drawn noise and end at the same time."""
    algorithm = "mapreduce.fileoutputcommitter.algorithm.version"
    monkeypatch.setitem(spark_session.FIXED_SETTINGS, algorithm, committer)
    noise = WatchedNoise(tmp_path / "marks", staging, until="two attempts")
    told = publish_noise(noise)
    partition = int(next((tmp_path / "marks/first").iterdir()).name)
    attempts = noise.of(partition)
    assert {one.attempt for one in attempts} == {0, 1}
    assert len({one.executor for one in attempts}) == 2
    assert len({one.noise for one in attempts}) == len(attempts)
    first, second = ({one.noise for one in attempts if one.attempt == i} for i in (0, 1))
    assert [set(told) & first, set(told) & second] in ([first, set()], [set(), second])
    assert_unreadable(tmp_path / "copy", noise)


def test_noise_survives_a_killed_executor(staging: Path, tmp_path: Path) -> None:
    """It has committed one task, and drawn noise for another."""
    noise = WatchedNoise(tmp_path / "marks", staging, until="a kill")
    killed: list[int] = []

    def kill() -> None:
        end = time.monotonic() + PATIENCE
        while (victim := noise.victim()) is None and time.monotonic() < end:
            time.sleep(0.02)
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
        (tmp_path / "marks/killed").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    told = publish_noise(noise)
    killer.join()
    lost = {one.noise for one in noise.found()} - set(told)
    assert set(told) <= {one.noise for one in noise.found()}
    assert len(set(told)) == 8
    assert lost
    kept = {one.noise for one in noise.found() if one.executor in killed} & set(told)
    assert kept  # what it had committed was not done again
    assert_unreadable(tmp_path / "copy", noise)


def test_results_survive_a_killed_executor(tmp_path: Path) -> None:
    """Another executor repeats its tasks, and every result is there once, in order."""
    tasks = [np.arange(i, i + 5) for i in range(20)]
    query = cells()
    with SparkEngine.open(query.declared, FRAME) as engine:
        made = list(engine.spread(FatalOnce(tmp_path), iter(tasks)))
    assert [one.tolist() for one in made] == [(task * task).tolist() for task in tasks]
    assert (tmp_path / "fatal").exists()
    assert len(list(tmp_path.glob("begun-*"))) > len(tasks)


def test_tables_survive_a_worker_lost_in_the_shuffle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are distributed again, and all tables of the job are the same."""
    watched = partial(WatchedBound, marks=tmp_path)
    monkeypatch.setattr(jobs, "BoundRows", watched)
    bounds = {"id": "id", "max_groups": 2, "max_rows_per_group": 2}
    columns = {"id": {"type": "integer"}, "v": {"type": "integer", "lower": 0, "upper": 9}}
    declared = declare(columns, privacy_unit=bounds)
    asks: list[tuple[dict[str, Any], list[str]]] = [
        ({"rows": {"count": "*"}}, ["v"]),
        ({"total": {"sum": "v"}, "people": {"count_distinct": "id"}}, []),
        ({"middle": {"median": "v"}}, []),
    ]
    queries = [replace(ask(declared, *one), name=f"q{i}") for i, one in enumerate(asks)]
    frame = pa.table({"id": [i % 37 for i in range(400)], "v": [i * i % 10 for i in range(400)]})
    killed: list[int] = []

    def kill() -> None:
        wait(lambda: len({executor for *_, executor in WatchedBound.met(tmp_path)}) == 2)
        victim = WatchedBound.met(tmp_path)[0][2]
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)
        time.sleep(0.5)
        (tmp_path / "killed").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    with SparkEngine.open(declared, frame) as engine:
        engine.expect(queries)
        found = [vectors(query, engine.run(query)) for query in queries]
    killer.join()
    with Engine.open(declared, frame) as one:
        assert found == [vectors(query, one.run(query)) for query in queries]
    attempts = WatchedBound.met(tmp_path)
    lost = {partition for partition, _, executor in attempts if executor in killed}
    again = {partition for partition, _, executor in attempts if executor not in killed}
    assert lost
    assert lost <= again  # and nobody counted them twice
    assert not list(Path(tempfile.gettempdir()).glob(f"{SCRATCH}*/spill/*"))


RELEASE = """
import sys
from pathlib import Path
from tests.exact import test_spark_cluster as tests
from tests.exact.cluster import WatchedNoise
from tests.exact.spark import CONFIG
from dprelease.exact.spark import spark_engine as engine

engine.MANY_CELLS, engine.BLOCK = 1, tests.BLOCK
settings = tests.Settings("local[2]", f"file://{sys.argv[1]}/staging", CONFIG)
noise = WatchedNoise(Path(sys.argv[1], "marks"), Path(sys.argv[1], "staging"), until="a kill")
query = tests.cells()
with engine.SparkEngine.open(query.declared, tests.FRAME, settings=settings) as opened:
    opened.noised(query, noise)
"""


def test_files_of_a_killed_driver_are_encrypted(staging: Path, tmp_path: Path) -> None:
    """It leaves files that nobody can decrypt; the next driver ignores them."""
    noise = WatchedNoise(tmp_path / "marks", staging, until="a kill")
    command = [sys.executable, "-W", "ignore", "-c", RELEASE, str(tmp_path)]
    changed = {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    with processes.started(command, env=os.environ | changed, stderr=subprocess.DEVNULL) as driver:
        wait(lambda: noise.victim() is not None)
        spark = noise.victim()
        assert spark is not None
        os.kill(spark, signal.SIGKILL)  # else it would tidy up
        driver.kill()
    (tmp_path / "marks/killed").touch()
    left = blocks_in(staging)
    assert left
    (tmp_path / "other marks").mkdir()
    again = WatchedNoise(tmp_path / "other marks", staging)
    assert set(publish_noise(again)) <= {one.noise for one in again.found()}
    assert blocks_in(staging) == left
