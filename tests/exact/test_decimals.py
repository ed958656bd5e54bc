"""Decimals of any width are read exactly: one row may decide the width."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import DataError
from dprelease.exact.duckdb import Engine
from dprelease.exact.reading.arrow import to_readable_type
from dprelease.statements.values.spelling import text_sql
from tests.exact.build import ask, declare, exact

CENTS = {"type": "number", "lower": 0, "upper": 100, "step": "0.01"}
KEYS = {"type": "category", "values": ["0.1", "0.25", "-0.25", "3e-06", "5.60"]}
COUNT = {"n": {"count": "*"}}
WIDE = [pa.decimal256(40, 8), pa.decimal256(39, 8), pa.decimal256(76, 38), pa.decimal128(38, 8)]


def sources(frame: pa.Table, folder: Path) -> dict[str, Any]:
    """Return the same rows as a file, an Arrow table, a frame of Arrow's types and of objects."""
    pq.write_table(frame, folder / "rows.parquet")
    arrow = {
        name: pd.Series(pd.arrays.ArrowExtensionArray(frame[name])) for name in frame.schema.names
    }
    objects = {
        name: pd.Series(frame[name].to_pylist(), dtype=object) for name in frame.schema.names
    }
    return {
        "file": None,
        "arrow": frame,
        "frame": pd.DataFrame(arrow),
        "objects": pd.DataFrame(objects),
    }


def answers(
    columns: dict[str, Any], frame: pa.Table, folder: Path, asked: Any, by: list[str]
) -> dict[str, Any]:
    """Return the answer of each source; they are one in tests."""
    found = {}
    for name, rows in sources(frame, folder).items():
        path = str(folder / "rows.parquet") if name == "file" else None
        declared = declare(columns) if path is None else declare(columns, source=path)
        answer = exact(ask(declared, asked, by), rows)
        found[name] = {column: vector.tolist() for column, vector in answer.items()}
    return found


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    "kind", [pa.decimal128(8, 8), pa.decimal128(9, 8), pa.decimal128(38, 38), *WIDE], ids=str
)
def test_decimal_keys_of_any_width_are_matched(kind: pa.DataType, tmp_path: Path) -> None:
    """The engine leaves out the zero before the point where a type has no digits there."""
    said = ["0.1", "0.25", "0.25", "-0.25", "0.000003", "0.3", None]
    held = [None if one is None else Decimal(one) for one in said]
    frame = pa.table({"c": pa.array(held, kind)})
    found = answers({"c": KEYS}, frame, tmp_path, COUNT, ["c"])
    assert found == {key: {"n": [1, 2, 1, 1, 0]} for key in found}


def test_row_with_more_digits_changes_no_other_cell(tmp_path: Path) -> None:
    """Writers take the type of a column from its largest value."""
    columns = {"c": KEYS, "g": {"type": "category", "values": ["a", "b"]}, "w": CENTS}
    halves = [Decimal(i).scaleb(-3) for i in range(5, 100_000, 990)]
    rows = [("b", w, Decimal(c)) for w in halves for c in ("0.10", "0.25")]
    asked = {"n": {"count": "*"}, "s": {"sum": "w"}, "m": {"mean": "w"}}
    one = ("a", Decimal("-1e16") - Decimal("1e-24"), Decimal("1000.") + Decimal("1e-38"))

    def answered(rows: list[Any], by: str) -> dict[str, Any]:
        names = ("g", "w", "c")
        frame = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
        return answers(columns, frame, tmp_path, asked, [by])

    for by in ("g", "c"):
        before, after = answered(rows, by), answered([*rows, one], by)
        assert before == dict.fromkeys(before, before["objects"])
        assert after == dict.fromkeys(after, after["objects"])
        kept = slice(1, None) if by == "g" else slice(None)
        for name, vector in before["file"].items():
            assert vector[kept] == after["file"][name][kept]


@given(values=st.lists(st.decimals(-1000, 1000, places=30), min_size=8, max_size=20))
def test_wide_decimals_are_read_exactly(values: list[Decimal]) -> None:
    """Arrow's own cast to floats is off for 55 % of such decimals below one."""
    read = to_readable_type(pa.array(values, pa.decimal256(60, 30)))
    assert read is not None
    assert [Fraction(one) for one in read.to_pylist()] == [Fraction(one) for one in values]


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ("0.25", "DECIMAL(2, 2)", "0.25"),
        ("-0.25", "DECIMAL(2, 2)", "-0.25"),
        ("0.10", "DECIMAL(38, 38)", "0.1"),
        ("0.5", "DECIMAL(3, 1)", "0.5"),
        ("10.50", "DECIMAL(4, 2)", "10.5"),
        ("100", "DECIMAL(5, 2)", "100"),
        ("0", "DECIMAL(2, 2)", "0"),
    ],
)
def test_text_of_a_decimal_does_not_depend_on_its_type(said: str, kind: str, text: str) -> None:
    """The engine leaves out the zero before the point where a type has no digits there."""
    with duckdb.connect() as link:
        asked = f"SELECT {text_sql('v', 'DECIMAL')} FROM (SELECT '{said}'::{kind} AS v)"
        assert link.execute(asked).fetchall() == [(text,)]


@given(
    values=st.lists(st.decimals(-1000, 1000, places=30), max_size=20),
    kind=st.sampled_from(["median", "sum", "count"]),
)
def test_wide_decimals_become_the_nearest_floats(values: list[Decimal], kind: str) -> None:
    """Like all other decimals."""
    column = {"type": "number", "lower": -900, "upper": 900, "step": "0.25"}
    wide = pa.table({"w": pa.array(values, pa.decimal256(60, 30))})
    floats = pa.table({"w": pa.array([float(Fraction(v)) for v in values], pa.float64())})
    query = ask(declare({"w": column}), {"v": {kind: "w"}})
    if kind != "median":
        assert exact(query, wide)["v"].tolist() == exact(query, floats)["v"].tolist()
        return
    scores = []
    for rows in (wide, floats):
        with Engine.open(declare({"w": column}), rows) as engine:
            profile = engine.run(query).profile("v")
            scores.append([list(map(int, part)) for part in _parts(profile)])
    assert scores[0] == scores[1]


def _parts(profile: Any) -> list[Any]:
    pairs = profile.pairs() if hasattr(profile, "pairs") else profile
    return [pairs.starts, pairs.values, pairs.counts]


def test_integers_and_ids_keep_all_digits_of_wide_decimals(tmp_path: Path) -> None:
    """Ids above 2^53 stay distinct, and a large fraction is no integer."""
    columns = {"p": {"type": "integer"}, "i": {"type": "integer", "lower": 0, "upper": 9}}
    unit = {"id": "p", "max_groups": 1, "max_rows_per_group": 1}
    ids = [Decimal(2**60), Decimal(2**60 + 1), Decimal(2**60 + 1), Decimal(7)]
    numbers = [Decimal(5), Decimal("8533381524091960.57"), Decimal(3), Decimal("2.5")]
    for kind in (pa.decimal128(38, 4), pa.decimal256(40, 4)):
        frame = pa.table({"p": pa.array(ids, kind), "i": pa.array(numbers, kind)})
        pq.write_table(frame, tmp_path / "rows.parquet")
        declared = declare(columns, privacy_unit=unit, source=str(tmp_path / "rows.parquet"))
        query = ask(declared, {"n": {"count_distinct": "p"}})
        assert exact(query, None)["n"].tolist() == [3]
        frame = frame.select(["i"])
        found = answers({"i": columns["i"]}, frame, tmp_path, {"n": {"count": "i"}}, [])
        assert found == {key: {"n": [2]} for key in found}


def test_files_with_different_decimal_types_are_one_table(tmp_path: Path) -> None:
    """Each file is read by its own types."""
    columns = {"c": KEYS, "w": CENTS}
    kinds = [pa.decimal128(10, 4), pa.decimal256(44, 8), pa.float64(), pa.decimal256(40, 4)]
    for i, kind in enumerate(kinds):
        said = ["0.1", "5.6"]
        held = pa.array(map(float if pa.types.is_floating(kind) else Decimal, said), kind)
        pq.write_table(pa.table({"c": held, "w": held}), tmp_path / f"{i}.parquet")
    declared = declare(columns, source=str(tmp_path / "*.parquet"))
    query = ask(declared, {"n": {"count": "*"}, "s": {"sum": "w"}}, ["c"])
    found = {name: vector.tolist() for name, vector in exact(query, None).items()}
    assert found == {"n": [4, 0, 0, 0, 4], "s": [40, 0, 0, 0, 2240]}


@pytest.mark.parametrize("kind", [pa.decimal128(20, 2), pa.decimal256(40, 2)], ids=str)
@pytest.mark.parametrize("several", [False, True])
def test_keys_that_decimals_can_not_distinguish_are_refused(
    kind: pa.DataType, several: bool, tmp_path: Path
) -> None:
    """Two declared values are one number, for wide and other decimals."""
    column = {"type": "category", "values": ["1", "01"]}
    held = pa.table({"c": pa.array([Decimal(1)], kind)})
    pq.write_table(held, tmp_path / "0.parquet")
    if several:
        pq.write_table(pa.table({"c": ["01"]}), tmp_path / "1.parquet")
    declared = declare({"c": column}, source=str(tmp_path / "*.parquet"))
    with pytest.raises(DataError, match=r"DP-DATA-\d{3}"):
        exact(ask(declared, COUNT, ["c"]), None)
    with pytest.raises(DataError, match=r"DP-DATA-\d{3}"):
        exact(ask(declare({"c": column}), COUNT, ["c"]), held)


def test_wide_decimals_are_refused_without_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has no such type, and DuckDB would read other numbers."""
    monkeypatch.setattr(Engine, "_can_use_arrow", False)
    frame = pa.table({"w": pa.array([Decimal("0.07")], pa.decimal256(40, 2))})
    pq.write_table(frame, tmp_path / "rows.parquet")
    declared = declare({"w": CENTS}, source=str(tmp_path / "rows.parquet"))
    with pytest.raises(DataError, match=r"DP-DATA-004.*more than 38 digits"):
        exact(ask(declared, {"s": {"sum": "w"}}), None)


@pytest.mark.parametrize("declared", ["date", "timestamp"])
@pytest.mark.parametrize("kind", [pa.decimal128(20, 2), pa.decimal256(40, 2)], ids=str)
def test_decimals_as_dates_are_refused(kind: pa.DataType, declared: str) -> None:
    table = declare({"w": {"type": declared}})
    frame = pa.table({"w": pa.array([Decimal(1), None], kind)})
    with pytest.raises(DataError, match="DP-DATA-004"):
        exact(ask(table, {"n": {"count": "w"}}), frame)
