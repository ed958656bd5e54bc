"""Families where rows come otherwise: other engines' ways, joins, conditions, computed keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact import table_reader
from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import declaration_from_texts
from dprelease.statements.compiler import KeyTable, compile_query
from dprelease.statements.partial import compile_partial
from tests.covering import examples, thinned
from tests.exact.families import (
    ASKED,
    COUNTS,
    NULLS,
    ROW_UNIT,
    ROWS,
    SUMS,
    TYPES,
    family,
    found,
    unit_of,
    wanted,
)
from tests.exact.reference import Row

UNITS = [ROW_UNIT, unit_of(2, 2)]
WAYS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "as it is": nullcontext,
    "ids bounded by the engine": lambda: mock.patch.object(Engine, "_bound", return_value=False),
    "cells fetched in batches": lambda: mock.patch.object(table_reader, "MANY_CELLS", 0),
}


@pytest.mark.parametrize(
    ("asked", "columns", "unit", "way"),
    thinned(ASKED[:4], [COUNTS, SUMS], UNITS, list(WAYS)[1:]),
    ids=str,
)
@examples(2)
@given(rows=st.lists(ROWS, max_size=16))
def test_every_way_gives_the_same(
    asked: str, columns: str, unit: str, way: str, rows: list[Row]
) -> None:
    queries = family(asked, columns, unit, NULLS[1])
    with WAYS[way]():
        assert found(queries, rows) == wanted(queries, rows)


def registered(link: duckdb.DuckDBPyConnection, tables: tuple[KeyTable, ...]) -> None:
    for table in tables:
        codes = pa.table({"code": range(len(table.values)), "value": table.values})
        link.register(table.name, codes)


@pytest.mark.parametrize(("asked", "unit"), thinned(ASKED[:4], UNITS), ids=str)
@examples(2)
@given(rows=st.lists(ROWS, max_size=16))
def test_statements_of_single_tables_and_of_parts(asked: str, unit: str, rows: list[Row]) -> None:
    """A table's statement stands for itself, as manifests have it; parts of rows add up."""
    queries = family(asked, SUMS, unit)
    physical = {"id": "BIGINT", "tract": "VARCHAR", "sex": "VARCHAR", "race": "VARCHAR"}
    physical |= {"state": "VARCHAR", "day": "DATE", "old": "BOOLEAN", "n": "INTEGER", "x": "DOUBLE"}
    vectors = wanted(queries, rows)
    for query in queries:
        alone = {m.name: [0] * query.keys.size for m in query.measurements}
        parted = {m.name: [0] * query.keys.size for m in query.measurements}
        compiled, partial = compile_query(query, physical), compile_partial(query, physical)
        for number in range(3):
            kept = [row for row in rows if number == 2 or (row["id"] or 0) % 2 == number]
            with duckdb.connect() as link:
                given_ = [{name: row[name] for name in TYPES.names} for row in kept]
                link.register("dp_source", pa.Table.from_pylist(given_, schema=TYPES))
                if number == 2:
                    registered(link, compiled.key_tables)
                    for cell, *values in link.execute(compiled.sql).fetchall():
                        for name, value in zip(compiled.columns, values, strict=True):
                            alone[name][cell] = value
                    continue
                registered(link, partial.key_tables)
                for _, cell, _, *values in link.execute(partial.sql).fetchall():
                    for name, value in zip(partial.vectors, values, strict=True):
                        parted[name][cell] += int(value)
        for name in alone:
            assert alone[name] == parted[name] == vectors[query.name, name]


PEOPLE = """\
table: people
privacy_unit: {id: id, max_groups: 2, max_rows_per_group: 1}
columns:
  id: {type: text}
  place: {type: integer}
  age: {type: number}
  sex: {type: category, values: [f, m], nulls: m}
  state: {type: integer}
"""
PLACES = """\
table: places
public: true
columns:
  code: {type: integer}
  north: {type: category, values: [s, n]}
  town: {type: category, within: north, values: {n: [Oslo, Bergen], s: [Rome]}, nulls: Rome}
"""
JOINED = """\
title: A family
tables: [people.yaml, places.yaml]
budget: {epsilon: 1}
queries:
  pop:
    from: people
    join: {table: places, on: {place: code}}
    where: state = 1
    derive:
      band: {cut: age, edges: [0, 18, 65], labels: [child, adult], others: adult}
      odd: {type: boolean, expression: "place % 2 = 1"}
    hierarchy: [north, town]
    marginals: [[], [band, odd], [sex]]
    columns: {n: {count: "*"}}
    consistent: true
output: out/people
"""


def test_joins_conditions_and_computed_keys() -> None:
    """What people store of their state is never read as an area: that is where their town lies."""
    texts = {"release.yaml": JOINED, "people.yaml": PEOPLE, "places.yaml": PLACES}
    queries = resolve(declaration_from_texts(texts, "release.yaml"))
    people = pd.DataFrame(
        {
            "id": ["a", "a", "a", "b", "c", "d", None],
            "place": pd.array([1, 2, 3, 2, 9, None, 1], "Int64"),
            "age": [3.0, 4.0, 5.0, float("nan"), 70.0, 20.0, 20.0],
            "sex": ["f", None, "f", "m", "x", float("nan"), "m"],
            "state": [1, 1, 1, 1, 1, 1, 1],
        }
    )
    places = pd.DataFrame(
        {"code": [1, 2, 3], "town": ["Oslo", "Rome", "Bergen"], "north": ["s", "n", "x"]}
    )
    vectors = run(queries, people, places)
    # Of a, two of three towns count. b has no band, c no sex, d no odd; the last has no id.
    assert vectors["pop_total"] == [2]
    assert sum(vectors["pop_town"]) == sum(vectors["pop_north"]) == 2
    rome, oslo, bergen = vectors["pop_town"]
    assert vectors["pop_north"] == [rome, oslo + bergen]
    assert vectors["pop_band_odd"] == [rome, oslo + bergen, 0, 0]
    assert vectors["pop_sex"] == [oslo + bergen, rome]


def run(queries: tuple[Query, ...], frame: object, joined: object) -> dict[str, list[int]]:
    join = queries[0].join
    assert join is not None
    with Engine.open(queries[0].declared, frame, join.declared, joined) as engine:
        engine.expect(queries)
        return {query.name: [int(v) for v in engine.run(query).vector("n")] for query in queries}


def test_an_area_of_the_data_is_never_read() -> None:
    """Areas above the last level need not be stored; where they are, they change nothing."""
    queries = family(ASKED[0], COUNTS)
    row: Row = {"id": 1, "tract": "t1", "sex": "f", "race": "a", "day": None, "old": True}
    row |= {"n": 3, "x": 1.0}
    stored = pa.Table.from_pylist([row]).cast(
        pa.schema([field for field in TYPES if field.name != "state"])
    )
    with Engine.open(queries[0].declared, stored) as engine:
        by_state = [int(v) for v in engine.run(queries[4]).vector("n")]
    assert queries[4].keys.keys[0].column == "state"
    assert by_state == [0, 1, 0]
    assert found(queries, [{**row, "state": "NO"}])[queries[4].name, "n"] == by_state


def test_families_take_turns() -> None:
    """Two families, and a table by itself, in any order: each has its own finest cells."""
    one, other = family(ASKED[0], COUNTS), family(ASKED[3], COUNTS)
    rows: list[Row] = [
        {"id": 1, "tract": t, "sex": "f", "race": "a", "day": None, "old": None, "n": n, "x": 1.0,
         "state": None}
        for t, n in (("t1", 3), ("t7", 8), ("t4", 40))
    ]  # fmt: skip
    given_ = pa.Table.from_pylist(rows, schema=TYPES)
    with Engine.open(one[0].declared, given_) as engine:
        engine.expect([*one, *other])
        for a, b in zip(one[:3], other[:3], strict=True):
            for query, of_it in ((a, one), (b, other)):
                vector = [int(v) for v in engine.run(query).vector("n")]
                assert vector == wanted(of_it, rows)[query.name, "n"]
