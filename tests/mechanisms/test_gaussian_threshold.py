"""Keys by Gaussian noise and a threshold: exact outputs of neighbours against rho, delta, epsilon."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import stats

from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.errors import BudgetError
from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.gaussian_threshold import GaussianThreshold
from dprelease.noise.noised_answers import key_threshold
from dprelease.numerics.lattice import sample
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.guarantees import guarantee_of
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.guarantee import Event
from dprelease.privacy.renyi import approximate_rho_of, rho_of, zcdp_epsilon
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.schema.release import BudgetSpec
from dprelease.verification.certificate.certify import certify, claims_of
from dprelease.verification.certificate.verdicts import Claim, Verdict
from tests.replay import Keyed
from tests.two_arm import ERROR_RATE

RULES = [
    GaussianThreshold(scale=0.6, threshold=3.0),
    GaussianThreshold(scale=1.0, threshold=4.0),
    GaussianThreshold(scale=2.5, threshold=8.0),
]
UNITS = {
    "one": Sensitivity(1, (Move(1, 1),)),
    "three": Sensitivity(3, (Move(1, 1),)),
    "replaced": Sensitivity(1, (Move(1, 2),)),
}
Law = NDArray[np.float64]


def cells(unit: Sensitivity) -> int:
    return unit.slots * max(move.cells for move in unit.moves)


def outputs(rule: GaussianThreshold, n: int) -> Law:
    """Return the exact probability of each published number; 0 stands for a key that is left out.

    Summed from the definition of the noise, and not by the mechanism.
    """
    reach = math.ceil(30 * rule.scale)

    def weight(k: int) -> float:
        return math.exp(-((k / rule.scale) ** 2) / 2)

    total = math.fsum(weight(k) for k in range(-reach, reach + 1))
    least = int(rule.threshold)
    law = np.zeros(least + reach + 3)
    law[0] = 1.0
    if n:
        law[0] = math.fsum(weight(k) for k in range(-reach, least - n)) / total
        law[least:] = [weight(number - n) / total for number in range(least, len(law))]
    return law


def ways(rule: GaussianThreshold) -> list[tuple[bool, Law, Law]]:
    """Return pairs of outputs of one key that can differ, and whether only one table has the key."""
    low, high = int(rule.threshold) - 1, int(rule.threshold) + 1
    pairs = [(False, n, n + 1) for n in (1, low, high)] + [(True, 0, 1)]
    pairs += [(new, b, a) for new, a, b in pairs]
    return [(new, outputs(rule, a), outputs(rule, b)) for new, a, b in pairs]


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    return float(np.sum(np.maximum(0.0, p - math.exp(epsilon) * q)))


def divergence(p: Law, q: Law, order: float) -> float:
    seen = p > 0
    assert (q[seen] > 0).all()
    exponents = order * np.log(p[seen]) - (order - 1) * np.log(q[seen])
    return float(np.logaddexp.reduce(exponents)) / (order - 1)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rho_and_delta_against_all_outputs(rule: GaussianThreshold, unit: str) -> None:
    """As in the definition: given an event of probability 1 - delta, all divergences are small.

    The event is that no key is published that only one of both tables has.
    """
    vector, keys = make_accounting_input(rule, UNITS[unit]), cells(UNITS[unit])
    rho, delta = approximate_rho_of([vector])
    assert math.isinf(rho_of([vector]))
    found = [1.0 - min(p[0], q[0]) for new, p, q in ways(rule) if new]
    for new_keys in range(keys + 1):
        assert 1.0 - (1.0 - max(found)) ** new_keys <= float(delta) + 1e-15
        for order in (1.01, 2.0, 5.0, 40.0):
            worst = max(divergence(p, q, order) for new, p, q in ways(rule) if not new)
            assert (keys - new_keys) * worst <= order * rho * (1 + 1e-9)
    assert float(delta) == pytest.approx(keys * max(found), rel=1e-9)  # and no more than needed


@pytest.mark.parametrize("unit", ["one", "replaced"])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_epsilon_against_all_outputs(rule: GaussianThreshold, unit: str) -> None:
    """No pair of neighbours has more than delta at the epsilon, by distributions and by rho."""
    vector, keys = make_accounting_input(rule, UNITS[unit]), cells(UNITS[unit])
    rho, exempt = approximate_rho_of([vector])
    delta = 4 * exempt
    costs = {epsilon_at([vector], delta), zcdp_epsilon(rho, float(delta - exempt))}
    assert all(math.isfinite(cost) for cost in costs)
    for pairs in product(ways(rule), repeat=keys):
        p, q = (reduce(np.multiply.outer, [pair[i] for pair in pairs]) for i in (1, 2))
        for epsilon in costs:
            assert hockey_stick(p, q, epsilon) <= float(delta) + 1e-12
    assert math.isinf(epsilon_at([vector], exempt * Fraction(99, 100)))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_losses_dominate_every_pair_of_outputs(rule: GaussianThreshold) -> None:
    for _, p, q in ways(rule):
        for epsilon in (-2.0, -0.3, 0.0, 0.1, 0.5, 1.0, 3.0):
            claimed = max(loss.delta(epsilon) for loss in rule.losses(1))
            assert hockey_stick(p, q, epsilon) <= claimed + 1e-13
    with pytest.raises(ValueError, match="once for each key"):
        rule.losses(2)


@pytest.mark.parametrize("delta", ["0.4", "0.01", "1e-9", "1e-60"])
@pytest.mark.parametrize("scale", [3.0, 0.7, 33.3, 12345.6, 0.01])
def test_threshold_is_the_smallest_possible(scale: float, delta: str) -> None:
    rule = GaussianThreshold.design(scale, delta=delta)
    noise, least = DiscreteGaussian(scale), int(rule.threshold)
    assert key_threshold(rule) == least
    with ctx.workprec(400):
        limit = arb(delta)
        assert noise.upper_tail(least - 1) <= limit
        assert least == 2 or noise.upper_tail(least - 2) > limit * (1 - arb(2) ** -40)
        assert (
            arb(rule.single_unit_probability.numerator)
            >= noise.upper_tail(least - 1) * rule.single_unit_probability.denominator
        )


def test_parameters_out_of_range_are_refused() -> None:
    for delta in ("0", "0.5", "-1", "many"):
        with pytest.raises(BudgetError, match=r"DP-MECH-00[35]"):
            GaussianThreshold.design(1.0, delta=delta)
    for parameters in ({"threshold": 1}, {"threshold": 3.5}, {"threshold": 2**51}, {"scale": 0}):
        with pytest.raises(BudgetError, match=r"DP-MECH-00[15]"):
            GaussianThreshold.of(**{"scale": 1, "threshold": 3, **parameters})


def test_selection_rate_follows_the_threshold() -> None:
    """Keys are selected as often as the noise says, and not as often as with a threshold one less."""
    rule, n = GaussianThreshold(scale=2.0, threshold=6.0), 60_000
    units = np.repeat(np.arange(1, 9), n)
    noisy = units + sample(rule.noise_distribution, len(units), Keyed("selected"))
    selected = (noisy >= key_threshold(rule)).reshape(8, n).sum(axis=1)
    values = []
    for other in (rule, GaussianThreshold(scale=2.0, threshold=5.0)):
        expected = np.array([1.0 - outputs(other, k)[0] for k in range(1, 9)])
        z = (selected - n * expected) ** 2 / (n * expected * (1 - expected))
        values.append(float(stats.chi2.sf(float(z.sum()), 8)))
    assert values[0] > ERROR_RATE > values[1]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("rule", [*RULES, GaussianThreshold.design(20.0, delta="1e-9")], ids=str)
def test_claims_are_proved_and_smaller_ones_refused(rule: GaussianThreshold, unit: str) -> None:
    sensitivity = UNITS[unit]
    vector = make_accounting_input(rule, sensitivity)
    exempt = approximate_rho_of([vector])[1]
    budget = BudgetSpec(rho=Fraction(50), delta=4 * exempt)
    guarantee = guarantee_of([vector], budget)
    events = [Event("q", "private_keys", rule.name, rule.parameters, sensitivity)]
    rho, delta = Fraction(guarantee.rho or 0), Fraction(guarantee.rho_delta)
    epsilon = Claim("epsilon", Fraction(guarantee.epsilon), guarantee.delta)
    proved = certify(events, [Claim("rho", rho, delta), epsilon]).claims
    assert [claim.verdict for claim in proved] == [Verdict.PROVED] * 2
    less = Fraction(99, 100)
    wrong = [
        Claim("rho", rho * less, delta),
        Claim("rho", rho, delta * less),
        Claim("rho", rho, Fraction(0)),
        Claim("epsilon", epsilon.claimed, exempt * less),
    ]
    for claim in wrong:
        (found,) = certify(events, [claim]).claims
        assert found.verdict is not Verdict.PROVED, claim


@pytest.mark.parametrize("scale", [2.236613892533359, 3.1, 4.7, 5.9])
def test_rounded_claims_are_read_safely(scale: float) -> None:
    """The shortest text of a delta may lie below its float; it claims at least the float."""
    rule = GaussianThreshold.design(scale, delta="1e-9")
    vector = make_accounting_input(rule, UNITS["one"])
    guarantee = guarantee_of([vector], BudgetSpec(rho=Fraction(50), delta=Fraction(1, 10**8)))
    record = GuaranteeRecord.of(guarantee)
    events = [Event("q", "private_keys", rule.name, rule.parameters, UNITS["one"])]
    assert {claim.verdict for claim in certify(events, claims_of(record)).claims} == {
        Verdict.PROVED
    }
    for text in ("1", "nan", "-1e-9", "inf"):
        with pytest.raises(ValueError, match=r".+"):
            claims_of(record.model_copy(update={"rho_delta": text}))
