"""Whole numbers that are clamped where they are counted: the counts are those of clamped numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact.arrow_numbers import array_of, known, with_any
from dprelease.exact.duckdb import Engine
from dprelease.exact.results import vectors
from dprelease.exact.results.true_table import DenseProfile
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.statements.compiler import compile_query
from tests.exact.build import ask, declare

KEYS = ["a", "b"]
SOME = st.sampled_from([*KEYS, "z", "", None])

BOUNDS = {
    "small": (0, 9),
    "over zero": (-3, 4),
    "of one byte and beyond": (126, 131),
    "over what 32 bits hold": (2**31 - 3, 2**31 + 3),
    "far below": (-(2**40), -(2**40) + 7),
    "as wide as may be": (2**61, 2**61 + 5),
}
"""Bounds that a column declares."""

TYPES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
}
OTHERS = {"UBIGINT": pa.uint64(), "DOUBLE": pa.float64(), "VARCHAR": pa.string()}


def table(kind: str, low: int, high: int, **more: Any) -> Declared:
    column = {"type": kind, "lower": low, "upper": high, **more}
    if kind == "number":
        column["step"] = 1
    return declare({"c": {"type": "category", "values": KEYS}, "w": column})


def median(declared: Declared) -> Query:
    return ask(declared, {"m": {"median": "w"}}, ["c"])


def counts(declared: Declared, frame: pa.Table) -> Counter[tuple[str, int]]:
    """Return how often each candidate is found in each cell."""
    low = int(declared.table.columns["w"].lower)  # type: ignore[union-attr,arg-type]
    with Engine.open(declared, frame) as engine:
        profile = engine.run(median(declared)).profile("m")
    if isinstance(profile, DenseProfile):
        profile = profile.pairs()
    cells = np.repeat(np.arange(len(KEYS)), np.diff(profile.starts))
    found = zip(cells, profile.values, profile.counts, strict=True)
    return Counter({(KEYS[cell], low + int(v)): int(n) for cell, v, n in found})


def expected(rows: list[tuple[str | None, int | None]], low: int, high: int) -> Counter[Any]:
    there = [(key, w) for key, w in rows if key in KEYS and w is not None]
    return Counter((key, min(max(w, low), high)) for key, w in there if w is not None)


def ends(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def numbers(kind: pa.DataType, low: int, high: int) -> st.SearchStrategy[int]:
    """Return numbers of a type, mostly about its own ends and those that are declared."""
    least, most = ends(kind)
    about = [end + i for end in (low, high, least, most, 0) for i in (-1, 0, 1)]
    return st.sampled_from([n for n in about if least <= n <= most])


@pytest.mark.parametrize("declared_as", ["integer", "number"])
@pytest.mark.parametrize("bounds", BOUNDS)
@given(data=st.data())
def test_they_are_those_of_clamped_numbers(declared_as: str, bounds: str, data: Any) -> None:
    low, high = BOUNDS[bounds]
    if declared_as == "number" and low >= 2**53:
        return  # floats have gaps there, and no step of 1
    name = data.draw(st.sampled_from([*TYPES]))
    value = st.one_of(st.none(), numbers(TYPES[name], low, high))
    rows = data.draw(st.lists(st.tuples(SOME, value), max_size=30))
    keys, values = [key for key, _ in rows], [w for _, w in rows]
    frame = pa.table({"c": pa.array(keys, pa.string()), "w": pa.array(values, TYPES[name])})
    declared = table(declared_as, low, high)
    assert counts(declared, frame) == expected(rows, low, high)


@pytest.mark.parametrize("name", TYPES)
def test_of_many_batches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some with missing numbers, and some without."""
    monkeypatch.setattr(vectors, "BATCH", 2048)
    rows = [
        ("abz"[i % 3], None if i > 5000 and i % 5 == 0 else (i * 7) % 128) for i in range(9_001)
    ]
    keys, values = [key for key, _ in rows], [w for _, w in rows]
    frame = pa.table({"c": pa.array(keys), "w": pa.array(values, TYPES[name])})
    assert counts(table("integer", 20, 90), frame) == expected(rows, 20, 90)


@pytest.mark.parametrize("name", [*TYPES, *OTHERS])
def test_only_stored_whole_numbers_are(name: str) -> None:
    """And none of which more is to be done than to clamp them."""

    def clamped(declared: Declared) -> bool:
        return compile_query(median(declared), types).profiles["m"].clamped is not None

    types = {"c": "VARCHAR", "w": name}
    assert clamped(table("integer", 0, 9)) == (name in TYPES)
    assert clamped(table("number", 0, 9)) == (name in TYPES and name != "BIGINT")
    assert not clamped(table("integer", 0, 9, nulls=3))
    assert not clamped(table("integer", 0, 9, step=3))
    ids = {"type": "integer", "lower": 0, "upper": 9}
    columns = {"c": {"type": "category", "values": KEYS}, "w": ids, "id": ids}
    people = declare(columns, privacy_unit={"id": "id", "max_groups": 1, "max_rows_per_group": 1})
    assert compile_query(median(people), {**types, "id": "BIGINT"}).profiles["m"].clamped is None


@given(
    st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=40),
    st.integers(0, 39),
)
def test_numbers_of_a_part_of_an_array(values: list[int | None], start: int) -> None:
    part = pa.array(values, pa.int32()).slice(start)
    there = known(part)
    assert (there is None) == (None not in part.to_pylist())
    ones = np.ones(len(part), dtype=np.uint8) if there is None else there
    assert ones.tolist() == [value is not None for value in part.to_pylist()]
    assert (with_any(part) * ones).tolist() == [value or 0 for value in part.to_pylist()]
    assert array_of(with_any(part)).equals(pa.array(with_any(part)))
