"""Delta of every loss, and every conversion, at every epsilon that a float or a fraction can be."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest

from dprelease.mechanisms.generalized_gaussian import PowerLoss
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.balls import LEAST_FLOAT
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.losses.normal import normal_delta
from dprelease.privacy.losses.pure import ApproximateLoss, PureLoss
from dprelease.privacy.renyi import zcdp_delta, zcdp_epsilon
from tests.mechanisms.laws import KINDS, exists, law_of

EPSILONS: tuple[float | Fraction, ...] = (
    -math.inf,
    Fraction(-(10**400)),
    -1e300,
    -1e6,
    -745.5,
    -1.0,
    Fraction(-1, 3),
    -1e-300,
    Fraction(-1, 10**400),
    0.0,
    Fraction(0),
    Fraction(1, 10**400),
    5e-324,
    1e-300,
    1e-17,
    Fraction(1, 3),
    0.5,
    1.0,
    40.0,
    745.5,
    1e6,
    1e18,
    1e300,
    1.7976931348623157e308,
    Fraction(10**400),
    math.inf,
)


def losses() -> list[PrivacyLoss]:
    """Return losses of every mechanism at small, usual and large scales, and those of no noise."""
    found: list[PrivacyLoss] = [
        PureLoss(Fraction(1)),
        PureLoss(Fraction(1), has_bounded_range=True),
    ]
    found += [ApproximateLoss(Fraction(1), Fraction(1, 1000))]
    found += RandomizedResponse(1.0, 5.0).losses(1)
    found += [PowerLoss(p, scale, 1) for p in (1.0625, 2.0, 8.0) for scale in (0.01, 1.0, 2.0**50)]
    for name, shape in KINDS:
        for scale in (0.05, 1.0, 2.0**20):
            if exists(name, scale, shape):
                found += law_of(name, scale, shape).losses(1)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: type(loss).__name__)
def test_delta_is_a_decreasing_probability(loss: PrivacyLoss) -> None:
    deltas = [loss.delta(epsilon) for epsilon in EPSILONS]
    assert all(0.0 <= delta <= 1.0 for delta in deltas)
    # Each is rounded up; those of stable noise are bounds that cells make a little too large.
    assert all(b <= a * (1 + 1e-6) for a, b in pairwise(deltas))
    for epsilon, delta in zip(EPSILONS, deltas, strict=True):
        if epsilon < 0:
            assert delta >= -math.expm1(max(float(max(epsilon, -2000)), -2000.0)) * (1 - 1e-15)
    assert (
        deltas[-1]
        == loss.infinite_loss_probability
        <= deltas[-2]
        <= max(loss.infinite_loss_probability * (1 + 1e-9), LEAST_FLOAT)
    )
    assert deltas[0] == deltas[1] == 1.0
    with pytest.raises(ValueError, match="not a number"):
        loss.delta(math.nan)


@pytest.mark.parametrize("p", [1.0625, 1.5, 2.0, 3.25, 8.0])
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0, 2.0**30])
def test_delta_is_continuous_at_the_kink(p: float, scale: float) -> None:
    """At epsilon = t^p the crossing is exactly 0: neither side of it has another value."""
    loss = PowerLoss(p, scale, 1)
    for at in (Fraction(1, scale.as_integer_ratio()[0]) ** 2 if scale >= 1 else Fraction(4), None):
        exact = at if p == 2.0 and at is not None else Fraction((1 / scale) ** p)
        around = [loss.delta(exact * (1 + Fraction(i, 10**9))) for i in (-1, 0, 1)]
        assert around[0] >= around[1] >= around[2] > 0
        assert around[0] <= around[2] * (1 + 1e-5)


def exact_zcdp_delta(rho: float, epsilon: float) -> mpmath.mpf:
    """Return the least of Corollary 13 over all orders, by golden sections over ln(a - 1)."""
    with mpmath.workdps(60):
        r, e = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def exponent(s: mpmath.mpf) -> mpmath.mpf:
            x = mpmath.exp(s)
            return x * ((1 + x) * r - e) - mpmath.log1p(x) - x * mpmath.log1p(1 / x)

        low, high = mpmath.mpf(-1500), mpmath.mpf(1500)
        for _ in range(150):
            a, b = (2 * low + high) / 3, (low + 2 * high) / 3
            low, high = (low, b) if exponent(a) < exponent(b) else (a, high)
        least = exponent((low + high) / 2)
        return mpmath.exp(least) if least > -1e5 else mpmath.mpf(0)


@pytest.mark.share(0.4)
@pytest.mark.parametrize("rho", [5e-324, 1e-300, 5e-30, 1e-9, 0.001, 0.5, 20.0, 1e9, 1e300])
def test_zcdp_delta_is_the_minimum_over_orders(rho: float) -> None:
    """On the safe side, and within a factor 1 + 2^-30, wherever a float can hold it."""
    typical = [rho + 2 * math.sqrt(rho) * factor for factor in (0.0, 0.3, 3.0, 10.0, 26.0, 27.5)]
    for epsilon in (0.0, 1e-13, 1.0, 5.0, 1e300, *typical):
        found, exact = zcdp_delta(rho, epsilon), exact_zcdp_delta(rho, epsilon)
        assert found >= min(exact, 1) * (1 - mpmath.mpf(10) ** -14)
        assert found > 0.0
        assert found <= float(exact) * (1 + 2.0**-30) + 2 * LEAST_FLOAT


def test_zcdp_conversion_at_extreme_values() -> None:
    assert zcdp_delta(0.001, math.inf) == 0.0 == zcdp_delta(0.0, 0.0) == zcdp_delta(0.0, 3.0)
    assert zcdp_delta(0.0, -1.0) >= -math.expm1(-1.0)
    assert zcdp_delta(math.inf, 1.0) == 1.0
    assert zcdp_epsilon(0.0, 0.0) == 0.0
    assert zcdp_epsilon(1.0, 1.0) == 0.0
    assert zcdp_epsilon(1.0, 0.0) == math.inf == zcdp_epsilon(math.inf, 0.5)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("rho", [1e-300, 5e-30, 1e-9, 0.001, 0.5, 20.0, 1e9, 1e150])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-30, 1e-9, 0.3])
def test_zcdp_epsilon_is_the_smallest_for_delta(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    below = float(exact_zcdp_delta(rho, epsilon * (1 - 2.0**-38)))
    assert epsilon == 0.0 or below >= delta * (1 - 1e-9) or delta <= LEAST_FLOAT


@pytest.mark.share(0.5)
@pytest.mark.parametrize("mu", [5e-324, 1e-300, 1e-17, 1e-3, 1.0, 30.0, 1e9, 1e300])
def test_normal_delta_equals_the_closed_form(mu: float) -> None:
    with mpmath.workdps(700):
        for epsilon in (0.0, 1e-17, 0.5, 100.0, 1e300, mu * mu / 2, mu * 5, mu * 38):
            if math.isinf(epsilon):
                continue
            found = normal_delta(mu, epsilon)
            a = mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2
            if abs(a) > 60:
                assert found == (LEAST_FLOAT if a > 0 else 1.0)
                continue
            exact = mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-a - mu)
            assert found >= exact * (1 - mpmath.mpf(10) ** -14)
            assert found <= float(exact) * (1 + 1e-6) + 2 * LEAST_FLOAT
