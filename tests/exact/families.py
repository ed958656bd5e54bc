"""Families of tables over random rows, and their vectors, computed row by row."""

from __future__ import annotations

import random
from datetime import date, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from dprelease.exact.duckdb import Engine
from dprelease.query.aggregates.count import Count
from dprelease.query.grouping.group_keys import Key
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import declaration_from_texts
from tests.exact.reference import (
    Row,
    bounded,
    key_cell,
    typed,
    values_of,
)

STATES = ["NO", "EA", "WE"]
COUNTIES = {"e1": "EA", "w1": "WE", "n1": "NO", "e2": "EA", "none": "WE", "e3": "EA"}
"""Ragged, and not in the order of the states."""

TRACTS = {
    "t7": "n1", "t1": "e1", "t2": "w1", "t3": "e1", "t4": "none", "t5": "e2", "t6": "e3",
    "t8": "w1", "t9": "e1",
}  # fmt: skip
ZONES = dict(zip(TRACTS, ["Z2", "Z1", "Z1", "Z2", "Z2", "Z1", "Z2", "Z1", "Z1"], strict=True))
"""Across counties and states."""

SCHEMA = """\
table: people
{unit}
columns:
  id: {{type: integer}}
  state: {{type: category, values: [NO, EA, WE], {state}}}
  county: {{type: category, within: state, values: {counties}, {county}}}
  zone: {{type: category, values: [Z1, Z2], {zone}}}
  tract: {{type: category, within: [county, zone], values_from: tracts.csv, {tract}}}
  sex: {{type: category, values: [f, m], {sex}}}
  race: {{type: category, values: [a, b, c], others: c}}
  day: {{type: date, lower: 2020-02-28, upper: 2020-03-01, fill: 2020-03-01}}
  old: {{type: boolean}}
  size: {{type: integer, lower: 1, upper: 3, fill: 2}}
  n: {{type: integer, lower: -5, upper: 20}}
  band: {{cut: n, edges: [-5, 0, 5, 21], others: 0-4}}
  x: {{type: number, lower: -2.5, upper: 10, step: 0.25}}
"""
RELEASE = """\
title: A family
tables: [people.yaml]
budget: {{epsilon: 1, delta: 1e-9, neighbours: {neighbours}}}
queries:
  pop:
    from: people
    {asked}
    columns: {columns}
    consistent: {consistent}
output: out/people
"""
TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("tract", pa.string()),
        ("sex", pa.string()),
        ("race", pa.string()),
        ("day", pa.date32()),
        ("old", pa.bool_()),
        ("size", pa.int8()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("state", pa.string()),
        ("county", pa.string()),
    ]
)
VALUES: dict[str, list[Any]] = {
    "id": [None, 1, 1, 1, 2, 2, 3],
    "tract": [*TRACTS, *TRACTS, "zz", "", None],
    "sex": ["f", "m", "f", "m", "f", "q", None],
    "race": ["a", "b", "c", "a", "b", "zz", None],
    "day": [None, *(date(2020, 2, 27) + timedelta(i) for i in range(5))],
    "old": [None, True, False, True, False, True],
    "size": [None, 0, 1, 2, 3, 4],
    "n": [None, -(2**31), 2**31 - 1, *range(-10, 30)],
    "x": [None, float("nan"), 0.125, 1e308],
    "state": ["NO", "EA", "nowhere", None],  # whatever it says, the tract does, if there is one
    "county": [*COUNTIES, "nowhere", "", None],
}
ROWS = st.fixed_dictionaries(
    {
        name: st.sampled_from(values) | st.floats(-5, 12)
        if name == "x"
        else st.sampled_from(values)
        for name, values in VALUES.items()
    }
)
ROW_UNIT = ""
PLAIN = '{n: {count: "*"}}'
COUNTS = '{n: {count: "*"}, known: {count: x}}'
SUMS = '{n: {count: "*"}, total: {sum: n}, real: {sum: x}}'
ASKED = [
    "hierarchy: [state, county, tract]\n    marginals: [[], [race, sex], [band, old]]",
    "hierarchy: [county, tract]\n    group_by: [day]",
    "hierarchy: [state]\n    rollup: [sex, old]",
    "hierarchy: [state, tract]\n    histogram: {column: n, edges: [-5, 5, 15], labels: [lo, hi]}",
    "cube: [old, race, band]",
    "group_by: [size, sex]",
    "hierarchy: [state, county, tract]\n    marginals: [[], [sex]]\n"
    "    marginals_at: {tract: [[band, old, sex]], state: [[race], [sex]]}",
    "hierarchy: [state, tract]\n    marginals: [[], [race], [old, sex]]\n"
    "    marginals_at: {zone: [[], [old, sex]]}",
]
UNALLOCATED = ("_X", "_X")
"""Substitutes that stand for `unallocated: true`, in all columns of areas and in the sex."""

NULLS = [("drop", "drop"), ("t4", "drop"), ("drop", "t4"), ("t4", "t7"), UNALLOCATED]


def mixed_rows(number: int) -> list[Row]:
    """Return rows of all kinds."""
    rng = random.Random(number)
    return [{name: rng.choice(values) for name, values in VALUES.items()} for _ in range(number)]


def by_area(lies: dict[str, str]) -> str:
    """Return values by area, as YAML."""
    areas = dict.fromkeys(lies.values())
    lists = (f"{area}: [{', '.join(v for v in lies if lies[v] == area)}]" for area in areas)
    return "{" + ", ".join(lists) + "}"


def unit_of(groups: int, rows: int, total: int | None = None) -> str:
    """Return a privacy unit with an id and these bounds."""
    more = "" if total is None else f", max_rows: {total}"
    return f"privacy_unit: {{id: id, max_groups: {groups}, max_rows_per_group: {rows}{more}}}"


@cache
def family(
    asked: str,
    columns: str = COUNTS,
    unit: str = ROW_UNIT,
    nulls: tuple[str, str] = NULLS[0],
    neighbours: str = "add_remove",
    consistent: str = "",
) -> tuple[Query, ...]:
    """Return the queries of all tables of a family."""
    consistent = consistent or ("{groupings: zone}" if "zone" in asked else "true")
    treated = {
        "state": "fill: WE", "county": "fill: drop", "zone": "fill: drop", "sex": "fill: m",
        "tract": f"fill: {nulls[0]}, others: {nulls[1]}",
    }  # fmt: skip
    if nulls == UNALLOCATED:
        treated = dict.fromkeys(treated, "unallocated: true")
    schema = SCHEMA.format(unit=unit, counties=by_area(COUNTIES), **treated)
    tracts = "".join(f"{tract},{TRACTS[tract]},{ZONES[tract]}\n" for tract in TRACTS)
    release = RELEASE.format(
        asked=asked, columns=columns, neighbours=neighbours, consistent=consistent
    )
    texts = {"release.yaml": release, "people.yaml": schema}
    texts["tracts.csv"] = f"tract,county,zone\n{tracts}"
    return resolve(declaration_from_texts(texts, "release.yaml"))


def engine_vectors(queries: tuple[Query, ...], rows: list[Row]) -> dict[tuple[str, str], list[int]]:
    """Return the engine's vectors of all tables, by table and measurement."""
    columns = {*TYPES.names}
    given = pa.Table.from_pylist([{k: row.get(k) for k in columns} for row in rows], schema=TYPES)
    vectors = {}
    with Engine.open(queries[0].declared, given) as engine:
        engine.expect(queries)
        for query in queries:
            table = engine.run(query)
            for measurement in query.measurements:
                vector = table.vector(measurement.name)
                vectors[query.name, measurement.name] = [int(v) for v in vector]
    return vectors


def area(key: Key, leaf: str) -> str:
    """Return the area of a level, or the zone, that a tract or another last area lies in."""
    if key.column == "zone":
        return ZONES.get(leaf, "_X")
    name, lies = leaf, {"tract": TRACTS, "county": COUNTIES}
    column = key.leaf
    while column != key.column:
        known = lies[column].get(name)
        name = known or name.removesuffix("_X") or "_X"
        column = {"tract": "county", "county": "state"}[column]
    return name


def finest_cell(query: Query, row: Row) -> tuple[Any, ...] | None:
    """Return the value of each finest key of a row; None if the row has no cell."""
    assert query.finest is not None
    found_ = []
    for key in query.finest.keys:
        if key.kind == "date":  # one beyond the bounds counts as missing
            code = key.days.index(row["day"]) if row["day"] in key.days else key.nulls
        else:
            code = key_cell(query, key, row)
        if code is None:
            return None
        found_.append(key.values[code])
    return tuple(found_)


def reference_vectors(
    queries: tuple[Query, ...], rows: list[Row]
) -> dict[tuple[str, str], list[int]]:
    """Return the same vectors, computed row by row."""
    vectors = {}
    for query in queries:
        assert query.finest is not None
        space = query.finest
        names = [key.column for key in space.keys]
        kept = []
        for row in rows:
            cell = finest_cell(query, row)
            person = None if query.unit.id is None else typed(query, query.unit.id, row)
            if cell is None or (query.unit.id is not None and person is None):
                continue
            codes = (list(k.values).index(v) for k, v in zip(space.keys, cell, strict=True))
            number = sum(c * s for c, s in zip(codes, space.strides, strict=True))
            kept.append((person, number, [*values_of(query, row), *cell]))
        width = len(query.measurements)
        many = [(p, n, v[:width]) for p, n, v in kept]
        cells = {n: v[width:] for _, n, v in kept}
        for j, measurement in enumerate(query.measurements):
            vector = [0] * query.keys.size
            for _, number, values in bounded(query, many):
                named = dict(zip(names, cells[number], strict=True))
                at = 0
                for key, stride in zip(query.keys.keys, query.keys.strides, strict=True):
                    value = area(key, named[key.leaf]) if key.leaf else named[key.column]
                    at += list(key.values).index(value) * stride
                whole = measurement.aggregate == Count()
                vector[at] += 1 if whole else values[j] or 0
            vectors[query.name, measurement.name] = vector
    return vectors
