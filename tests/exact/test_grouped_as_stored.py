"""Grouping by stored categories gives the same cells as converting each row."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError
from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import Query
from dprelease.statements import compiler
from dprelease.statements.compiled_queries import compile_without_data
from dprelease.statements.layers import grouping_columns
from dprelease.statements.values import stored_keys
from tests.exact.build import ask, declare

CODES = {"type": "category", "values": ["01", "02", "10", "2024-01-01", "x", "", "none", "other"]}
ZEROS = CODES | {"fill": "none", "others": "other"}
FEW = {"type": "category", "values": ["1", "2", "0"]}
DAYS = [date(2024, 1, 1), date(2024, 1, 2), None]
NOONS = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 22, tzinfo=UTC), None]
STORED: dict[str, pa.Array] = {
    "texts": pa.array(["01", " 1", "1", "+1.0", "1e0", "x", "X", "", None, "10", "nan", "none"]),
    "dictionary": pa.array(["01", "1.0", "x", "y", "", None]).dictionary_encode(),
    "integers": pa.array([1, 2, 10, 3, None, -1], pa.int32()),
    "wide integers": pa.array([1, 2, 10, 2**63, None], pa.uint64()),
    "floats": pa.array([1.0, 2.0, 10.0, 0.0, -0.0, math.nan, -math.nan, math.inf, 1.5, None]),
    "small floats": pa.array([1.0, 2.0, math.nan, 0.1, None], pa.float32()),
    "decimals": pa.array([Decimal("1.00"), Decimal("2.50"), None], pa.decimal128(9, 2)),
    "truth values": pa.array([True, False, None]),
    "days": pa.array(DAYS),
    "instants": pa.array(NOONS, pa.timestamp("us", tz="UTC")),
    "nothing": pa.nulls(3),
}
READERS: dict[str, tuple[dict[str, Any], bool]] = {
    "by alone": ({}, True),
    "a condition on another": ({"where": "w < 3"}, True),
    "a condition on it": ({"where": "c IS NOT NULL"}, False),
    "counted": ({"columns": {"n": {"count": "c"}}}, False),
    "computed from": ({"by": ["c", "made"]}, False),
}
"""What is asked beside a count by the category, and whether it is grouped as it is stored."""


def build_query(declared: dict[str, Any], more: dict[str, Any], zone: str = "UTC") -> Query:
    columns = {
        "c": declared,
        "w": {"type": "integer", "lower": 0, "upper": 9},
        "made": {"type": "category", "values": ["0", "x", "1"], "expression": "left(c, 1)"},
    }
    given = {"columns": {"n": {"count": "*"}, "s": {"sum": "w"}}, "by": ["c"]} | more
    return ask(declare(columns, source={"frame": "t", "time_zone": zone}), **given)


def frame(stored: pa.Array) -> pa.Table:
    """Return each value as often as its place says, which tells all of them apart."""
    places = np.repeat(np.arange(len(stored)), 2 ** np.arange(len(stored)))
    return pa.table({"c": stored.take(pa.array(places)), "w": pa.array(places % 10)})


@pytest.mark.share(0.25)
@pytest.mark.parametrize("kind", STORED)
def test_grouping_stored_values_gives_the_same_cells(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = ["UTC", "Asia/Tokyo"] if kind == "instants" else ["UTC"]
    table, seen = frame(STORED[kind]), 0
    for columns, zone in product([CODES, ZEROS], zones):
        asks = [build_query(columns, more, zone) for more, _ in READERS.values()]
        with Engine.open(asks[0].declared, table) as engine:
            found = [vectors(engine, query) for query in asks]
            with monkeypatch.context() as changed:
                for module in (compiler, stored_keys):
                    changed.setattr(module, "grouping_columns", lambda _query: frozenset())
                assert found == [vectors(engine, query) for query in asks]
        seen += sum(map(sum, (each["n"] for each in found)))
    assert seen


def vectors(engine: Engine, query: Query) -> dict[str, list[int]]:
    """Return the true vectors."""
    found = engine.run(query)
    return {each.name: found.vector(each.name).tolist() for each in query.measurements}


@pytest.mark.parametrize("reader", READERS)
def test_only_columns_without_other_readers_are_grouped(reader: str) -> None:
    more, as_stored = READERS[reader]
    query = build_query(CODES, more)
    assert grouping_columns(query) == ({"c"} if as_stored else set())
    assert ("meant AS" in compile_without_data(query).text) == as_stored or not as_stored


def test_joins_and_private_keys_read_converted_rows() -> None:
    public = declare({"c": CODES, "zone": FEW}, table="zones", public=True)
    columns = {"c": CODES, "w": {"type": "integer", "lower": 0, "upper": 9}}
    join = {"table": "zones", "on": {"c": "c"}}
    joined = ask(declare(columns), {"n": {"count": "*"}}, ["c", "zone"], other=public, join=join)
    assert grouping_columns(joined) == set()
    private = ask(declare(columns), {"n": {"count": "*"}}, ["c"], private_keys=True)
    assert grouping_columns(private) == set()


def test_statements_share_one_table_of_key_values() -> None:
    columns = {"n": {"count": "*"}, "low": {"median": "w"}, "kinds": {"mode": "c"}}
    query = build_query(CODES, {"columns": columns})
    assert [table.values for table in compile_without_data(query).key_tables] == [
        tuple(CODES["values"])
    ]


@pytest.mark.parametrize(
    ("stored", "codes", "code"),
    [
        (pa.array([b"1"]), CODES, "DP-DATA-004"),
        (pa.array([1.0]), FEW | {"values": [str(2**53), str(2**53 + 1)]}, "DP-DATA-015"),
    ],
    ids=["bytes", "floats"],
)
def test_error_of_unreadable_type_names_the_column(
    stored: pa.Array, codes: dict[str, Any], code: str, tmp_path: Path
) -> None:
    """Not its alias in the SQL statement."""
    pq.write_table(pa.table({"c": stored}), tmp_path / "t.parquet")
    declared = declare({"c": codes}, source=str(tmp_path / "t.parquet"))
    query = ask(declared, {"n": {"count": "*"}}, ["c"])
    with (
        Engine.open(query.declared) as engine,
        pytest.raises(DataError, match=rf"{code}.*'c'") as caught,
    ):
        engine.compile(query)
    assert "k0" not in str(caught.value)
