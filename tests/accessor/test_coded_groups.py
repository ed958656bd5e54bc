"""Sessions tell groups of several texts by the places of these in lists, and find the same cells."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dprelease
from dprelease.exact.reading import coded_frames
from dprelease.exact.reading.coded_frames import coded
from dprelease.exact.table_reader import TableReader
from tests.covering import examples

SURE = {"epsilon": 50, "mechanism": "discrete_laplace"}
"""Noise of some 1e-22 is zero."""

CODES = ["1", "02", "true", "2024-01-01"]
STATE = {"type": "category", "values": ["NH", "NY", "VT"]}
SCHEMA: dict[str, Any] = {
    "table": "people",
    "columns": {
        "state": STATE,
        "code": {"type": "category", "values": CODES},
        "sex": {"type": "category", "values": ["F", "M", "-", "x"], "nulls": "-", "others": "x"},
        "member": {"type": "integer", "lower": 0, "upper": 1},
    },
}
KEYS = ["state", "code", "sex"]
CELLS = {
    "state": st.sampled_from(["VT", "NH", "ZZ", " VT", "", None]),
    "code": st.sampled_from([*CODES, "2", "1.0", "TRUE", "zz", "", None]),
    "sex": st.sampled_from(["F", "M", "Q", "-", "", None]),
    "member": st.integers(0, 1),
}
ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=30)
KINDS: dict[str, Any] = {
    "texts": "str",
    "of Arrow": pd.ArrowDtype(pa.string()),
    "large": pd.ArrowDtype(pa.large_string()),
    "objects": object,
    "categories": "category",
}


def made(rows: list[dict[str, Any]], kind: str) -> pd.DataFrame:
    columns = {name: [row[name] for row in rows] for name in CELLS}
    texts = {name: pd.Series(columns[name], dtype=KINDS[kind]) for name in KEYS}
    return pd.DataFrame({**texts, "member": columns["member"]})


def answers(df: pd.DataFrame) -> list[Any]:
    """Return what a session answers by several keys, with no noise to speak of."""
    session = dprelease.Session(SCHEMA, epsilon=100_000)
    df.dp.use(session)
    found = []
    for by in (["code", "member"], KEYS):
        found.append(df.dp.count(by=by, **SURE)["value"].tolist())
        found.append(
            df.dp.where("member < 1 OR state = 'VT'").sum("member", by=by, **SURE)["value"].tolist()
        )
        found.append(df.dp.where("state = 'VT'").count(by=by, **SURE)["value"].tolist())
    return found


@pytest.mark.parametrize("kind", KINDS)
@given(rows=ROWS)
@examples(10)
def test_the_same_cells_as_without_codes(kind: str, rows: list[dict[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coded_frames, "FEW", -1)
        without = answers(made(rows, kind))
    assert answers(made(rows, kind)) == without
    states = Counter(
        (row["state"], {"Q": "x", "": "-", None: "-"}.get(row["sex"], row["sex"])) for row in rows
    )
    df, session = made(rows, kind), dprelease.Session(SCHEMA, epsilon=100_000)
    df.dp.use(session)
    asked = df.dp.count(by=["state", "sex"], **SURE)
    found = {(row.state, row.sex): row.value for row in asked.itertuples()}
    assert found == {key: states.get(key, 0) for key in found}
    assert len(found) == 12


def arrow(number: int) -> pa.Table:
    """Return rows in several chunks, with lists of other texts, of one twice and of a missing one."""
    lists = [["VT", "NH", "VT"], ["NH", None, "ZZ"], ["VT"]]
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None] if i < 2 else [0] * 4), words)
        for i, words in enumerate(map(pa.array, lists[:number]))
    ]
    size = 4 * number
    return pa.table(
        {
            "state": pa.chunked_array(chunks),
            "code": pa.array(["1", "02"] * (size // 2)),
            "sex": pa.array(["F"] * size),
            "member": pa.array([1] * size),
        }
    )


@pytest.mark.parametrize("number", [1, 2, 3])
def test_lists_of_somebody(number: int) -> None:
    """A text may stand in a list twice, or be missing there, and chunks may have other lists."""
    table = arrow(number)
    texts = table["state"].to_pylist()
    df = table.to_pandas(types_mapper=pd.ArrowDtype)
    session = dprelease.Session(SCHEMA, epsilon=100_000)
    df.dp.use(session)
    found = df.dp.count(by=["state", "code"], **SURE)
    counted = {(row.state, row.code): row.value for row in found.itertuples() if row.value}
    assert counted == Counter(
        (state, code)
        for state, code in zip(texts, table["code"].to_pylist(), strict=True)
        if state in ("NH", "NY", "VT")
    )


def statements(df: pd.DataFrame, by: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    fetched = TableReader._fetched

    def noted(reader: TableReader, sql: str) -> Any:
        asked.append(sql)
        return fetched(reader, sql)

    monkeypatch.setattr(TableReader, "_fetched", noted)
    session = dprelease.Session(SCHEMA, epsilon=100_000)
    df.dp.use(session)
    df.dp.count(by=by, **SURE)
    return asked


@pytest.mark.parametrize(
    ("by", "number"), [(["state"], 0), (["state", "member"], 1), (["state", "code"], 2), (KEYS, 3)]
)
def test_which_groups_are_told_by_codes(
    by: list[str], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of one text, which the engine tells as fast."""
    rows = [{"state": "VT", "code": "1", "sex": "F", "member": 1}] * 3
    (sql,) = statements(made(rows, "texts"), by, monkeypatch)
    assert sql.count("dp_texts.dp_code_") == number


OWN = ["k0", "K1", "k2", "a0", "A1", "cell", "n", "dp_texts", "dp_source", "grouped", "typed"]
OWN += ["worded", "meant", "placed", "value", "code", "dp_code_0", "DP_CODE_0", "dp_code__1"]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("asked", [False, True])
def test_columns_of_the_names_in_statements(name: str, asked: bool) -> None:
    """Whether a question is about them or not."""
    names = ["b", "c", name]
    columns = {column: {"type": "category", "values": ["x", "y"]} for column in names}
    df = pd.DataFrame({column: ["x", "y", "y"] for column in names})
    session = dprelease.Session({"table": "people", "columns": columns}, epsilon=100_000)
    df.dp.use(session)
    by = ["c", name] if asked else ["b", "c"]
    assert df.dp.count(by=by, **SURE).iloc[:, 2].tolist() == [1, 0, 0, 2]
    assert df.dp.count(by=names, **SURE).iloc[:, 3].sum() == 3


def test_long_lists_are_left_out() -> None:
    rows = coded_frames.FEW + 1
    df = pd.DataFrame(
        {"state": [f"{i}" for i in range(rows)], "code": ["1"] * rows, "sex": ["F"] * rows}
    )
    session = dprelease.Session(SCHEMA, epsilon=10)
    held = coded(df, session.declared)
    assert [*held.codes] == ["code", "sex"]
    assert held.table.column_names[:3] == KEYS
    assert held.texts.column_names == [*held.codes.values()]


@pytest.mark.parametrize("number", [127, 128, 129, 255, 256, 257])
def test_places_of_few_bits(number: int) -> None:
    """Somebody's places may be of 8 bits, in which there may be none behind the last."""
    states = [f"S{i}" for i in range(number)]
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "state": {**STATE, "values": states}}}
    kind = pa.int8() if number < 129 else pa.uint8() if number < 257 else pa.int16()
    cells = pa.DictionaryArray.from_arrays(pa.array(range(number), kind), states)
    table = pa.table({"state": cells, "code": ["1"] * number})
    df = table.to_pandas(types_mapper=pd.ArrowDtype)
    session = dprelease.Session(schema, epsilon=100_000)
    df.dp.use(session)
    found = df.dp.count(by=["state", "code"], **SURE)["value"].tolist()
    assert found == [1, 0, 0, 0] * number


def test_no_rows() -> None:
    df = made([], "texts")
    session = dprelease.Session(SCHEMA, epsilon=100_000)
    df.dp.use(session)
    assert df.dp.count(by=["state", "code"], **SURE)["value"].tolist() == [0] * 12
