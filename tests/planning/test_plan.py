"""Plans spend their budget to within 0.1 %, never more, and need no data."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import BudgetError, Place, QueryError
from dprelease.mechanisms import registry
from dprelease.numerics.lattice import LIMIT
from dprelease.numerics.rounding import plain_text
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.guarantees import guarantee_of
from dprelease.planning.largest_totals import too_large_total_errors
from dprelease.planning.plan import Plan, make_plan
from dprelease.planning.prepare import prepare
from dprelease.privacy.guarantee import Guarantee
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import read_declaration
from dprelease.schema.release import BudgetSpec, ReleaseSpec
from tests.exact.build import ask, declare
from tests.release.build import write

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "k": {"type": "category", "values": ["a", "b", "c"]},
    "n": {"type": "integer", "lower": -20, "upper": 1000},
    "x": {"type": "number", "lower": 0, "upper": "0.3", "step": "0.001"},
}
NAMES = ["laplace", "discrete_laplace", "gaussian", "discrete_gaussian", "auto"]
PURE = ["laplace", "discrete_laplace", "auto"]


def guarantee_of_events(plan: Plan, budget: BudgetSpec) -> Guarantee:
    """Return the guarantee of a plan from its events alone, as a manifest records them."""
    events = [column.event for column in plan.columns]
    laws = [registry.mechanism_of_event(event) for event in events]
    vectors = [
        make_accounting_input(law, e.sensitivity) for law, e in zip(laws, events, strict=True)
    ]
    return guarantee_of(vectors, budget)


def query(
    columns: dict[str, Any],
    unit: dict[str, Any] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Query:
    more = {"privacy_unit": unit} if unit else {}
    return ask(declare(COLUMNS, **more), columns, ["k"], neighbours=neighbours)


def uses_budget(plan: Plan, budget: BudgetSpec) -> bool:
    return (
        budget.epsilon * Fraction(999, 1000) <= Fraction(plan.guarantee.epsilon) <= budget.epsilon
    )


@st.composite
def random_query(
    draw: st.DrawFn, names: list[str], weights: tuple[Any, ...] = (1, "0.1", 3, "1e-3", 1000)
) -> dict[str, Any]:
    aggregates = [{"count": "*"}, {"sum": "n"}, {"sum": "x"}, {"count_distinct": "k"}]
    columns = {}
    for i in range(draw(st.integers(1, 4))):
        columns[f"c{i}"] = {
            **draw(st.sampled_from(aggregates)),
            "mechanism": draw(st.sampled_from(names)),
            "weight": draw(st.sampled_from(weights)),
        }
    return columns


UNITS = st.sampled_from([None, {"id": "id", "max_groups": 2, "max_rows_per_group": 3}])


@settings(max_examples=40)
@given(
    random_query(PURE),
    UNITS,
    st.sampled_from(["0.01", "0.1", "1", "0.30000000000000004", "7.7"]),
    st.sampled_from(list(Neighbours)),
)
def test_pure_budgets_are_spent_exactly(
    columns: dict[str, Any], unit: Any, epsilon: str, neighbours: Neighbours
) -> None:
    budget = BudgetSpec(epsilon=Fraction(epsilon), neighbours=neighbours)
    plan = make_plan([query(columns, unit, neighbours)], budget)
    # Under `replace` a move within one group can weigh less than the norm that shares are made of.
    assert uses_budget(plan, budget)
    assert plan.guarantee.accountant == "pure"
    assert guarantee_of_events(plan, budget) == plan.guarantee


@settings(max_examples=4)
@given(
    random_query(NAMES, (1, "0.5", 3)),
    UNITS,
    st.sampled_from(["0.05", "1", "4"]),
    st.sampled_from(["1e-5", "1e-9"]),
    st.sampled_from(list(Neighbours)),
)
def test_approximate_budgets_are_spent_exactly(
    columns: dict[str, Any], unit: Any, epsilon: str, delta: str, neighbours: Neighbours
) -> None:
    budget = BudgetSpec(epsilon=Fraction(epsilon), delta=Fraction(delta), neighbours=neighbours)
    plan = make_plan([query(columns, unit, neighbours)], budget)
    assert uses_budget(plan, budget), plan.guarantee
    assert guarantee_of_events(plan, budget) == plan.guarantee


def test_weight_of_two_halves_the_noise() -> None:
    columns = {"a": {"count": "*", "weight": 2}, "b": {"count": "n", "weight": 1}}
    for budget in (
        BudgetSpec(epsilon=Fraction(1)),
        BudgetSpec(epsilon=Fraction(1), delta=Fraction(1, 10**6)),
    ):
        a, b = make_plan([query(columns)], budget).columns
        assert b.mechanism.scale / a.mechanism.scale == pytest.approx(2, rel=1e-9)


def test_auto_chooses_the_mechanism_with_lower_error() -> None:
    one = {"a": {"count": "*"}}
    many = [query(one) for _ in range(40)]
    budget = BudgetSpec(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert make_plan([query(one)], budget).columns[0].mechanism.name == "discrete_laplace"
    plan = make_plan(many, budget)
    names = {column.mechanism.name for column in plan.columns}
    assert len(names) == 1
    assert names <= {"generalized_gaussian", "discrete_offset_symmetric_gaussian"}
    assert all(
        column.chosen_by.startswith("auto: least mae; error of others") for column in plan.columns
    )
    pure = make_plan(many, BudgetSpec(epsilon=Fraction(1)))
    assert {column.mechanism.name for column in pure.columns} == {"discrete_laplace"}


def test_every_noisy_vector_is_counted_once() -> None:
    """(V18)"""
    columns = {"a": {"count": "*"}, "b": {"sum": "n"}, "c": {"count": "n"}}
    plan = make_plan([query(columns)], BudgetSpec(epsilon=Fraction(3)))
    assert len({column.event.column for column in plan.columns}) == 3
    assert sum(
        float(c.measurement.sensitivity.l1) / c.mechanism.scale for c in plan.columns
    ) == pytest.approx(3)


def test_replace_costs_twice_the_counts() -> None:
    """(V21)"""
    scales = []
    for relation in Neighbours:
        budget = BudgetSpec(epsilon=Fraction(1), neighbours=relation)
        (column,) = make_plan(
            [query({"a": {"count": "*", "mechanism": "laplace"}}, None, relation)], budget
        ).columns
        scales.append(column.mechanism.scale)
    assert scales[1] == pytest.approx(2 * scales[0], rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0", "-1", "1e-12", "101", "1e300"])
def test_epsilons_out_of_range_are_refused(epsilon: str) -> None:
    with pytest.raises(BudgetError, match="DP-BUDGET-001"):
        make_plan([query({"a": {"count": "*"}})], BudgetSpec(epsilon=Fraction(epsilon)))


@pytest.mark.parametrize("delta", ["-1", "0.5", "1", "1e-301"])
def test_deltas_out_of_range_are_refused(delta: str) -> None:
    budget = BudgetSpec(epsilon=Fraction(1), delta=Fraction(delta))
    with pytest.raises(BudgetError, match="DP-BUDGET-002"):
        make_plan([query({"a": {"count": "*"}})], budget)


def test_plan_does_not_depend_on_data(tmp_path: Path) -> None:
    """(V30)"""
    path = write(tmp_path)
    declaration = read_declaration(path)
    first = make_plan(resolve(declaration), declaration.spec.budget).to_json()
    (tmp_path / "people.csv").unlink()
    declaration = read_declaration(path)
    assert make_plan(resolve(declaration), declaration.spec.budget).to_json() == first


def test_planning_cost_is_linear_in_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes through all queries is asked for as often for many as for few of them."""
    asked: dict[str, int] = {}
    for name in ("families", "query_of_table", "published_tables"):
        made = getattr(ReleaseSpec, name).fget

        def counted(spec: ReleaseSpec, made: Any = made, name: str = name) -> Any:
            asked[name] = asked.get(name, 0) + 1
            return made(spec)

        monkeypatch.setattr(ReleaseSpec, name, property(counted))
    found = []
    for number in (3, 40):
        asked.clear()
        (tmp_path / "people.yaml").write_text(
            "table: people\nsource: people.csv\ncolumns:\n  sex: {type: category, values: [F, M]}\n"
        )
        lines = ["title: T", "tables: [people.yaml]", "budget: {epsilon: 1}", "queries:"]
        column = "columns: {n: {count: '*'}}"
        lines += [f"  q{i}: {{from: people, group_by: [sex], {column}}}" for i in range(number)]
        (tmp_path / "release.yaml").write_text("\n".join([*lines, "output: out", ""]))
        declaration = read_declaration(tmp_path / "release.yaml")
        queries, plan = prepare(declaration)
        assert len(plan.families) == len(queries) == number
        found.append(dict(asked))
    assert found[0] == found[1] != {}


@given(
    st.integers(-(10**6), 10**6),
    st.integers(0, 10**6),
    st.integers(0, 14),
    st.integers(0, 14),
    st.none() | st.integers(1, 10**9),
    st.integers(1, 3),
    st.sampled_from(list(Neighbours)),
)
def test_totals_of_declared_size_are_not_clamped(
    lower: int,
    span: int,
    times: int,
    digits: int,
    size: int | None,
    rows: int,
    neighbours: Neighbours,
) -> None:
    """All values at either bound: whatever is published fits, or is refused; not much fits then."""
    lower, upper = lower * 10**times, (lower + span) * 10**times
    step = Fraction(10) ** -digits
    if max(abs(lower), abs(upper)) / step > LIMIT or lower == upper == 0:
        return
    column = {"type": "number", "lower": lower, "upper": upper, "step": plain_text(step)}
    unit = {"id": "id", "max_groups": 1, "max_rows_per_group": rows}
    more = {} if size is None else {"size": size}
    declared = declare({"id": {"type": "integer"}, "v": column}, privacy_unit=unit, **more)
    units = 2**33 // rows if size is None else 2 * size
    for asked in ({"s": {"sum": "v"}}, {"s": {"sum": "v"}, "m": {"mean": "v"}}):
        query = ask(declared, asked, neighbours=neighbours)
        largest = max(abs(lower), abs(upper)) / step * rows * units
        refused = [error.column for error in too_large_total_errors(query, lambda _: Place())]
        if largest > LIMIT:
            assert "s" in refused
        if "s" in refused:  # the middle may be off by half of the width, a replaced value by twice
            assert 4 * largest > LIMIT


@pytest.mark.parametrize("rows", [1, 100, 10_000])
def test_default_steps_fit_for_any_max_rows(rows: int) -> None:
    """Without a size: rows are what a table has many of, and not people with all their rows."""
    unit = {"id": "id", "max_groups": 5, "max_rows_per_group": rows}
    for upper in (1, 365, 10**12):
        column = {"type": "number", "lower": 0, "upper": upper}
        declared = declare({"id": {"type": "integer"}, "v": column}, privacy_unit=unit)
        query = ask(declared, {"s": {"sum": "v"}, "m": {"mean": "v"}, "d": {"stddev": "v"}})
        assert [*too_large_total_errors(query, lambda _: Place())] == []


def test_sums_that_may_be_clamped_are_refused_by_plan() -> None:
    declared = declare({"v": {"type": "number", "lower": 0, "upper": "1e13", "step": "0.01"}})
    with pytest.raises(QueryError) as caught:
        make_plan([ask(declared, {"s": {"sum": "v"}})], BudgetSpec(epsilon=Fraction(1)))
    assert caught.value.code == "DP-QUERY-014"
    coarser = declare({"v": {"type": "number", "lower": 0, "upper": "1e13", "step": "1e6"}})
    make_plan([ask(coarser, {"s": {"sum": "v"}})], BudgetSpec(epsilon=Fraction(1)))
