"""The published numbers of a plan: on one screen, in their units, with the limiting factor."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from dprelease import cli
from dprelease.planning.notes.published_columns import Limit, published_columns
from dprelease.planning.prepare import prepare
from dprelease.release.api import read_release
from dprelease.schema.load import read_declaration

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = {
    "table": "people",
    "source": "people.csv",
    "privacy_unit": {"id": "person", "max_groups": 1, "max_rows_per_group": 1},
    "columns": {
        "person": {"type": "integer"},
        "city": {"type": "category", "values": ["Bern", "Oslo", "Rome"]},
        "pay": {"type": "number", "lower": 0, "upper": 1000, "step": 1, "unit": "USD"},
        "age": {"type": "integer", "lower": 0, "upper": 115, "unit": "years"},
    },
}
TEN: dict[str, Any] = {
    "persons": {"count": "*", "margin": True},
    "payers": {"count": "pay"},
    "total": {"sum": "pay"},
    "mean_pay": {"mean": "pay"},
    "mean_age": {"mean": "age"},
    "spread": {"stddev": "age"},
    "middle": {"median": "pay"},
    "oldest": {"max": "age"},
    "ids": {"count_distinct": "person"},
    "by_age": {"ratio": ["pay", "age"]},
}


def write_release(folder: Path, columns: object, schema: object = None, **more: object) -> Path:
    """Write a release of one table, and return its file."""
    (folder / "people.yaml").write_text(yaml.safe_dump(schema or SCHEMA))
    release = {
        "title": "People",
        "tables": ["people.yaml"],
        "budget": {"epsilon": 1, "delta": "1e-9"},
        "queries": {"by_city": {"from": "people", "group_by": ["city"], "columns": columns}},
        "output": "out",
        **more,
    }
    (folder / "release.yaml").write_text(yaml.safe_dump(release, sort_keys=False))
    return folder / "release.yaml"


def plan_text(path: Path, *words: str) -> str:
    done = CliRunner().invoke(cli.app, ["plan", str(path), *words], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.stdout


def screen_lines(text: str) -> int:
    """Return the lines that a text takes on a terminal of 80 columns."""
    return sum(max(1, math.ceil(len(line) / 80)) for line in text.rstrip("\n").split("\n"))


@pytest.mark.share(0.5)
@pytest.mark.parametrize("limits", [1, 5])
def test_ten_columns_fit_on_a_screen(limits: int, tmp_path: Path) -> None:
    """With a ledger, and a line for each published column, but none for parts of means."""
    ledger = ["ledger", "init", str(tmp_path / "ledger.sqlite"), "--table", "people"]
    words = ["--owner", "office", "--unit", "person", "--rho", "1", "--delta", "1e-9"]
    opened = CliRunner().invoke(cli.app, [*ledger, *words])
    assert opened.exit_code == 0, opened.output
    unit = {"id": "person", "max_groups": limits, "max_rows_per_group": limits}
    schema = {**SCHEMA, "privacy_unit": unit, "owner": "office"}
    path = write_release(tmp_path, TEN, schema, ledger="ledger.sqlite")
    text = plan_text(path)
    assert screen_lines(text) <= 24, text
    lines = [line for line in text.split("\n") if line.startswith("by_city.")]
    assert [line.split()[0] for line in lines] == [f"by_city.{name}" for name in TEN]
    assert "ledger.sqlite, office/people: 1 of 1 rho is left" in text.split("\n\n")[0]
    assert ".sum " not in text
    explained = plan_text(path, "--explain", "--wide")
    assert explained.startswith(text.split("\n\n")[0])
    assert "by_city.total.sum" in explained
    assert "An attacker" in explained


@pytest.mark.parametrize("name", ["nist_acs", "bike_trips"])
def test_examples_fit_on_a_screen(name: str) -> None:
    assert screen_lines(plan_text(ROOT / "examples" / name / "release.yaml")) <= 24


def test_margins_are_in_the_unit_of_the_column(tmp_path: Path) -> None:
    """Of a mean at the declared number of people by cell, or at 1,000 rows."""
    path = write_release(tmp_path, TEN, mechanism="discrete_laplace")
    found = {row["column"]: row for row in json.loads(plan_text(path, "--json"))["published"]}
    assert list(found) == list(TEN)
    assert (found["mean_pay"]["unit"], found["mean_pay"]["rows"]) == ("USD", 1000)
    middle = found["middle"]
    assert (middle["unit"], middle["rows"]) == (found["mean_pay"]["unit"], 1000)
    assert middle["ranks"] > 0
    assert found["by_age"]["margin"] is None
    sized = {**SCHEMA, "size": 12_000}
    write_release(tmp_path, TEN, sized, mechanism="discrete_laplace")
    declared = {row["column"]: row for row in json.loads(plan_text(path, "--json"))["published"]}
    assert declared["mean_pay"]["rows"] == 4000
    ratio = declared["mean_pay"]["margin"] / found["mean_pay"]["margin"]
    assert ratio == pytest.approx(0.25, rel=0.01)
    plan = read_release(path).plan()
    columns = {column.column.name: column for column in plan.published()}
    for part in plan.columns:  # a count or sum has the margin of its own noise
        one = columns.get(part.measurement.name)
        if one is not None and not one.depends_on_rows:
            assert one.margin == pytest.approx(float(part.margin(0.95)))
    persons = columns["persons"]
    assert persons.relative_margin(1000) == pytest.approx(persons.margin / 1000)
    mean = columns["mean_pay"]
    assert mean.relative_margin(4000) == pytest.approx(mean.margin / 500)


LIMITED = {
    "one count": ({"n": {"count": "*"}}, {}, Limit.BUDGET),
    "a small share": ({"n": {"count": "*"}, "m": {"count": "pay", "weight": 9}}, {}, Limit.BUDGET),
    "many rows": ({"n": {"count": "*"}}, {"max_rows_per_group": 50}, Limit.CONTRIBUTIONS),
    "many groups": ({"n": {"count": "*"}}, {"max_groups": 3}, Limit.CONTRIBUTIONS),
    "distinct ids": ({"n": {"count_distinct": "person"}}, {"max_rows_per_group": 50}, Limit.BUDGET),
    "a sum": ({"n": {"sum": "pay"}}, {}, Limit.BOUNDS),
    "a median": (
        {"n": {"median": "pay", "weight": 9}, "m": {"count": "*"}},
        {"max_groups": 2, "max_rows_per_group": 2},
        Limit.CONTRIBUTIONS,
    ),
}


@pytest.mark.parametrize("case", LIMITED)
def test_limiting_factor_of_a_column(case: str, tmp_path: Path) -> None:
    columns, unit, limit = LIMITED[case]
    schema = {**SCHEMA, "privacy_unit": {**SCHEMA["privacy_unit"], **unit}}
    path = write_release(
        tmp_path, columns, schema, budget={"epsilon": 1}, mechanism="discrete_laplace"
    )
    assert read_release(path).plan().published()[0].limit is limit


def test_few_rows_limit_a_mean(tmp_path: Path) -> None:
    path = write_release(tmp_path, {"m": {"mean": "pay"}}, {**SCHEMA, "size": 30})
    assert read_release(path).plan().published()[0].limit is Limit.ROWS
    write_release(tmp_path, {"m": {"mean": "pay"}}, {**SCHEMA, "size": 30_000})
    assert read_release(path).plan().published()[0].limit is not Limit.ROWS


@pytest.mark.each
@pytest.mark.parametrize("interval", ["95 %", False])
@pytest.mark.parametrize("number", [1, 9], ids=["selected", "tree"])
@pytest.mark.parametrize("size", [1, 30, 10**7])
def test_errors_of_quantiles_stay_within_bounds(
    size: int, number: int, interval: str | bool, tmp_path: Path
) -> None:
    """At most half of the bounds with an interval; ranks at most the rows beside the quantile."""
    parts = [(one + 1) / (number + 1) for one in range(number)]
    columns = {
        f"q{one}": {"quantile": {"of": "pay", "at": at}, "interval": interval}
        for one, at in enumerate(parts)
    }
    path = write_release(tmp_path, columns, {**SCHEMA, "size": size})
    for at, column in zip(parts, read_release(path).plan().published(), strict=True):
        lattice = column.column.parts[0].aggregate.lattice
        width = float((lattice.upper - lattice.lower) * lattice.step)
        most = max(at, 1 - at)
        assert 0 < column.ranks <= most * column.rows * (1 + 1e-9)
        largest = width / 2 if interval else most * width
        assert 0 < column.margin <= largest * (1 + 1e-9)
        if size == 1:
            assert column.margin == pytest.approx(largest)
        if size == 10**7:
            assert column.margin == pytest.approx(column.ranks / column.rows * width)


@pytest.mark.parametrize(("size", "says_nothing"), [(30, True), (30_000, False)])
def test_quantiles_with_uninformative_intervals(
    tmp_path: Path, size: int, says_nothing: bool
) -> None:
    columns = {"middle": {"median": "pay"}, "n": {"count": "*"}, "mean": {"mean": "pay"}}
    path = write_release(tmp_path, columns, {**SCHEMA, "size": size})
    found = {one.column.name: one for one in published_columns(prepare(read_declaration(path))[1])}
    assert found["middle"].says_nothing is says_nothing
    assert not found["n"].says_nothing
    assert not found["mean"].says_nothing
