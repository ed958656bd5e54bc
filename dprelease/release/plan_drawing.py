"""Charts of a plan: errors against budgets, and the errors that an attacker can't avoid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from dprelease.errors import DpReleaseError
from dprelease.privacy.accounting import epsilon_at
from dprelease.query.resolve import resolve
from dprelease.release.drawing import save
from dprelease.release.plan import Plan, make_plan
from dprelease.release.shares import shares_of
from dprelease.schema.load import Declaration
from dprelease.schema.release import BudgetSpec

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
DELTAS = tuple(Fraction(1, 10**i) for i in range(1, 10))
MOST_LINES = 8


def draw_plan(declaration: Declaration, plan: Plan, path: Path) -> None:
    """Write both charts into one file; raise OutputError DP-OUTPUT-002 if it can't be written."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    counted, amounts, errors = errors_by_budget(declaration, plan)
    for name, values in list(errors.items())[:MOST_LINES]:
        left.plot(amounts, values, marker="o", label=name)
    left.set(xscale="log", yscale="log", xlabel=counted, ylabel="mean error, column's own unit")
    left.set_xticks(amounts, [f"{amount:g}" for amount in amounts], minor=False)
    left.set_xticks([], minor=True)
    left.legend(fontsize="small")
    missed, false_alarms = trade_off(plan)
    right.plot(false_alarms, missed)
    right.plot([0, 1], [1, 0], linestyle=":", color="gray")
    right.set(
        xlabel="false alarms of an attacker",
        ylabel="least share of units missed",
        title="whether one unit is in the data",
        aspect="equal",
    )
    save(figure, path)


def errors_by_budget(
    declaration: Declaration, plan: Plan
) -> tuple[str, list[float], dict[str, list[float]]]:
    """Return what is counted, some budgets around the declared one, and the columns' errors there.

    Budgets at which nothing fits are left out; without an amount there is one: what the plan costs.
    """
    spec = declaration.spec.budget
    counted = "epsilon" if spec.rho is None else "rho"
    amount = spec.epsilon if spec.rho is None else spec.rho
    plans: list[tuple[float, Plan]] = []
    if amount is None:
        plans.append((plan.guarantee.epsilon, plan))
    else:
        for factor in FACTORS:
            try:
                scaled = _planned(declaration, spec, counted, amount * Fraction(factor))
            except DpReleaseError:
                continue
            plans.append((float(amount) * factor, scaled))
    errors: dict[str, list[float]] = {}
    for _, found in plans:
        for column in found.columns:
            name = f"{column.query.name}.{column.measure.name}"
            errors.setdefault(name, []).append(column.mean_absolute_error)
    return counted, [budget for budget, _ in plans], errors


def _planned(declaration: Declaration, spec: BudgetSpec, counted: str, amount: Fraction) -> Plan:
    queries = resolve(declaration)
    scaled = spec.model_copy(update={counted: amount})
    return make_plan(queries, scaled, None, shares_of(declaration.spec, queries))


def trade_off(plan: Plan) -> tuple[Sequence[float], Sequence[float]]:
    """Return the least shares of misses, and the shares of false alarms that go with them.

    The largest of the curves of all (epsilon, delta) that the release has (Wasserman and Zhou 2010;
    Dong, Roth and Su 2022, arXiv 1905.02383v3, Proposition 2.5).
    """
    vectors = [column.priced for column in plan.columns]
    pairs = [(epsilon_at(vectors, delta), float(delta)) for delta in DELTAS]
    pairs.append((plan.guarantee.pure_epsilon, 0.0))
    alarms = np.linspace(0.0, 1.0, 401)
    missed = np.zeros_like(alarms)
    for epsilon, delta in pairs:
        if math.isinf(epsilon):
            continue
        first = 1.0 - delta - np.exp(min(epsilon, 700.0)) * alarms
        second = math.exp(-epsilon) * (1.0 - delta - alarms)
        missed = np.maximum(missed, np.maximum(first, second))
    return missed.tolist(), alarms.tolist()
