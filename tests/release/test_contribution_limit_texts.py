"""Contribution limits are declared, never assumed, and all outputs say that they apply."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.privacy.unit import PrivacyUnit
from dprelease.verification.verify import verify
from tests.exact.build import declare

RUN = CliRunner()
COLUMNS: dict[str, Any] = {"person": {"type": "integer"}}
BOUNDS = {"max_groups": 3, "max_rows_per_group": 4}
TABLE = """\
table: visits
source: visits.csv
columns:
  person: {type: integer}
  shop: {type: category, values: [a, b]}
"""
UNIT = "privacy_unit: {id: person, max_groups: 3, max_rows_per_group: 4}\n"
RELEASE = """\
title: Visits
tables: [visits.yaml]
budget: {epsilon: 1}
queries:
  by_shop: {from: visits, group_by: [shop], columns: {visits: {count: "*"}}}
output: out
"""
WORDS = (
    "computed after contribution limits: each 'person' counts with at most 4 rows in each of at "
    "most 3 groups. Further rows, and rows without 'person', are left out; no margin of error "
    "covers this. Rows above 4 per privacy unit in each of the 2 groups are left out."
)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "no `max_groups` and no `max_rows_per_group`."),
        ({"max_groups": 3}, "no `max_rows_per_group`."),
        ({"max_rows_per_group": 4}, "no `max_groups`."),
        (BOUNDS, None),
    ],
    ids=str,
)
def test_id_requires_both_contribution_limits(given: dict[str, int], missing: str | None) -> None:
    unit = {"id": "person", **given}
    if missing is None:
        assert declare(COLUMNS, privacy_unit=unit).table.unit.max_groups == 3
        return
    with pytest.raises(DpReleaseError, match="DP-SCHEMA-013") as caught:
        declare(COLUMNS, privacy_unit=unit)
    assert missing in str(caught.value)
    assert "further rows are left out" in str(caught.value)
    assert "no row was read" in str(caught.value)


@pytest.mark.parametrize("bounded", [True, False], ids=["ids", "rows"])
def test_plan_and_manifest_mention_contribution_limits(bounded: bool, tmp_path: Path) -> None:
    """The plan does so before there are data."""
    (tmp_path / "visits.yaml").write_text(TABLE + (UNIT if bounded else ""))
    release = tmp_path / "release.yaml"
    release.write_text(RELEASE)

    plan = RUN.invoke(cli.app, ["plan", str(release)])
    assert plan.exit_code == 0, plan.output
    assert ("no margin covers this: by_shop" in plan.stdout) == bounded
    plan = RUN.invoke(cli.app, ["plan", str(release), "--explain"])
    assert (WORDS in plan.stdout) == bounded
    found = json.loads(RUN.invoke(cli.app, ["plan", str(release), "--json"]).stdout)
    assert found["bounded_rows"] == ([f"by_shop: values are {WORDS}"] if bounded else [])
    assert [column["rows"] for column in found["columns"]] == ["bounded" if bounded else "all"]

    (tmp_path / "visits.csv").write_text("person,shop\n1,a\n1,a\n2,b\n")
    assert RUN.invoke(cli.app, ["run", str(release)]).exit_code == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (unit,), (measured,) = manifest["privacy_unit"], manifest["measurements"]
    assert (WORDS in unit["words"]) == bounded
    assert measured["aggregate"] == "count of rows" + ", after contribution limits" * bounded
    assert verify(tmp_path / "out").ok


@pytest.mark.parametrize(
    ("groups", "rows", "words"),
    [
        (1, 1, "counts with at most 1 row in 1 group."),
        (1, 2, "counts with at most 2 rows in 1 group."),
        (2, 1, "counts with at most 1 row in each of at most 2 groups."),
        (1_000, 2, "counts with at most 2 rows in each of at most 1,000 groups."),
    ],
)
def test_texts_of_contribution_limits(groups: int, rows: int, words: str) -> None:
    assert words in PrivacyUnit("person", groups, rows).contribution_limits_text


def _explained(folder: Path) -> dict[str, str]:
    session = dprelease.Session(folder / "visits.yaml", epsilon=1)
    frame = pd.read_csv(folder / "visits.csv")
    frame.dp.use(session)
    plan = frame.dp.explain("count", by="shop", epsilon=1)
    answer = frame.dp.count(by="shop", epsilon=1)
    return {
        "a row of df.dp.explain": plan["counts"].iloc[0],
        "df.dp.explain": str(plan.attrs["dprelease_answer"]),
        "df.dp": str(answer.attrs["dprelease_answer"]),
    }


def _statement(folder: Path) -> dict[str, str]:
    words = ["SELECT COUNT(*) AS n FROM visits", "--schema", str(folder / "visits.yaml")]
    shown = RUN.invoke(cli.app, ["sql", *words, "--epsilon", "1"])
    found = dprelease.sql(words[0], folder / "visits.yaml", epsilon=1)
    return {"dprelease sql": shown.stdout, "dprelease.sql": str(found.attrs["dprelease"])}


def _messages(folder: Path) -> dict[str, str]:
    release = folder / "release.yaml"
    release.write_text(RELEASE + "federated: {parties: 2}\n")
    path = dprelease.read_release(release).run(party=1)
    assert verify(path).ok
    manifest = json.loads((path / "manifest.json").read_text())
    (unit,), (measured,) = manifest["privacy_unit"], manifest["measurements"]
    return {"a party's unit": unit["words"], "a party's messages": measured["aggregate"]}


@pytest.mark.share(0.2)
@pytest.mark.parametrize("bounded", [True, False], ids=["ids", "rows"])
@pytest.mark.parametrize("told", [_explained, _statement, _messages])
def test_every_output_mentions_contribution_limits(
    told: Callable[[Path], dict[str, str]], bounded: bool, tmp_path: Path
) -> None:
    """Each place that shows noise, cost or margin of an answer."""
    (tmp_path / "visits.yaml").write_text(TABLE + (UNIT if bounded else ""))
    (tmp_path / "visits.csv").write_text("person,shop\n1,a\n1,a\n2,b\n")
    for place, words in told(tmp_path).items():
        assert ("after contribution limits" in words) == bounded, place


DAYS = "{type: date, lower: 2024-01-01, upper: 2024-12-31}"
GROUPS = {
    "no key": ([], 1, "Rows above 4 per privacy unit are left out"),
    "few groups": (
        ["shop"],
        2,
        "Rows above 4 per privacy unit in each of the 2 groups are left out",
    ),
    "groups beyond the bound": (["shop"], 1, "in more than 1 of the 2 groups counts in only 1 of"),
    "days": (
        ["day"],
        3,
        "a group for each day of 'day', a privacy unit with rows on more than 3 days",
    ),
    "one day": (["day"], 1, "on more than one day counts on only 1 of them"),
    "days beside others": (["shop", "day"], 31, "on more than 31 days counts on only 31 of them"),
    "all days": (
        ["day"],
        366,
        "Rows above 4 per privacy unit in each of the 366 groups are left out",
    ),
    "found keys": (
        ["shop", "private"],
        3,
        "in more than 3 of the groups found in the data counts in only 3",
    ),
}


@pytest.mark.share(0.2)
@pytest.mark.parametrize("case", GROUPS)
def test_limit_texts_depend_on_declarations_only(case: str, tmp_path: Path) -> None:
    """Plan and manifest say the same for any rows: daily visits of many people, or no rows."""
    keys, most, words = GROUPS[case]
    private = "private" in keys
    keys = [key for key in keys if key != "private"]
    unit = UNIT.replace("max_groups: 3", f"max_groups: {most}")
    (tmp_path / "visits.yaml").write_text(f"{TABLE}  day: {DAYS}\n{unit}")
    text = RELEASE.replace("group_by: [shop]", f"group_by: {keys}".replace("'", ""))
    if private:
        text = text.replace("epsilon: 1", "epsilon: 1, delta: 1e-9")
        text = text.replace("columns:", "private_keys: true, columns:")
    release = tmp_path / "release.yaml"
    release.write_text(text)
    plan = RUN.invoke(cli.app, ["plan", str(release), "--explain"]).stdout
    assert words in plan
    told = set()
    rows = [f"1,a,2024-0{1 + i // 28}-{1 + i % 28:02}" for i in range(40)]
    rows += [
        f"{person},a,2024-01-01" for person in range(2, 200)
    ]  # enough to publish a private key
    for held in ([], rows):
        (tmp_path / "visits.csv").write_text("\n".join(["person,shop,day", *held, ""]))
        run = ["run", str(release), "--overwrite"]
        assert RUN.invoke(cli.app, run).exit_code == 0
        (unit_told,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["privacy_unit"]
        assert words in unit_told["words"]
        told.add(unit_told["words"])
        assert verify(tmp_path / "out").ok
    assert len(told) == 1
