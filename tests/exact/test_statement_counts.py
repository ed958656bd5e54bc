"""How many statements a release executes: each takes at least half a millisecond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.exact import connection
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.statements.values import categories
from tests.benchmarks import workloads

SETTING_UP = 7
"""The private folder, progress, order and time zone, the file's types, its view and that view's types, locks."""

TABLES = {"W1_count": 0, "U1_count": 0, "W2_sum_mean": 1, "U2_sum_mean": 1, "W5_quartiles": 1}
"""Tables of keys that workloads take: of long lists, or where each row is placed."""


class Counting:
    """A connection that records its statements."""

    def __init__(self, link: duckdb.DuckDBPyConnection, asked: list[str]) -> None:
        self._link, self._asked = link, asked

    def execute(self, sql: str, *given: Any) -> Any:
        self._asked.append(sql)
        return self._link.execute(sql, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workloads.make(tmp_path_factory.mktemp("asked"), 500)


def executed_statements(
    folder: Path, name: str, output: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    asked: list[str] = []
    connect = duckdb.connect
    monkeypatch.setattr(
        connection.duckdb, "connect", lambda **more: Counting(connect(**more), asked)
    )
    run(read_declaration(folder / f"{name}.yaml"), output=output)
    return asked


@pytest.mark.parametrize("name", TABLES)
def test_release_executes_no_needless_statements(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = executed_statements(folder, name, tmp_path / "out", monkeypatch)
    assert sum("dp_keys" in sql and "CREATE" in sql for sql in asked) == TABLES[name], asked
    assert len(asked) <= SETTING_UP + TABLES[name] + 1, asked


def test_key_tables_are_created_without_short_lists(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests of the engines cover both with many more cases."""
    monkeypatch.setattr(categories, "SHORT", 0)
    asked = executed_statements(folder, "U1_count", tmp_path / "out", monkeypatch)
    assert sum("dp_keys" in sql and "CREATE" in sql for sql in asked) == 3
