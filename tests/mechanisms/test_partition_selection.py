"""Private keys: the optimal selection rule, its guarantee, and selected keys."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from dprelease.errors import BudgetError
from dprelease.mechanisms.laplace import Laplace
from dprelease.mechanisms.partition_selection import PartitionSelection
from dprelease.mechanisms.truncated_laplace import TruncatedLaplace
from dprelease.noise.noised_answers import key_threshold
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.losses.pure import ApproximateLoss
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.unit import Move, Sensitivity
from tests.reference.read import number, rows
from tests.replay import Keyed, Replay
from tests.two_arm import ERROR_RATE

RULES = [
    PartitionSelection(scale=1.0, delta=1e-3),
    PartitionSelection(scale=3.0, delta=1e-6),
    PartitionSelection(scale=0.2, delta=0.02),
    PartitionSelection(scale=40.0, delta=0.3),
]


def keep_probabilities(rule: PartitionSelection, most: int) -> list[float]:
    with ctx.workprec(200):
        return [float(rule.probability(n).mid()) for n in range(most)]


REFERENCE = [row for row in rows("truncated_geometric_keep") if float(row["delta"]) > 1e-100]


@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: f"{row['epsilon']}-{row['users']}")
def test_keep_probabilities_equal_references(row: dict[str, str]) -> None:
    groups = int(row["l0"])
    scale, delta = groups / float(number(row["epsilon"])), float(row["delta"]) / groups
    if not 0.01 <= scale <= 1e6:
        with pytest.raises(BudgetError, match=r"DP-MECH-00[15]"):
            PartitionSelection(scale=scale, delta=delta)
        return
    with ctx.workprec(200):
        found = PartitionSelection(scale=scale, delta=delta).probability(int(row["users"]))
    assert float(found.mid()) == pytest.approx(float(row["keep_probability"]), rel=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule_is_the_largest_private_one(rule: PartitionSelection) -> None:
    """The recursion of the paper (Theorem 1): each step is the largest that both orders allow."""
    with ctx.workprec(300):
        epsilon, delta = arb(1) / arb(rule.scale), arb(rule.delta)
        p = arb(0)
        for n in range(1, 400):
            up, down = epsilon.exp() * p + delta, 1 - (-epsilon).exp() * (1 - p - delta)
            p = up.min(down).min(arb(1))
            assert rule.probability(n).overlaps(p), n
            assert rule.probability(n).rad() < 1e-60


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_claimed_loss_against_both_outputs(rule: PartitionSelection) -> None:
    (loss,) = rule.losses(1)
    kept = keep_probabilities(rule, 300)
    for epsilon in (-1.0, 0.0, 0.1, float(rule.epsilon) / 2, float(rule.epsilon), 7.0):
        worst = 0.0
        for n in range(299):
            for a, b in ((kept[n], kept[n + 1]), (kept[n + 1], kept[n])):
                parts = ((a, b), (1 - a, 1 - b))
                worst = max(worst, sum(max(0.0, p - math.exp(epsilon) * q) for p, q in parts))
        assert worst <= loss.delta(epsilon) + 1e-15
    # What only one unit has is told with probability delta, which the loss charges in full.
    assert kept[0] == 0.0
    assert kept[1] == pytest.approx(rule.delta, rel=1e-12)
    assert loss.delta(50.0) >= rule.delta


def test_composed_cost_of_several_keys() -> None:
    """delta adds up over the keys of a person; below the sum there is no guarantee."""
    rule = PartitionSelection(scale=4.0, delta=1e-8)
    vector = PricedVector(rule, rule.losses, Sensitivity(3, (Move(1, 1),)))
    assert epsilon_at([vector], Fraction(4, 10**8)) <= 0.75 + 1e-9
    assert math.isinf(epsilon_at([vector], Fraction(29, 10**9)))
    assert math.isinf(epsilon_at([vector], Fraction(0)))


def test_dominating_pair_has_the_delta() -> None:
    """Its masses give its delta at every loss."""
    loss = ApproximateLoss(Fraction(3, 2), Fraction(1, 1000))
    edges = np.linspace(-2, 2, 41)
    p, q = loss.interval_probabilities(edges)
    for epsilon in (-1.0, 0.0, 0.7, 1.5, 2.0):
        found = float(np.sum(np.maximum(0.0, p - math.exp(epsilon) * q)))
        assert found == pytest.approx(loss.delta(epsilon), abs=1e-12)


def test_selection_rate_follows_the_rule() -> None:
    """Keys are selected as often as the rule says, and not as often as at a delta 20 % off."""
    rule, n = PartitionSelection(scale=1.5, delta=0.05), 60_000
    wrong = PartitionSelection(scale=1.5, delta=0.06)
    units = np.repeat(np.arange(1, 7), n)
    told = rule.select(units, Keyed("told")).reshape(6, n).sum(axis=1)
    values = []
    for other in (rule, wrong):
        expected = np.array(keep_probabilities(other, 7)[1:])
        z = (told - n * expected) ** 2 / (n * expected * (1 - expected))
        values.append(float(stats.chi2.sf(float(z.sum()), 6)))
    assert values[0] > ERROR_RATE > values[1]


def test_words_on_a_boundary_are_refined() -> None:
    rule = PartitionSelection(scale=1.0, delta=0.25)
    edge = 2**62  # U = 1/4, the chance of a key of one unit
    assert not rule.select(np.array([1]), Replay([edge], fill=7)).any()
    assert rule.select(np.array([1]), Replay([edge - 1], fill=7)).all()
    assert not rule.select(np.array([0]), Replay([0], fill=0)).any()


def test_threshold_is_above_the_largest_noise() -> None:
    """(V05) With one less, a key without persons could be published."""
    for delta in ("1e-4", "0.01", "1e-9"):
        noise = TruncatedLaplace.design(3.0, Sensitivity(1, (Move(1, 1),)), delta=delta)
        least = key_threshold(noise)
        with ctx.workprec(200):
            assert noise.tail(least, True).is_zero()
            assert not noise.tail(least - 1, True).is_zero()
            told = noise.tail(least - 1, True)  # one unit and noise of at least `least` - 1
            assert 0 < told <= arb(delta)
    with pytest.raises(ValueError, match="noise that ends"):
        key_threshold(Laplace(scale=1.0))
