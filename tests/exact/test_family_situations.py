"""Families with other methods of summation, joins, conditions and computed keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact import families, table_reader
from dprelease.exact.duckdb import Engine
from dprelease.exact.families import FinestTables
from dprelease.exact.results import sorted_cells
from dprelease.exact.results import vectors as vectors_in_memory
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import declaration_from_texts
from dprelease.statements.compiled_queries import compile_query
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.partial import compile_partial
from tests.covering import examples, thinned
from tests.exact.families import (
    ASKED,
    COUNTS,
    NULLS,
    PLAIN,
    ROW_UNIT,
    ROWS,
    SUMS,
    TYPES,
    engine_vectors,
    family,
    mixed_rows,
    reference_vectors,
    unit_of,
)
from tests.exact.reference import Row

Vectors = dict[tuple[str, str], list[int]]
UNITS = [ROW_UNIT, unit_of(2, 2)]
WAYS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "as it is": nullcontext,
    "ids bounded by the engine": lambda: mock.patch.object(
        Engine, "_create_kept_rows", return_value=False
    ),
    "cells fetched in batches": lambda: mock.patch.object(table_reader, "MANY_CELLS", 0),
    "range after range": lambda: small_ranges(),
    "ranges, ids bounded by the engine": lambda: small_ranges(bounds=False),
    "too many rows for ranges": lambda: too_many_rows(),
}


@contextmanager
def too_many_rows() -> Iterator[None]:
    """Let sums be such as might not fit 64 bits, so that the engine adds up what ranges can't."""
    with (
        mock.patch.object(families, "LEAST_CELLS", 1),
        mock.patch.object(sorted_cells, "MOST_ROWS", 7),
    ):
        yield


@contextmanager
def small_ranges(*, bounds: bool = True) -> Iterator[None]:
    """Let all families be added up by ranges of a few cells, from runs of a few rows."""
    with ExitStack() as stack:
        patched = (
            (families, "LEAST_CELLS", 1),
            (vectors_in_memory, "BATCH_ROWS", 8),
            (sorted_cells, "CELLS_AT_ONCE", 8),
        )
        ranges = (sorted_cells, "CELLS_PER_MARK", 4), (sorted_cells, "MOST_RANGE_SUMS", 16)
        for module, name, value in (*patched, *ranges):
            stack.enter_context(mock.patch.object(module, name, value))
        none_grouped = mock.patch.object(
            FinestTables, "prepare_statements", side_effect=AssertionError
        )
        stack.enter_context(none_grouped)
        if not bounds:
            stack.enter_context(mock.patch.object(Engine, "_create_kept_rows", return_value=False))
        yield


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("asked", "columns", "unit", "way"),
    thinned([*ASKED[:4], ASKED[6]], [PLAIN, SUMS], UNITS, list(WAYS)[1:]),
    ids=str,
)
def test_all_summation_methods_agree(asked: str, columns: str, unit: str, way: str) -> None:
    rows = mixed_rows(40)
    queries = family(asked, columns, unit, NULLS[1])
    with WAYS[way]():
        assert engine_vectors(queries, rows) == reference_vectors(queries, rows)


PHYSICAL = {
    "id": "BIGINT", "tract": "VARCHAR", "state": "VARCHAR", "sex": "VARCHAR", "race": "VARCHAR",
    "day": "DATE", "old": "BOOLEAN", "size": "TINYINT", "n": "INTEGER", "x": "DOUBLE",
}  # fmt: skip


def execute(
    link: duckdb.DuckDBPyConnection, sql: str, tables: tuple[KeyTable, ...]
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement with its tables of keys."""
    for table in tables:
        codes = pa.table({"code": range(len(table.values)), "value": table.values})
        link.register(table.name, codes)
    return link.execute(sql).fetchall()


def by_statements(queries: tuple[Query, ...], rows: list[Row]) -> list[Vectors]:
    """Return vectors from each table's own statement, and added up from two parts of the rows."""
    alone: Vectors = {}
    parted: Vectors = {}
    with duckdb.connect() as link:
        for number in range(3):
            kept = [row for row in rows if number == 2 or (row["id"] or 0) % 2 == number]
            named = [{name: row.get(name) for name in TYPES.names} for row in kept]
            link.register("dp_source", pa.Table.from_pylist(named, schema=TYPES))
            for query in queries:
                into = alone if number == 2 else parted
                names = [(query.name, m.name) for m in query.measurements]
                for name in names:
                    into.setdefault(name, [0] * query.keys.size)
                if number == 2:
                    compiled = compile_query(query, PHYSICAL)
                    found_ = execute(link, compiled.sql, compiled.key_tables)
                else:
                    partial = compile_partial(query, PHYSICAL)
                    found_ = [
                        (cell, *values)
                        for _, cell, _, *values in execute(link, partial.sql, partial.key_tables)
                    ]
                for cell, *values in found_:
                    for name, value in zip(names, values, strict=True):
                        into[name][cell] += int(value)
    return [alone, parted]


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("way", "columns", "unit"), thinned(ASKED[:4], [PLAIN, SUMS], UNITS), ids=str
)
@examples(1)
@given(rows=st.lists(ROWS, min_size=8, max_size=16))
def test_single_statements_and_parts_of_rows_agree(
    way: str, columns: str, unit: str, rows: list[Row]
) -> None:
    """Statements as in manifests give the same tables; tables of parts of the rows add up."""
    queries = family(way, columns, unit)
    vectors = reference_vectors(queries, rows)
    assert by_statements(queries, rows) == [vectors, vectors]


@pytest.mark.share(0.4)
@pytest.mark.parametrize("columns", [PLAIN, SUMS])
def test_all_tables_of_a_family_use_the_same_cells(columns: str) -> None:
    """Even in tables with few cells, an id counts twice in each of two finest cells."""
    queries = family(ASKED[0], columns, unit_of(2, 2))
    full = {
        "id": 1,
        "sex": "f",
        "day": None,
        "old": True,
        "size": 1,
        "n": 3,
        "x": 1.0,
        "state": None,
    }
    rows: list[Row] = [
        {**full, "tract": tract, "race": race}
        for tract, race in (("t1", "a"), ("t1", "b"), ("t3", "a"), ("t7", "c"))
        for _ in range(3)
    ]
    with WAYS["ids bounded by the engine"]():
        ways = [engine_vectors(queries, rows)]
    ways += [engine_vectors(queries, rows), *by_statements(queries, rows)]
    for vectors in ways:
        assert {sum(vectors[query.name, "n"]) for query in queries} == {4}
        assert vectors == ways[0]


PEOPLE = """\
table: people
privacy_unit: {id: id, max_groups: 2, max_rows_per_group: 1}
columns:
  id: {type: text}
  place: {type: integer}
  age: {type: number}
  sex: {type: category, values: [f, m], fill: m}
  state: {type: integer}
"""
PLACES = """\
table: places
public: true
columns:
  code: {type: integer}
  north: {type: category, values: [s, n]}
  town: {type: category, within: north, values: {n: [Oslo, Bergen], s: [Rome]}, fill: Rome}
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


def test_families_with_joins_conditions_and_computed_keys() -> None:
    """The stored state is never read as an area; the town decides."""
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


def test_stored_upper_areas_are_never_read() -> None:
    """Areas above the last level need not be stored, and change nothing if they are."""
    queries = family(ASKED[0], COUNTS)
    row: Row = {"id": 1, "tract": "t1", "sex": "f", "race": "a", "day": None, "old": True}
    row |= {"size": None, "n": 3, "x": 1.0}
    stored = pa.Table.from_pylist([row]).cast(
        pa.schema([field for field in TYPES if field.name in row])
    )
    with Engine.open(queries[0].declared, stored) as engine:
        by_state = [int(v) for v in engine.run(queries[3]).vector("n")]
    assert queries[3].keys.keys[0].column == "state"
    assert by_state == [0, 1, 0]
    assert engine_vectors(queries, [{**row, "state": "NO"}])[queries[3].name, "n"] == by_state


def test_two_families_in_one_engine() -> None:
    """Two families and a single table in any order: each has its own finest cells."""
    one, other = family(ASKED[0], COUNTS), family(ASKED[3], COUNTS)
    rows: list[Row] = [
        {"id": 1, "tract": t, "sex": "f", "race": "a", "day": None, "old": None, "size": 2, "n": n, "x": 1.0,
         "state": None}
        for t, n in (("t1", 3), ("t7", 8), ("t4", 40))
    ]  # fmt: skip
    given_ = pa.Table.from_pylist(rows, schema=TYPES)
    with Engine.open(one[0].declared, given_) as engine:
        engine.expect([*one, *other])
        for a, b in zip(one[:3], other[:3], strict=True):
            for query, of_it in ((a, one), (b, other)):
                vector = [int(v) for v in engine.run(query).vector("n")]
                assert vector == reference_vectors(of_it, rows)[query.name, "n"]
