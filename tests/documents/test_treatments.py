"""The treatment of rows stated in the manifest, compared with the rows that are counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.planning.bounded_words import table_range_text
from dprelease.planning.treatments import treatment_record, treatment_rows
from dprelease.query.grouping.group_keys import Key
from dprelease.query.resolve import Query, resolve
from dprelease.schema.columns import CutColumn
from tests.auditing.build import AREAS, QUERIES, write_release
from tests.exact.reference import Row, key_cell, left_join, typed

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "sex": {"type": "category", "values": ["f", "m", "x"], "others": "x"},
    "state": {"type": "category", "values": ["A", "B"]},
    "town": {
        "type": "category", "within": "state", "fill": "b2",
        "values": {"A": ["a1", "a2"], "B": ["b1", "b2"]},
    },
    "code": {"type": "integer", "lower": 1, "upper": 4},
    "size": {"type": "integer", "lower": 1, "upper": 3, "fill": 2},
    "gain": {"type": "integer", "lower": -20, "upper": 50},
    "pay": {"type": "number", "lower": "-2.5", "upper": 100, "step": "0.25", "fill": 1},
    "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-04"},
    "flag": {"type": "boolean", "fill": "false"},
    "place": {"type": "text"},
    "adult": {"cut": "gain", "edges": [-20, 0, 51]},
    "older": {"cut": "gain", "edges": [0, 20, 51], "others": "0-19", "fill": "20-50"},
}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "id": (1, 2, 3, None),
    "sex": ("f", "m", "x", "q", "", None),
    "state": ("A", "B", "C", None),
    "town": ("a1", "a2", "b1", "b2", "c", None),
    "code": (1, 4, 0, 9, None),
    "size": (1, 3, 0, None),
    "gain": (-20, -1, 0, 30, 60, None),
    "pay": (0.0, 7.25, 200.0, None),
    "day": (date(2024, 1, 1), date(2024, 1, 4), date(2025, 1, 1), None),
    "flag": (True, False, None),
    "place": ("here", "there", None),
}
TYPES = {"id": pa.int64(), "code": pa.int64(), "size": pa.int64(), "gain": pa.int64()}
N = {"n": {"count": "*"}}
EXACT = {"acknowledge": "invariants are published exactly"}


def query_with(**more: Any) -> dict[str, Any]:
    return {"q": {"from": "people", "columns": N, **more}}


ASKED: dict[str, dict[str, Any]] = {
    "total": query_with(),
    "keys of every type": query_with(group_by=["sex", "code", "size", "day", "flag"]),
    "cuts": query_with(group_by=["adult", "older"]),
    "a key that is a value": query_with(
        group_by=["gain", "size"], columns={**N, "total": {"sum": "gain"}, "middle": {"mean": "size"}}
    ),
    "marginals": query_with(marginals=[[], ["sex"], ["code", "day"]]),
    "marginals that agree": query_with(marginals=[[], ["sex"], ["code", "day"]], consistent=True),
    "cube": query_with(cube=["code", "day"]),
    "cube that agrees": query_with(cube=["code", "day"], consistent=True),
    "rollup": query_with(rollup=["sex", "day"]),
    "hierarchy": query_with(hierarchy=["state", "town"]),
    "hierarchy that agrees": query_with(hierarchy=["state", "town"], cube=["flag", "code"], consistent=True),
    "invariants": query_with(
        hierarchy=["state", "town"], cube=["code"],
        consistent={"invariants": [{"level": "state"}], **EXACT},
    ),
    "histogram": query_with(
        marginals=[[], ["sex"]], histogram={"column": "gain", "edges": [-20, 0, 51], "closed": "left"}
    ),
    "condition": query_with(where="pay > 5 AND NOT flag", group_by=["day"]),
    "joined": QUERIES["joined"],
    "private": query_with(group_by=["place", "sex", "size", "flag"], private_keys=True),
    "choices": query_with(
        group_by=["code"],
        columns={**N, "mid": {"median": "gain"}, "top": {"mode": "sex"}, "kinds": {"count_distinct": "sex"}},
    ),
    "ratio": query_with(group_by=["day"], columns={**N, "rate": {"ratio": ["gain", "pay"]}, "m": {"mean": "pay"}}),
}  # fmt: skip
UNITS: dict[str, dict[str, Any]] = {
    "rows": {},
    "ids": {"id": "id", "max_groups": 500, "max_rows_per_group": 500},
}


def queries(folder: Path, name: str, unit: str) -> tuple[Query, ...]:
    people = {"table": "people", "source": "no.parquet", "columns": COLUMNS}
    if UNITS[unit]:
        people["privacy_unit"] = UNITS[unit]
    budget = {"epsilon": 3, "delta": "1e-6"}
    if name == "invariants":
        budget["neighbours"] = "replace"
    release = {
        "title": "t", "tables": ["people.yaml", "areas.yaml"], "budget": budget,
        "queries": ASKED[name], "output": "out",
    }  # fmt: skip
    return resolve(write_release(folder, release, people, AREAS))


def rows(n: int = 240) -> list[Row]:
    """Return rows of usual values, and of all that may be wrong with one or two of them."""
    draw = random.Random(7)
    usual = {name: values[0] for name, values in VALUES.items()}
    alone = [{**usual, name: value} for name, values in VALUES.items() for value in values]
    return alone + [{k: draw.choice(values) for k, values in VALUES.items()} for _ in range(n)]


def is_declared(query: Query, name: str, row: Row) -> bool:
    """Return whether a value that is there is one that a key can have."""
    column = query.table.columns[name]
    if isinstance(column, CutColumn):
        value = row[column.cut]
        return bool(column.edges[0] <= value < column.edges[-1])
    if column.type == "category":
        return row[name] in (column.values or ())
    low, high = getattr(column, "lower", None), getattr(column, "upper", None)
    return low is None or high is None or low <= row[name] <= high


def is_missing(query: Query, name: str, row: Row) -> bool:
    column = query.table.columns[name]
    return typed(query, column.cut if isinstance(column, CutColumn) else name, row) is None


def counts_by_text(query: Query, record: dict[str, Any], row: Row) -> bool:
    """Return whether a row counts as the treatments alone say, conditions and joins aside."""
    for name, words in record["columns"].items():
        role, *parts = words.split("; ")
        if not role.startswith(("key", "id")):
            continue
        rules = [part.split(": ", 1) for part in parts if ": " in part]
        rules = rules[
            : 1 + (len(rules) > 1 and rules[1][0] not in ("missing", "computed in each row"))
        ]
        by = dict(rules)
        if not by:
            assert "the area to which the value of" in words  # nothing is read from it
            continue
        if is_missing(query, name, row):
            what = by["missing"]
        elif is_declared(query, name, row):
            continue
        else:
            (what,) = [text for rule, text in rules if rule != "missing"] or ["no list"]
        if what == "drop":
            return False
    return True


def counts_by_reference(query: Query, row: Row) -> bool:
    """Return whether a row has a cell, and an id, as the slow reference finds it."""
    if query.unit.id is not None and row[query.unit.id] is None:
        return False
    if query.private is not None:
        names = [name for name, _ in query.private.columns]
        return not any(
            is_missing(query, name, row)
            or (
                (query.table.columns[name].type == "category" and not is_declared(query, name, row))
                and query.table.columns[name].others == "drop"
            )
            for name in names
        )
    return all(has_cell(query, key, row) for key in (query.finest or query.keys).keys)


def has_cell(query: Query, key: Key, row: Row) -> bool:
    if key.kind != "date":
        return key_cell(query, key, row) is not None
    day = row[key.column]
    return key.nulls is not None if day is None else day in key.values


WHERE: dict[str, Callable[[Row], bool]] = {
    "condition": lambda row: row["pay"] is not None and row["pay"] > 5 and row["flag"] is False
}


@pytest.mark.each
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", ASKED)
def test_rows_count_as_stated(name: str, unit: str, tmp_path: Path) -> None:
    """By the words of each table, by the slow reference, and by what the engine counts."""
    public = [{"code": i, "kind": kind} for i, kind in ((1, "wet"), (2, "dry"), (4, None))]
    held = rows()
    frame = pa.table({k: pa.array([row[k] for row in held], TYPES.get(k)) for k in VALUES})
    asked = queries(tmp_path, name, unit)
    for query in asked:
        record = treatment_record(query).to_json()
        seen = held if query.join is None else left_join(query, held, public)
        meets = [WHERE.get(name, lambda _row: True)(row) for row in held]
        wanted = [
            counts_by_reference(query, row) and ok for row, ok in zip(seen, meets, strict=True)
        ]
        told = [
            counts_by_text(query, record, row) and ok for row, ok in zip(seen, meets, strict=True)
        ]
        assert told == wanted, (query.name, record)
        assert (record["rows"] == "All rows count.") <= all(wanted)
        assert "condition" in record["rows"] or all(meets)
        assert sum(wanted) == engine_count(query, frame, public), (query.name, record)
    if len(asked) > 1 and asked[0].finest is not None:  # the same rows in every table
        assert len({treatment_record(query).rows for query in asked}) == 1
        keys = {key.column for query in asked for key in query.key_columns}
        assert all(keys <= set(treatment_record(query).columns) for query in asked)


def test_plan_and_manifest_state_treatments_of_all_keys(tmp_path: Path) -> None:
    """Also of keys that only other tables of a family have, and of columns in conditions."""
    asked = queries(tmp_path, "hierarchy that agrees", "rows")
    by_column: dict[str, set[str]] = {}
    for tables, column, words in treatment_rows(asked):
        assert tables == table_range_text([query.name for query in asked])  # one for all tables
        by_column.setdefault(column, set()).add(words)
    assert set(by_column) == {"state", "town", "flag", "code"}
    assert all(len(words) == 1 for words in by_column.values())
    separate = [row[0] for row in treatment_rows(queries(tmp_path, "marginals", "rows"))]
    assert "q_total" not in separate
    assert "q_sex" in separate
    columns = treatment_record(queries(tmp_path, "condition", "rows")[0]).columns
    assert {"pay", "flag", "day"} <= set(columns)
    compared = [words for words in columns.values() if words.startswith("condition; ")]
    assert len(compared) == 2


def engine_count(query: Query, frame: pa.Table, public: list[dict[str, Any]]) -> int:
    from dataclasses import replace

    other = None if query.join is None else query.join.declared
    joined = None if other is None else pa.Table.from_pylist(public)
    with Engine.open(query.declared, frame, other, joined, queries=[query]) as engine:
        if query.private is not None:
            query = replace(query, keys=query.private.key_space_of(engine.partitions(query).names))
        return int(engine.run(query).vector("n").sum())
