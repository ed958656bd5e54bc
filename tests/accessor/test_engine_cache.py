"""The engine of a session is opened once, dropped after a failure, and closed with the session."""

from __future__ import annotations

import gc
import tempfile
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dprelease
from dprelease.accessor import session as session_module
from dprelease.errors import BudgetError, DataError, DpReleaseError
from dprelease.exact import scratch
from dprelease.exact.engine_api import RecordEngine
from dprelease.exact.engines import open_duckdb
from dprelease.exact.reading import frames
from dprelease.exact.settings import SCRATCH
from dprelease.exact.table_reader import TableReader
from tests import processes
from tests.accessor.test_sessions import SCHEMA, frame

SURE = {"epsilon": 50, "mechanism": "discrete_laplace"}
"""Noise of some 1e-22 is zero."""


class EngineCounter:
    """Counts the engines that are opened."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, *given: Any) -> AbstractContextManager[RecordEngine]:
        self.number += 1
        return open_duckdb(*given)


@pytest.fixture
def engine_count(monkeypatch: pytest.MonkeyPatch) -> EngineCounter:
    """Return a count of the engines that sessions open."""
    counted = EngineCounter()
    monkeypatch.setattr(session_module, "open_duckdb", counted)
    return counted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's temporary folder, one of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def registered_frame(rows: int = 200) -> tuple[pd.DataFrame, dprelease.Session]:
    df, session = frame(rows), dprelease.Session(SCHEMA, epsilon=10_000)
    df.dp.use(session)
    return df, session


def test_queries_of_all_kinds_share_one_engine(engine_count: EngineCounter) -> None:
    df, _session = registered_frame()
    for _ in range(2):
        assert df.dp.count(**SURE)["value"].tolist() == [200]
        assert df.dp.where("state = 'VT'").count(**SURE)["value"].tolist() == [100]
        assert df.dp.value_counts("state", **SURE)["count"].tolist() == [100, 100]
        assert df.dp.sql("SELECT count(*) AS n FROM people", **SURE)["n"].tolist() == [200]
    assert engine_count.number == 1


def test_registrations_have_separate_engines(engine_count: EngineCounter) -> None:
    df, session = registered_frame()
    other = frame(100)
    other.dp.use(session, row_wise=True)
    assert df.dp.count(**SURE)["value"].tolist() == [200]
    assert other.dp.count(**SURE)["value"].tolist() == [100]
    assert df.dp.count(**SURE)["value"].tolist() == [200]
    assert engine_count.number == 2


TEXTS: dict[str, Any] = {
    "texts": "str",
    "of Arrow": pd.ArrowDtype(pa.string()),
    "objects": object,
    "categories": "category",
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("kind", TEXTS.values(), ids=TEXTS)
@given(cells=st.lists(st.sampled_from(["VT", "NH", "XX", " VT", "", None]), min_size=1))
@settings(max_examples=10)
def test_texts_are_counted_unchanged(kind: Any, cells: list[str | None]) -> None:
    """Cells with undeclared values count in no group, but in totals; empty ones are missing."""
    schema = {
        "table": "people",
        "columns": {"state": {"type": "category", "values": ["NH", "NY", "VT"]}},
    }
    df, session = (
        pd.DataFrame({"state": pd.Series(cells, dtype=kind)}),
        dprelease.Session(schema, epsilon=10_000),
    )
    df.dp.use(session)
    for _ in range(2):
        found = df.dp.value_counts("state", **SURE)["count"].to_dict()
        assert found == {state: cells.count(state) for state in ("NH", "NY", "VT")}
        assert df.dp.count(**SURE)["value"].tolist() == [len(cells)]
        other = df.dp.where("state IS NULL").count(**SURE)["value"].tolist()
        assert other == [cells.count(None) + cells.count("")]


def test_parallel_queries_get_the_same_results(engine_count: EngineCounter) -> None:
    df, _session = registered_frame()
    found: list[list[int]] = []
    asks = [lambda: found.append(df.dp.count(**SURE)["value"].tolist())] * 8
    processes.in_threads(asks)
    assert found == [[200]] * 8
    assert 1 <= engine_count.number <= 8


@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt])
def test_engine_is_not_reused_after_a_failure(
    failure: type[BaseException], engine_count: EngineCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    df, session = registered_frame()
    df.dp.count(**SURE)

    def fails(*_: object) -> None:
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(TableReader, "vectors", fails)
        with pytest.raises((DpReleaseError, failure)):
            df.dp.count(**SURE)
    assert session.spent.epsilon == 100  # as a question that had read rows
    assert df.dp.count(**SURE)["value"].tolist() == [200]
    assert engine_count.number == 2


def test_memory_errors_while_reading_rows_are_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    df, session = registered_frame()

    def fails(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1234567 failed")

    with monkeypatch.context() as broken:
        broken.setattr(frames, "_to_arrow", fails)
        with pytest.raises(DataError, match="DP-DATA-006") as caught:
            df.dp.count(**SURE)
    assert "1234567" not in "".join(traceback.format_exception(caught.value))
    assert session.spent.epsilon == 0
    assert df.dp.count(**SURE)["value"].tolist() == [200]


def test_unreadable_rows_are_refused_each_time(engine_count: EngineCounter) -> None:
    df = frame().assign(age=pd.Series(["2020-01-01"] * 200, dtype="datetime64[s]"))
    session = dprelease.Session(SCHEMA, epsilon=100)
    df.dp.use(session)
    for _ in range(2):
        with pytest.raises(DataError, match="DP-DATA-004"):
            df.dp.sum("age", **SURE)
    assert session.spent.epsilon == 0
    with pytest.raises(BudgetError):
        df.dp.count(epsilon=1000)
    assert df.dp.count(**SURE)["value"].tolist() == [200]


@pytest.mark.usefixtures("engine_count")
def test_private_folder_is_removed_with_the_session(folder: Path) -> None:
    df, session = registered_frame()
    df.dp.count(**SURE)
    assert len(scratch.folders_with_prefix(folder, SCRATCH)) == 1
    del df, session
    gc.collect()
    assert scratch.folders_with_prefix(folder, SCRATCH) == []


def test_families_of_other_rows_are_recomputed(engine_count: EngineCounter) -> None:
    """Finest cells are cached for one family; the next may have the same memory address."""
    df, _session = registered_frame()
    states = {"VT": 100, "NH": 100, "": 200}
    for state in list(states) * 3:
        rows = df.dp.where(f"state = '{state}'") if state else df.dp
        tables = rows.tables(cube=["state", "value"], consistent=True, epsilon=50)
        assert abs(float(tables["total"].iloc[0, 0]) - states[state]) < 5
        gc.collect()
    assert engine_count.number == 1
