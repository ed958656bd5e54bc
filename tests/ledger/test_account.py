"""The amount of a ledger account, and the cost of every recorded mechanism."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.ledger.account import EPSILON, RHO, Account, cost_of_events
from dprelease.mechanisms import registry
from dprelease.mechanisms.gaussian_threshold import GaussianThreshold
from dprelease.mechanisms.partition_selection import PartitionSelection
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.rounding import round_down, round_up
from dprelease.privacy.accounting import pure_epsilon
from dprelease.privacy.guarantee import Event
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import approximate_rho_of, rho_of, zcdp_epsilon
from dprelease.privacy.unit import Move, Sensitivity

SLACK = 1e-9
"""How far below the largest rho an amount may lie, relatively; bisection ends at 2**-40."""
ONE = Sensitivity(2, (Move(1, 1),))


def account(
    epsilon: Fraction | None = None, delta: Fraction = Fraction(0), rho: Fraction | None = None
) -> Account:
    return Account("office/people", "add_remove", "person", epsilon, delta, rho)


def laws() -> list[Randomizer]:
    """Return one law of everything that makes an answer random."""
    noises = [registry.get(name) for name in registry.names()]
    found = [kind.design(2.0, ONE, **kind.example_shapes[0]) for kind in noises]
    found += [registry.selection_class(name)(2.0, 5.0) for name in registry.selection_names()]
    keys = [PartitionSelection(2.0, 1e-6), GaussianThreshold(2.0, 14.0)]
    return [*found, *keys, RandomizedResponse(2.0, 3.0)]


LAWS = laws()
ACCOUNTS = {
    "pure": account(Fraction(100)),
    "approximate": account(Fraction(100), Fraction(1, 10**6)),
    "rho": account(rho=Fraction(50)),
    "rho and delta": replace(account(rho=Fraction(50)), rho_delta=Fraction(1, 100)),
}


def test_all_registered_mechanisms_are_tested() -> None:
    names = {law.name for law in LAWS}
    assert names >= {*registry.names(), *registry.selection_names(), *registry.RECORD_NAMES}


@pytest.mark.parametrize("kind", ACCOUNTS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_every_recorded_mechanism_has_a_cost(law: Randomizer, kind: str) -> None:
    """The cost from the record equals that of the mechanism; without a bound it is infinite."""
    event = Event("q", "c", law.name, law.parameters, ONE)
    vector = PricedVector(law, law.losses, ONE)
    pure = pure_epsilon([vector])
    wanted = math.inf if pure is None else round_up(pure)
    if ACCOUNTS[kind].privacy_measure == RHO:
        wanted = rho_of([vector])
    if kind == "rho and delta":
        rho, delta = approximate_rho_of([vector])
        wanted = max(rho, round_up(50 * delta / Fraction(1, 100)))
        assert math.isfinite(wanted) or not (law.pure or delta)
    assert (ACCOUNTS[kind].privacy_measure == EPSILON) is (kind == "pure")
    assert cost_of_events(ACCOUNTS[kind], [event]) == wanted
    if law.pure:
        assert 0 < wanted < 50


@pytest.mark.share(0.4)
@pytest.mark.parametrize("epsilon", ["1/1000", "1/10", "1", "3", "20", "100"])
@pytest.mark.parametrize("delta", ["1e-2", "1e-5", "1e-9", "1e-30"])
def test_rho_of_an_approximate_budget(epsilon: str, delta: str) -> None:
    """The largest rho with at most epsilon at delta: never more, and hardly less."""
    limit, at = Fraction(epsilon), Fraction(delta)
    amount = account(limit, at).amount
    assert zcdp_epsilon(float(amount), round_down(at)) <= limit
    assert zcdp_epsilon(float(amount) * (1 + SLACK), round_down(at)) > limit


def test_pure_and_rho_amounts_are_those_declared() -> None:
    third = Fraction(1, 3)
    assert account(third).amount == third
    assert account(rho=third).amount == third
    assert account(rho=third, delta=Fraction(1, 10**9)).amount == third
