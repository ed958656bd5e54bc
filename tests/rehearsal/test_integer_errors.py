"""The errors of integer tables that a plan shows: simulated, near those of the theory where it has any."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from dprelease import cli
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.planning.declaration_findings import load_declaration
from dprelease.planning.families.family_errors import consistent_errors
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.rehearsal.integer_errors import integer_table_errors

VALUES = [f"v{i}" for i in range(500)]


def planned(folder: Path, table: dict[str, Any], consistent: object) -> Plan:
    """Return the plan of a release of counts by 500 values and by two."""
    schema = {
        "table": "people",
        "source": "people.csv",
        "columns": {
            "kind": {"type": "category", "values": VALUES},
            "sex": {"type": "category", "values": ["f", "m"]},
        },
        **table,
    }
    release = {
        "title": "kinds",
        "tables": ["people.yaml"],
        "budget": {"rho": "0.05", "delta": "1e-9"},
        "mechanism": "discrete_gaussian",
        "queries": {
            "kinds": {
                "from": "people",
                "marginals": [["sex"], ["kind", "sex"]],
                "columns": {"n": {"count": "*"}},
                "consistent": consistent,
            }
        },
        "output": "out",
    }
    (folder / "people.yaml").write_text(yaml.safe_dump(schema, sort_keys=False))
    (folder / "release.yaml").write_text(yaml.safe_dump(release, sort_keys=False))
    return prepare(load_declaration(folder / "release.yaml"))[1]


def test_errors_of_large_and_small_integer_cells(tmp_path: Path) -> None:
    """Noise is nearly normal: its mean absolute value is sqrt(2 / pi) standard errors."""
    plan = planned(tmp_path, {"size": 10**9}, {"non_negative": True})
    (errors,) = consistent_errors(plan)
    row = next(one for one in errors.to_json() if one["table"] == "kinds_kind_sex")
    expected = math.sqrt(2 / math.pi) * row["estimate"]
    large = integer_table_errors(plan, ReplayedBits("large"))["kinds_kind_sex", "n"]
    assert abs(large / expected - 1) < 0.2  # 1000 cells: about 9 times the error of their mean
    plan = planned(tmp_path, {"size": 1000}, {"non_negative": True})
    small = integer_table_errors(plan, ReplayedBits("small"))["kinds_kind_sex", "n"]
    assert small < 0.5 * expected


def test_nothing_is_simulated_without_rows_or_integer_tables(tmp_path: Path) -> None:
    for table, consistent in (({}, {"non_negative": True}), ({"size": 1000}, True)):
        plan = planned(tmp_path, table, consistent)
        assert integer_table_errors(plan, ReplayedBits("none")) == {}


def test_plan_shows_errors_of_integer_tables(tmp_path: Path) -> None:
    planned(tmp_path, {"rehearsal": {"rows": 5000}}, {"non_negative": True})
    words = ["plan", "--explain", str(tmp_path / "release.yaml")]
    text = CliRunner().invoke(cli.app, words).stdout
    assert "integers" in text
    assert "by least squares" in text
    rows = json.loads(CliRunner().invoke(cli.app, [*words, "--json"]).stdout)["consistent"]
    assert all(row["integers"] > 0 for row in rows)


def test_plan_shows_the_chain_of_the_fast_method(tmp_path: Path) -> None:
    planned(tmp_path, {}, {"non_negative": True, "method": "fast"})
    text = CliRunner().invoke(cli.app, ["plan", "--explain", str(tmp_path / "release.yaml")]).stdout
    assert "fast, along [sex] then [sex, kind]" in " ".join(text.split())
