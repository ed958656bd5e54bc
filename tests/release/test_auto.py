"""`mechanism: auto` against every single mechanism, under constraints, with its reasons."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.release.plan import Plan, make_plan
from dprelease.release.wish import MEASURES
from dprelease.schema.release import BudgetSpec
from tests.exact.build import ask, declare

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "k": {"type": "category", "values": ["a", "b", "c"]},
    "n": {"type": "integer", "lower": 0, "upper": 40},
    **{f"x{i}": {"type": "integer"} for i in range(40)},
}
NEEDS_SHAPE = {"asymmetric_laplace": {"k": 1.2}}


def query(count: int, mechanism: object, sums: int = 0) -> Query:
    columns: dict[str, Any] = {
        f"c{i}": {"count": f"x{i}", "mechanism": mechanism} for i in range(count)
    }
    columns |= {f"s{i}": {"sum": "n", "mechanism": mechanism} for i in range(sums)}
    unit = {"privacy_unit": {"id": "id", "max_groups": 2, "max_rows_per_group": 1}}
    return ask(declare(COLUMNS, **unit), columns, ["k"], neighbours=Neighbours.ADD_REMOVE)


def error(plan: Plan, measure: str = "mae") -> float:
    """Return the sum of errors, each in units of its column's sensitivity."""
    return sum(
        MEASURES[measure](column.mechanism) / column.measure.sensitivity.largest_shift
        for column in plan.columns
    )


BUDGETS = {
    "pure": BudgetSpec(epsilon=Fraction(1)),
    "loose": BudgetSpec(epsilon=Fraction(1), delta=Fraction(1, 10**3)),
    "tight": BudgetSpec(epsilon=Fraction(1, 2), delta=Fraction(1, 10**9)),
    "rho": BudgetSpec(rho=Fraction(1, 10)),
}


CASES = [
    (budget, count, sums, measure)
    for budget in BUDGETS
    for count, sums in ((1, 0), (8, 0), (1, 6))
    for measure in ("mae", "p95")
    if budget != "rho" or (count, measure) == (8, "mae")  # slower than the others
]


@pytest.mark.parametrize(("budget", "count", "sums", "measure"), CASES)
def test_no_single_mechanism_is_better(budget: str, count: int, sums: int, measure: str) -> None:
    """Never worse than the best single mechanism by more than 0.5 %, or by a whole step."""
    auto = make_plan([query(count, {"name": "auto", "measure": measure}, sums)], BUDGETS[budget])
    chosen = error(auto, measure)
    for name in registry.names():
        declared = {"name": name, **NEEDS_SHAPE.get(name, {})}
        try:
            single = make_plan([query(count, declared, sums)], BUDGETS[budget])
        except BudgetError:
            continue
        # Margins are whole steps: half_width may differ by one where errors hardly do.
        slack = count + sums / 40 if measure == "p95" else 0.0
        assert chosen <= error(single, measure) * 1.005 + slack, name


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ("pure", lambda law: law.pure),
        ("bounded", lambda law: law.bounded),
        ("integer", lambda law: law.integers),
        ("unbiased", lambda law: law.mean == 0.0),
    ],
)
def test_constraints(constraint: str, holds: Any) -> None:
    plan = make_plan([query(8, {"name": "auto", constraint: True})], BUDGETS["tight"])
    assert all(holds(column.mechanism) for column in plan.columns)
    assert plan.guarantee.epsilon <= 0.5
    if constraint == "pure":
        assert math.isfinite(plan.guarantee.pure_epsilon)


def test_allowed_lists() -> None:
    allowed = ["gaussian", "laplace"]
    plan = make_plan([query(30, {"name": "auto", "allowed": allowed})], BUDGETS["tight"])
    assert {column.mechanism.name for column in plan.columns} == {"gaussian"}
    assert plan.columns[0].chosen_by.startswith("auto: least mae; beside it laplace +")


def test_kinds_may_differ() -> None:
    """A fine sum may take stairs where counts of one step can't use them."""
    plan = make_plan([query(1, "auto", sums=1)], BUDGETS["pure"])
    assert plan.columns[1].mechanism.name == "staircase"
    both = make_plan([query(1, "discrete_laplace", sums=1)], BUDGETS["pure"])
    assert error(plan) < error(both)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"mesure": "mae"}, "DP-MECH-002"),
        ({"measure": "mode"}, "DP-MECH-005"),
        ({"pure": "maybe"}, "DP-MECH-005"),
        ({"allowed": "gausian"}, "DP-MECH-004"),
        ({"pure": True, "bounded": True}, "DP-BUDGET-004"),
        ({"allowed": "gaussian", "pure": True}, "DP-BUDGET-004"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], code: str) -> None:
    with pytest.raises(BudgetError, match=code):
        make_plan([query(1, {"name": "auto", **options})], BUDGETS["tight"])
