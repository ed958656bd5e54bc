"""The second opinion confirms honest privacy costs closely, and contradicts smaller ones."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.errors import VerificationError
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.guarantees import Guarantee, guarantee_of
from dprelease.privacy.budget import Budget, Variant
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.schema.release import BudgetSpec
from dprelease.verification.central import add_second_opinion
from dprelease.verification.report import Report
from dprelease.verification.second_opinion import second_opinion
from tests.mechanisms.laws import KINDS, exists, law_of

BUDGETS = {
    "pure": BudgetSpec(epsilon=Fraction(100)),
    "approximate": BudgetSpec(epsilon=Fraction(100), delta=Fraction(1, 10**6)),
    "rho": BudgetSpec(rho=Fraction(100), delta=Fraction(1, 10**6)),
}


def claim(
    name: str, shape: int, sensitivity: Sensitivity, budget: str, scale: float = 20.0
) -> tuple[list[Event], Guarantee]:
    law = law_of(name, scale, shape, sensitivity.largest_shift)
    event = Event("q", "c", name, law.parameters, sensitivity)
    return [event], guarantee_of([make_accounting_input(law, sensitivity)], BUDGETS[budget])


CASES = [
    (name, shape, budget)
    for name, shape in KINDS
    for budget in BUDGETS
    if exists(name, 20.0, shape, 4)
    and claim(name, shape, Sensitivity(3, (Move(4, 1),)), budget)[1].epsilon < 50
]
LOOSE = {"optimal": 0.2, "truncated_laplace": 0.2, "generalized_gaussian": 0.9}
"""Where delta cuts the support, or blocks are coarse, less of the price is seen."""


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("name", "shape", "budget"), CASES)
def test_honest_costs_are_confirmed(name: str, shape: int, budget: str) -> None:
    events, guarantee = claim(name, shape, Sensitivity(3, (Move(4, 1),)), budget)
    opinion = second_opinion(events, guarantee)
    assert not opinion.contradicted
    if budget != "rho" or guarantee.rho != float("inf"):
        assert opinion.at_least >= LOOSE.get(name, 0.93) * opinion.claimed, opinion


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", ["laplace", "discrete_laplace"])
def test_claim_too_small_is_contradicted(name: str, budget: str) -> None:
    """A tenth less epsilon, or rho, is found; so is a shift that is claimed to be one step less."""
    events, guarantee = claim(name, 0, Sensitivity(2, (Move(5, 1),)), budget)
    less = replace(
        guarantee,
        epsilon=0.9 * guarantee.epsilon,
        rho=None if guarantee.rho is None else 0.9 * guarantee.rho,
    )
    assert second_opinion(events, less).contradicted
    report = Report.__new__(Report)
    report.checked, report.findings = [], []
    add_second_opinion(report, events, less)
    assert isinstance(report.findings[0], VerificationError)
    assert report.findings[0].code == "DP-VERIFY-011"
    _, smaller = claim(name, 0, Sensitivity(2, (Move(4, 1),)), budget)
    assert second_opinion(events, smaller).contradicted


@pytest.mark.each
@pytest.mark.parametrize("scale", [0.01, 0.04, 0.3, 3e8])
@pytest.mark.parametrize(
    "name", ["laplace", "discrete_laplace", "staircase", "symmetric_alpha_stable"]
)
def test_extreme_scales_raise_no_false_alarm(name: str, scale: float) -> None:
    """Probabilities below the smallest float are not zero."""
    events, guarantee = claim(name, 0, Sensitivity(2, (Move(3, 1),)), "pure", scale)
    opinion = second_opinion(events, guarantee)
    assert not opinion.contradicted, opinion


def test_moves_and_kinds_together() -> None:
    """Mixed kinds under `replace`, where the worst move differs."""
    either = Sensitivity(2, (Move(3, 2), Move(5, 1)))
    laws = [law_of("discrete_gaussian", 40.0), law_of("laplace", 60.0)]
    events = [Event("q", f"c{i}", law.name, law.parameters, either) for i, law in enumerate(laws)]
    guarantee = guarantee_of(
        [make_accounting_input(law, either) for law in laws], BUDGETS["approximate"]
    )
    opinion = second_opinion(events, guarantee)
    assert 0.85 * guarantee.epsilon < opinion.at_least <= guarantee.epsilon
    assert Budget(Variant.PURE, Fraction(1), Fraction(0)).cost_of([]) == 0.0
