"""The two sentences of each rounding contract are the test."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.numerics.rounding import decimal_digits, exact, plain_text, round_down, round_up

FRACTIONS = (st.fractions() | st.floats(-1e308, 1e308).map(Fraction)).filter(bool)


@given(FRACTIONS)
def test_round_up_is_the_least_float_above(x: Fraction) -> None:
    found = round_up(x)
    assert Fraction(found) >= x
    assert Fraction(math.nextafter(found, -math.inf)) < x


@given(FRACTIONS)
def test_round_down_is_the_greatest_float_below(x: Fraction) -> None:
    found = round_down(x)
    assert Fraction(found) <= x
    assert Fraction(math.nextafter(found, math.inf)) > x


def test_round_up_refuses_numbers_above_floats() -> None:
    with pytest.raises(OverflowError):
        round_up(Fraction(10) ** 400)


def test_zero_stays_positive() -> None:
    assert math.copysign(1.0, round_down(Fraction(0))) == 1.0


@given(st.decimals(allow_nan=False, allow_infinity=False, places=8))
def test_plain_text_reads_back(x: object) -> None:
    value = Fraction(str(x))
    assert exact(plain_text(value)) == value


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-inf", "1_0", "0x1", "1e1000", "", "１", "1/2", " 1"]
)
def test_exact_refuses_texts_that_are_no_decimals(text: str) -> None:
    with pytest.raises(ValueError, match="decimal"):
        exact(text)


def test_decimal_digits() -> None:
    assert decimal_digits(Fraction(1, 8)) == 3
    assert decimal_digits(Fraction(1, 3)) is None
    assert decimal_digits(Fraction(100)) == 0
