"""Views are refused; files of one source are each read by their own types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError
from dprelease.exact.duckdb import Engine
from tests.exact.build import ask, declare, exact, write_parquet
from tests.exact.test_value_conversion import meanings

VIEWS = {
    "v": "CREATE VIEW v AS SELECT * FROM t",
    "s.v": "CREATE VIEW s.v AS SELECT n, (SELECT max(n) FROM t) AS k FROM t",
    "V": "CREATE VIEW v AS SELECT random() AS n, '1' AS k FROM t",
    "g": "CREATE TABLE g (k VARCHAR, n AS (random()))",
}


@pytest.mark.parametrize("name", VIEWS)
def test_duckdb_views_and_computed_columns_are_refused(name: str, tmp_path: Path) -> None:
    """A view may compute a row from others, or change from read to read."""
    with duckdb.connect(tmp_path / "t.duckdb") as link:
        link.execute("CREATE SCHEMA s; CREATE TABLE t AS SELECT 1 AS n, 'a' AS k")
        link.execute("CREATE TABLE s.t AS FROM t; CREATE TABLE h (k VARCHAR, n INT, x AS (n + 1))")
        link.execute(VIEWS[name])
    columns: dict[str, Any] = {"n": {"type": "number"}, "k": {"type": "text"}}

    def query(table: str) -> Any:
        source = {"path": str(tmp_path / "t.duckdb"), "table": table}
        return ask(declare(columns, source=source), {"rows": {"count": "*"}})

    with pytest.raises(DataError, match="DP-DATA-014"):
        exact(query(name), None)
    assert [exact(query(t), None)["rows"].tolist() for t in ("t", "s.t", "T", "h")] == [[1]] * 3 + [
        [0]
    ]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("missing", [0, 1])
def test_nan_and_minus_zero_are_read(missing: int, kind: pa.DataType, tmp_path: Path) -> None:
    """NaN is missing, whatever the statistics of the file are; minus zero is zero."""
    values = [1.0, 2.0, float("nan"), -0.0, 0.0, *[None] * missing]
    pq.write_table(pa.table({"v": pa.array(values, kind)}), tmp_path / "t.parquet")
    values_of = {"type": "category", "values": ["0", "1", "2", "missing"], "fill": "missing"}
    number = {"type": "number", "lower": 0, "upper": 9, "step": 1}
    for column, by, wanted in ((values_of, ["v"], [2, 1, 1, 1 + missing]), (number, [], [4])):
        declared = declare({"v": column}, source=str(tmp_path / "t.parquet"))
        asked = {"n": {"count": "*" if by else "v"}}
        assert exact(ask(declared, asked, by), None)["n"].tolist() == wanted


def test_large_ids_of_texts_are_distinct() -> None:
    """No float holds them; all spellings of an id are one person."""
    unit = {"id": "id", "max_groups": 1, "max_rows_per_group": 1}
    declared = declare({"id": {"type": "integer"}}, privacy_unit=unit)
    query = ask(declared, {"rows": {"count": "*"}, "persons": {"count_distinct": "id"}})
    ids = [
        str(2**53),
        str(2**53 + 1),
        f"{2**53 + 1}.0",
        f" +{2**53 + 1}",
        str(2**62 + 1),
        str(2**62),
    ]
    found = exact(query, pa.table({"id": ids}))
    assert (found["rows"].tolist(), found["persons"].tolist()) == ([4], [4])


NUMBERS = [1, 2, 34, None]
SAID: dict[str, list[Any]] = {
    "whole": [1, 2, 34, None],
    "real": [1, 2, 34, None],
    "code": ["1", "2", "34", None],
    "flag": ["true", None, None, None],
}
COLUMNS: dict[str, Any] = {
    "whole": {"type": "integer", "lower": 0, "upper": 100},
    "real": {"type": "number", "lower": 0, "upper": 100, "step": 1},
    "code": {"type": "category", "values": ["1", "2", "34"]},
    "flag": {"type": "boolean"},
}
STORED = [pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(9, 3), pa.string()]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("first", STORED, ids=str)
@pytest.mark.parametrize("second", [*STORED, pa.bool_(), pa.null()], ids=str)
def test_files_are_read_by_their_own_types(
    first: pa.DataType, second: pa.DataType, tmp_path: Path
) -> None:
    """One missing code turns the integers of its file into floats, and one text into texts."""
    ones = {pa.bool_(): [True, None], pa.null(): [None]}.get(second, NUMBERS)
    for place, (values, kind) in enumerate(((NUMBERS, first), (ones, second), (NUMBERS, first))):
        plain = pa.array(values, kind if place == 1 and values is not NUMBERS else pa.int64())
        stored = (
            plain.cast(pa.decimal128(19)).cast(kind)
            if pa.types.is_decimal(kind)
            else plain.cast(kind)
        )
        pq.write_table(pa.table(dict.fromkeys(COLUMNS, stored)), tmp_path / f"t{place}.parquet")
    found = meanings(COLUMNS, None, str(tmp_path / "t*.parquet"))
    for name, wanted in SAID.items():
        between = wanted
        if second == pa.bool_():
            said = {"whole": 1, "real": 1, "code": "true", "flag": "true"}
            between = [said.get(name), None]
        elif second == pa.null():
            between = [None]
        assert found[name] == [*wanted, *between, *wanted]


@pytest.mark.parametrize("kind", STORED, ids=str)
def test_texts_are_texts_in_each_file(kind: pa.DataType, tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["1", "01", "1.0"]}), tmp_path / "t0.parquet")
    pq.write_table(pa.table({"name": pa.array([1], pa.int8()).cast(kind)}), tmp_path / "t1.parquet")
    asked = ({"name": {"type": "text"}}, None, str(tmp_path / "t*.parquet"))
    if kind == pa.string():
        assert meanings(*asked) == {"name": ["1", "01", "1.0", "1"]}
    else:
        with pytest.raises(DataError, match="DP-DATA-004"):
            meanings(*asked)


def test_dates_timestamps_and_texts_of_several_files(tmp_path: Path) -> None:
    day = pd.Timestamp("2024-02-29")
    for place, values in enumerate(([day.date()], [day], [day.tz_localize("UTC")], ["2024-02-29"])):
        table = pa.table({"day": values, "at": values, "code": values})
        pq.write_table(table, tmp_path / f"t{place}.parquet")
    columns = {
        "day": {"type": "date"},
        "at": {"type": "timestamp"},
        "code": {"type": "category", "values": ["2024-02-29"]},
    }
    assert meanings(columns, None, str(tmp_path / "t*.parquet")) == {
        "day": ["2024-02-29"] * 4,
        "at": ["2024-02-29 00:00:00"] * 4,
        "code": ["2024-02-29"] * 4,
    }


@pytest.mark.parametrize("lacking", [["t0"], ["t2"], ["t0", "t2"]])
def test_column_missing_in_some_files_is_refused(lacking: list[str], tmp_path: Path) -> None:
    """Otherwise, the published table would silently lack whole files."""
    for name in ("t0", "t1", "t2"):
        columns = {"code": ["x"], "other": [1]} | ({} if name in lacking else {"n": [3]})
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    declared = {"code": {"type": "text"}, "n": {"type": "integer"}}
    with pytest.raises(DataError, match="DP-DATA-024") as refused:
        meanings(declared, None, str(tmp_path / "t*.parquet"))
    others = "and 1 other lack" if len(lacking) > 1 else "lacks"
    assert f"'{lacking[0]}.parquet' {others} the column 'n'" in str(refused.value)
    assert "no row was read, no budget was spent" in str(refused.value)
    del declared["n"]
    assert meanings(declared, None, str(tmp_path / "t*.parquet")) == {"code": ["x"] * 3}


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_timestamps_in_milliseconds_are_read(unit: str, zone: str | None, tmp_path: Path) -> None:
    """DuckDB would fail at those that microseconds can't hold."""
    ticks = {"s": 1, "ms": 1000}[unit]
    last = (2**63 - 1) // 1000 * ticks
    at = pa.array([1709164800 * ticks, None, last, -last], pa.timestamp(unit, zone))
    texts = ["x", None, "y", "\u00e9"]
    coded = pa.array(texts).dictionary_encode()
    for place, code in enumerate((coded, pa.array(texts, pa.large_string()))):
        table = pa.table({"day": at, "at": at, "code": code, "other": [[1]] * 4})
        pq.write_table(table, tmp_path / f"t{place}.parquet", coerce_timestamps="ms")
    days = {"day": ["2024-02-29"], "code": ["x"], "at": pa.array([None], pa.string())}
    pq.write_table(pa.table(days), tmp_path / "t2.parquet")  # stored otherwise
    columns = {
        "day": {"type": "date"},
        "at": {"type": "timestamp"},
        "code": {"type": "text"},
    }
    once = {"day": ["2024-02-29", None, None, None], "code": texts}
    once["at"] = ["2024-02-29 00:00:00", None, None, None]
    alone = meanings(columns, None, str(tmp_path / "t[01].parquet"))
    assert alone == {name: values * 2 for name, values in once.items()}
    both = meanings(columns, None, str(tmp_path / "t*.parquet"))
    ends = {"day": "2024-02-29", "at": None, "code": "x"}
    assert both == {name: [*values, ends[name]] for name, values in alone.items()}


def test_unreadable_type_in_one_file_is_refused(tmp_path: Path) -> None:
    """Float ids and lists, whatever the other files contain."""
    columns = {"id": {"type": "integer"}, "n": {"type": "integer"}}
    unit = {
        "privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1},
        "source": str(tmp_path / "t*.parquet"),
    }
    query = ask(declare(columns, **unit), {"rows": {"count": "*"}})
    for table, code in (({"id": [1.0], "n": [1]}, "005"), ({"id": ["1"], "n": [[1]]}, "004")):
        pq.write_table(pa.table({"id": [1], "n": [1]}), tmp_path / "t1.parquet")
        pq.write_table(pa.table(table), tmp_path / "t2.parquet")
        with pytest.raises(DataError, match=f"DP-DATA-{code}"):
            exact(query, None)


def test_integers_of_several_files_stay_integers(tmp_path: Path) -> None:
    """DuckDB widens them itself, as fast as for one file."""
    for place, kind in enumerate((pa.int32(), pa.int64(), pa.uint8())):
        pq.write_table(pa.table({"n": pa.array([1], kind)}), tmp_path / f"t{place}.parquet")
    declared = declare({"n": {"type": "integer"}}, source=str(tmp_path / "t*.parquet"))
    with Engine.open(declared) as engine:
        assert engine.physical == {"n": "BIGINT"}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_96_bit_timestamps_are_in_utc(zone: str, tmp_path: Path) -> None:
    """As Spark writes and reads them; local if the source declares a time zone."""
    at = pa.array([pd.Timestamp("2024-02-29 02:30:00"), None], pa.timestamp("ns"))
    zoned = at.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    for name, values, old in (("t0", at, True), ("t1", zoned, False)):
        table = pa.table({"day": values, "at": values})
        pq.write_table(table, tmp_path / f"{name}.parquet", use_deprecated_int96_timestamps=old)
    columns = {"day": {"type": "date"}, "at": {"type": "timestamp"}}
    local = {"UTC": "2024-02-29 02:30:00", "America/New_York": "2024-02-28 21:30:00"}[zone]
    wanted = {"day": [local[:10], None], "at": [local, None]}
    for files, times in (("t0", 1), ("t1", 1), ("t*", 2)):
        source = {"path": str(tmp_path / f"{files}.parquet"), "time_zone": zone}
        found = meanings(columns, None, source)
        assert found == {name: values * times for name, values in wanted.items()}


DUCKDB_TYPES = [
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    *("UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(4, 1)", "DECIMAL(9, 0)", "DECIMAL(18, 2)"),
    *("DECIMAL(38, 10)", "BOOLEAN", "VARCHAR", "JSON", "ENUM('a', 'b')", "UUID", "BLOB", "BIT"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_NS", "TIMESTAMPTZ", "INTERVAL"),
    *("INTEGER[]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)"),
]
ARROW_TYPES = [
    *(pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(4, 1), pa.decimal128(38, 0), pa.decimal256(50, 1), pa.bool_(), pa.string()),
    *(pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.binary()),
    *(pa.binary(16), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns"), pa.null()),
    *(pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.list_(pa.int8())),
]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("kind", [*DUCKDB_TYPES, *ARROW_TYPES], ids=str)
def test_types_of_parquet_files_equal_those_of_duckdb(
    kind: str | pa.DataType, tmp_path: Path
) -> None:
    """They are taken from the file if they are surely the same, and from DuckDB otherwise."""
    path = tmp_path / "t.parquet"
    with duckdb.connect() as link:
        if isinstance(kind, str):
            link.execute(f"COPY (SELECT NULL::{kind} AS v, 1 AS other) TO '{path}'")
        else:
            write_parquet(pa.table({"v": pa.nulls(1, kind), "other": [1]}), path)
        wanted = link.execute(f"DESCRIBE SELECT v FROM '{path}'").fetchall()[0][1]
    if kind == pa.decimal256(50, 1):  # which the engine takes for floats
        wanted = "DECIMAL(38,0)"
    declared = declare({"v": {"type": "text"}}, source=str(path))
    with Engine.open(declared) as engine:
        assert engine.physical == {"v": wanted}
