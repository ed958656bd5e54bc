"""Noise that Spark executors draw is published once, even if tasks run twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.exact.spark import noise as spark_noise
from dprelease.exact.spark import pieces, spark_engine
from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.executors.task_rows import to_ipc_bytes
from dprelease.exact.spark.sessions.spark_session import SparkSettings
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.release.run_options import with_engine
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.exact.build import ask, declare
from tests.exact.spark import ConstantNoise, local_spark
from tests.release import build as release_build

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # of pyspark
]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[Any]:
    with local_spark() as session:
        yield session


def test_noise_of_a_repeated_task_is_published_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt fails after drawing; its noise is in no cell."""
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 1)
    monkeypatch.setattr(spark_engine, "BLOCK_CELLS", 10)
    monkeypatch.setattr(spark_noise, "BLOCKS_AT_ONCE", 3)  # so that blocks come in two parts
    monkeypatch.setattr(pieces, "TASKS_A_CORE", 1)  # and two are drawn by one task
    column = {"type": "integer", "lower": 0, "upper": 34}
    query = ask(declare({"v": column}), {"rows": {"count": "*"}}, ["v"])
    frame = pa.table({"v": [0, 0, 12, 29, 34]})
    for name in ("staging", "marks"):
        (tmp_path / name).mkdir()
    settings = SparkSettings(staging=f"file://{tmp_path}/staging")
    with SparkEngine.open(query.declared, frame, settings=settings) as engine:
        found = engine.noisy_vectors(query, ConstantNoise(tmp_path / "marks"))
        assert found is not None
        noised = [block["rows"] for block in found]
        true = engine.run(query).vector("rows")
    assert [len(block) for block in noised] == [10, 10, 10, 5]
    noise = np.concatenate(noised) - true
    published = [set(noise[first : first + 10].tolist()) for first in range(0, 35, 10)]
    marks = [path.name.split("-") for path in (tmp_path / "marks").iterdir()]
    drawn = {int(mark[1]) for mark in marks if mark[0] == "drawn"}
    assert all(len(block) == 1 for block in published)
    assert set.union(*published) == drawn
    assert len(drawn) == 4
    assert [mark[0] for mark in marks].count("lost") == 1
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.parametrize(
    "blocks", [[], [0], [0, 0], [0, 0, 1], [0, 1, 1], [1, 0], [1, 2], [0, 1, 2]], ids=str
)
def test_missing_and_duplicate_blocks_are_refused(blocks: list[int]) -> None:
    """Whatever a Spark committer leaves, cells are published from exactly one draw."""
    seal = Seal.fresh()
    rows = [
        (block, seal.encrypt_block(block, to_ipc_bytes(pa.table({"rows": [block]}))))
        for block in blocks
    ]
    with pytest.raises(LookupError):
        list(spark_noise._decrypt_blocks(rows, 2, seal))


def test_blocks_of_another_place_or_run_are_refused() -> None:
    seal = Seal.fresh()
    sealed = [
        seal.encrypt_block(block, to_ipc_bytes(pa.table({"rows": [block]}))) for block in (1, 0)
    ]
    swapped, straight = list(enumerate(sealed)), list(enumerate(reversed(sealed)))
    opened = spark_noise._decrypt_blocks(straight, 2, seal)
    assert [block["rows"].tolist() for block in opened] == [[0], [1]]
    for rows, key in ((swapped, seal), (straight, Seal.fresh())):
        with pytest.raises(ValueError, match="sealed"):
            list(spark_noise._decrypt_blocks(rows, 2, key))
    assert repr(seal.key) not in repr(seal)


def test_noise_of_a_killed_driver_is_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can read it, and the next run with the same folder ignores it."""
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 1)
    column = {"type": "integer", "lower": 0, "upper": 99}
    query = ask(declare({"v": column}), {"rows": {"count": "*"}}, ["v"])
    frame = pa.table({"v": [0, 12, 34]})
    for name in ("staging", "marks"):
        (tmp_path / name).mkdir()
    (tmp_path / "marks/failed").touch()
    settings = SparkSettings(staging=f"file://{tmp_path}/staging")

    def noise() -> int:
        with SparkEngine.open(query.declared, frame, settings=settings) as engine:
            found = engine.noisy_vectors(query, ConstantNoise(tmp_path / "marks"))
            assert found is not None
            (block,) = found
        assert len(block["rows"]) == 100
        return int(block["rows"][99])

    def not_removed(*_: object) -> None:
        raise OSError("SECRET-4711")

    with monkeypatch.context() as patched:
        patched.setattr(spark_noise, "_remove", not_removed)
        first = noise()
    left = [path for path in (tmp_path / "staging").rglob("*") if path.is_file()]
    (held,) = (pq.read_table(path) for path in left if path.suffix == ".parquet")
    with pytest.raises(ValueError, match="sealed"):
        Seal.fresh().decrypt_block(0, held["content"][0].as_py())
    assert not any(np.int64(first).tobytes() in path.read_bytes() for path in left)
    assert noise() != first
    assert len(list((tmp_path / "staging").iterdir())) == 1


@pytest.mark.parametrize("read", ["nothing", "a block"])
def test_unread_noise_is_removed(
    read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a run fails between noise and files, the folder is removed with the engine."""
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 1)
    monkeypatch.setattr(spark_engine, "BLOCK_CELLS", 10)
    query = ask(
        declare({"v": {"type": "integer", "lower": 0, "upper": 34}}),
        {"rows": {"count": "*"}},
        ["v"],
    )
    for name in ("staging", "marks"):
        (tmp_path / name).mkdir()
    (tmp_path / "marks/failed").touch()
    settings = SparkSettings(staging=f"file://{tmp_path}/staging")
    with SparkEngine.open(query.declared, pa.table({"v": [0, 1]}), settings=settings) as engine:
        found = engine.noisy_vectors(query, ConstantNoise(tmp_path / "marks"))
        assert found is not None
        if read == "a block":
            assert len(next(found)["rows"]) == 10
        assert list((tmp_path / "staging").iterdir())
    assert list((tmp_path / "staging").iterdir()) == []


def test_executors_add_noise_to_large_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 1)
    monkeypatch.setattr(spark_engine, "BLOCK_CELLS", 50)
    file = release_build.write(tmp_path)
    (tmp_path / "staging").mkdir()
    text = f"""\
title: Many cells
tables: [people.yaml]
budget: {{epsilon: 100, neighbours: add_remove}}
mechanism: discrete_laplace
queries:
  q:
    from: people
    group_by: [city, age]
    columns: {{people: {{count_distinct: person}}, pay: {{sum: pay}}, middle: {{median: pay}}}}
output: out
engine: spark
spark: {{staging: "file://{tmp_path}/staging"}}
"""
    file.write_text(text)
    declaration = read_declaration(file)
    two = run(declaration)
    one = run(with_engine(declaration, "duckdb"), output=tmp_path / "one")
    tables = [pq.read_table(folder / "q.parquet") for folder in (one, two)]
    assert tables[0].schema == tables[1].schema
    for name in ("city", "age", "people"):  # at this price, counts have next to no noise
        assert tables[0][name].equals(tables[1][name])
    assert verify(two).ok
