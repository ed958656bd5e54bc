"""The benchmarks that need neither large data nor other packages run; their figures are no test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from dprelease.mechanisms import registry
from examples.census.nation.generate import Size
from tests.benchmarks import aggregation, calibration, census, noise, on_spark, workloads
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


def test_workloads_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(aggregation, "ROUNDS", 1)
    workloads.make(tmp_path, 2000)
    small = [work for work in workloads.WORKLOADS if not work.name.startswith("W4")]
    found = [aggregation.in_process(tmp_path, work, 2000) for work in small]
    found.append(aggregation.whole_process(tmp_path, small[0], 2000, None))
    aggregation.show(found)
    assert "W3_bounded, in process" in capsys.readouterr().out
    assert found[-1].ours_mb
    old = [{**asdict(row), "ours": row.ours / 2} for row in found[:1]]
    assert len(aggregation.slower([asdict(row) for row in found], old)) == 1


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
def test_workloads_run_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_spark, "ROUNDS", 1)
    monkeypatch.setattr(on_spark, "CONFIG", CONFIG)
    names = ("W1_count", "W3_bounded", "W5_quartiles", "W6_marginals")
    found = on_spark.compare(tmp_path, 2000, names)
    on_spark.show(found)
    assert [row.name for row in found] == list(names)
    assert all(row.ours_cpu > 0 and row.ratio > 0 for row in found)
    assert "on Spark, 2,000 rows" in capsys.readouterr().out


def test_growth_that_is_not_straight_is_told() -> None:
    def measured(name: str, cost: Callable[[int], float]) -> list[aggregation.Comparison]:
        sizes = (1_000_000, 10_000_000, 50_000_000)
        return [aggregation.Comparison(name, rows, cost(rows), 1.0) for rows in sizes]

    straight, bent = aggregation.growth(
        measured("straight", lambda rows: 0.5 + rows / 1e7)
        + measured("bent", lambda rows: 0.1 + (rows / 1e7) ** 2)
    )
    assert "0.50 s and 0.100 s a million rows, at most 0 % off" in straight.replace("0%", "0 %")
    assert int(bent.split("most ")[1].split("%")[0]) > 15


def test_census_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = Size(counties=2, tracts=2, block_groups=1, blocks=3)
    found = census.run(tmp_path / "nation", tiny, tiny)
    assert [one.work for one in found] == ["layers 1 and 2", "a release of 50 tables", "verify"]
    assert all(one.processor > 0 for one in found)
    assert "layers 1 and 2" in capsys.readouterr().out
