"""No value of any stored type can stop a run, be quoted, or change another person's rows."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError
from dprelease.exact import duckdb as engine_module
from dprelease.exact.duckdb import Engine
from dprelease.statements.compiled_statements import CompiledQuery
from tests.exact.build import ask, declare, exact

KEY = {"type": "category", "values": ["a", "b"], "others": "b", "fill": "b"}
DIGITS = {"type": "integer", "lower": 0, "upper": 9}
ROWS = {"rows": {"count": "*"}}
EXTREMES = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, 0]


def count_values(column: dict[str, Any], values: pa.Array, **asked: Any) -> list[int]:
    query = ask(declare({"v": column}), {"n": {"count": "v"}}, **asked)
    return exact(query, pa.table({"v": values}))["n"].tolist()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16()])
@pytest.mark.parametrize(
    "unit", [{}, {"id": "id", "max_groups": 1, "max_rows_per_group": 1}], ids=str
)
def test_narrow_integer_keys_over_the_whole_range(kind: pa.DataType, unit: dict[str, Any]) -> None:
    """127 - (-128) is not a TINYINT."""
    least, most = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    columns = {"v": {"type": "integer", "lower": least, "upper": most}, "id": {"type": "integer"}}
    query = ask(declare(columns, privacy_unit=unit), ROWS, ["v"])
    table = pa.table({"v": pa.array([most, least, 0], kind), "id": [1, 2, 3]})
    found = exact(query, table)["rows"]
    assert found.nonzero()[0].tolist() == [0, -least, most - least]


@pytest.mark.each
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(
    "column",
    [{"type": "timestamp"}, {"type": "date"}, {"type": "category", "values": ["1970-01-01"]}],
    ids=lambda column: column["type"],
)
def test_timestamps_out_of_range_are_missing(
    unit: str, zone: str | None, column: dict[str, Any]
) -> None:
    """DuckDB's conversions between units and to text fail for some of them."""
    values = pa.array(EXTREMES, pa.int64()).cast(pa.timestamp(unit, zone))
    found = count_values(column, values)
    assert found == [1] if unit != "ns" else 1 <= found[0] <= 5


def test_dates_beyond_timestamps_are_missing() -> None:
    values = pa.array([2**31 - 2, -(2**31) + 2, 0], pa.int32()).cast(pa.date32())
    assert count_values({"type": "timestamp"}, values, where="v > '1900-01-01'") == [1]


@pytest.mark.parametrize("kind", ["HUGEINT", "UHUGEINT", "DECIMAL(38,38)"])
@pytest.mark.parametrize(
    "column",
    [
        {"type": "number", "lower": -3, "upper": 3, "step": "0.5"},
        {"type": "boolean"},
        {"type": "category", "values": ["0"]},
    ],
    ids=str,
)
def test_bounds_wider_than_the_stored_type(
    kind: str, column: dict[str, Any], tmp_path: Path
) -> None:
    top = {"HUGEINT": 2**127 - 1, "UHUGEINT": 2**128 - 1}.get(kind, "0.5")
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT CAST(v AS {kind}) AS v FROM (VALUES ('{top}'), ('0')) g(v)"
        )
    source = {"path": str(tmp_path / "t.duckdb"), "table": "t"}
    measurement = {"n": {"sum": "v"}} if column["type"] == "number" else {"n": {"count": "v"}}
    query = ask(declare({"v": column}, source=source), measurement)
    found = exact(query, None)["n"].tolist()
    if column["type"] == "number":
        assert found == [1 if kind.startswith("DEC") else 6]


class Loud(str):
    def __str__(self) -> str:
        raise RuntimeError("SECRET-4711")


OBJECTS = [
    "\ud800 no text",
    Loud("b"),
    10**5000,
    decimal.Decimal("sNaN"),
    decimal.Decimal("NaN"),
    float("nan"),
    pd.NaT,
    pd.NA,
    None,
    [1],
    b"a",
    datetime.date(2024, 1, 1),
]


@pytest.mark.parametrize("kind", ["category", "integer", "number", "boolean", "date"])
def test_python_objects_are_read_or_missing(kind: str) -> None:
    """Any Python object is a text, a number, a date, or missing; nothing raises."""
    more = {"category": {"values": ["a"]}, "integer": {"lower": 0, "upper": 9}}.get(kind, {})
    query = ask(declare({"v": {"type": kind, **more}}), {"n": {"count": "v"}, **ROWS})
    found = exact(query, pd.DataFrame({"v": pd.Series(OBJECTS, dtype=object)}))
    wanted = {"category": 4, "date": 1, "number": 1}.get(kind, 0)
    assert {name: vector.tolist() for name, vector in found.items()} == {
        "n": [wanted],
        "rows": [len(OBJECTS)],
    }


def test_numpy_numbers_in_object_columns_are_read() -> None:
    query = ask(declare({"v": DIGITS}), {"n": {"sum": "v"}})
    frame = pd.DataFrame({"v": pd.Series([np.int64(3), 4, np.bool_(True)], dtype=object)})
    assert exact(query, frame)["n"].tolist() == [8]


def test_python_texts_of_invalid_unicode_are_missing() -> None:
    query = ask(declare({"k": KEY}), ROWS, ["k"])
    texts = pd.Series(["a", "\ud800"], dtype=pd.StringDtype("python"))
    assert exact(query, pd.DataFrame({"k": texts}))["rows"].tolist() == [1, 1]


def test_errors_while_fetching_rows_contain_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB is lazy: a statement may fail at its last row (V58)."""
    query = ask(declare({"k": KEY}), ROWS, ["k"])
    lazy = (
        "SELECT CAST(x AS BIGINT) AS cell, 0::BIGINT AS m0 FROM (SELECT CASE WHEN i = 3000000 "
        "THEN 'SECRET-4711' ELSE '1' END AS x FROM range(4000000) t(i))"
    )
    with Engine.open(query.declared, pd.DataFrame({"k": ["a"]})) as engine:
        broken = CompiledQuery(lazy, (), ("rows",), {})
        monkeypatch.setattr(engine_module, "compile_query", lambda *_: broken)
        with pytest.raises(DataError, match="DP-DATA-006") as caught:
            engine.run(query)
    error = caught.value
    assert "4711" not in f"{error} {error.args} {error.__cause__} {error.__context__}"


def test_deleted_file_is_an_error_without_values(tmp_path: Path) -> None:
    pd.DataFrame({"k": ["a"]}).to_parquet(tmp_path / "t.parquet")
    query = ask(declare({"k": KEY}, source=str(tmp_path / "t.parquet")), ROWS, ["k"])
    with Engine.open(query.declared) as engine:
        (tmp_path / "t.parquet").unlink()
        with pytest.raises(DataError, match=r"DP-DATA-00[67]"):
            engine.run(query)


def test_files_with_names_of_another_case_are_refused(tmp_path: Path) -> None:
    """DuckDB would merge the column N of one file with n of another (V36)."""
    pq.write_table(pa.table({"n": [1]}), tmp_path / "t1.parquet")
    pq.write_table(pa.table({"N": [5]}), tmp_path / "t2.parquet")
    query = ask(declare({"n": DIGITS}, source=str(tmp_path / "t*.parquet")), {"s": {"sum": "n"}})
    with pytest.raises(DataError, match=r"DP-DATA-024.*'t2.parquet' has the column 'n'"):
        exact(query, None)


def csv_rows(path: Path, body: bytes) -> list[int]:
    path.write_bytes(body)
    columns = {"k": {"type": "category", "values": ["a", "b"]}, "n": DIGITS}
    return exact(ask(declare(columns, source=str(path)), ROWS, ["k"]), None)["rows"].tolist()


@pytest.mark.each
@pytest.mark.parametrize(
    "line",
    [
        b'"z"z,1',
        b'"z" ,1',
        b'z"z,1',
        b"z\rz,1",
        b"z,1\r",
        b"z",
        b"z,1,2,3",
        b"\xff,1",
        b"\0,1",
        b'"z\nb,1\n",1',
        b'"' + b"z" * 3_000_000 + b'",1',
        b'"5" z",1',
        b'"z"z",1',
        b'"z\\"z",1',
        b'"said \\"z",1',
        b'"z\rz",1',
        b"",
    ],
    ids=lambda line: repr(line[:12]),
)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_damaged_csv_line_changes_no_other_line(line: bytes, ending: bytes, tmp_path: Path) -> None:
    """And does not stop the run; only an unclosed quote could."""
    good = ending.join([b"a,1"] * 8)
    body = ending.join([b"k,n", good, line, good, b""])
    assert csv_rows(tmp_path / "t.csv", body) == [16, 0]


def test_lines_inside_a_long_csv_text_are_no_rows(tmp_path: Path) -> None:
    """By default, DuckDB reads the lines inside such a field as a million rows of 'a'."""
    for megabytes, mega_field in ((29, 6), (1, 70)):
        before = b"b,1\n" * (megabytes << 18)
        field = b'"' + b"a,1\n" * (mega_field << 18) + b'",7\n'
        body = b"k,n\n" + before + field + before
        assert csv_rows(tmp_path / "t.csv", body) == [0, 2 * (megabytes << 18)]
