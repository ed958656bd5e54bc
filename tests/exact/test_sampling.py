"""Rows of a person, and cells, are sampled as if they were drawn uniformly without replacement."""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dprelease.exact.bounding import bounding_in_memory, row_samples, row_selection_numpy
from dprelease.query.resolve import Query
from dprelease.statements.bounding import MODULUS, ROUNDS
from tests.covering import examples, thinned
from tests.exact.build import ask, declare, exact
from tests.exact.fake_spark import fake_spark_engine
from tests.exact.reference import digest

ERROR_RATE = 1e-10
PEOPLE = 500
ROWS: dict[str, list[int]] = {
    "one rare row of ten": [1, *[0] * 9],
    "two rare rows of twenty": [*[7] * 18, -7, -7],
    "halves": [0, 0, 0, 1, 1, 1],
    "a constant": [5] * 6,
    "all different": [*range(8)],
    "large": [*[10**12] * 7, -(10**12)],
    "equal for the hash": [0, 0, 0, 0, MODULUS],
    "many": [*[3] * 40, *range(10)],
}
UNSEEN = {"halves", "a constant", "all different"}
"""Shapes whose distinct rows have as many copies each: a choice among distinct rows is right."""
IDS: dict[str, Any] = {
    "in a row": lambda i: i,
    "multiples": lambda i: i << 20,
    "negative": lambda i: -1000 * i,
    "sparse": lambda i: (i * 0x9E3779B97F4A7C15) % 2**40,
    "texts": lambda i: f"P{i:06}",
}
SHAPES = [
    (rows, ids, 1 + place % 4) for place, (rows, ids) in enumerate(product(ROWS, IDS))
]  # as many rows are kept: 1 to 4


def bounded_query(rows: str, ids: str, most: int) -> tuple[Query, pa.Table]:
    """Return a query with an active limit, and the rows, sorted by value."""
    kind = "text" if ids == "texts" else "integer"
    unit = {"id": "id", "max_groups": 1, "max_rows_per_group": most}
    columns = {"id": {"type": kind}, "n": {"type": "integer", "lower": -(2**40), "upper": 2**40}}
    pairs = [(IDS[ids](i), n) for n in ROWS[rows] for i in range(PEOPLE)]
    names, values = zip(*pairs, strict=True)
    query = ask(
        declare(columns, privacy_unit=unit), {"total": {"sum": "n"}, "rows": {"count": "*"}}
    )
    return query, pa.table({"id": pa.array(names), "n": pa.array(values, pa.int64())})


def deviation(total: int, values: list[int], most: int, people: int = PEOPLE) -> float:
    """Return by how many standard errors a total is off that of a uniform choice."""
    centre = people * most * np.mean(values)
    error = np.sqrt(people * most * (1 - most / len(values)) * np.var(values, ddof=1))
    return float(abs(total - centre) / error) if error else 0.0 if total == centre else np.inf


LIMIT = float(stats.norm.isf(ERROR_RATE / 2))


@pytest.mark.parametrize(
    ("rows", "ids", "most"), thinned(list(ROWS), list(IDS), [1, 2, 3, 4], together=1)
)
def test_rows_are_kept_with_equal_probability(rows: str, ids: str, most: int) -> None:
    """In memory, in DuckDB and on Spark, which keep the same rows."""
    query, frame = bounded_query(rows, ids, most)
    found = exact(query, frame)
    assert found["rows"].tolist() == [PEOPLE * most]
    assert deviation(int(found["total"][0]), ROWS[rows], most) < LIMIT
    with mock.patch.object(bounding_in_memory, "MOST_HELD_ROWS", 0):
        assert exact(query, frame)["total"].tolist() == found["total"].tolist()
    with fake_spark_engine(query.declared, frame) as (engine, _):
        assert engine.run(query).vector("total").tolist() == found["total"].tolist()


@pytest.mark.each
@pytest.mark.parametrize(
    ("rows", "ids", "most"), [shape for shape in SHAPES if shape[0] not in UNSEEN]
)
def test_selection_by_a_hash_of_values_is_detected(rows: str, ids: str, most: int) -> None:
    """Equal rows would have equal hashes, so that rare values are kept too often."""
    total, few = 0, (most + 1) // 2
    for i in range(PEOPLE):
        order = sorted((digest([IDS[ids](i), 0, n]), n) for n in ROWS[rows])
        total += sum(n for _, n in order[:few])
    assert deviation(total, ROWS[rows], few) > LIMIT


@examples(30)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=40),
    most=st.integers(1, 3),
    others=st.booleans(),
)
def test_selection_depends_only_on_the_number_of_rows(
    rows: list[tuple[int, int]], most: int, others: bool
) -> None:
    """The same places in the order of values are kept, whatever the values are."""
    codes, cells = np.array(sorted(rows), dtype=np.int64).reshape(-1, 2).T
    bounds = row_selection_numpy.SelectionLimits(
        bounded_query("halves", "in a row", most)[0].unit, 1, 100, 1
    )

    def places(values: np.ndarray[Any, Any], count: int) -> list[int]:
        batch = pa.record_batch({f"v{j}": pa.array(values) for j in range(count)})
        block = row_selection_numpy.IdRows(
            np.ascontiguousarray(codes), 0, np.ascontiguousarray(cells), batch
        )
        table = row_selection_numpy.select_kept_rows(
            [block], len(rows), np.arange(5) * 4711, bounds
        )
        order = {int(value): place for place, value in enumerate(values)}
        return sorted(order[value] for value in table["v0"].to_pylist())

    ascending = np.arange(len(rows), dtype=np.int64)
    assert places(ascending, 1) == places(ascending**3 - 7, 2 if others else 1)


def kept_items(
    ids: np.ndarray[Any, Any], items: np.ndarray[Any, Any], most: int, *, of_rows: bool
) -> Any:
    """Return whether each of these cells, or rows of a cell, is kept of each id."""
    start = row_samples.extend_hash(None, row_samples.hash_residues(ids))
    if of_rows:
        start = row_samples.extend_hash(start, np.full(len(ids), 3, dtype=np.int64))
    hashes = row_samples.extend_hash(start[:, None], np.broadcast_to(items, (len(ids), len(items))))
    return hashes.argsort(axis=1, kind="stable").argsort(axis=1) < most


def chances(inside: Any, most: int) -> list[float]:
    """Return p-values of how often items are kept, alone and together, and of how persons vary."""
    people, number = inside.shape
    together = np.bincount(inside @ (1 << np.arange(number)), minlength=1 << number)
    sets = [sum(1 << i for i in some) for some in combinations(range(number), most)]
    expected = people / comb(number, most)
    found = [stats.chi2.sf(np.sum((together[sets] - expected) ** 2) / expected, len(sets) - 1)]
    share = most / number
    off = inside - share
    for lag in (1, 2, 3, 10, 100, 1000):  # persons next to each other, and further apart
        close = np.sum(off[lag:, 0] * off[:-lag, 0]) / share / (1 - share)
        found.append(2 * stats.norm.sf(abs(close) / np.sqrt(people - lag)))
    for size in (10, 100):  # totals vary as those of independent persons do
        blocks = off[: people // size * size, -1].reshape(-1, size).sum(axis=1)
        spread = np.sum(blocks**2) / (size * share * (1 - share))
        tails = stats.chi2.sf(spread, len(blocks)), stats.chi2.cdf(spread, len(blocks))
        found.append(2 * float(min(tails)))
    return found


PERSONS = {
    "in a row": np.arange(40_000),
    "from 10^9 on": 10**9 + np.arange(40_000),
    "multiples": np.arange(40_000) << 20,
    "thirds of the modulus": np.arange(40_000) * 715827883,
    "sparse": np.random.default_rng(1).integers(0, 2**40, 40_000),
}
ITEMS = {
    "two": (np.arange(2), 1),
    "six": (np.arange(6), 3),
    "ten": (np.arange(10), 1),
    "far apart": (np.arange(8) * 5120, 2),
}


def smallest_p_value(persons: str, items: str, *, of_rows: bool) -> float:
    numbers, most = ITEMS[items]
    inside = kept_items(PERSONS[persons].astype(np.int64), numbers, most, of_rows=of_rows)
    return min(chances(inside, most))


@pytest.mark.each
@pytest.mark.parametrize("of_rows", [False, True], ids=["cells", "rows"])
@pytest.mark.parametrize(("persons", "items"), list(product(PERSONS, ITEMS)))
def test_hash_selects_like_random_numbers(persons: str, items: str, of_rows: bool) -> None:
    assert smallest_p_value(persons, items, of_rows=of_rows) > ERROR_RATE


def test_hash_of_one_round_is_detected() -> None:
    with mock.patch.object(row_samples, "ROUNDS", ROUNDS[:1]):
        assert smallest_p_value("in a row", "six", of_rows=True) < ERROR_RATE
        assert smallest_p_value("sparse", "two", of_rows=False) < ERROR_RATE
