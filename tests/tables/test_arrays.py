"""Arrow arrays made by hand are those that Arrow's own functions make."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dprelease.numerics.lattice import LIMIT
from dprelease.query.grouping.group_keys import Key
from dprelease.tables import arrays

KEYS = {
    "text": (Key("k", "text", ("", "a", "é€𝄞", "a b")), pa.string()),
    "integer": (Key("k", "integer", range(-2, 2)), pa.int64()),
    "boolean": (Key("k", "boolean", (False, True)), pa.bool_()),
    "date": (Key("k", "date", tuple(date(1969, 12, day) for day in (30, 31))), pa.date32()),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 1000])
@pytest.mark.parametrize("few", [0, 1 << 16])
def test_key_values_equal_those_of_arrow(
    kind: str, size: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "FEW_VALUES", few)
    key, expected = KEYS[kind]
    values = arrays.key_values(key)
    values.validate(full=True)
    assert values.to_pylist() == list(key.values)
    places = np.arange(size) * 7 // 3 % len(key.values)
    found = arrays.take_values(values, places)
    found.validate(full=True)
    assert found.type == expected
    assert found.equals(values.take(pa.array(places)))


@pytest.mark.parametrize("step", ["1", "0.5", "0.001", "10", "25", "0.00000000000000001"])
@pytest.mark.parametrize("few", [0, 1 << 16])
def test_scaled_steps_are_exact_with_and_without_arrow(
    step: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "FEW_VALUES", few)
    steps = np.array([0, 1, -1, 12345, LIMIT, -LIMIT])
    found = arrays.scale_steps(steps, Fraction(step))
    found.validate(full=True)
    assert str(found.type) == arrays.arrow_type_of_steps(Fraction(step))
    values = [Fraction(value) for value in found.to_pylist()]
    assert values == [int(k) * Fraction(step) for k in steps]


@pytest.mark.parametrize("step", ["1", "0.25"])
@pytest.mark.parametrize("size", [0, 1, 9])
def test_null_values_are_in_no_buffer(step: str, size: int) -> None:
    steps = np.arange(size) + 77
    empty = steps % 2 == 1
    values = arrays.scale_steps(steps, Fraction(step))
    found = arrays.with_nulls(values, empty)
    found.validate(full=True)
    assert found.type == values.type
    expected = [
        None if gone else value for gone, value in zip(empty, values.to_pylist(), strict=True)
    ]
    assert found.to_pylist() == expected
    held = np.frombuffer(found.buffers()[1], dtype=np.int64)[:: found.type.bit_width // 64]
    assert not held[empty].any()


def test_nan_and_infinity_are_null() -> None:
    found = arrays.float_array(np.array([0.5, np.nan, np.inf, -1.0]))
    found.validate(full=True)
    assert found.to_pylist() == [0.5, None, None, -1.0]
    assert found.null_count == 2
