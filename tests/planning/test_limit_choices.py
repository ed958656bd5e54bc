"""The noise for other contribution limits is that of plans with these limits."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.documents.limit_labels import label_with_limits
from dprelease.errors import DpReleaseError
from dprelease.planning.bounded_words import cutting_limits, differently_bounded
from dprelease.planning.guarantees import add_guarantee
from dprelease.planning.notes.limit_choices import (
    MOST_COLUMNS,
    TOO_MANY_COLUMNS,
    limits_to_try,
    noise_by_limit,
)
from dprelease.planning.prepare import prepare
from dprelease.privacy.guarantee import Guarantee
from dprelease.privacy.unit import Neighbours, PrivacyUnit
from dprelease.query.limit_release import limit_release, with_chosen_limits
from dprelease.query.resolve import resolve
from dprelease.schema.load import read_declaration
from dprelease.schema.release_parts.limit_choice import ChosenLimits, with_limits

LIMITED = """\
table: visits
source: visits.csv
privacy_unit: {id: patient, max_groups: 3, max_rows_per_group: 2}
columns:
  patient: {type: integer}
  chapter: {type: category, values: [a, b, c, d, e, f, g]}
"""
LIMITED_RELEASE = """\
title: Visits
tables: [visits.yaml]
budget: {epsilon: 1}
mechanism: discrete_laplace
queries:
  total: {from: visits, columns: {n: {count: "*"}, people: {count_distinct: patient}}}
  chapters: {from: visits, group_by: [chapter], columns: {n: {count: "*"}}, CONSISTENT}
output: out
"""


@pytest.mark.parametrize("consistent", [False, True])
def test_noise_by_limit_equals_plans_with_these_limits(consistent: bool, tmp_path: Path) -> None:
    """Seven groups are the highest useful limit of groups; rows have none."""
    (tmp_path / "visits.yaml").write_text(LIMITED)
    text = LIMITED_RELEASE.replace(", CONSISTENT", ", consistent: true" if consistent else "")
    (tmp_path / "release.yaml").write_text(text)
    declaration = read_declaration(tmp_path / "release.yaml")
    _, plan = prepare(declaration)
    found = {(one.limit, one.column): one for one in noise_by_limit(declaration, plan)}
    assert {("max_groups", "chapters.n"), ("max_rows_per_group", "chapters.n")} <= {*found}
    assert ("max_groups", "total.n") not in found  # a total has one group
    assert not [column for _, column in found if column == "total.people"]
    for (limit, column), one in found.items():
        assert one.values == ((1, 2, 3, 5) if limit == "max_groups" else (1, 2, 5, 10))
        assert [*one.margins] == sorted(margin or 0.0 for margin in one.margins)
        if consistent and column.startswith("chapters"):
            continue
        for value, margin in zip(one.values, one.margins, strict=True):
            changed = LIMITED.replace(f"{limit}: {one.declared}", f"{limit}: {value}")
            (tmp_path / "visits.yaml").write_text(changed)
            _, other = prepare(read_declaration(tmp_path / "release.yaml"))
            assert margin in [
                float(c.margin()) for c in other.columns if f"{c.query.name}.n" == column
            ]
    rows = found["max_rows_per_group", "chapters.n"]
    assert rows.margins[-1] == pytest.approx(10 * (rows.margins[0] or 0.0), rel=0.05)


def test_limits_to_try_are_around_the_declared_one() -> None:
    """A series of 1, 2, 5 up to the number of groups, and always 1 and the declared limit."""
    assert limits_to_try(3, 10**6) == (1, 2, 3, 5, 10, 20)
    assert limits_to_try(12, 10**6) == (1, 2, 5, 10, 12, 20, 50)
    assert limits_to_try(1, 10**6) == (1, 2, 5)
    assert limits_to_try(12, 5) == (1, 2, 5, 12)
    assert limits_to_try(1000, 10**6) == (1, 50, 100, 200, 500, 1000, 2000, 5000)


def test_many_columns_are_not_planned_again(tmp_path: Path) -> None:
    """The plan says so instead of taking a minute."""
    (tmp_path / "visits.yaml").write_text(LIMITED)
    query = "n{i}: {from: visits, group_by: [chapter], columns: {n: {count: '*'}}}"
    several = "\n  ".join(query.replace("{i}", str(i)) for i in range(MOST_COLUMNS + 1))
    text = LIMITED_RELEASE[: LIMITED_RELEASE.index("  total:")] + f"  {several}\noutput: out\n"
    path = tmp_path / "release.yaml"
    path.write_text(text)
    shown = CliRunner().invoke(cli.app, ["plan", str(path), "--explain"]).stdout
    assert TOO_MANY_COLUMNS in shown
    declaration = read_declaration(path)
    assert list(noise_by_limit(declaration, prepare(declaration)[1])) == []
    path.write_text(text.replace(query.replace("{i}", "0"), ""))
    shown = CliRunner().invoke(cli.app, ["plan", str(path), "--explain"]).stdout
    assert TOO_MANY_COLUMNS not in shown
    assert "n1.n" in shown.partition("Margins of error for other")[2]


GUARANTEE = Guarantee(0.1, Fraction(0), Neighbours.ADD_REMOVE, "pure", 0.1, None)
CHOICE = """\
title: Visits
tables: [visits.yaml]
budget: BUDGET
queries:
  chapters:
    from: visits
    group_by: [chapter]
    LIMITS
    columns: {n: {count: "*"}, people: {count_distinct: patient}}
output: out
"""


def write_choice(folder: Path, limits: str, unit: str = "", budget: str = "{epsilon: 1}") -> Path:
    """Write a release that chooses limits privately, and return its file."""
    table = LIMITED.replace("max_groups: 3, max_rows_per_group: 2", unit) if unit else LIMITED
    (folder / "visits.yaml").write_text(table)
    path = folder / "release.yaml"
    path.write_text(CHOICE.replace("BUDGET", budget).replace("LIMITS", limits))
    return path


@pytest.mark.parametrize("budget", ["epsilon: 1", "epsilon: 1, delta: 1e-6", "rho: 0.5"])
def test_guarantees_of_private_limits_add_up(budget: str, tmp_path: Path) -> None:
    """The total covers both releases, and is at most the declared budget."""
    limits = "max_groups: {choose: {share: 20 %}}"
    _, plan = prepare(read_declaration(write_choice(tmp_path, limits, budget=f"{{{budget}}}")))
    assert plan.limits is not None
    parts, total = (plan.limits.guarantee, plan.tables_guarantee), plan.guarantee
    if "rho" in budget:
        rhos = [Fraction(part.rho or 0) for part in (*parts, total)]
        assert rhos[0] + rhos[1] <= rhos[2] <= Fraction(1, 2)
        assert rhos[0] <= Fraction(1, 10)
        return
    epsilons = [Fraction(part.epsilon) for part in (*parts, total)]
    assert epsilons[0] + epsilons[1] <= epsilons[2] <= 1
    assert Fraction(9, 50) < epsilons[0] <= Fraction(1, 5)
    assert parts[0].delta == 0
    assert total.delta == parts[1].delta


def test_rho_delta_covers_private_limits(tmp_path: Path) -> None:
    """Private keys of another query spend a part of delta, for which the rho does not hold."""
    budget = "{rho: 0.5, delta: 1e-6}"
    path = write_choice(tmp_path, "max_groups: {choose: {share: 20 %}}", budget=budget)
    keys = "from: visits, group_by: [chapter], private_keys: true, columns: {n: {count: '*'}}"
    path.write_text(path.read_text().replace("output", f"  found: {{{keys}}}\noutput"))
    _, plan = prepare(read_declaration(path))
    total, tables = plan.guarantee, plan.tables_guarantee
    assert plan.limits is not None
    assert Fraction(0) < Fraction(total.rho_delta) < total.delta == Fraction(1, 10**6)
    assert total.rho_delta == tables.rho_delta
    rho = Fraction(plan.limits.guarantee.rho or 0) + Fraction(tables.rho or 0)
    assert rho <= Fraction(total.rho or 0) <= Fraction(1, 2)
    wrong = add_guarantee(plan.limits.guarantee, replace(tables, epsilon=100.0, rho_delta=0.0))
    right = add_guarantee(plan.limits.guarantee, replace(tables, epsilon=100.0))
    assert wrong.epsilon < right.epsilon < 100


@pytest.mark.parametrize("limit", ["max_groups", "max_rows_per_group"])
def test_private_limits_next_to_a_limit_of_all_rows(limit: str, tmp_path: Path) -> None:
    """The declared limit of all rows stays, and is the highest limit without another one."""
    path = write_choice(tmp_path, f"{limit}: {{choose: {{share: 10 %}}}}", "max_rows: 5")
    declaration = read_declaration(path)
    queries, _ = prepare(declaration)
    assert queries[0].unit == PrivacyUnit("patient", 5, 5, 5)
    assert declaration.choices is not None
    assert [one.up_to for one in declaration.choices.limits] == [5]
    first, _ = prepare(limit_release(declaration))
    assert first[0].unit == PrivacyUnit("patient", 1, 1, None)
    counts = {
        one.name: cutting_limits(queries[0], [one]) for one in queries[0].measurements
    }  # a label says "5", which was declared, or "5 groups", which may have been chosen
    assert counts["n"] is not None
    assert not counts["n"].chosen
    assert counts["people"] is not None
    assert counts["people"].chosen == (limit == "max_groups")
    lower = with_limits(declaration.spec, declaration.choices, {f"{limit}_1": 2})
    queries, _ = prepare(replace(declaration, spec=lower))
    cuts = cutting_limits(queries[0], [queries[0].measurements[0]])
    assert cuts is not None
    assert cuts.chosen
    product = "2 x 5" if limit == "max_groups" else "5 x 2"
    label = label_with_limits({"en": "n"}, cuts, {"en": "patient"})
    assert label == {"en": f"n, at most 5 ({product}) per patient (limit chosen privately)"}
    path.write_text(path.read_text().replace("10 %", "10 %, up_to: 6"))
    with pytest.raises(DpReleaseError, match=r"(?s)DP-QUERY-016.*at most 5"):
        read_declaration(path)


def test_tables_whose_limits_may_differ_are_named(tmp_path: Path) -> None:
    """Equal tables under two limits are bounded differently, unless the chosen one is equal."""
    path = write_choice(tmp_path, "max_groups: {choose: {share: 10 %}}")
    fixed = "  fixed: {from: visits, group_by: [chapter], columns: {n: {count: '*'}}}\noutput"
    path.write_text(path.read_text().replace("output", fixed))
    declaration = read_declaration(path)
    assert declaration.choices is not None
    for value, wanted in ((None, True), (2, True), (3, False)):
        made = declaration
        if value is not None:  # nothing else of the chosen limits matters for the queries
            chosen = ChosenLimits({"max_groups_1": value}, "", GUARANTEE, {}, {}, None, tmp_path)
            made = with_chosen_limits(declaration, chosen)
        found = [one.tables for one in differently_bounded(resolve(made))]
        assert found == [("chapters", "fixed")] * wanted


def test_private_limits_of_joined_rows(tmp_path: Path) -> None:
    """A join may declare limits of its rows; a limit that is chosen replaces one of them."""
    limits = "join: {table: more, on_unit: true, JOIN}\n    max_groups: {choose: {share: 10 %}}"
    more = LIMITED.replace("table: visits", "table: more").replace("chapter", "section")
    for join, up_to, unit in (
        ("max_rows: 6", 3, PrivacyUnit("patient", 3, 2, 6)),
        ("max_groups: 7", 7, PrivacyUnit("patient", 7, 2, None)),
        ("max_rows: 2, max_groups: 2", 2, PrivacyUnit("patient", 2, 2, 2)),
    ):
        path = write_choice(tmp_path, limits.replace("JOIN", join))
        path.write_text(path.read_text().replace("[visits.yaml]", "[visits.yaml, more.yaml]"))
        (tmp_path / "more.yaml").write_text(more)
        declaration = read_declaration(path)
        queries, _ = prepare(declaration)
        assert queries[0].unit == unit
        assert declaration.choices is not None
        assert declaration.choices.limits[0].up_to == up_to
        (first,), _ = prepare(limit_release(declaration))
        assert first.unit == PrivacyUnit("patient", 1, 1, None)


def test_plan_and_check_list_private_limits(tmp_path: Path) -> None:
    path = write_choice(tmp_path, "max_groups: {choose: {share: 10 %}}")
    done = CliRunner().invoke(cli.app, ["plan", str(path), "--json"])
    (found,) = json.loads(done.stdout)["limit_choices"]
    assert found["queries"] == ["chapters"]
    assert (found["limit"], found["up_to"], found["share"]) == ("max_groups", 3, "0.1")
    assert found["least_persons"] >= 20 * (found["error_in_persons"] - 1) > 0
    done = CliRunner().invoke(cli.app, ["check", str(path), "--json"])
    _, text = json.loads(done.stdout)["limit_choices"]
    assert f"at least {found['least_persons']:,} persons" in text
    path = write_choice(tmp_path, "")
    for command in ("plan", "check"):
        done = CliRunner().invoke(cli.app, [command, str(path), "--json"])
        assert json.loads(done.stdout)["limit_choices"] == []
