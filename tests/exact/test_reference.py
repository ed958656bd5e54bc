"""SQL against the slow reference, and neighbours against the claimed sensitivities."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact import table_reader
from dprelease.exact.results import vectors as vectors_module
from dprelease.postprocess.derived_values import FRACTIONS, fractions_of
from dprelease.privacy.unit import Move, Neighbours, Sensitivity
from dprelease.query.aggregates.count_distinct import CountDistinct
from dprelease.query.resolve import Query
from dprelease.statements.values import categories
from tests.covering import examples, thinned
from tests.exact.build import ask, declare, exact
from tests.exact.reference import reference, typed

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "k": {"type": "category", "values": ["a", "b", "c"], "others": "c"},
    "m": {"type": "category", "values": ["x", "y"], "fill": "y", "missing": ["q"]},
    "n": {"type": "integer", "lower": -5, "upper": 20, "missing": [6, 20]},
    "s": {"type": "integer", "lower": -7, "upper": 31, "step": 4, "fill": 3, "missing": 5},
    "x": {"type": "number", "lower": "-2.5", "upper": 10, "step": "0.25", "missing": "0.125"},
    "w": {"type": "number", "lower": 0, "upper": 3, "step": "0.5", "missing": 2},
    "flag": {"type": "boolean"},
    "known": {"type": "boolean", "fill": "true"},
    "day": {"type": "date", "lower": "1969-12-30", "upper": "1970-01-09", "missing": "1970-01-02"},
    "at": {"type": "timestamp", "lower": "1969-12-31 23:59:58", "upper": "1970-01-01 00:00:20"},
    "filled": {"type": "date", "lower": "2020-02-27", "upper": "2020-03-05", "fill": "2020-02-29"},
    "group": {"cut": "n", "edges": [-5, 0, 5, 21], "others": "0-4"},
    "right": {"cut": "n", "edges": [-5, 0, 5, 20], "closed": "right"},
}
TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.string()),
        ("m", pa.string()),
        ("n", pa.int32()),
        ("s", pa.int64()),
        ("x", pa.float64()),
        ("w", pa.float64()),
        ("flag", pa.bool_()),
        ("known", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("filled", pa.date32()),
    ]
)
FLOATS = st.sampled_from(
    [None, float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1e308, 0.125, -0.375]
) | st.floats(-20, 20)
ROWS = st.fixed_dictionaries(
    {
        "id": st.sampled_from([None, 1, 1, 1, 2, 3, 4]),
        "k": st.sampled_from(["a", "b", "c", "zz", "", None]),
        "m": st.sampled_from(["x", "y", "q", None]),
        "n": st.sampled_from([None, -(2**31), 2**31 - 1]) | st.integers(-10, 30),
        "s": st.sampled_from([None, -(2**63), 2**63 - 1]) | st.integers(-12, 40),
        "x": FLOATS,
        "w": FLOATS,
        "flag": st.sampled_from([None, True, False]),
        "known": st.sampled_from([None, True, False]),
        "day": st.none() | st.dates(date(1969, 12, 25), date(1970, 1, 12)),
        "at": st.none()
        | st.datetimes(datetime(1969, 12, 31, 23, 59, 50), datetime(1970, 1, 1, 0, 0, 30)),
        "filled": st.sampled_from([None, date(2, 1, 1), date(9998, 1, 1)])
        | st.dates(date(2020, 2, 25), date(2020, 3, 8)),
    }
)
TABLES = st.lists(ROWS, max_size=24)
MEASURES: dict[str, Any] = {
    "rows": {"count": "*"},
    "known": {"count": "x"},
    "in_band": {"count": "right"},
    "total": {"sum": "n"},
    "coarse": {"sum": "s"},
    "real": {"sum": "x"},
    "kinds": {"count_distinct": "k"},
    "mean": {"mean": "x"},
    "rate": {"ratio": ["x", "n"]},
    "part": {"ratio": ["s", "x"]},
    "percent": {"share": "*"},
    "spread": {"variance": "n"},
    "middle": {"median": "n"},
    "high": {"quantile": {"of": "x", "at": "0.9"}},
    "least": {"min": "s"},
    "often": {"mode": "m"},
    "middle_day": {"median": "day"},
    "late_day": {"quantile": {"of": "day", "at": "0.9"}},
    "last_day": {"max": "filled"},
    "middle_time": {"median": "at"},
    "share": {"mean": "flag"},
    "sure": {"sum": "known"},
    "weights": {"weighted_count": "w"},
    "weighed": {"weighted_sum": {"of": "x", "weight": "w"}},
    "heavy": {"weighted_mean": {"of": "n", "weight": "w"}},
    "flagged": {"weighted_mean": {"of": "flag", "weight": "known"}},
    "size": {"effective_size": "w"},
    "design": {"design_error": {"weight": "w", "replicates": ["x", "n"], "scale": "0.5"}},
    "of_sum": {
        "design_error": {
            "weight": "w",
            "replicates": ["x", "s"],
            "scale": 1,
            "of": "n",
            "max_difference": 2,
        }
    },
    "together": {"correlation": ["x", "n"]},
    "line": {"slope": {"of": "n", "on": "x", "controls": ["flag", "s"]}},
}
UNITS = [
    {},
    {"id": "id", "max_groups": 2, "max_rows_per_group": 2},
    {"id": "id", "max_groups": 1, "max_rows_per_group": 1},
    {"id": "id", "max_groups": 50, "max_rows_per_group": 3},
    {"id": "id", "max_rows": 3},
    {"id": "id", "max_groups": 3, "max_rows_per_group": 2, "max_rows": 5},
    {"id": "id", "max_groups": 2, "max_rows_per_group": 4, "max_rows": 3},
    {"id": "id", "max_rows": 1},
    {"id": "id", "max_groups": 2, "max_rows_per_group": 1, "max_rows": 2},
]
KEYS = [[], ["k"], ["k", "m"], ["group", "flag"], ["n"], ["right"]]


def build(
    unit: dict[str, Any],
    by: list[str],
    measurements: dict[str, Any],
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Query:
    more = {"privacy_unit": unit} if unit else {}
    chosen = dict(measurements)
    if unit:
        chosen["people"] = {"count_distinct": "id"}
        chosen |= {"clipped": {"sum": "n", "max_sum": 13}, "low": {"sum": "x", "max_sum": "2.25"}}
    return ask(declare(COLUMNS, **more), chosen, by, neighbours=neighbours)


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TYPES)


def assert_equals_reference(query: Query, rows: list[dict[str, Any]]) -> None:
    found, wanted = exact(query, as_table(rows)), reference(query, rows)
    for name, vector in wanted.items():
        assert found[name].tolist() == vector, name


WAYS = {
    f"{where}, {keys}": (*cells, *values)
    for where, cells in {"in the engine": (2**62, 0), "in memory": (0, 2**25)}.items()
    for keys, values in {"keys compared": (64, 4), "tables of keys": (0, 0)}.items()
}
"""Cells from which on sums are made in memory, and places up to which counts are; values that groups
and rows are compared with, where more are looked up in tables."""


@pytest.mark.share(0.3)
@pytest.mark.parametrize(
    ("unit", "by", "way"), thinned(UNITS, KEYS, list(WAYS), together=1), ids=str
)
@examples(2)
@given(rows=TABLES)
def test_sql_equals_the_reference(
    unit: dict[str, Any], by: list[str], way: str, rows: list[dict[str, Any]]
) -> None:
    measurements = dict(MEASURES)
    in_memory = way.startswith("in memory")
    if in_memory and "kinds" in measurements:  # distinct values are the engine's alone
        del measurements["kinds"]
    many, places, short, compared = WAYS[way]
    with (
        mock.patch.multiple(table_reader, MANY_CELLS=many, MOST_COUNTS=places),
        mock.patch.multiple(categories, SHORT=short, COMPARED=compared),
    ):
        query = build(unit, by, measurements)
        assert_equals_reference(query, rows)
        assert_equals_reference(without_people(query), rows)


def without_people(query: Query) -> Query:
    """Return the query without distinct counts, which are found from single rows."""
    held = [m for m in query.measurements if not isinstance(m.aggregate, CountDistinct)]
    return replace(query, measurements=tuple(held), columns=())


def test_too_many_rows_for_memory_are_summed_by_duckdb() -> None:
    query = build({}, ["k"], {"rows": {"count": "*"}, "total": {"sum": "n"}})
    rows = [{"k": "a", "n": 3, "id": 1, "m": "x", "s": 1, "x": 0.0, "flag": True}] * 9
    with (
        mock.patch.multiple(table_reader, MANY_CELLS=0, MOST_ROWS=8),
        mock.patch.object(vectors_module, "MOST_ROWS", 8),
    ):
        assert_equals_reference(query, rows)


@pytest.mark.share(0.25)
@pytest.mark.parametrize("unit", UNITS, ids=str)
@examples(6, in_audits=150)
@given(rows=TABLES)
def test_counts_of_rows_equal_the_reference(
    unit: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    assert_equals_reference(build(unit, ["k"], {"rows": {"count": "*"}}), rows)


@examples(10, in_audits=250)
@given(rows=TABLES)
def test_conditions_equal_the_reference(rows: list[dict[str, Any]]) -> None:
    query = ask(
        declare(COLUMNS),
        {"rows": {"count": "*"}},
        ["k"],
        "n >= 3 AND (m = 'x' OR flag) AND NOT x > 2",
    )

    def keep(row: dict[str, Any]) -> bool:
        n, x = typed(query, "n", row), typed(query, "x", row)
        if n is None or n < 3 or x is None or x > 2:
            return False
        return row["m"] == "x" or row["flag"] is True

    assert exact(query, as_table(rows))["rows"].tolist() == reference(query, rows, keep)["rows"]


PRESENCE: dict[str, dict[str, Any]] = {
    **COLUMNS,
    "plain": {"type": "category", "values": ["a", "b"]},
    "part": {"type": "category", "values": {"a": ["a1"], "b": ["b1"]}, "within": "plain"},
    "filled": {"cut": "n", "edges": [0, 5], "fill": "0-4"},
    "double": {"type": "number", "expression": "x / n"},
    "later": {"cut": "double", "edges": [0, 1], "closed": "right"},
    "note": {"type": "text"},
    "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
    "hour": {"type": "timestamp"},
}
"""Columns of every type, with values that are missing, not declared or beyond all bounds."""

PRESENT = pa.table(
    {
        "id": [None, *range(7)],
        "k": ["a", "b", "zz", "", None, "a", "c", "?"],
        "m": ["x", None, "q", "", "y", "x", None, "x"],
        "plain": ["a", "b", "zz", "", None, "?", "b", "a"],
        "part": ["a1", None, "zz", "", "b1", "a1", "b2", "?"],
        "n": [None, -6, -5, 0, 4, 5, 20, 21],
        "s": [None, -99, 99, 0, 3, None, 1, 2],
        "x": [None, float("nan"), float("inf"), -3.0, 0.0, 4.0, 99.0, 1e308],
        "w": [None, float("nan"), 2.0, -1.0, 0.0, 2.5, 3.0, float("-inf")],
        "at": pa.array(
            [None, 0, -2 * 10**6, -3 * 10**6, 20 * 10**6, 21 * 10**6, 1, -1], pa.timestamp("us")
        ),
        "flag": [None, True, False, None, True, True, False, None],
        "known": [True, None, False, None, None, True, False, True],
        "note": ["", None, "a", " ", None, "NULL", "?", "b"],
        "day": pa.array([None, 0, 19723, 20088, 20089, 19722, 20000, 2**31 - 1], pa.date32()),
        "hour": pa.array([None, 0, 1, -(2**63), 2**63 - 1, 2, 3, 4], pa.timestamp("us")),
    }
)


@pytest.mark.parametrize(("way", "column"), thinned(list(WAYS), list(PRESENCE), together=1))
def test_counts_of_a_column_count_present_values(way: str, column: str) -> None:
    """Conditions and counts use the same rule for all declarations of missing values."""
    many, places, short, compared = WAYS[way]
    declared = declare(PRESENCE)
    counts = {"all": {"count": "*"}, "there": {"count": column}}
    asked = {"present": f"{column} IS NOT NULL", "missing": f"{column} IS NULL"}
    with (
        mock.patch.multiple(table_reader, MANY_CELLS=many, MOST_COUNTS=places),
        mock.patch.multiple(categories, SHORT=short, COMPARED=compared),
    ):
        found = exact(ask(declared, counts), PRESENT)
        kept = {name: exact(ask(declared, counts, where=w), PRESENT) for name, w in asked.items()}
    there, rows = found["there"].tolist(), found["all"].tolist()
    assert rows == [8]
    assert [kept["present"][name].tolist() for name in counts] == [there, there]
    assert kept["missing"]["all"].tolist() == [8 - there[0]]
    assert kept["missing"]["there"].tolist() == [0]
    if "cut" in PRESENCE[column]:  # a band is declared, so all that are there are in some group
        groups = exact(ask(declared, {"all": {"count": "*"}}, [column]), PRESENT)["all"]
        assert groups.sum() == there[0]


def breaches(
    query: Query,
    one: dict[str, np.ndarray],
    other: dict[str, np.ndarray],
    claimed: dict[str, Sensitivity],
) -> bool:
    """Return whether two exact tables differ by more than a claim allows."""
    for name in one:
        moved = np.abs(one[name] - other[name])
        if one[name].ndim == 2:  # scores of candidates: how far any two of a cell moved apart
            moved = np.ptp(one[name] - other[name], axis=1)
        moved = moved[moved > 0]
        claim = claimed[name]
        cells = claim.slots * max(move.cells for move in claim.moves)
        if len(moved) > cells and not claim.of_all_rows:
            return True
        if len(moved) and moved.max() > claim.largest_shift:
            return True
        if moved.sum() > claim.l1 or (moved.astype(float) ** 2).sum() > claim.l2_squared * (
            1 + 1e-12
        ):
            return True
    return False


def claims(query: Query) -> dict[str, Sensitivity]:
    return {measurement.name: measurement.sensitivity for measurement in query.measurements}


def units_of(query: Query, rows: list[dict[str, Any]]) -> list[list[int]]:
    """Return the row numbers of each privacy unit."""
    if query.unit.id is None:
        return [[i] for i in range(len(rows))]
    people = {row["id"] for row in rows if row["id"] is not None}
    return [[i for i, row in enumerate(rows) if row["id"] == person] for person in people]


NEAR = thinned([*UNITS[:3], *UNITS[4:]], KEYS[:4], list(Neighbours))


@pytest.mark.share(0.08, by="neighbours")
@pytest.mark.parametrize(("unit", "by", "neighbours"), NEAR, ids=str)
@examples(2, in_audits=40)
@given(rows=st.lists(ROWS, max_size=9), others=st.lists(ROWS, min_size=1, max_size=4))
def test_no_neighbour_exceeds_the_claimed_sensitivity(
    unit: dict[str, Any],
    by: list[str],
    neighbours: Neighbours,
    rows: list[dict[str, Any]],
    others: list[dict[str, Any]],
) -> None:
    """Each person is removed in turn, or replaced by another one."""
    query = build(unit, by, MEASURES, neighbours)
    new = others if unit else others[:1]
    if neighbours is Neighbours.ADD_REMOVE:
        new = []
    whole = exact(query, as_table(rows))
    for gone in units_of(query, rows):
        rest = [row for i, row in enumerate(rows) if i not in gone]
        changed = rest + [{**row, "id": 99} for row in new]
        assert not breaches(query, whole, exact(query, as_table(changed)), claims(query))


def worst_pair(
    unit: dict[str, Any], neighbours: Neighbours
) -> tuple[Query, dict[str, Any], dict[str, Any]]:
    """Return exact tables of two neighbours at the very limit of the claims."""
    query = build(unit, ["k"], {"total": {"sum": "n"}, "rows": {"count": "*"}}, neighbours)
    full = {"id": 1, "m": "x", "s": 0, "x": 10.0, "flag": True}
    rows = [{**full, "k": k, "n": 21} for k in "abc" for _ in range(4)]
    # Within one group, 20 and -5 differ by more than either weighs; 20 itself is a missing code.
    other = (
        []
        if neighbours is Neighbours.ADD_REMOVE
        else [{**row, "n": -5, "x": -10.0} for row in rows]
    )
    return query, exact(query, as_table(rows)), exact(query, as_table(other))


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_neighbour_check_refutes_smaller_claims(neighbours: Neighbours) -> None:
    """The check can fail: a claim that is one step, row or group too small is found."""
    query, one, other = worst_pair(UNITS[1], neighbours)
    assert not breaches(query, one, other, claims(query))
    for name, claim in claims(query).items():
        if name == "people" or (neighbours is Neighbours.REPLACE and name == "rows"):
            continue
        moves = tuple(Move(move.shift - 1, move.cells) for move in claim.moves)
        smaller = {**claims(query), name: Sensitivity(claim.slots, moves)}
        assert breaches(query, one, other, smaller)
        fewer = {**claims(query), name: Sensitivity(claim.slots - 1, claim.moves)}
        assert neighbours is Neighbours.REPLACE or breaches(query, one, other, fewer)


@pytest.mark.parametrize("unit", UNITS[:2], ids=str)
def test_integer_sums_are_exact_beyond_floats(unit: dict[str, Any]) -> None:
    """To the last step, for plain and for centred sums."""
    column = {"type": "integer", "lower": 0, "upper": 2**58}
    more = {"privacy_unit": unit} if unit else {}
    declared = declare({"id": {"type": "integer"}, "v": column}, **more)
    values = [2**58 - 1, 1, 2**57 + 1, 3, 2**58]
    for columns in ({"sum": {"sum": "v"}}, {"sum": {"sum": "v"}, "mean": {"mean": "v"}}):
        query = ask(declared, columns)
        found = exact(query, pa.table({"id": range(len(values)), "v": values}))
        (name,) = (name for name in found if "count" not in name)
        center = 0 if name == "sum" else 2**57
        assert int(found[name][0]) == sum(values) - center * len(values)


UNIT_ROWS = {
    "high": [{"n": 21, "s": 31, "x": 10.0, "m": "x", "w": 3.0}] * 2,
    "low": [{"n": -5, "s": -7, "x": -2.5, "m": "y", "w": 3.0}] * 2,
    "mixed": [{"n": 21, "s": -7, "x": -2.5, "m": "y", "w": 0.0}] * 2,
    "light": [{"n": -5, "s": -7, "x": -2.5, "m": "y", "w": 0.0}] * 2,
    "both": [{"n": 21, "s": 31, "x": 10.0, "m": "x"}, {"n": -5, "s": -7, "x": -2.5, "m": "y"}],
    "middle": [{"n": 7, "s": 12, "x": 3.75, "m": "y"}] * 2,
    "missing": [{"n": None, "s": None, "x": None, "m": None}] * 2,
    "beyond": [{"n": 10**6, "s": 2**62, "x": 1e300, "m": "q"}] * 2,
    "below": [{"n": -(10**6), "s": -(2**62), "x": -1e300, "m": "q"}] * 2,
    "nobody": [],
}
"""What a unit has in each of its groups; 20 is a missing code, and 21 is moved to the bound."""

REACHED: dict[str, Any] = {
    name: MEASURES[name]
    for name in (
        "rows",
        "known",
        "total",
        "real",
        "mean",
        "spread",
        "together",
        "weights",
        "weighed",
        "heavy",
        "size",
    )
} | {"often": {"mode": "m"}, "kinds": {"count_distinct": "m"}}


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_sensitivity_claims_are_tight(neighbours: Neighbours) -> None:
    """For each measurement: the largest change of one cell, and of all cells together."""
    query = build(UNITS[1], ["k"], REACHED, neighbours)
    rows = {
        (name, groups): [{"k": k, "id": 1, "flag": True, **row} for k in groups for row in held]
        for name, held in UNIT_ROWS.items()
        for groups in ("ab", "bc")
    }
    found = {unit: exact(query, as_table(held)) for unit, held in rows.items()}
    nobody = [found["nobody", "ab"]]
    others = nobody if neighbours is Neighbours.ADD_REMOVE else list(found.values())
    for name, claim in claims(query).items():
        moved = [np.abs(one[name] - other[name]) for one in found.values() for other in others]
        if moved[0].ndim == 2:
            moved = [np.ptp(a[name] - b[name], axis=1) for a in found.values() for b in others]
        assert max(cells.max() for cells in moved) == claim.largest_shift, name
        if neighbours is Neighbours.ADD_REMOVE:
            assert max(cells.sum() for cells in moved) == claim.l1, name
        assert max(cells.sum() for cells in moved) <= claim.l1, name


@examples(4, in_audits=100)
@given(rows=TABLES, seed=st.randoms(use_true_random=False))
def test_row_order_chunks_and_threads_do_not_matter(rows: list[dict[str, Any]], seed: Any) -> None:
    """Bounding reads only the person's own rows (V12, V23, V54)."""
    query = build(UNITS[1], ["k", "m"], MEASURES)
    first = exact(query, as_table(rows))
    seed.shuffle(rows)
    half = len(rows) // 2
    chunked = pa.concat_tables([as_table(rows[:half]), as_table(rows[half:])])
    second = exact(query, chunked)
    for name, vector in first.items():
        assert np.array_equal(vector, second[name])


@examples(4, in_audits=100)
@given(rows=TABLES)
def test_other_persons_do_not_change_the_kept_rows(rows: list[dict[str, Any]]) -> None:
    """The result for two disjoint sets of persons is the sum of both results (V23)."""
    some = ("rows", "total", "real", "mean", "spread", "often")
    query = build(UNITS[1], ["k", "m"], {key: MEASURES[key] for key in some})
    mine = [row for row in rows if row["id"] in (1, 2)]
    theirs = [row for row in rows if row["id"] not in (1, 2)]
    parts = [exact(query, as_table(part)) for part in (mine, theirs)]
    whole = exact(query, as_table(rows))
    for name, vector in whole.items():
        assert np.array_equal(vector, parts[0][name] + parts[1][name])


SINGLE = {
    "five": {"type": "integer", "lower": 5, "upper": 5},
    "none": {"type": "integer", "lower": 0, "upper": 0},
    "half": {"type": "number", "lower": "-0.5", "upper": "-0.5", "step": "0.5", "fill": "-0.5"},
}
"""Columns with a single value."""


@pytest.mark.parametrize("column", SINGLE)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_columns_with_a_single_value_can_be_queried(column: str, neighbours: Neighbours) -> None:
    """Their means, variances and quantiles work, and one row changes them."""
    declared = declare({**COLUMNS, **SINGLE})
    asked: dict[str, Any] = {
        **({} if column == "none" else {"total": {"sum": column}}),
        "mean": {"mean": column},
        "spread": {"stddev": column},
        "middle": {"median": column},
        "least": {"min": column},
    }
    query = ask(declared, asked, ["k"], neighbours=neighbours)
    cells = [("a", 5), ("a", -3), ("b", 9), ("c", None), ("b", 5)]
    rows = [{"k": k, "five": v, "none": v, "half": v} for k, v in cells]
    table = pa.Table.from_pylist(rows)
    found, wanted = exact(query, table), reference(query, rows)
    for name, vector in wanted.items():
        assert found[name].tolist() == vector, name
    assert all(claim.largest_shift > 0 for claim in claims(query).values())
    others = exact(query, table.slice(1))
    assert not breaches(query, found, others, claims(query))
    for published in query.columns:
        if published.form in FRACTIONS:
            value = float(SINGLE[column]["lower"]) if published.name == "mean" else 0.0
            known = fractions_of(published, {name: held + 9 for name, held in found.items()})
            assert known.tolist() == [value] * 3
