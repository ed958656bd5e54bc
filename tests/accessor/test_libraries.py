"""Queries on frames of polars, Arrow, DuckDB and Ibis: as on frames of pandas, in their own library."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dprelease
from dprelease.accessor import frame_notes
from dprelease.accessor.answer_libraries import flat_frame
from dprelease.errors import DataError, FrameError, SessionError, UsageError
from tests import processes
from tests.accessor.test_queries import SCHEMA, frame

TABLE = pa.Table.from_pandas(frame(), preserve_index=False)
KINDS: dict[str, tuple[Callable[[], Any], type]] = {
    "polars": (lambda: pl.from_arrow(TABLE), pl.DataFrame),
    "lazy": (lambda: pl.LazyFrame(pl.from_arrow(TABLE)), pl.DataFrame),
    "table": (lambda: TABLE.slice(0), pa.Table),
    "reader": (TABLE.to_reader, pa.Table),
    "dataset": (lambda: ds.dataset(TABLE), pa.Table),
    "relation": (lambda: duckdb.connect().from_arrow(TABLE), pd.DataFrame),
    "ibis": (lambda: ibis.memtable(TABLE), pd.DataFrame),
}
BIG: dict[str, Any] = {"epsilon": 99}
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "count": lambda dp: dp.count(by=["state", "sex"], **BIG),
    "where": lambda dp: dp.where("age >= 50").sum("pay", by="sex", **BIG),
    "derive": lambda dp: dp.derive(old={"expression": "age > 50", "type": "boolean"}).count(
        by="old", **BIG
    ),
    "series": lambda dp: dp.groupby("state")["pay"].mean(**BIG),
    "levels": lambda dp: dp.groupby("sex")[["pay", "age"]].agg(["mean", "sum"], **BIG),
    "named": lambda dp: dp.agg(pay=("pay", "mean"), by="sex", margins=True, **BIG),
    "describe": lambda dp: dp.describe("age", by="sex", **BIG),
    "counts": lambda dp: dp.value_counts("state", by="sex", **BIG),
    "grouped counts": lambda dp: dp.groupby("sex").value_counts("state", **BIG),
    "unique": lambda dp: dp.unique("state"),
    "crosstab": lambda dp: dp.crosstab("state", "sex", **BIG),
    "histogram": lambda dp: dp.histogram("age", [0, 50, 101], **BIG),
    "quantiles": lambda dp: dp.groupby("sex").quantile("age", [0.25, 0.5], **BIG),
    "sql": lambda dp: dp.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", **BIG),
    "explain": lambda dp: dp.explain("mean", "pay", by="sex", **BIG),
    "tables": lambda dp: dp.tables(cube=["state", "sex"], **BIG)["state_sex"],
    "labelled": lambda dp: dprelease.labelled(dp.count(by="sex", **BIG)),
}


def session_on(made: Any) -> tuple[Any, dprelease.Session]:
    session = dprelease.Session(SCHEMA, epsilon=10**9)
    rows = dprelease.dp(made)
    rows.use(session)
    return rows, session


def in_pandas(answer: Any) -> pd.DataFrame:
    """Return an answer of any library as a frame of pandas, whose keys are columns."""
    if isinstance(answer, pd.Series):
        answer = answer.to_frame()
    return flat_frame(answer) if isinstance(answer, pd.DataFrame) else answer.to_pandas()


@pytest.fixture(scope="module")
def of_pandas() -> tuple[dict[str, pd.DataFrame], Any]:
    """Return the answers about a frame of pandas, and what they cost."""
    rows, session = session_on(frame())
    return {name: in_pandas(ask(rows)) for name, ask in QUESTIONS.items()}, session.spent


@pytest.mark.parametrize("kind", KINDS)
def test_every_library_gives_the_results_of_pandas(
    kind: str, of_pandas: tuple[dict[str, pd.DataFrame], Any]
) -> None:
    """With a budget so large that noise is negligible."""
    make, library = KINDS[kind]
    rows, session = session_on(make())
    for name, ask in QUESTIONS.items():
        found = ask(rows)
        assert isinstance(found, library | pd.Series), name
        one, other = in_pandas(found), of_pandas[0][name]
        assert list(one.columns) == list(other.columns), name
        for column in one.columns:
            if pd.api.types.is_numeric_dtype(one[column]):
                mine, theirs = (f[column].astype(float).to_numpy() for f in (one, other))
                assert mine == pytest.approx(theirs, rel=0.02, abs=9, nan_ok=True), (name, column)
            else:
                assert one[column].astype(str).tolist() == other[column].astype(str).tolist(), name
    assert session.spent == of_pandas[1]


def test_polars_namespace() -> None:
    rows = pl.DataFrame(pl.from_arrow(TABLE))
    session = dprelease.Session(SCHEMA, epsilon=100)
    for made in (rows, rows.lazy()):
        made.dp.use(session)  # type: ignore[attr-defined]
        assert made.dp.count(epsilon=1)["value"].dtype == pl.Int64  # type: ignore[attr-defined]
    assert session.spent.epsilon == 2
    with pytest.raises(SessionError, match="DP-SESSION-001"):
        rows.clone().dp.count(epsilon=1)  # type: ignore[attr-defined]


def test_polars_namespace_is_added_at_import() -> None:
    """dprelease itself does not import polars."""
    code = (
        "import dprelease, sys; dprelease.Session; assert 'polars' not in sys.modules;"
        "import polars; dprelease.Session({'table': 't', 'columns': {'k': {'type': 'boolean'}}},"
        "epsilon=1); polars.DataFrame().dp, polars.LazyFrame().dp"
    )
    processes.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_equal_frames_of_all_libraries_share_a_session() -> None:
    rows, session = session_on(frame())
    for make, _ in KINDS.values():
        other = dprelease.dp(make())
        other.use(session)
        other.count(epsilon=1)
    assert session.spent.epsilon == len(KINDS)
    for wrong in (
        pl.DataFrame(pl.from_arrow(TABLE)).filter(pl.col("age") > 9),
        pl.LazyFrame(pl.from_arrow(TABLE)).reverse(),
        TABLE.slice(1),
        pl.DataFrame(pl.from_arrow(TABLE)).with_columns(pl.col("age") + 1),
    ):
        with pytest.raises(SessionError, match="DP-SESSION-002"):
            dprelease.dp(wrong).use(session)
    part = TABLE.drop_columns(["age", "pay"])
    late, session = session_on(part)
    for made in (TABLE, frame(), pl.from_arrow(TABLE)):
        with pytest.raises(SessionError, match="DP-SESSION-010"):
            dprelease.dp(made).use(session)
    del rows, late


def test_changed_polars_frame_is_refused() -> None:
    """Queries read the registered rows; a frame with other rows is refused."""
    first = pl.DataFrame(pl.from_arrow(TABLE))
    rows, session = session_on(first)
    other = first.clone()
    dprelease.dp(other).use(session)
    other[0, "age"] = 77
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        dprelease.dp(other).count(epsilon=1)
    first.replace_column(first.get_column_index("sex"), pl.Series("sex", ["F"] * len(first)))
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        rows.count(epsilon=1)
    first.replace_column(first.get_column_index("sex"), pl.Series(TABLE["sex"]).alias("sex"))
    assert rows.count(by="sex", **BIG)["value"].to_list() == [600, 600]


def test_reader_is_read_once_for_all_queries() -> None:
    reader = TABLE.to_reader()
    rows, session = session_on(reader)
    assert [rows.count(**BIG)["value"].to_pylist() for _ in range(2)] == [[1200]] * 2
    assert dprelease.dp(reader).count(**BIG)["value"].to_pylist() == [1200]
    other = dprelease.Session(SCHEMA, epsilon=1)
    with pytest.raises(SessionError, match="DP-SESSION-003"):
        dprelease.dp(reader).use(other)
    del rows, session
    gc.collect()
    used = TABLE.to_reader()
    session_on(used)
    gc.collect()
    assert not frame_notes._NOTES or used is not None
    with pytest.raises((SessionError, FrameError), match=r"DP-SESSION-004|DP-DATA-021"):
        dprelease.dp(used).use(other)


def test_lazy_frame_runs_once() -> None:
    """Later changes of its source change no answer."""
    runs: list[int] = []

    def count(values: pl.Series) -> pl.Series:
        runs.append(len(values))
        return values

    lazy = pl.LazyFrame(pl.from_arrow(TABLE)).with_columns(
        pl.col("age").map_batches(count, return_dtype=pl.Int64)
    )
    rows, session = session_on(lazy)
    for _ in range(3):
        rows.sum("age", epsilon=1)
    assert (sum(runs), session.spent.epsilon) == (1200, 3)


def test_notes_are_removed_with_their_frames() -> None:
    gc.collect()
    before = len(frame_notes._NOTES)
    rows, _ = session_on(pl.from_arrow(TABLE))
    answer = rows.count(epsilon=1)
    assert dprelease.answer_details(answer)["mechanisms"]
    assert len(frame_notes._NOTES) == before + 2
    del rows, answer
    gc.collect()
    assert len(frame_notes._NOTES) == before


@pytest.mark.parametrize("kind", [*KINDS, "pandas"])
def test_queries_of_results_are_refused(kind: str, tmp_path: Path) -> None:
    rows, session = session_on(frame() if kind == "pandas" else KINDS[kind][0]())
    answer = rows.count(by="sex", epsilon=1)
    other = dprelease.Session(SCHEMA, epsilon=1)
    for asked in (lambda: dprelease.dp(answer).use(other), lambda: dprelease.dp(answer).count()):
        with pytest.raises(SessionError, match=r"DP-SESSION-020|DP-SESSION-001"):
            asked()
    with pytest.raises(SessionError, match="DP-SESSION-020"):
        dprelease.dp(answer).use(session)
    assert session.spent.epsilon == 1


def test_queries_of_sql_results_are_refused(tmp_path: Path) -> None:
    schema = tmp_path / "people.yaml"
    schema.write_text(json.dumps(SCHEMA))
    asked = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
    for rows in (frame(), pl.LazyFrame(pl.from_arrow(TABLE))):
        answer = dprelease.sql(asked, schema, epsilon=1, frames={"people": rows})
        with pytest.raises(SessionError, match="DP-SESSION-020"):
            answer.dp.use(dprelease.Session(SCHEMA, epsilon=1))
        assert dprelease.answer_details(answer)["mechanisms"]


def test_relations_with_id_collations_are_refused() -> None:
    schema = {
        "table": "people",
        "columns": {"id": {"type": "text"}, "n": {"type": "integer", "lower": 0, "upper": 9}},
        "privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1},
    }
    with duckdb.connect() as link:
        relation = link.sql("SELECT 'a' COLLATE NOCASE AS id, 1 AS n")
        with pytest.raises(DataError, match="DP-DATA-026"):
            dprelease.dp(relation).use(dprelease.Session(schema, epsilon=1))


@pytest.mark.parametrize("wrong", [None, 1, [1], {"a": [1]}, "people", pl.Series([1]), pd.Series()])
def test_objects_other_than_frames_are_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="DP-SESSION-016"):
        dprelease.dp(wrong)
    with pytest.raises(UsageError, match="DP-SESSION-016"):
        dprelease.answer_details(wrong)
    with pytest.raises(UsageError, match="DP-SESSION-016"):
        dprelease.labelled(wrong)  # type: ignore[type-var]
