"""Whether a guarantee keeps to a declared budget, in every definition."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.planning import plan as plans
from dprelease.planning.guarantees import Guarantee, guarantee_of, meets_budget
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.unit import Move, Neighbours, Sensitivity
from dprelease.schema.release import BudgetSpec
from tests.planning.test_auto import query

DELTA = Fraction(1, 10**6)
BUDGETS = {
    "epsilon": BudgetSpec(epsilon=Fraction(1)),
    "epsilon at delta": BudgetSpec(epsilon=Fraction(1), delta=DELTA),
    "rho": BudgetSpec(rho=Fraction(1, 10), delta=DELTA),
    "open": BudgetSpec(delta=DELTA),
}
HELD = Guarantee(1.0, DELTA, Neighbours.ADD_REMOVE, "pld", 1.0, 0.0999)
ABOVE = {
    "epsilon": {"epsilon": 1.0000001},
    "epsilon at delta": {"epsilon": 1.0000001},
    "rho": {"rho": 0.1000001},
    "open": {"epsilon": 100.1},
}
NOT_COUNTED = {"epsilon": {"rho": 7.0}, "epsilon at delta": {"rho": 7.0}, "rho": {"epsilon": 7.0}}


@pytest.mark.parametrize("name", BUDGETS)
def test_guarantee_is_compared_with_the_budget(name: str) -> None:
    assert meets_budget(HELD, BUDGETS[name])
    assert not meets_budget(replace(HELD, **ABOVE[name]), BUDGETS[name])
    assert meets_budget(replace(HELD, **NOT_COUNTED.get(name, {})), BUDGETS[name])


def test_unknown_rho_exceeds_the_budget() -> None:
    assert not meets_budget(replace(HELD, rho=None), BUDGETS["rho"])
    assert not meets_budget(replace(HELD, rho=float("inf")), BUDGETS["rho"])


@pytest.mark.parametrize("name", ["epsilon", "epsilon at delta", "rho"])
def test_plan_above_its_budget_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If noise were solved for 1 % more than declared, the last comparison would fail."""
    budget = BUDGETS[name]
    more = budget.model_copy(
        update={
            key: None if value is None else value * Fraction(101, 100)
            for key, value in (("epsilon", budget.epsilon), ("rho", budget.rho))
        }
    )
    real = plans.budget_of
    monkeypatch.setattr(plans, "budget_of", lambda _: real(more))
    with pytest.raises(BudgetError, match="DP-BUDGET-004"):
        plans.make_plan([query(3, "discrete_laplace")], budget)


def test_rho_is_the_sum_over_columns() -> None:
    """Of normal noise, from its definition: half the square of every cell's move in deviations."""
    law = registry.get("gaussian")(20.0)
    parts = [(1, 1, 1), (3, 2, 4), (2, 1, 5)]  # slots, cells, steps
    vectors = [
        PricedVector(law, law.losses, Sensitivity(slots, (Move(steps, cells),)))
        for slots, cells, steps in parts
    ]
    expected = sum(slots * cells * steps**2 for slots, cells, steps in parts) / (2 * 20.0**2)
    found = guarantee_of(vectors, BUDGETS["rho"]).rho
    assert found is not None
    assert expected <= found <= expected * (1 + 1e-9)


def test_plan_warns_if_noise_is_almost_always_0() -> None:
    """At epsilon 9 a count's noise is 0 with a probability above 99.9 %; at 3 it is not."""
    for epsilon, told in ((9, True), (3, False)):
        plan = plans.make_plan(
            [query(1, "discrete_laplace")], BudgetSpec(epsilon=Fraction(2 * epsilon))
        )
        law = plan.columns[0].mechanism
        assert isinstance(law, Mechanism)
        assert (2 * float(law.tail(1, True)) < 1e-3) is told
        truths = [text for text in plan.warnings if "true numbers are published" in text]
        assert len(truths) == told
        assert all("'q.c0'" in text for text in truths)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("truncated_laplace", {"scale": 0.2, "lower": -0.5, "upper": 0.49}),
        ("optimal", {"scale": 1.0, "masses": "1"}),
    ],
)
def test_noise_that_is_always_0_is_refused(name: str, parameters: dict[str, float | str]) -> None:
    with pytest.raises(BudgetError, match=r"DP-MECH-005 .*always 0"):
        registry.get(name).of(**parameters)
