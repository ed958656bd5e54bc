"""Vectors read in the order of cells equal vectors in memory, for any ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import DataError
from dprelease.exact import table_reader
from dprelease.exact import table_reader as ascending_module
from dprelease.exact.duckdb import Engine
from dprelease.exact.results import vectors
from dprelease.exact.results.true_table import DenseProfile
from dprelease.exact.table_reader import AscendingVector, ascending_vectors
from tests.exact.build import ask, declare

SIZE = 40
ROWS = st.dictionaries(st.integers(0, SIZE - 1), st.integers(-(2**62), 2**62))
RANGES = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE + 5)), max_size=8)


@contextmanager
def sorted_vectors(rows: dict[int, int], batch: int) -> Iterator[dict[str, AscendingVector]]:
    """Yield two vectors: the numbers of rows, and their negatives."""
    with duckdb.connect() as link, pytest.MonkeyPatch.context() as changed:
        changed.setattr(ascending_module, "LARGE_BATCH_ROWS", batch)
        link.execute("CREATE TABLE t (cell BIGINT, m0 BIGINT, m1 BIGINT)")
        for cell, value in sorted(rows.items(), key=lambda one: -one[0]):
            link.execute("INSERT INTO t VALUES (?, ?, ?)", [cell, value, -value])

        def attempt(work: Callable[[Any], Any]) -> Any:
            return work(link)

        yield ascending_vectors(attempt, "SELECT * FROM t", ["a", "b"], SIZE)


@given(ROWS, RANGES, st.integers(1, 7), st.booleans())
def test_any_ranges_of_sorted_vectors_are_correct(
    rows: dict[int, int], ranges: list[tuple[int, int]], batch: int, rising: bool
) -> None:
    """In ascending order as for noise, or back and forth."""
    dense = np.array([rows.get(cell, 0) for cell in range(SIZE)])
    with sorted_vectors(rows, batch) as found:
        for first, last in sorted(ranges) if rising else ranges:
            for name, sign in (("a", 1), ("b", -1)):
                assert np.array_equal(found[name][first:last], sign * dense[first:last])
        assert np.array_equal(found["b"][:], -dense)


def test_sorted_vectors_equal_vectors_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    rows = pa.table({"k": rng.integers(0, 90_000, 5000), "v": rng.integers(0, 9, 5000)})
    declared = declare({
        "k": {"type": "integer", "lower": 0, "upper": 89_999},
        "v": {"type": "integer", "lower": 0, "upper": 9},
    })  # fmt: skip
    query = ask(declared, {"n": {"count": "*"}, "v": {"sum": "v"}}, by=["k"])
    with Engine.open(declared, rows) as engine:
        whole = engine.run(query)
        monkeypatch.setattr(vectors, "MOST_ROWS", 0)  # rows are too many to be added up singly
        monkeypatch.setattr(table_reader, "MOST_ROWS", 2**32)
        monkeypatch.setattr(table_reader, "MOST_HELD_BYTES", 1000)
        sorted_ = engine.run(query)
        for first in range(0, 90_000, 7001):
            cells = slice(first, min(first + 7001, 90_000))
            for name in ("n", "v"):
                assert np.array_equal(sorted_.block(name, cells), whole.block(name, cells))


@pytest.mark.parametrize("unit", [{}, {"id": "id", "max_groups": 2, "max_rows_per_group": 2}])
def test_sorted_vectors_beside_other_statistics(
    unit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With distinct ids, medians, private keys, and a second query after the first."""
    rng = np.random.default_rng(5)
    rows = pa.table({
        "id": rng.integers(0, 900, 3000),
        "k": rng.choice(["a", "b", "c", "none of them"], 3000),
        "v": rng.integers(0, 9, 3000),
    })  # fmt: skip
    declared = declare(
        {
            "id": {"type": "integer"},
            "k": {"type": "category", "values": ["a", "b", "c"], "others": "drop"},
            "v": {"type": "integer", "lower": 0, "upper": 9},
        },
        **({"privacy_unit": unit} if unit else {}),
    )
    measurements: dict[str, Any] = {
        "kinds": {"count_distinct": "v"}, "v": {"sum": "v"}, "middle": {"median": "v"},
    }  # fmt: skip
    if unit:
        measurements |= {"people": {"count_distinct": "id"}}
    query = ask(declared, measurements, by=["k"])
    queries = [query, replace(query, name="other")]
    names = [name for name in measurements if name != "middle"]
    with Engine.open(declared, rows) as engine:
        whole = engine.run(queries[0])
        monkeypatch.setattr(table_reader, "MANY_CELLS", 0)
        monkeypatch.setattr(table_reader, "MOST_HELD_BYTES", 0)
        for query in queries:
            table = engine.run(query)
            assert whole.is_in_memory
            assert not table.is_in_memory
            counted, expected = table.profile("middle"), whole.profile("middle")
            assert isinstance(counted, DenseProfile)
            assert isinstance(expected, DenseProfile)
            assert np.array_equal(counted.upto, expected.upto)
            for cells in (slice(0, 2), slice(2, 3)):
                for name in names:
                    assert np.array_equal(table.block(name, cells), whole.block(name, cells))


def test_engine_errors_contain_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the engine fails after the first rows."""
    declared = declare({"k": {"type": "integer", "lower": 0, "upper": 99_999}})
    query = ask(declared, {"n": {"count": "*"}}, by=["k"])
    rows = pa.table({"k": np.arange(5000)})

    def failing(*_given: Any) -> Iterator[Any]:
        yield pa.record_batch({"cell": [7], "m0": [1]})
        raise duckdb.Error("the cell 7 has secrets")

    monkeypatch.setattr(vectors, "MOST_ROWS", 0)
    monkeypatch.setattr(table_reader, "MOST_ROWS", 2**32)
    monkeypatch.setattr(table_reader, "MOST_HELD_BYTES", 1000)
    monkeypatch.setattr("dprelease.exact.table_reader.fetch_batches", failing)
    with Engine.open(declared, rows) as engine:
        table = engine.run(query)
        assert table.block("n", slice(0, 7)).sum() == 0
        with pytest.raises(DataError, match="DP-DATA-006") as caught:
            table.block("n", slice(7, 9))
        assert "secrets" not in str(caught.value)
