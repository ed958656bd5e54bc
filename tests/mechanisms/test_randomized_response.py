"""Randomized response: probabilities, exact draws, and loss on all pairs of values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.lattice import exact_draw
from dprelease.planning.calibration import make_accounting_input
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from tests.replay import Keyed, OutOfBits, Replay

ERROR_RATE = 1e-10
"""Chance that one comparison rejects draws of the very law that is claimed."""

CASES = [(2, 1.0), (2, 10.0), (3, 0.5), (5, 2.0), (64, 0.25), (1000, 1.0)]


def pmf(law: RandomizedResponse) -> list[arb]:
    """Return P(K = k) from the definition: e^eps for the value itself, 1 for each other one."""
    growth = (arb(1) / arb(law.scale)).exp()
    count = int(law.values)
    return [(growth if k == 0 else arb(1)) / (growth + count - 1) for k in range(count)]


@pytest.mark.parametrize(("values", "scale"), CASES)
def test_tails_equal_the_definition(values: int, scale: float) -> None:
    law = RandomizedResponse(scale, values)
    with ctx.workprec(160):
        masses = pmf(law)
        for k in range(-1, values + 2):
            assert law.tail(k, True).overlaps(sum(masses[max(k, 0) :], arb(0)))
            assert law.tail(k, False).overlaps(sum(masses[: max(k + 1, 0)], arb(0)))
            assert law.tail(k, True).rad() < 1e-40
        assert float(masses[0]) == pytest.approx(law.true_value_probability, rel=1e-14)
        assert float(masses[1]) == pytest.approx(law.false_value_probability, rel=1e-14)


@pytest.mark.parametrize(("values", "scale"), CASES)
@pytest.mark.parametrize("upper", [True, False])
def test_certain_quantiles_are_right(values: int, scale: float, upper: bool) -> None:
    """Wherever a float is sure of k, U within 2**-43 of u lies in the cell of k, by balls."""
    law = RandomizedResponse(scale, values)
    edges = [float(law.tail(k, upper)) for k in range(min(values, 60))]
    grid = [np.linspace(2.0**-20, 0.5, 997)]
    grid += [np.array(edges) * (1 + s * 2.0**-e) for e in (30, 38, 41, 44, 50) for s in (1, -1)]
    u = np.concatenate(grid)
    u = u[(u >= 2.0**-20) & (u <= 0.5)]
    k, sure = law.integer_quantile(u, upper)
    assert sure.mean() > 0.5
    sign = 1 if upper else -1
    with ctx.workprec(160):
        for x, j in zip(u[sure], k[sure].astype(int), strict=True):
            low, high = arb(x) * (1 - arb(2) ** -43), arb(x) * (1 + arb(2) ** -43)
            assert high <= law.tail(int(j), upper), (x, j)
            assert low >= law.tail(int(j) + sign, upper), (x, j)


def test_word_on_a_boundary_is_refined() -> None:
    """The next word decides, exactly as the balls say; without one the draw can't be made."""
    law = RandomizedResponse(1.0, 3)
    with ctx.workprec(200):
        edge = int((law.tail(2, True) * arb(2) ** 64).floor().unique_fmpz())
        rest = law.tail(2, True) * arb(2) ** 64 - edge
        cut = int((rest * arb(2) ** 64).floor().unique_fmpz())
    assert exact_draw(law, edge, Replay([max(0, cut - 5)])) == 2
    assert exact_draw(law, edge, Replay([cut + 5])) == 1
    with pytest.raises(OutOfBits):
        exact_draw(law, edge, Replay([cut]))
    assert exact_draw(law, 2**63 | (2**62 - 1), Replay([])) == 0


def p_value(counts: np.ndarray, masses: np.ndarray) -> float:
    expected = masses * counts.sum()
    return float(stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1))


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("values", "scale"), [(2, 1.0), (3, 0.5), (5, 2.0), (64, 0.25)])
def test_draws_fit_and_planted_mistakes_are_found(values: int, scale: float) -> None:
    """Chi-square with an error rate of 1e-10 a value; each mistake is beyond it."""
    law, n = RandomizedResponse(scale, values), 1_000_000
    masses = np.array([float(mass) for mass in pmf(law)])
    for value in (0, values - 1):
        answers = law.respond(np.full(n, value), Keyed(f"{values} {value}"))
        counts = np.bincount((answers - value) % values, minlength=values)
        assert p_value(counts, masses) > ERROR_RATE
    counts = np.bincount(law.respond(np.zeros(n, dtype=np.int64), Keyed("x")), minlength=values)
    wrong = RandomizedResponse(scale * 1.2, values)
    mistakes = {
        "another epsilon": np.array([float(mass) for mass in pmf(wrong)]),
        "moved by one": np.roll(masses, 1),
        "the value itself among the others": (1 - law.true_value_probability) / values
        + np.where(np.arange(values) == 0, law.true_value_probability, 0.0),
    }
    for name, other in mistakes.items():
        assert p_value(counts, other / other.sum()) < ERROR_RATE, name


@pytest.mark.parametrize("values", [2, 3, 4, 6])
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
def test_claimed_loss_holds_on_all_pairs(values: int, scale: float) -> None:
    """Largest loss, hockey sticks and Rényi divergences, by enumeration of pairs and answers."""
    law = RandomizedResponse(scale, values)
    (loss,) = law.losses(1)
    masses = np.array([float(mass) for mass in pmf(law)])
    epsilon = 1 / scale
    grid = (-1.5 * epsilon, -0.5 * epsilon, 0.0, 0.3 * epsilon, 0.99 * epsilon)
    for i in range(values):
        for j in range(values):
            if i == j:
                continue
            p, q = np.roll(masses, i), np.roll(masses, j)
            assert float(np.max(np.log(p / q))) <= loss.pure_epsilon * (1 + 1e-14)
            assert float(np.max(np.log(p / q))) == pytest.approx(loss.pure_epsilon, rel=1e-12)
            for e in grid:
                gain = float(np.sum(np.maximum(0.0, p - math.exp(e) * q)))
                assert gain <= loss.delta(e) * (1 + 1e-13)
                assert gain == pytest.approx(loss.delta(e), rel=1e-9)
            for order in (1.5, 2.0, 30.0):
                found = math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)
                assert found <= loss.renyi(order) * (1 + 1e-12)
                assert found == pytest.approx(loss.renyi(order), rel=1e-9)
    assert loss.delta(loss.pure_epsilon) == loss.delta(epsilon * 2) == 0.0
    p_mass, q_mass = loss.interval_probabilities(np.array([-epsilon / 2, epsilon / 2]))
    assert p_mass.sum() == pytest.approx(1.0)
    assert p_mass.tolist() == pytest.approx(q_mass[::-1].tolist())


def test_several_answers_of_a_record_compose() -> None:
    """Below the sum of epsilons at a delta; and the sum without one."""
    law = RandomizedResponse(2.0, 4)
    vectors = [make_accounting_input(law, Sensitivity(1, (Move(1, 1),)))] * 12
    assert epsilon_at(vectors, 0) == pytest.approx(6.0)
    assert 1.0 < epsilon_at(vectors, 1e-6) < 6.0


def test_only_local_records_can_use_it() -> None:
    assert "randomized_response" not in registry.names()
    event = Event(
        "q",
        "c",
        "randomized_response",
        RandomizedResponse(1.0, 3).parameters,
        Sensitivity(1, (Move(1, 1),)),
    )
    assert (
        registry.record_mechanism_of_event(event)
        == registry.mechanism_of_event(event)
        == RandomizedResponse(1.0, 3)
    )
    with pytest.raises(BudgetError, match="DP-MECH-004"):
        registry.randomizer_class(event.mechanism)
    with pytest.raises(BudgetError, match="DP-MECH-005"):
        RandomizedResponse(1.0, 1)


def test_moments_of_the_answer() -> None:
    law = RandomizedResponse(1.0, 5)
    masses = np.array([float(mass) for mass in pmf(law)])
    k = np.arange(5)
    assert law.mean == law.mean_absolute_error == pytest.approx(float(masses @ k))
    assert law.standard_deviation == pytest.approx(math.sqrt(masses @ k**2 - (masses @ k) ** 2))
    assert law.half_width(0.9) <= 4
