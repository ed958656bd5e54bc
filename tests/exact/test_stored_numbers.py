"""Categories stored as integers: compared as numbers, they give the same as texts."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from typing import Any

import pyarrow as pa
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import Query
from dprelease.statements.compiled_queries import compile_query
from dprelease.statements.compiler import Compiler
from dprelease.statements.lost_rows import compile_left_out_rows
from dprelease.statements.values import stored_keys
from tests.covering import spread
from tests.exact.build import ask, declare

LISTS: dict[str, tuple[list[str], str]] = {
    "in a row": (["3", "4", "5"], "run"),
    "in a row, padded": (["007", "08", "9"], "run"),
    "over zero": (["-2", "-1", "0", "1"], "run"),
    "one": (["-100"], "run"),
    "words before and behind": (["none", "1", "2", "other"], "run"),
    "words between": (["1", "none", "2", "other"], "table"),
    "falling": (["3", "2", "1", "none", "other"], "table"),
    "with a gap": (["1", "2", "4", "none", "other"], "table"),
    "far apart": (["-9223372", "0", "090000000000000000", "none", "other"], "table"),
    "no numbers": (["a", "true", "2024-01-01", "none", "other"], "table"),
    "as others write numbers": (["1.0", "2", "3e0", "none", "other"], "text"),
    "too long": (["1" * 19, "2", "none", "other"], "text"),
    "spaced": ([" 1", "2", "none", "other"], "text"),
}
"""Declared values, and how stored numbers are found among them."""

NUMBERS = [-100, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 127, None]
TYPES = (pa.int8(), pa.int32(), pa.int64())
STAND_INS = ({}, {"fill": "none"}, {"others": "other"}, {"fill": "none", "others": "other"})


def queries(category: dict[str, Any]) -> list[Query]:
    """Return queries that read the code of each row: alone, of ids, and several in one scan."""
    columns = {
        "c": category,
        "d": {"type": "category", "values": ["x"], "fill": "x"},
        "w": {"type": "integer", "lower": 0, "upper": 9},
        "id": {"type": "integer", "lower": 0, "upper": 999},
    }
    declared = declare(columns)
    people = declare(columns, privacy_unit={"id": "id", "max_groups": 9, "max_rows_per_group": 99})
    return [
        ask(declared, {"middle": {"median": "w", "interval": False}, "n": {"count": "*"}}, ["c"]),
        ask(declared, {"n": {"count": "*"}, "s": {"sum": "w"}}, ["d", "c"], where="w < 8"),
        ask(people, {"n": {"count": "*"}, "s": {"sum": "w"}}, ["c", "d"]),
    ]


def frame(kind: pa.DataType) -> pa.Table:
    """Return each number as often as its place says, which tells all of them apart."""
    wide = pa.types.is_int64(kind)
    numbers = [*NUMBERS, *([90_000_000_000_000_000, int("1" * 19)] if wide else [])]
    rows = [number for i, number in enumerate(numbers) for _ in range(i + 1)]
    places = list(range(len(rows)))
    return pa.table(
        {
            "c": pa.array(rows, kind),
            "d": pa.array(["x"] * len(rows)),
            "w": pa.array([place % 10 for place in places]),
            "id": pa.array([place % 40 for place in places]),
        }
    )


def answers(asked: list[Query], table: pa.Table, *, together: bool) -> list[Any]:
    found = []
    for several in (asked[:2], asked[2:]):
        with Engine.open(several[0].declared, table) as engine:
            for query in several:
                engine.compile(query)
            if together:
                engine.expect(several)
            found += [engine.run(query) for query in several]
    return [
        one.vector(m.name).tolist() if m.is_vector else one.profile(m.name).pairs().values.tolist()
        for one, query in zip(found, asked, strict=True)
        for m in query.measurements
    ]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("listed", spread([(listed,) for listed in LISTS], 0.6))
def test_number_categories_equal_their_texts(listed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, _ = LISTS[listed]
    fitting = [one for one in STAND_INS if set(one.values()) <= set(values)]
    types = cycle(TYPES[len(listed) % 3 :] + TYPES[: len(listed) % 3])
    for stand_ins, kind in zip(fitting, types, strict=False):
        asked = queries({"type": "category", "values": values, **stand_ins})
        table = frame(kind)
        found = [answers(asked, table, together=together) for together in (False, True)]
        with monkeypatch.context() as changed:
            changed.setattr(stored_keys, "grouping_columns", lambda _query: frozenset())
            texts = answers(asked, table, together=False)
        assert found == [texts, texts], (kind, stand_ins)
        assert texts[2] == value_counts(values, stand_ins, table), (kind, stand_ins)


def is_number(value: str) -> bool:
    return set(value) <= set(" -.e0123456789") and value.count("-") < 2


def value_counts(values: list[str], stand_ins: dict[str, str], table: pa.Table) -> list[int]:
    """Return how many rows each value has, by Python's own numbers."""
    meant = {
        int(float(v)) if "." in v or "e" in v else int(v): v for v in filter(is_number, values)
    }
    counts: Counter[str | None] = Counter()
    for row in table.to_pylist():
        if row["w"] < 8:
            other = stand_ins.get("others")
            known = meant.get(row["c"], other)
            counts[stand_ins.get("fill") if row["c"] is None else known] += 1
    return [counts[value] for value in values]


@pytest.mark.parametrize("listed", LISTS)
def test_way_of_comparing_number_categories(listed: str) -> None:
    values, way = LISTS[listed]
    query = queries({"type": "category", "values": values})[2]
    sql = compile_query(query, {"c": "INTEGER", "w": "BIGINT", "id": "BIGINT", "d": "VARCHAR"}).text
    shown = "text"
    if 'CAST("c" AS VARCHAR)' not in sql:
        shown = "table" if "TRY_CAST(value AS BIGINT)" in sql else "run"
    assert shown == way


@pytest.mark.parametrize("physical", ["VARCHAR", "DOUBLE", "DECIMAL(9,2)", "UBIGINT", "HUGEINT"])
def test_categories_of_other_types_are_read_as_texts(physical: str) -> None:
    query = queries({"type": "category", "values": ["1", "2"]})[2]
    types = {"c": physical, "w": "BIGINT", "id": "BIGINT", "d": "VARCHAR"}
    assert Compiler(query, types, {}).as_numbers == frozenset()


def test_profiles_compare_number_categories_as_numbers() -> None:
    query = queries({"type": "category", "values": ["1", "2", "4"]})[2]
    types = {"c": "INTEGER", "w": "BIGINT", "id": "BIGINT", "d": "VARCHAR"}
    lost = compile_left_out_rows(query, types, {})
    assert "TRY_CAST(value AS BIGINT)" in lost.selected_sql
