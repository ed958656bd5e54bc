"""The noise for other contribution limits is that of plans with these limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.planning.notes.limit_choices import (
    MOST_COLUMNS,
    TOO_MANY_COLUMNS,
    limits_to_try,
    noise_by_limit,
)
from dprelease.planning.prepare import prepare
from dprelease.schema.load import read_declaration

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
def test_noise_by_limit_is_the_noise_of_plans_with_these_limits(
    consistent: bool, tmp_path: Path
) -> None:
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
