"""The benchmarks that need neither large data nor other packages run; their figures are no test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.mechanisms import registry
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from examples.census.nation.generate import Size
from tests.benchmarks import (
    aggregation,
    calibration,
    census,
    growth,
    large,
    noise,
    on_spark,
    questions,
    workloads,
)
from tests.exact.spark import CONFIG


def test_calibration_and_planning_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row.mechanism for row in calibration.run()] == list(registry.names())
    assert all(row.seconds > 0 for row in calibration.plan_many())
    assert "1,000 of 5 kinds" in capsys.readouterr().out


def test_draws_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(noise, "DRAWS", 2000)
    monkeypatch.setattr(noise, "ROUNDS", 1)
    rows = noise.run({"a peer": {"laplace": 1.0}})
    assert {row.mechanism for row in rows} == set(registry.names())
    assert "a peer" in capsys.readouterr().out


def test_questions_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "TIMES", 3)
    found = questions.run(tmp_path, 2000)
    assert [(row.table, row.by) for row in found] == [
        (table, ", ".join(by)) for table in questions.TABLES for by in questions.KEYS
    ]
    assert all(min(row.first, row.then, row.cpu, row.plain) > 0 for row in found)
    assert "residents by state, sex, race" in capsys.readouterr().out


@pytest.mark.parametrize(
    "names",
    [
        ("W3_bounded", "U7_five_tables"),
        pytest.param(
            tuple(work.name for work in workloads.WORKLOADS if work.name[1] != "4"),
            marks=pytest.mark.audit,
        ),
    ],
    ids=["some", "all"],
)
def test_workloads_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: tuple[str, ...],
) -> None:
    monkeypatch.setattr(aggregation, "ROUNDS", 1)
    workloads.make(tmp_path, 2000)
    small = [work for work in workloads.WORKLOADS if work.name in names]
    found = [aggregation.in_process(tmp_path, work, 2000) for work in small]
    found += [aggregation.whole_release(tmp_path, work, 2000) for work in small]
    found.append(aggregation.whole_process(tmp_path, small[0], 2000, None))
    aggregation.show(found)
    shown = capsys.readouterr().out
    assert "W3_bounded, in process" in shown
    assert "U7_five_tables, release" in shown
    assert found[-1].ours_mb
    assert all(row.cpu_ratio for row in found)
    old = [{**asdict(row), "ours": row.ours / 2} for row in found[:1]]
    assert len(aggregation.slower([asdict(row) for row in found], old)) == 1


@pytest.mark.audit
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
def test_workloads_run_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_spark, "ROUNDS", 1)
    monkeypatch.setattr(on_spark, "CONFIG", CONFIG)
    names = ("W1_count", "W3_bounded", "W5_quartiles")
    found = on_spark.show(on_spark.compare(tmp_path, 2000, names))
    assert [row.name for row in found] == list(names)
    assert all(row.ours_cpu > 0 and row.ratio > 0 for row in found)
    assert "on Spark, 2,000 rows" in capsys.readouterr().out


@pytest.mark.parametrize(("enough", "rounds"), [(1e9, 3), (0.0, 1)], ids=["quick", "slow"])
def test_long_spark_rounds_are_not_repeated(
    enough: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is found is told at once: a table of large rows is not waited for in silence."""
    monkeypatch.setattr(on_spark, "ENOUGH", enough)
    called: list[str] = []
    found = on_spark._pairs(lambda: called.append("ours"), lambda: called.append("own"), 3)
    assert len(found) == rounds
    assert called == ["ours", "own"] * (rounds + (enough > 0))


def test_comparisons_are_shown_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    def made() -> Iterator[on_spark.OnSpark]:
        for name in ("first", "second"):
            yield on_spark.OnSpark(name, 2000, 1.0, 2.0, 1.0, 1.0)
            assert name in capsys.readouterr().out

    assert [row.ratio for row in on_spark.show(made())] == [0.5, 0.5]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("work", workloads.WORKLOADS, ids=lambda work: work.name)
def test_plain_sql_writes_the_published_tables(
    tmp_path_factory: pytest.TempPathFactory, work: workloads.Workload
) -> None:
    """As many files as tables; where rows are not bounded, of the same counts in no more cells."""
    folder = tmp_path_factory.getbasetemp() / "benchmark"
    workloads.make(folder, 20_000)
    queries = resolve(read_declaration(folder / f"{work.name}.yaml"))
    with duckdb.connect() as link:
        for statement in work.writing(folder):
            link.execute(statement)
    with Engine.open(queries[0].declared) as engine:
        engine.expect(queries)
        tables = [engine.run(query) for query in queries]
    plain = [pq.read_table(folder / f"plain_{i}.parquet") for i in range(len(tables))]
    if not work.parts:
        assert len(plain[0]) <= tables[0].size
        assert len(plain[0]) == tables[0].size or work.name[1] != "4"
    if "persons" in plain[0].column_names:
        counted = [int(table.vector("persons").sum()) for table in tables]
        assert [sum(table["persons"].to_pylist()) for table in plain] == counted
        assert counted == [20_000] * len(tables)


@pytest.mark.audit
def test_large_release_has_200_tables(tmp_path: Path) -> None:
    large.make(tmp_path, 3000)
    declaration = read_declaration(tmp_path / "large.yaml")
    assert len(declaration.spec.queries) == 200
    folder = run(declaration)
    names = [f"q{i}" for i in range(len(large.MARGINALS))]
    cells = sum(pq.read_metadata(folder / f"{name}.parquet").num_rows for name in names)
    with duckdb.connect() as link:
        for statements in large.statements(tmp_path).values():
            for sql in statements:
                link.execute(f"CREATE OR REPLACE TEMP TABLE found AS {sql}")
                if "count(*)" in sql:
                    found = link.sql("SELECT count(*), sum(n) FROM found").fetchall()[0]
                    assert found[1] == 3000 * len(large.MARGINALS)
                    assert found[0] <= cells


def test_growth_is_measured_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"ROWS": (500, 1000), "TABLES": (1, 2), "CELLS": growth.CELLS[:2], "FEW_ROWS": 500}
    for name, value in {**small, "TIMES": 1}.items():
        monkeypatch.setattr(growth, name, value)
    lines = growth.measure(tmp_path)
    assert [len(line) for line in lines.values()] == [2, 2, 2]
    growth.draw(tmp_path / "growth.svg", lines)
    assert (tmp_path / "growth.svg").read_text().startswith("<?xml")
    assert "cells" in capsys.readouterr().out


def test_nonlinear_growth_is_reported() -> None:
    def measured(name: str, cost: Callable[[int], float]) -> list[aggregation.Comparison]:
        sizes = (1_000_000, 10_000_000, 50_000_000)
        return [aggregation.Comparison(name, rows, cost(rows), 1.0) for rows in sizes]

    straight, bent = aggregation.growth(
        measured("straight", lambda rows: 0.5 + rows / 1e7)
        + measured("bent", lambda rows: 0.1 + (rows / 1e7) ** 2)
    )
    assert "0.50 s and 0.100 s a million rows, at most 0 % off" in straight.replace("0%", "0 %")
    assert int(bent.split("most ")[1].split("%")[0]) > 15


@pytest.mark.audit
def test_census_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = Size(counties=2, tracts=2, block_groups=1, blocks=3)
    found = census.run(tmp_path / "nation", tiny, tiny, Size(states=2, blocks=4))
    assert [one.work for one in found] == [
        "layers 1 and 2", "a release of 50 tables", "verify",
        "people made", "declared and planned", "a table at blocks, 8 above",
    ]  # fmt: skip
    assert all(one.processor > 0 for one in found)
    assert "layers 1 and 2" in capsys.readouterr().out
