"""`mechanism: auto` against every single mechanism, under constraints, with its reasons."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BudgetError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.mechanisms import registry
from dprelease.planning.guarantees import LedgerCost
from dprelease.planning.noise_requests import ERROR_MEASURES
from dprelease.planning.plan import Plan, make_plan
from dprelease.planning.prepare import prepare
from dprelease.privacy.renyi import rho_of
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.schema.load import read_declaration
from dprelease.schema.release import BudgetSpec
from tests.covering import spread
from tests.exact.build import ask, declare
from tests.release.build import write

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
        ERROR_MEASURES[measure](column.mechanism) / column.measurement.sensitivity.largest_shift
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


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("budget", "count", "sums", "measure"), spread(CASES, 0.6))
def test_auto_is_no_worse_than_any_mechanism(
    budget: str, count: int, sums: int, measure: str
) -> None:
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
        ("bounded", lambda law: law.has_bounded_noise),
        ("integer", lambda law: law.has_integer_noise),
        ("unbiased", lambda law: law.mean == 0.0),
    ],
)
def test_auto_respects_constraints(constraint: str, holds: Any) -> None:
    plan = make_plan([query(8, {"name": "auto", constraint: True})], BUDGETS["tight"])
    assert all(holds(column.mechanism) for column in plan.columns)
    assert plan.guarantee.epsilon <= 0.5
    if constraint == "pure":
        assert math.isfinite(plan.guarantee.pure_epsilon)


def test_auto_respects_allowed_list() -> None:
    allowed = ["gaussian", "laplace"]
    plan = make_plan([query(30, {"name": "auto", "allowed": allowed})], BUDGETS["tight"])
    assert {column.mechanism.name for column in plan.columns} == {"gaussian"}
    assert plan.columns[0].chosen_by.startswith("auto: least mae; error of others: laplace +")


def test_auto_may_choose_different_mechanisms() -> None:
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
def test_invalid_options_of_auto_are_refused(options: dict[str, object], code: str) -> None:
    with pytest.raises(BudgetError, match=code):
        make_plan([query(1, {"name": "auto", **options})], BUDGETS["tight"])


def one_sum(mechanism: object, upper: int, **more: object) -> Query:
    columns = {**COLUMNS, "pay": {"type": "integer", "lower": 0, "upper": upper}}
    asked = {"s": {"sum": "pay", "mechanism": mechanism, **more}}
    return ask(declare(columns), asked, ["k"])


OPTIMAL = {"name": "optimal", "delta": "1e-6"}


@pytest.mark.parametrize("more", [{}, {"moe": 500_000}])
def test_missing_optimal_noise_is_explained(more: dict[str, object]) -> None:
    """Also where an accuracy is asked for: it is not the accuracy that can't be had."""
    with pytest.raises(BudgetError, match=r"at most 512 .*20,000.*`step`.* 40 times") as caught:
        make_plan([one_sum(OPTIMAL, 20_000, **more)], BUDGETS["loose"])
    assert caught.value.code == "DP-MECH-005"
    more = dict.fromkeys(more, 500)
    coarser = make_plan([one_sum(OPTIMAL, 100, **more)], BUDGETS["loose"])
    assert coarser.columns[0].mechanism.name == "optimal"


def test_unreachable_accuracy_is_refused() -> None:
    with pytest.raises(BudgetError, match="DP-BUDGET-008"):
        make_plan([one_sum(OPTIMAL, 100, moe="0.5")], BUDGETS["loose"])


def test_shapes_are_refined_between_listed_ones() -> None:
    """As `mechanisms compare` refines them: a plan is not worse than one with its shape."""
    plan = make_plan([query(40, "generalized_gaussian")], BUDGETS["tight"])
    shape = dict(plan.columns[0].mechanism.parameters)["p"]
    listed = {str(found["p"]) for found in registry.get("generalized_gaussian").searched_shapes}
    assert shape not in listed
    for other in listed:
        single = make_plan(
            [query(40, {"name": "generalized_gaussian", "p": other})], BUDGETS["tight"]
        )
        assert error(plan) <= error(single) * 1.0002


def test_each_kind_of_column_gets_its_own_shape() -> None:
    """Under `replace` a sum may move one cell far or two less far, a count two cells."""
    number = {"type": "number", "lower": -900, "upper": 1000, "step": 1}
    asked = {"c": {"count": "*"}, "s": {"sum": "y"}}
    plans = []
    for mechanism in ("auto", {"name": "generalized_gaussian", "p": 1.25}):
        columns = {name: {**spec, "mechanism": mechanism} for name, spec in asked.items()}
        found = ask(
            declare({**COLUMNS, "y": number}), columns, ["k"], neighbours=Neighbours.REPLACE
        )
        budget = BudgetSpec(
            epsilon=Fraction(1), delta=Fraction(1, 10**5), neighbours=Neighbours.REPLACE
        )
        plans.append(make_plan([found], budget))
    assert error(plans[0]) < 0.99 * error(plans[1])


@pytest.mark.parametrize("budget", ["loose", "tight", "pure"])
def test_auto_minimizes_error_per_ledger_cost(budget: str) -> None:
    """No single mechanism has less error for the same charge; errors fall with its root."""

    def cost(plan: Plan) -> float:
        return error(plan) * math.sqrt(rho_of([column.accounting_input for column in plan.columns]))

    for_rho = make_plan([query(4, "auto")], BUDGETS[budget], charged=LedgerCost.RHO)
    assert for_rho.guarantee.epsilon <= make_plan([query(4, "auto")], BUDGETS[budget]).budget.amount
    for name in registry.names():
        declared = {"name": name, **NEEDS_SHAPE.get(name, {})}
        try:
            single = make_plan([query(4, declared)], BUDGETS[budget])
        except BudgetError:
            continue
        assert cost(for_rho) <= cost(single) * 1.001, name
    assert "for the rho that the ledger counts" in for_rho.columns[0].chosen_by


def test_auto_with_pure_ledger_is_pure() -> None:
    plan = make_plan([query(30, "auto")], BUDGETS["tight"], charged=LedgerCost.EPSILON)
    assert math.isfinite(plan.guarantee.pure_epsilon)


@pytest.mark.parametrize(
    ("account", "family"),
    [
        ({"rho": Fraction(1, 10)}, "discrete_offset_symmetric_gaussian"),
        (
            {"epsilon": Fraction(9), "delta": Fraction(1, 10**9)},
            "discrete_offset_symmetric_gaussian",
        ),
        ({"epsilon": Fraction(9)}, "staircase"),
        (None, "discrete_offset_symmetric_gaussian"),
    ],
)
def test_auto_plans_for_the_cost_of_the_ledger(
    tmp_path: Path, account: dict[str, Fraction] | None, family: str
) -> None:
    """A release with a ledger is planned for it; without a readable one, as its budget suggests."""
    release = write(tmp_path)
    schema = tmp_path / "people.yaml"
    schema.write_text(schema.read_text() + "owner: office\n")
    text = release.read_text().replace("mechanism: discrete_gaussian", "mechanism: auto")
    text = text.replace(", mechanism: laplace", "").replace("mechanism: gaussian, ", "")
    release.write_text(text + "ledger: ledger.sqlite\n")
    if account is not None:
        found = {"epsilon": None, "delta": Fraction(0), "rho": None, **account}
        Ledger(tmp_path / "ledger.sqlite").open_account(
            Account(table="office/people", neighbours="add_remove", unit="person", **found)
        )
    plan = prepare(read_declaration(release))[1]
    assert {column.mechanism.name for column in plan.columns} == {family}


OFTEN = """\
table: visits
privacy_unit: {id: person, max_groups: 12, max_rows_per_group: 2}
columns:
  person: {type: integer}
  shop: {type: integer, lower: 1, upper: 30}
"""
BESIDE = """\
title: A family beside plain tables
tables: [visits.yaml]
budget: {epsilon: 1, delta: 1e-6}
mechanism: {name: auto, allowed: "symmetric_alpha_stable, discrete_laplace"}
queries:
  plain:
    from: visits
    group_by: [shop]
    columns: {n: {count: "*"}, m: {count: "*"}, k: {count: "*"}}
  family:
    from: visits
    cube: [shop]
    consistent: true
    columns: {n: {count: "*"}}
output: out
"""


@pytest.mark.parametrize("is_first", [True, False])
def test_families_get_noise_with_certified_variance(tmp_path: Path, *, is_first: bool) -> None:
    """One mechanism for columns of a kind, but what some of them can't take is for others alone."""
    text = BESIDE
    start, end = text.index("  plain"), text.index("  family")
    if not is_first:
        text = text[:start] + text[end : text.index("output")] + text[start:end] + "output: out\n"
    (tmp_path / "visits.yaml").write_text(OFTEN)
    (tmp_path / "release.yaml").write_text(text)
    _, plan = prepare(read_declaration(tmp_path / "release.yaml"))
    kinds = {
        (column.measurement.of_family, column.mechanism.variance_bound_and_mean is not None)
        for column in plan.columns
    }
    assert kinds == {(True, True), (False, False)}


ADDED = {
    "a count alone": ("{n: {count: '*'}}", "", True),
    "a share": ("{n: {count: '*'}, s: {share: '*'}}", "", False),
    "a summary": (
        "{n: {count: '*'}}",
        "    histogram: {column: cost, edges: [0, 5, 10]}\n"
        "    summaries: {gini: {gini: {count: n, over: cost_band}}}\n",
        False,
    ),
}
"""Columns and summaries of a query, and whether noise without a variance may be selected."""


@pytest.mark.parametrize("case", ADDED)
def test_cells_that_are_added_up_get_noise_with_a_variance(tmp_path: Path, case: str) -> None:
    """One large draw of heavy-tailed noise would widen the intervals of all shares of a total."""
    columns, more, may_be_heavy = ADDED[case]
    cost = "  cost: {type: integer, lower: 0, upper: 9}\n"
    (tmp_path / "visits.yaml").write_text(OFTEN + cost)
    start, end = BESIDE.index("queries"), BESIDE.index("output")
    query = f"  q:\n    from: visits\n    group_by: [shop]\n    columns: {columns}\n{more}"
    text = f"{BESIDE[:start]}queries:\n{query}{BESIDE[end:]}"
    (tmp_path / "release.yaml").write_text(text)
    _, plan = prepare(read_declaration(tmp_path / "release.yaml"))
    assert {column.mechanism.has_variance for column in plan.columns} == {not may_be_heavy}
    (tmp_path / "release.yaml").write_text(text.replace(", discrete_laplace", ""))
    _, plan = prepare(read_declaration(tmp_path / "release.yaml"))
    assert not any(column.mechanism.has_variance for column in plan.columns)
