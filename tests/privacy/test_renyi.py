"""Rényi curves, zero-concentrated guarantees and their conversion against references and grids."""

from __future__ import annotations

import math
import time
from decimal import MAX_EMAX, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.mechanisms import registry
from dprelease.privacy.loss import RELATIVE_ERROR, Pieces, renyi_bound
from dprelease.privacy.losses.pure import PureLoss
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import renyi_of, rho_of, zcdp_delta, zcdp_epsilon
from dprelease.privacy.unit import Move, Sensitivity
from tests.mechanisms.laws import KINDS, law_of
from tests.reference.read import rows

FAMILIES = {
    "laplace": "laplace",
    "discrete_laplace_sens1": "discrete_laplace",
    "gaussian_sens1": "gaussian",
    "discrete_gaussian_sens1": "discrete_gaussian",
}
ONE = Sensitivity(1, (Move(1, 1),))


def vector(name: str, scale: float, sensitivity: Sensitivity = ONE, shape: int = 0) -> PricedVector:
    law = law_of(name, scale, shape, sensitivity.largest_shift)
    return PricedVector(law, law.losses, sensitivity)


@pytest.mark.parametrize("row", [row for row in rows("rdp") if row["family"] in FAMILIES], ids=str)
def test_renyi_reference(row: dict[str, str]) -> None:
    name, scale = FAMILIES[row["family"]], float(row["parameter"])
    if name == "laplace":  # in lattice steps: sensitivity 1 of the reference is 1000 of them
        law = registry.get(name)(scale * 1000)
        found = law.losses(1000)[0].renyi(float(row["order"]))
    else:
        scale = math.sqrt(scale) if name == "discrete_gaussian" else scale  # given as a variance
        found = registry.get(name)(scale).losses(1)[0].renyi(float(row["order"]))
    exact = float(row["renyi_divergence"])
    assert found >= exact * (1 - 1e-12)
    assert found == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("row", rows("zcdp_delta"), ids=str)
def test_zcdp_delta_reference(row: dict[str, str]) -> None:
    found, exact = zcdp_delta(float(row["rho"]), float(row["epsilon"])), float(row["delta"])
    assert found >= exact * (1 - 1e-13)
    assert found == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("row", rows("zcdp_epsilon"), ids=str)
def test_zcdp_epsilon_reference(row: dict[str, str]) -> None:
    found, exact = zcdp_epsilon(float(row["rho"]), float(row["delta"])), float(row["epsilon_cks"])
    assert found >= exact * (1 - 1e-13)
    assert found == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("scale", [10, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("excess", [2.0**-12, 0.1, 3.0])
def test_divergences_of_small_losses(scale: int, excess: float) -> None:
    """They are small differences of numbers near 1, in which floats lose all digits.

    The references are the formulas of Mironov 2017, Table II, with 80 digits.
    """
    order = 1.0 + excess
    with localcontext() as digits:
        digits.prec = 80
        a, fall = Decimal(order), (Decimal(-1) / scale).exp()
        up, down = (a - 1) / scale, -a / Decimal(scale)
        moment = (a * up.exp() + (a - 1) * down.exp()) / (2 * a - 1)
        laplace = Fraction(moment.ln() / (a - 1))
        p, q = 1 / (1 + fall), fall / (1 + fall)
        bit = Fraction((p * (p / q) ** (a - 1) + q * (q / p) ** (a - 1)).ln() / (a - 1))
    found = registry.get("laplace")(scale).losses(1)[0].renyi(order)
    assert laplace <= Fraction(found) <= laplace * (1 + Fraction(1, 10**9))
    found = PureLoss(Fraction(1, scale)).renyi(order)
    assert bit <= Fraction(found) <= bit * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("order", [1.5, 3.0, 101.0, 1e6])
@pytest.mark.parametrize("width", [1e-6, 1e-2, 1.0, 30.0])
@pytest.mark.parametrize("rare", [0.0, 1e-12, 2.0**-31, 1e-3, 1.0])
def test_errors_of_pieces_do_not_lower_divergences(rare: float, width: float, order: float) -> None:
    """A piece with two outputs, one of them rare: all values have the largest error allowed."""
    low, power = 0.25, order - 1.0
    mean = (1.0 - rare) * math.exp(-low) + rare * math.exp(-low - width)
    with localcontext() as digits:
        digits.prec, digits.Emax = 60, MAX_EMAX
        grown = Decimal(power) * (Decimal(low) + Decimal(width))
        moment = (1 - Decimal(rare)) * (Decimal(power) * Decimal(low)).exp()
        exact = (moment + Decimal(rare) * grown.exp()).ln() / Decimal(power)
    error = RELATIVE_ERROR
    pieces = Pieces(
        np.array([1.0 - error]),
        np.array([mean * (1.0 + error)]),
        np.array([low + error]),
        np.array([low + width - error]),
    )
    found = renyi_bound(pieces, order)
    assert Fraction(exact) <= Fraction(found)
    if rare in (0.0, 1.0):  # otherwise such errors may count much
        assert found <= float(exact) + 20 * error * (
            1.0 + math.expm1(min(power * width, 600.0)) / power
        )


def test_divergences_add_up() -> None:
    parts = [vector("laplace", 9.0), vector("gaussian", 5.0, Sensitivity(3, (Move(2, 2),)))]
    single = [loss.renyi(4.0) for loss in (*parts[0].losses(1), *parts[1].losses(2))]
    assert renyi_of(parts, 4.0) == pytest.approx(single[0] + 6 * single[1], rel=1e-9)
    either = Sensitivity(1, (Move(1, 2), Move(3, 1)))
    both = vector("gaussian", 5.0, either)
    assert renyi_of([both], 4.0) == pytest.approx(4 * 9 / 50, rel=1e-9)


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_rho_bounds_the_whole_curve(name: str, shape: int) -> None:
    """rho lies above D_a / a at every order, and little above the largest."""
    part = vector(name, 7.0, Sensitivity(2, (Move(3, 1),)), shape)
    rho = rho_of([part])
    orders = np.geomspace(1e-4, 1e5, 60) + 1.0
    ratios = [renyi_of([part], float(order)) / float(order) for order in orders]
    # Values close to order 1 are bounds that floats make a little too large.
    assert rho >= max(ratios) * (1 - 5e-4)
    if math.isfinite(rho):
        assert rho <= max(ratios) * 1.02


def test_rho_of_gaussian_noise() -> None:
    assert rho_of([vector("gaussian", 5.0), vector("gaussian", 10.0)]) == pytest.approx(
        0.5 / 25 + 0.5 / 100, rel=1e-12
    )
    assert rho_of([vector("discrete_gaussian", 5.0)]) == pytest.approx(0.02, rel=1e-4)
    assert math.isinf(rho_of([vector("truncated_laplace", 5.0)]))
    assert rho_of([]) == 0.0


@settings(max_examples=30)
@given(st.floats(1e-6, 30.0), st.floats(1e-12, 1e-2))
def test_epsilon_and_delta_are_inverse(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    assert epsilon == 0.0 or zcdp_delta(rho, epsilon * (1 - 1e-9)) > delta * (1 - 1e-9)
    by_epsilon = [zcdp_delta(rho, epsilon * factor) for factor in (0.5, 1.0, 2.0)]
    assert all(a >= b for a, b in pairwise(by_epsilon))


def test_too_small_rho_fails() -> None:
    """The check of the curve can fail: a tenth less noise costs more than the claim."""
    claimed = rho_of([vector("laplace", 7.0)])
    less = vector("laplace", 6.3)
    assert any(renyi_of([less], a) / a > claimed for a in (1.01, 2.0, 4.0))


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_two_cells_cost_twice_as_much_as_one(name: str, shape: int) -> None:
    """Whether rho has a closed form or is searched; so do two slots, and the worse move counts."""
    once = rho_of([vector(name, 7.0, Sensitivity(1, (Move(2, 1),)), shape)])
    for other in (
        Sensitivity(1, (Move(2, 2),)),
        Sensitivity(2, (Move(2, 1),)),
        Sensitivity(1, (Move(2, 2), Move(2, 1))),
    ):
        twice = rho_of([vector(name, 7.0, other, shape)])
        assert twice == pytest.approx(2 * once, rel=1e-9), other
    both = rho_of([vector(name, 7.0, Sensitivity(1, (Move(2, 1),)), shape)] * 2)
    assert both == pytest.approx(2 * once, rel=1e-9)


@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_rough_rho_is_close(name: str, shape: int) -> None:
    parts = [vector(name, 7.0, Sensitivity(2, (Move(shift, 1),)), shape) for shift in (1, 3)]
    rho = rho_of(parts)
    found = rho_of(parts, rough=True)
    assert math.isinf(found) if math.isinf(rho) else found == pytest.approx(rho, rel=2e-3)


def test_high_orders_at_small_steps_are_fast() -> None:
    """Their tails lie where the terms of the Euler-Maclaurin formula no longer fall."""
    law = registry.get("discrete_offset_symmetric_gaussian").design(1234567.89, ratio=0.5)
    (loss,) = law.losses(60_000)
    started = time.process_time()
    for order in np.geomspace(1e3, 1e6, 40):
        assert loss.renyi(float(order)) <= order * loss.renyi_ratio_bound(float(order))
    assert time.process_time() - started < 2.0
