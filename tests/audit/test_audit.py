"""`make audit`: a million noised answers on two neighbours; what an attacker can prove stays below the claim.

One vector of a million equal cells stands for a million releases: every cell is drawn on its own. The
best threshold is chosen on one half of the draws, and bounded on the other by Clopper and Pearson at a
confidence of 1 - 1e-9. The audit must also find planted faults. Probabilities below about 2e-5 are out
of its sight; the exact checks of the mass functions are not so limited.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprelease.exact.results.true_table import ExactTable
from dprelease.mechanisms import registry
from dprelease.noise.noised_vectors import perturb
from dprelease.planning.plan import PlannedColumn, make_plan
from dprelease.privacy.unit import Neighbours
from dprelease.schema.release import BudgetSpec
from tests.exact.build import ask, declare
from tests.replay import Keyed

pytestmark = pytest.mark.audit

RUNS, CONFIDENCE = 10**6, 1 - 1e-9
COLUMNS: dict[str, Any] = {
    "k": {"type": "category", "values": ["a"]},
    "n": {"type": "integer", "lower": -3, "upper": 7},
}
SHAPES = {"asymmetric_laplace": {"k": "1.5"}}
"""What has to be declared."""

LEAST_PROVEN = {"symmetric_alpha_stable": 0.6}
"""Thresholds prove less where the loss falls again far out: its largest value is in the middle."""

UNITS: dict[str, dict[str, Any]] = {
    "rows": {},
    "people": {"id": "id", "max_groups": 1, "max_rows_per_group": 3},
}


def planned(
    name: str, aggregate: dict[str, str], unit: str, neighbours: Neighbours, delta: str
) -> PlannedColumn:
    columns = {**COLUMNS, "id": {"type": "integer"}}
    more = {"privacy_unit": UNITS[unit]} if UNITS[unit] else {}
    query = ask(
        declare(columns, **more),
        {"c": {**aggregate, "mechanism": {"name": name, **SHAPES.get(name, {})}}},
        ["k"],
        neighbours=neighbours,
    )
    budget = BudgetSpec(epsilon=Fraction(1), delta=Fraction(delta), neighbours=neighbours)
    return make_plan([query], budget).columns[0]


def draws(column: PlannedColumn, value: int, key: str) -> np.ndarray:
    exact = ExactTable("q", RUNS, {"c": np.full(RUNS, value)})
    return perturb(exact, [column], Keyed(key)).columns["c"]


def proven_epsilon(one: np.ndarray, other: np.ndarray, delta: float) -> float:
    """Return a lower bound on epsilon at delta, over events of the form output >= t or <= t."""
    half, best = RUNS // 2, 0.0
    for p, q in ((one, other), (other, one), (-one, -other), (-other, -one)):
        spots = np.unique(np.quantile(p[:half], np.linspace(0.001, 0.999, 200)))
        share_p = np.array([(p[:half] >= t).mean() for t in spots])
        share_q = np.array([(q[:half] >= t).mean() for t in spots])
        doubt = [
            4 * np.sqrt(share / half) for share in (share_p, share_q)
        ]  # rare events prove little
        gain = (share_p - doubt[0] - delta) / (share_q + doubt[1] + 1e-5)
        at = spots[int(np.argmax(gain))]
        low = stats.beta.ppf(
            (1 - CONFIDENCE) / 2, (p[half:] >= at).sum(), half - (p[half:] >= at).sum() + 1
        )
        high = stats.beta.ppf(
            1 - (1 - CONFIDENCE) / 2, (q[half:] >= at).sum() + 1, half - (q[half:] >= at).sum()
        )
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


CASES = [
    (name, aggregate, unit, neighbours)
    for name in registry.names()
    for aggregate in ({"count": "*"}, {"sum": "n"})
    for unit in UNITS
    for neighbours in Neighbours
]


@pytest.mark.parametrize(("name", "aggregate", "unit", "neighbours"), CASES, ids=str)
def test_proven_epsilon_is_at_most_the_claim(
    name: str, aggregate: dict[str, str], unit: str, neighbours: Neighbours
) -> None:
    delta = "0" if registry.get(name).pure else "1e-5"
    column = planned(name, aggregate, unit, neighbours, delta)
    shift = column.measurement.sensitivity.largest_shift
    found = proven_epsilon(draws(column, 0, "one"), draws(column, shift, "other"), float(delta))
    assert found <= 1.0
    if registry.get(name).pure:
        assert found > LEAST_PROVEN.get(
            name, 0.9
        )  # and nearly all of the claim can be proven: the noise is not too large


@pytest.mark.parametrize("name", registry.pure_names())
@pytest.mark.parametrize("fault", ["sensitivity", "one more row", "noise reused"])
def test_planted_noise_faults_are_found(name: str, fault: str) -> None:
    column = planned(name, {"sum": "n"}, "people", Neighbours.ADD_REMOVE, "0")
    shift = column.measurement.sensitivity.largest_shift
    wrong = {"sensitivity": 2 * shift, "one more row": shift + shift // 3, "noise reused": shift}[
        fault
    ]
    one, other = draws(column, 0, "one"), draws(column, wrong, "other")
    if fault == "noise reused":  # the same draws for two cells: their difference tells everything
        noise = draws(column, 0, "same")
        one, other = noise - noise, (noise + wrong) - noise
    assert proven_epsilon(one, other, 0.0) > 1.05
