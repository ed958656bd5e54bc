"""Budgets in every definition, divided by tables, queries and columns, and accuracy first."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import BudgetError
from dprelease.planning.budget_shares import query_shares_texts
from dprelease.planning.charts import is_drawn
from dprelease.planning.plan import Plan
from dprelease.planning.plan_charts import relative_margins, trade_off
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.renyi import renyi_of, rho_of
from dprelease.release.api import read_release
from dprelease.schema.load import read_declaration

TABLE = """\
table: {name}
source: {name}.csv
columns:
  k: {{type: category, values: [a, b, c]}}
  x: {{type: number, lower: 0, upper: 50, step: 1}}
"""


def plan_of(folder: Path, text: str) -> Plan:
    for name in ("people", "trips"):
        (folder / f"{name}.yaml").write_text(TABLE.format(name=name))
    (folder / "release.yaml").write_text(
        f"title: Shares\ntables: [people.yaml, trips.yaml]\noutput: out\n{text}"
    )
    return read_release(folder / "release.yaml").plan()


def cost_of(plan: Plan, *names: str, delta: str = "0") -> float:
    """Return what some columns cost together, by query.column."""
    vectors = [
        c.accounting_input for c in plan.columns if f"{c.query.name}.{c.measurement.name}" in names
    ]
    assert len(vectors) == len(names)
    return epsilon_at(vectors, Fraction(delta))


TWO_TABLES = """\
mechanism: laplace
queries:
  a: {from: people, columns: {n: {count: "*", weight: 3}, m: {count: k}}}
  b: {from: people, columns: {n: {count: "*"}}%s}
  c: {from: trips, columns: {n: {count: "*"}, s: {sum: x}}%s}
"""


def test_default_shares_are_equal(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "budget: {epsilon: 7}\n" + TWO_TABLES % ("", ""))
    prices = [cost_of(plan, f"{c.query.name}.{c.measurement.name}") for c in plan.columns]
    assert prices == pytest.approx([3, 1, 1, 1, 1], rel=1e-3)


def test_default_share_is_the_sum_of_weights(tmp_path: Path) -> None:
    """A declared share that is equal to the default changes nothing; check states the default."""
    queries = (
        "queries:\n"
        "  one: {from: people, %s columns: {n: {count: '*'}}}\n"
        "  two: {from: people, cube: [k], columns: {n: {count: '*'}, m: {mean: x}}}\n"
    )
    found = {}
    for share in ("", "share: 1,", "share: 6,"):
        plan = plan_of(tmp_path, "mechanism: laplace\nbudget: {epsilon: 7}\n" + queries % share)
        found[share] = [cost_of(plan, f"{c.query.name}.{c.measurement.name}") for c in plan.columns]
        texts = query_shares_texts(read_declaration(tmp_path / "release.yaml").spec, plan.queries)
        default = ["query 'one' 6", "query 'two' 6 (the weights of its measurements)"]
        assert texts == ([] if not share else default if "6" in share else
                         ["query 'one' 1", default[1]])  # fmt: skip
    assert found[""] == pytest.approx([1] * 7, rel=1e-3)
    assert found["share: 1,"] == pytest.approx(found[""], rel=1e-3)
    assert found["share: 6,"][0] == pytest.approx(3.5, rel=1e-3)


def test_shares_of_tables_queries_and_columns_nest(tmp_path: Path) -> None:
    text = "budget: {epsilon: 12, tables: {people: 2, trips: {weight: 1}}}\n" + TWO_TABLES % (
        ", share: 4",
        "",
    )
    plan = plan_of(tmp_path, text)
    # people: 8 of 12; its query a has the weight of its columns, 4, and b declares 4.
    assert cost_of(plan, "a.n", "a.m", "b.n") == pytest.approx(8, rel=1e-3)
    assert cost_of(plan, "a.n") == pytest.approx(3, rel=1e-3)
    assert cost_of(plan, "a.m") == pytest.approx(1, rel=1e-3)
    assert cost_of(plan, "b.n") == pytest.approx(4, rel=1e-3)
    assert cost_of(plan, "c.n") == pytest.approx(2, rel=1e-3)


def test_absolute_amounts_come_first(tmp_path: Path) -> None:
    text = "budget: {epsilon: 3, tables: {trips: {epsilon: 1}}}\n" + TWO_TABLES % (
        ", share: {epsilon: 0.5}",
        "",
    )
    plan = plan_of(tmp_path, text)
    assert cost_of(plan, "c.n", "c.s") == pytest.approx(1, rel=1e-3)
    assert cost_of(plan, "b.n") == pytest.approx(0.5, rel=1e-3)
    assert cost_of(plan, "a.n", "a.m") == pytest.approx(1.5, rel=1e-3)
    assert cost_of(plan, "a.n") == pytest.approx(1.125, rel=1e-3)
    assert 2.99 < plan.guarantee.epsilon <= 3


def test_absolute_epsilon_with_delta(tmp_path: Path) -> None:
    """The column has exactly this epsilon; the rest is solved with it, to within 0.1 %."""
    text = """\
budget: {epsilon: 1, delta: 1e-6}
mechanism: discrete_gaussian
queries:
  a: {from: people, columns: {n: {count: "*", epsilon: 0.3}, m: {count: k}, s: {sum: x}}}
"""
    plan = plan_of(tmp_path, text)
    assert cost_of(plan, "a.n", delta="1e-6") == pytest.approx(0.3, rel=1.1e-3)
    assert cost_of(plan, "a.n", delta="1e-6") <= 0.3
    assert 0.999 <= plan.guarantee.epsilon <= 1
    steps = [
        column.mechanism.scale / column.measurement.sensitivity.largest_shift
        for column in plan.columns
    ]
    assert steps[1] == pytest.approx(steps[2], rel=1e-9)
    assert steps[1] < steps[0]


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "laplace", "symmetric_alpha_stable"])
def test_budgets_in_rho(tmp_path: Path, mechanism: str) -> None:
    text = f"""\
budget: {{rho: 0.2, delta: 1e-8}}
mechanism: {mechanism}
queries:
  a: {{from: people, group_by: k, columns: {{n: {{count: "*", rho: 0.05}}, s: {{sum: x, weight: 2}}}}}}
"""
    plan = plan_of(tmp_path, text)
    guarantee = plan.guarantee
    assert guarantee.rho is not None
    assert 0.1998 <= guarantee.rho <= 0.2
    vectors = [column.accounting_input for column in plan.columns]
    # Against the curve itself: it lies below everywhere, and comes near where it is largest.
    ratios = [renyi_of(vectors, 1 + 2.0**i) / (1 + 2.0**i) for i in range(-11, 11)]
    assert max(ratios) * (1 - 1e-9) <= guarantee.rho <= max(ratios) * 1.01
    first = rho_of([plan.columns[0].accounting_input])
    assert 0.04995 <= first <= 0.05
    assert guarantee.accountant == "zcdp"
    assert guarantee.delta == Fraction(1, 10**8)
    # Composing loss distributions is never worse than converting rho.
    assert guarantee.epsilon <= epsilon_at(
        [c.accounting_input for c in plan.columns], guarantee.delta
    )


def test_accuracy_without_a_budget(tmp_path: Path) -> None:
    """The least epsilon that reaches all margins: a hundredth less noise would cost more."""
    text = """\
budget: {delta: 1e-9}
mechanism: discrete_gaussian
queries:
  a:
    from: people
    group_by: k
    columns:
      n: {count: "*", moe: 50}
      m: {count: k, relative_moe: 5 % at 2000, margin: 0.9}
      s: {sum: x, moe: 4000, margin: true}
"""
    plan = plan_of(tmp_path, text)
    n, m, s = plan.columns
    assert [float(n.margin()), float(m.margin(0.9)), float(s.margin())] == [50, 100, 4000]
    for column, confidence in ((n, 0.95), (m, 0.9), (s, 0.95)):
        law = column.mechanism
        assert type(law)(law.scale * 1.02).half_width(confidence) > float(column.margin(confidence))
    assert plan.guarantee.epsilon > 0
    assert plan.guarantee.epsilon == epsilon_at(
        [c.accounting_input for c in plan.columns], Fraction(1, 10**9)
    )


def test_accuracy_leaves_the_rest_to_other_columns(tmp_path: Path) -> None:
    text = """\
budget: {epsilon: 1}
mechanism: discrete_laplace
queries:
  a: {from: people, columns: {n: {count: "*", moe: 10}, m: {count: k}}}
"""
    plan = plan_of(tmp_path, text)
    price = cost_of(plan, "a.n")
    assert 0.2 < price < 0.35  # margin 10 at 95 %: ln 20 / 10
    assert cost_of(plan, "a.m") == pytest.approx(1 - price, rel=2e-3)
    assert 0.999 <= plan.guarantee.epsilon <= 1


def test_accuracy_beyond_the_largest_epsilon_is_refused(tmp_path: Path) -> None:
    text = """\
budget: {}
queries:
  a: {from: people, columns: {s: {sum: x, moe: 1, margin: 0.999, mechanism: laplace}}}
"""
    with pytest.raises(BudgetError, match=r"DP-BUDGET-004.*cost epsilon 230"):
        plan_of(tmp_path, text)


def test_auto_finds_the_cheapest_mechanism_for_an_accuracy(tmp_path: Path) -> None:
    """`auto` with only accuracies: the least privacy loss of all candidates."""
    text = """\
budget: {delta: 1e-9}
mechanism: %s
queries:
  a: {from: people, columns: {n: {count: "*", moe: 40}}}
"""
    chosen = plan_of(tmp_path, text % "auto").guarantee.epsilon
    for name in ("discrete_laplace", "discrete_gaussian"):
        assert chosen <= plan_of(tmp_path, text % name).guarantee.epsilon


def test_plan_states_every_definition(tmp_path: Path) -> None:
    """Every definition agrees with its own accountant, and an attacker's errors with epsilon."""
    plan = plan_of(tmp_path, "budget: {epsilon: 1, delta: 1e-6}\n" + TWO_TABLES % ("", ""))
    vectors = [column.accounting_input for column in plan.columns]
    found = plan.to_json()["definitions"]
    assert found["rho"] == pytest.approx(
        max(renyi_of(vectors, 1 + 2.0**i) / (1 + 2.0**i) for i in range(-11, 11)), rel=1e-2
    )
    by_hand = 5 * vectors[0].losses(1)[0].renyi(2.0) if len({v.key for v in vectors}) == 1 else 0.0
    assert found["renyi"]["2"] >= by_hand
    assert found["pure_epsilon"] == plan.guarantee.pure_epsilon >= plan.guarantee.epsilon
    missed, alarms = trade_off(plan)
    bound = 2 * (1 - 1e-6) / (1 + math.exp(plan.guarantee.epsilon))
    assert all(m + a >= bound - 1e-12 for m, a in zip(missed, alarms, strict=True))
    assert missed[0] > 0.9
    assert missed[-1] == 0
    assert all(a >= b for a, b in pairwise(missed))


def test_warnings_about_large_epsilon_and_delta(tmp_path: Path) -> None:
    text = "budget: {epsilon: 20, delta: 1e-3}\n" + TWO_TABLES % ("", "")
    assert len(plan_of(tmp_path, text).warnings) == 1  # no size is declared: epsilon alone
    declared = (tmp_path / "people.yaml").read_text() + "size: 5000\n"
    (tmp_path / "people.yaml").write_text(declared)
    warnings = read_release(tmp_path / "release.yaml").plan().warnings
    assert len(warnings) == 2
    assert "delta 0.001 is not below 1 / 5,000" in warnings[0]
    assert warnings[1].startswith("epsilon 19.9")


def test_plan_chart(tmp_path: Path) -> None:
    plan_of(tmp_path, "budget: {epsilon: 1, delta: 1e-6}\n" + TWO_TABLES % ("", ""))
    target = tmp_path / "plan.svg"
    words = ["plan", str(tmp_path / "release.yaml"), "--plot", str(target)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    assert "false alarms of an attacker" in target.read_text(encoding="utf-8")
    plan = read_release(tmp_path / "release.yaml").plan()
    margins = relative_margins(plan)
    assert list(margins) == [column.name for column in plan.published()]
    for values in margins.values():
        drawn = [value for value in values if is_drawn(value)]
        assert len(drawn) > 4
        assert all(a > b for a, b in pairwise(drawn))


def test_accuracy_above_the_budget_is_refused(tmp_path: Path) -> None:
    text = """\
budget: {epsilon: 0.5}
queries:
  a: {from: people, columns: {n: {count: "*", moe: 3}, m: {count: k, epsilon: 0.1}}}
"""
    with pytest.raises(BudgetError, match=r"DP-BUDGET-007.*\n?.*cost .* of the 0.5") as caught:
        plan_of(tmp_path, text)
    assert "queries.a.columns.n" in str(caught.value)


def test_refusal_names_the_smallest_cost(tmp_path: Path) -> None:
    """Under auto, whatever family the search began with."""
    prices = {}
    for noise in ("auto", "discrete_laplace", "discrete_gaussian", "generalized_gaussian"):
        text = (
            f"budget: {{epsilon: 0.5, delta: 1e-9}}\nmechanism: {noise}\nqueries:\n"
            '  a: {from: people, columns: {n: {count: "*", moe: 3}}}\n'
        )
        with pytest.raises(BudgetError, match="DP-BUDGET-007") as caught:
            plan_of(tmp_path, text)
        prices[noise] = caught.value.price
        assert f"cost {prices[noise]:.6g} of the 0.5" in str(caught.value)
    assert prices.pop("auto") <= min(prices.values()) < max(prices.values())
