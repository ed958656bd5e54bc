"""Candidates of quantiles from stored numbers equal those from DuckDB, bit by bit."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact.arrow_numbers import to_arrow_array, to_numpy_ignoring_nulls, validity_mask
from dprelease.exact.duckdb import Engine
from dprelease.exact.results import vectors
from dprelease.exact.results.true_table import DenseProfile
from dprelease.exact.results.vectors import pair_indexes
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.statements import compiler
from dprelease.statements.compiled_queries import compile_query
from dprelease.statements.compiled_statements import ProfileSql
from dprelease.statements.values.stored_candidates import ClampedIntegers, RoundedFloats
from tests.covering import examples
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


def expected_counts(rows: list[tuple[str | None, int | None]], low: int, high: int) -> Counter[Any]:
    there = [(key, w) for key, w in rows if key in KEYS and w is not None]
    return Counter((key, min(max(w, low), high)) for key, w in there if w is not None)


def limits(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def numbers(kind: pa.DataType, low: int, high: int) -> st.SearchStrategy[int]:
    """Return numbers of a type, mostly about its own ends and those that are declared."""
    least, most = limits(kind)
    about = [end + i for end in (low, high, least, most, 0) for i in (-1, 0, 1)]
    return st.sampled_from([n for n in about if least <= n <= most])


@pytest.mark.share(0.2)
@pytest.mark.parametrize("declared_as", ["integer", "number"])
@pytest.mark.parametrize("bounds", BOUNDS)
@examples(8, in_audits=1000)
@given(data=st.data())
def test_candidates_equal_those_of_clamped_numbers(
    declared_as: str, bounds: str, data: Any
) -> None:
    low, high = BOUNDS[bounds]
    if declared_as == "number" and low >= 2**53:
        return  # floats have gaps there, and no step of 1
    name = data.draw(st.sampled_from([*TYPES]))
    value = st.one_of(st.none(), numbers(TYPES[name], low, high))
    rows = data.draw(st.lists(st.tuples(SOME, value), max_size=30))
    keys, values = [key for key, _ in rows], [w for _, w in rows]
    frame = pa.table({"c": pa.array(keys, pa.string()), "w": pa.array(values, TYPES[name])})
    declared = table(declared_as, low, high)
    assert counts(declared, frame) == expected_counts(rows, low, high)


@pytest.mark.parametrize("name", TYPES)
def test_candidates_of_many_batches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some batches have missing numbers, some don't."""
    monkeypatch.setattr(vectors, "BATCH_ROWS", 2048)
    rows = [
        ("abz"[i % 3], None if i > 5000 and i % 5 == 0 else (i * 7) % 128) for i in range(9_001)
    ]
    keys, values = [key for key, _ in rows], [w for _, w in rows]
    frame = pa.table({"c": pa.array(keys), "w": pa.array(values, TYPES[name])})
    assert counts(table("integer", 20, 90), frame) == expected_counts(rows, 20, 90)


@pytest.mark.parametrize("name", [*TYPES, *OTHERS])
def test_only_stored_integers_are_counted_directly(name: str) -> None:
    """And only if they need nothing but clamping."""

    def clamped(declared: Declared) -> bool:
        stored = compile_query(median(declared), types).profiles["m"].stored
        return isinstance(stored, ClampedIntegers)

    types = {"c": "VARCHAR", "w": name}
    assert clamped(table("integer", 0, 9)) == (name in TYPES)
    assert clamped(table("number", 0, 9)) == (name in TYPES and name != "BIGINT")
    assert not clamped(table("integer", 0, 9, fill=3))
    assert not clamped(table("integer", 0, 9, step=3))
    ids = {"type": "integer", "lower": 0, "upper": 9}
    columns = {"c": {"type": "category", "values": KEYS}, "w": ids, "id": ids}
    people = declare(columns, privacy_unit={"id": "id", "max_groups": 1, "max_rows_per_group": 1})
    assert compile_query(median(people), {**types, "id": "BIGINT"}).profiles["m"].stored is None


STEPS: dict[str, tuple[dict[str, Any], Fraction]] = {
    "ones": ({"lower": 0, "upper": 9, "step": 1}, Fraction(1)),
    "cents": ({"lower": -3, "upper": 2, "step": "0.01"}, Fraction(1, 100)),
    "thirds of a hundredth": ({"lower": 0, "upper": 1, "step": "0.0003"}, Fraction(3, 10_000)),
    "sevens": ({"lower": -70, "upper": 700, "step": 7}, Fraction(7)),
    "odd bounds": ({"lower": "0.1", "upper": "2.3", "step": "0.1"}, Fraction(1, 10)),
}
"""Columns of numbers, each with its step."""

ODD = [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1.7976931348623157e308, 0.49999999999999994]


def floats(step: Fraction) -> st.SearchStrategy[float]:
    """Return floats about halves of a step, where rounding goes one way or the other."""
    halves = st.integers(-25, 25).map(lambda i: float(i * step / 2))
    near = st.tuples(halves, st.sampled_from([-math.inf, 0.0, math.inf]))
    moved = near.map(lambda pair: math.nextafter(pair[0], pair[1]) if pair[1] else pair[0])
    return st.one_of(moved, st.sampled_from(ODD), st.floats(-1e3, 1e3))


@pytest.mark.share(0.2)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int64(), pa.string()], ids=str)
@pytest.mark.parametrize("name", STEPS)
@examples(8, in_audits=1000)
@given(data=st.data())
def test_rounded_floats_equal_those_of_duckdb(name: str, kind: pa.DataType, data: Any) -> None:
    declared = declare({"c": {"type": "category", "values": KEYS}, "w": STEPS[name][0] | NUMBER})
    rows = data.draw(
        st.lists(st.tuples(SOME, st.one_of(st.none(), floats(STEPS[name][1]))), max_size=30)
    )
    frame = pa.table(
        {
            "c": pa.array([key for key, _ in rows], pa.string()),
            "w": typed_array([w for _, w in rows], kind),
        }
    )
    types = {"c": "VARCHAR", "w": ENGINES[kind]}
    made = compile_query(median(declared), types).profiles["m"].stored
    with Engine.open(declared, frame) as engine:
        found = dense(engine, declared)
        with mock.patch.object(compiler, "stored_candidates", return_value=None):
            engine._compiled = None
            assert found == dense(engine, declared)
    assert isinstance(made, RoundedFloats) != (name == "ones" and kind == pa.int64())


NUMBER = {"type": "number"}
ENGINES = {
    pa.float64(): "DOUBLE",
    pa.float32(): "FLOAT",
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
}


def typed_array(values: list[float | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind):
        fitting = [w if w is None or abs(w) < 2**53 else None for w in values]
        return pa.array([None if w is None else int(w) for w in fitting], kind)
    if pa.types.is_string(kind):
        return pa.array([None if w is None else repr(w) for w in values], kind)
    return pa.array(values, pa.float64()).cast(kind, safe=False)


def dense(engine: Engine, declared: Declared) -> list[int]:
    profile = engine.run(median(declared)).profile("m")
    assert isinstance(profile, DenseProfile)
    return profile.upto.ravel().tolist()


@pytest.mark.parametrize("least", [-3.0, 0.0])
def test_odd_floats_stay_in_their_cell(least: float) -> None:
    """Even floats that an engine should have given as missing."""
    odd = [math.nan, -math.nan, *ODD]
    batch = pa.record_batch({"cell": pa.array([1] * len(odd), pa.int32()), "v": pa.array(odd)})
    asked = ProfileSql("", "", 7, RoundedFloats("", least, least + 6, int(least)))
    assert set(pair_indexes(batch, asked, 21)) <= set(range(7, 14))


@given(
    st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=40),
    st.integers(0, 39),
)
def test_slices_of_arrow_arrays_are_converted(values: list[int | None], start: int) -> None:
    part = pa.array(values, pa.int32()).slice(start)
    there = validity_mask(part)
    assert (there is None) == (None not in part.to_pylist())
    ones = np.ones(len(part), dtype=np.uint8) if there is None else there
    assert ones.tolist() == [value is not None for value in part.to_pylist()]
    assert (to_numpy_ignoring_nulls(part) * ones).tolist() == [
        value or 0 for value in part.to_pylist()
    ]
    assert to_arrow_array(to_numpy_ignoring_nulls(part)).equals(
        pa.array(to_numpy_ignoring_nulls(part))
    )
