"""Limits of chances: never sharper than Clopper and Pearson's, and hardly less sharp."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import ctx
from scipy import stats

from dprelease.auditing.black_box.proven_bounds import (
    epsilon_lower_bound,
    lower_limit,
    upper_limit,
)
from dprelease.numerics.balls import ball


def tail(p: Fraction, hits: int, draws: int) -> Fraction:
    """Return P(X >= hits) by its definition, exact."""
    terms = (math.comb(draws, k) * p**k * (1 - p) ** (draws - k) for k in range(hits, draws + 1))
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("draws", [1, 2, 9, 40])
@pytest.mark.parametrize("error_probability", [Fraction(1, 10), Fraction(1, 10**9)])
def test_limits_hold_by_exact_sums(draws: int, error_probability: Fraction) -> None:
    """By exact sums for every number of hits; and a number a little sharper would be wrong."""
    for hits in range(1, draws + 1):
        low = lower_limit(hits, draws, error_probability)
        assert tail(low, hits, draws) <= error_probability
        nearly = low + (1 - low) * low * Fraction(1, 4)
        assert tail(nearly, hits, draws) > error_probability
        assert upper_limit(draws - hits, draws, error_probability) == 1 - low
    assert lower_limit(0, draws, error_probability) == 0
    assert upper_limit(draws, draws, error_probability) == 1


@pytest.mark.parametrize("error_probability", [1e-9, 1e-12])
@pytest.mark.parametrize(
    ("hits", "draws"), [(1, 5e5), (20, 5e5), (5000, 1e5), (25e4, 5e5), (5e5, 5e5)]
)
def test_limits_are_close_to_beta_quantiles(
    hits: float, draws: float, error_probability: float
) -> None:
    """scipy errs by less than a part in 10^6, and the bound of the tail loses a part in 1,000."""
    h, n = int(hits), int(draws)
    limit = stats.beta.ppf(error_probability, h, n - h + 1)
    found = float(lower_limit(h, n, Fraction(error_probability)))
    assert limit * (1 - 1e-3) < found < limit * (1 + 1e-6)
    if h < n:
        limit = stats.beta.isf(error_probability, h + 1, n - h)
        found = float(upper_limit(h, n, Fraction(error_probability)))
        assert limit * (1 - 1e-6) < found < limit * (1 + 1e-3)


@pytest.mark.parametrize(
    "wrong", [(3, 2, "0.1"), (-1, 2, "0.1"), (0, 0, "0.1"), (1, 2, "0"), (1, 2, "0.5")]
)
def test_invalid_counts_are_refused(wrong: tuple[int, int, str]) -> None:
    with pytest.raises(ValueError, match="hits are some"):
        lower_limit(wrong[0], wrong[1], Fraction(wrong[2]))


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**9), Fraction(1, 7)])
def test_epsilon_is_rounded_down(delta: Fraction) -> None:
    for one, other in ((Fraction(3, 4), Fraction(1, 9)), (Fraction(1, 3), Fraction(1, 10**6))):
        found = epsilon_lower_bound(one, other, delta)
        with ctx.workprec(200):
            assert ball(other) * ball(Fraction(found)).exp() < ball(one - delta)
            above = Fraction(math.nextafter(math.nextafter(found, math.inf), math.inf))
            assert ball(other) * ball(above).exp() > ball(one - delta)


def test_uninformative_limits_prove_epsilon_0() -> None:
    tenth, fifth = Fraction(1, 10), Fraction(1, 5)
    assert epsilon_lower_bound(tenth, fifth, Fraction(0)) == 0.0
    assert epsilon_lower_bound(fifth, tenth, tenth) == 0.0
    assert epsilon_lower_bound(tenth, fifth, Fraction(1, 2)) == 0.0
