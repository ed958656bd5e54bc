"""True tables of families: equal to a slow reference, and to each other's sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.privacy.unit import Move, Neighbours, Sensitivity
from dprelease.query.grouping.group_keys import Key
from dprelease.query.resolve import Query
from tests.covering import examples, thinned
from tests.exact.families import (
    ASKED,
    COUNTIES,
    COUNTS,
    NULLS,
    PLAIN,
    ROW_UNIT,
    ROWS,
    SUMS,
    TRACTS,
    UNALLOCATED,
    engine_vectors,
    family,
    reference_vectors,
    unit_of,
)
from tests.exact.reference import Row
from tests.exact.test_reference import breaches, units_of

UNITS = [ROW_UNIT, unit_of(1, 1), unit_of(2, 2), unit_of(50, 3), unit_of(3, 2, 4)]


@pytest.mark.share(0.15)
@pytest.mark.parametrize(
    ("asked", "columns", "unit", "nulls"),
    thinned(ASKED, [PLAIN, COUNTS, SUMS], UNITS, NULLS),
    ids=str,
)
@examples(1)
@given(rows=st.lists(ROWS, min_size=6, max_size=24))
def test_families_equal_the_reference(
    asked: str, columns: str, unit: str, nulls: tuple[str, str], rows: list[Row]
) -> None:
    queries = family(asked, columns, unit, nulls)
    assert engine_vectors(queries, rows) == reference_vectors(queries, rows)


@pytest.mark.share(0.15)
@pytest.mark.parametrize(
    ("asked", "unit", "nulls"), thinned(ASKED, UNITS, [NULLS[0], UNALLOCATED]), ids=str
)
@examples(1)
@given(rows=st.lists(ROWS, max_size=24))
def test_true_integers_of_families_add_up(
    asked: str, unit: str, nulls: tuple[str, str], rows: list[Row]
) -> None:
    """Each table is the sum of any finer one, over areas and over keys."""
    queries = family(asked, SUMS, unit, nulls)
    vectors = engine_vectors(queries, rows)
    cubes = {
        (query.name, name): np.array(vectors[query.name, name], dtype=np.int64).reshape(
            [key.size for key in query.keys.keys]
        )
        for query in queries
        for name in ("n", "total", "real")
    }
    compared = 0
    for fine in queries:
        for coarse in queries:
            lies = [_lies(key, fine) for key in coarse.keys.keys]
            if fine is coarse or None in lies:
                continue
            compared += 1
            for name in ("n", "total", "real"):
                sums = np.zeros_like(cubes[coarse.name, name])
                for at, value in np.ndenumerate(cubes[fine.name, name]):
                    sums[tuple(to[at[axis]] for axis, to in filter(None, lies))] += value
                assert np.array_equal(sums, cubes[coarse.name, name])
    assert compared or len(queries) == 1


def _lies(key: Key, fine: Query) -> tuple[int, list[int]] | None:
    """Return the axis of a finer table that a key is told by, and where its values lie."""
    for axis, finer in enumerate(fine.keys.keys):
        if finer.column == key.column:
            return axis, list(range(key.size))
        if finer.level > key.level > 0 or key.leaf == finer.column:
            above = dict(zip(finer.ancestors, key.ancestors, strict=True))
            return axis, [above[i] for i in range(finer.size)]
    return None


NEAR = thinned(
    ASKED,
    [ROW_UNIT, unit_of(1, 2), unit_of(3, 2), unit_of(3, 2, 4)],
    list(Neighbours),
    [NULLS[3], UNALLOCATED],
)


@pytest.mark.share(0.15, by="neighbours")
@pytest.mark.parametrize(("asked", "unit", "neighbours", "nulls"), NEAR, ids=str)
@examples(1)
@given(rows=st.lists(ROWS, max_size=14), others=st.lists(ROWS, min_size=1, max_size=6))
def test_families_keep_the_claimed_sensitivity(
    asked: str,
    unit: str,
    neighbours: Neighbours,
    nulls: tuple[str, str],
    rows: list[Row],
    others: list[Row],
) -> None:
    """Each person is removed in turn, or replaced by another one."""
    queries = family(asked, SUMS, unit, nulls, neighbours.value)
    new = others if unit else others[:1]
    whole = engine_vectors(queries, rows)
    for gone in units_of(queries[0], rows):
        rest = [row for i, row in enumerate(rows) if i not in gone]
        if neighbours is Neighbours.REPLACE:
            rest += [{**row, "id": 99} for row in new]
        assert not exceeded_claims(queries, whole, engine_vectors(queries, rest))


def exceeded_claims(
    queries: tuple[Query, ...],
    one: dict[tuple[str, str], list[int]],
    other: dict[tuple[str, str], list[int]],
    change: Callable[[Sensitivity], Sensitivity] = lambda claim: claim,
) -> list[tuple[str, str]]:
    """Return the vectors that differ by more than their claims, or claims that are changed."""
    return [
        (query.name, measurement.name)
        for query in queries
        for measurement in query.measurements
        if breaches(
            query,
            {"v": np.array(one[query.name, measurement.name])},
            {"v": np.array(other[query.name, measurement.name])},
            {"v": change(measurement.sensitivity)},
        )
    ]


@pytest.mark.share(0.4, by="neighbours")
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_family_claims_are_tight(neighbours: Neighbours) -> None:
    """One person with all finest cells in one area, and one with cells in several areas."""
    asked = "hierarchy: [state, county, tract]\n    marginals: [[], [race]]"
    queries = family(asked, SUMS, unit_of(3, 2), neighbours=neighbours.value)
    full = {
        "id": 1,
        "sex": "f",
        "day": None,
        "old": True,
        "size": 1,
        "n": 20,
        "x": 10.0,
        "state": "EA",
    }
    together = [("t1", "a"), ("t3", "a"), ("t9", "a")]  # of one county
    apart = [("t1", "a"), ("t7", "b"), ("t4", "c")]
    stacked = [("t1", "a"), ("t1", "b"), ("t1", "c")]
    reached: set[tuple[str, str]] = set()
    shifts, meets = set(reached), set(reached)
    for cells in (together, apart, stacked):
        rows = [{**full, "tract": t, "race": r} for t, r in cells for _ in range(2)]
        less = [] if neighbours is Neighbours.ADD_REMOVE else [{**r, "n": -5} for r in rows]
        less = [{**row, "x": -2.5, "id": 99} for row in less]
        pair = engine_vectors(queries, rows), engine_vectors(queries, less)
        assert not exceeded_claims(queries, *pair)
        shifts |= {*exceeded_claims(queries, *pair, smaller)}
        meets |= {*exceeded_claims(queries, *pair, apart_only)}
    names = {(q.name, m.name) for q in queries for m in q.measurements}
    if neighbours is Neighbours.ADD_REMOVE:
        assert shifts == names
        assert {name for name, _ in meets} == {
            "pop_race", "pop_state", "pop_state_race", "pop_county", "pop_county_race", "pop_tract",
        }  # fmt: skip
    else:  # within a cell, only sums of both signs move as far as is claimed
        assert {(name, "total") for name, _ in names} <= shifts


EXACT = {
    "{level: state, table: [sex], column: n}": ("state", ("sex",)),
    "{level: county, column: n}, {table: [race, sex], column: n}": ("county", ("race", "sex")),
    "{level: tract, table: [sex], column: n}": ("tract", ("sex",)),
    "{column: n}": (None, ()),
}
"""Invariants, and the level and the keys that a pair keeps to agree in them."""


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("asked", "unit"), thinned(list(EXACT), [ROW_UNIT, unit_of(50, 9)]))
@examples(1)
@given(rows=st.lists(ROWS, min_size=1, max_size=9), others=st.lists(ROWS, min_size=1, max_size=4))
def test_neighbours_with_equal_invariants(
    asked: str, unit: str, rows: list[Row], others: list[Row]
) -> None:
    """Everything that follows from the invariants is equal, and noise covers the rest."""
    level, keys = EXACT[asked]
    said = "acknowledge: invariants are published exactly"
    queries = family(
        "hierarchy: [state, county, tract]\n    cube: [race, sex]", SUMS, unit, NULLS[3],
        "replace", f"{{invariants: [{asked}], {said}}}",
    )  # fmt: skip
    exact = {(q.name, m.name) for q in queries for m in q.measurements if m.exact}
    assert exact
    rows, others = ([_countable_row(row) for row in some] for some in (rows, others))
    whole = engine_vectors(queries, rows)
    for gone in list(units_of(queries[0], rows))[:1]:
        rest = [row for i, row in enumerate(rows) if i not in gone]
        for at, i in enumerate(gone):
            new = others[at % len(others)] | {key: rows[i][key] for key in keys}
            rest.append({**new, "tract": _tract(new["tract"], rows[i]["tract"], level), "id": 99})
        other = engine_vectors(queries, rest)
        assert not exceeded_claims(queries, whole, other)
        declared = [
            (q.name, m.name) for q in queries for m in q.measurements if m.exact == "declared"
        ]
        assert all(whole[name] == other[name] for name in declared)
        assert all(whole[name] == other[name] for name in exact)


def _countable_row(row: Row) -> Row:
    """Return a row that counts in every table: none of its keys is dropped."""
    sex = "f" if row["sex"] == "q" else row["sex"]
    return {**row, "id": row["id"] or 1, "sex": sex, "race": row["race"] or "a"}


def _tract(wished: str | None, was: str | None, level: str | None) -> str | None:
    """Return the tract that is wished for if it lies in the same area of a level, else the old."""

    def area(tract: str | None) -> str | None:
        known = {"": "t7", None: "t4"}.get(tract, tract if tract in TRACTS else "t7")
        assert known is not None
        county = TRACTS[known]
        return {None: "", "tract": known, "county": county, "state": COUNTIES[county]}[level]

    return wished if area(wished) == area(was) else was


def smaller(claim: Sensitivity) -> Sensitivity:
    return replace(claim, moves=tuple(Move(m.shift - 1, m.cells) for m in claim.moves))


def apart_only(claim: Sensitivity) -> Sensitivity:
    return replace(claim, meeting=1)
