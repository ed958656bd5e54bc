"""EXPLAIN in narrow and in wide terminals: no word is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease import cli
from tests.ledger.test_ledger import release_with_ledger

STATEMENT = "EXPLAIN SELECT city, AVG(age) AS mean_age, COUNT(*) AS n FROM people GROUP BY city"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_explain_breaks_no_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    release_with_ledger(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    command = ["sql", STATEMENT, "--schema", str(tmp_path / "people.yaml"), "--epsilon", "1"]
    shown = CliRunner().invoke(cli.app, command).stdout
    words = shown.split()
    for word in ("mechanism", "sensitivity", "mean_error", "cost_alone", "mean_age.sum"):
        assert word in words
    assert all(len(line) <= width for line in shown.partition("\n\n")[0].splitlines())
