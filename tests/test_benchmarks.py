"""The benchmarks that need neither large data nor other packages run; their figures are no test."""

from __future__ import annotations

import pytest

from dprelease.mechanisms import registry
from tests.benchmarks import calibration, noise


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
