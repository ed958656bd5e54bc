"""Every mechanism: the proven bound is below the claim and near it, and above it for too little noise."""

from __future__ import annotations

import pytest

from dprelease.mechanisms import registry
from dprelease.privacy.unit import Neighbours
from tests.auditing.black_box.build import bounds_of, cells, count_with_noise, with_scale, worst

DRAWS = 40_000

NEAR = {
    "gaussian": 0.4,
    "discrete_gaussian": 0.4,
    "symmetric_alpha_stable": 0.5,
    "asymmetric_laplace": 0.5,
}
"""Parts of the claim that so few draws show: of normal laws, whose loss is large in rare answers
alone, and where it is the largest in the middle. Of all others seven tenths."""

LAWS = [(name, list(Neighbours)[i % 2]) for i, name in enumerate(registry.names())]


def delta_of(name: str) -> str:
    return "0" if registry.get(name).pure else "1e-3"


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("name", "neighbours"), LAWS)
def test_proven_bound_is_below_and_near_the_claim(name: str, neighbours: Neighbours) -> None:
    delta = delta_of(name)
    column = count_with_noise(name, delta=delta, neighbours=neighbours)
    found = bounds_of(worst(column), [column], delta, DRAWS, name)
    assert all(one.epsilon <= one.claimed for one in found)
    assert float(found[0].delta) == float(delta)
    assert found[0].epsilon >= NEAR.get(name, 0.7) * found[0].claimed
    assert all(one.tested == DRAWS - DRAWS // 4 and one.draws == DRAWS for one in found)


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("name", "neighbours"), [law for law in LAWS if law[0] != "optimal"])
def test_too_small_scale_is_found(name: str, neighbours: Neighbours) -> None:
    delta = delta_of(name)
    column = count_with_noise(name, delta=delta, neighbours=neighbours)
    found = bounds_of(worst(with_scale(column, 0.75)), [column], delta, DRAWS, name)
    assert any(one.epsilon > one.claimed for one in found)


@pytest.mark.parametrize("name", ["optimal", "discrete_gaussian", "discrete_laplace"])
def test_too_small_sensitivity_is_found(name: str) -> None:
    """Noise and privacy loss for half of the true sensitivity."""
    delta = delta_of(name)
    column = count_with_noise(name, delta=delta)
    differing = cells([column], {"n": [2, 0]}, {"n": [0, 0]})
    found = bounds_of(differing, [column], delta, DRAWS, name)
    assert any(one.epsilon > one.claimed for one in found)


def test_claim_of_half_the_epsilon_is_found() -> None:
    column, claimed = (
        count_with_noise("discrete_laplace"),
        count_with_noise("discrete_laplace", epsilon="0.5"),
    )
    found = bounds_of(worst(column), [claimed], "0", DRAWS, "half")
    assert found[0].epsilon > 1.5 * found[0].claimed


def test_bound_of_discrete_laplace_approaches_epsilon() -> None:
    """The best event has the loss epsilon itself: with more draws the bound comes nearer."""
    column = count_with_noise("discrete_laplace")
    few, many = (bounds_of(worst(column), [column], "0", n, "near")[0] for n in (10_000, 400_000))
    assert few.epsilon < many.epsilon <= 1.0
    assert many.epsilon > 0.95
