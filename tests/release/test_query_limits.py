"""Contribution limits that one query declares in place of those of its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.covering import thinned
from tests.replay import Keyed

UNIT = {"id": "patient", "max_groups": 4, "max_rows_per_group": 3}
LIMITS: list[dict[str, Any]] = [
    {"max_groups": 1},
    {"max_rows_per_group": 1},
    {"max_groups": 2, "max_rows_per_group": 2},
    {"max_rows": 3},
    {"max_groups": 9, "max_rows_per_group": 5, "max_rows": 6},
]
QUERIES: dict[str, dict[str, Any]] = {
    "counts": {"group_by": ["chapter"], "columns": {"n": {"count": "*"}, "c": {"sum": "cost"}}},
    "people": {"group_by": ["chapter"], "columns": {"p": {"count_distinct": "patient"}}},
    "medians": {"group_by": ["sex"], "columns": {"m": {"median": "cost"}, "a": {"mean": "cost"}}},
    "family": {
        "marginals": [[], ["sex"], ["chapter", "sex"]],
        "columns": {"n": {"count": "*"}},
        "consistent": True,
    },
    "joined": {
        "join": {"table": "people", "on_unit": True},
        "group_by": ["kind"],
        "columns": {"n": {"count": "*"}},
    },
}
FRAME = pd.DataFrame(
    [
        (i, "abcd"[(i + j) % 4], "fm"[i % 2], (3 * i + j) % 10)
        for i in range(60)
        for j in range(1 + i % 9)
    ],
    columns=["patient", "chapter", "sex", "cost"],
)
PEOPLE = pd.DataFrame({"patient": range(60), "kind": ["x", "y", "z"] * 20})


def declare(folder: Path, unit: dict[str, Any], query: dict[str, Any], **more: Any) -> Path:
    """Return the file of a release of one query of visits."""
    folder.mkdir()
    visits = {
        "table": "visits",
        "privacy_unit": unit,
        "columns": {
            "patient": {"type": "integer"},
            "chapter": {"type": "category", "values": [*"abcd"]},
            "sex": {"type": "category", "values": [*"fm"]},
            "cost": {"type": "integer", "lower": 0, "upper": 9},
        },
    }
    people = {
        "table": "people",
        "privacy_unit": unit,
        "columns": {
            "patient": {"type": "integer"},
            "kind": {"type": "category", "values": [*"xyz"]},
        },
    }
    release = {
        "title": "t",
        "tables": ["visits.yaml", "people.yaml"],
        "budget": {"epsilon": 2},
        "queries": {"q": {"from": "visits", **query}},
        "output": "out",
        **more,
    }
    for name, text in (("visits", visits), ("people", people), ("release", release)):
        (folder / f"{name}.yaml").write_text(json.dumps(text))
    return folder / "release.yaml"


def tables_of(path: Path) -> dict[str, Any]:
    """Return the published tables of a release, whose noise is the same in every call."""
    frames = {"visits": FRAME, "people": PEOPLE}
    folder = run(read_declaration(path), frames=frames, bits=Keyed("limits"))
    assert dprelease.verify(folder).ok
    return {one.name: pq.read_table(one).to_pydict() for one in sorted(folder.rglob("*.parquet"))}


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("kind", "limits"), thinned([*QUERIES], LIMITS, together=2), ids=lambda one: str(one)[:40]
)
def test_limits_of_a_query_act_like_limits_of_the_table(
    tmp_path: Path, kind: str, limits: dict[str, Any]
) -> None:
    """The same rows, noise, labels and guarantee as if the table declared these limits."""
    query = QUERIES[kind]
    own = tables_of(declare(tmp_path / "own", UNIT, {**query, **limits}))
    table = tables_of(declare(tmp_path / "table", {**UNIT, **limits}, query))
    assert own == table
    without = tables_of(declare(tmp_path / "without", UNIT, query))
    has_effect = kind != "people" or [*limits] != ["max_rows_per_group"]  # people have no rows
    assert own.keys() == without.keys() != set()
    assert (own != without) is has_effect
    records = [
        json.loads((tmp_path / name / "out" / "manifest.json").read_text())
        for name in ("own", "table")
    ]
    for key in ("privacy_unit", "guarantee", "measurements"):
        assert records[0][key] == records[1][key]
    for limit, value in limits.items():
        assert records[0]["privacy_unit"][0][limit] == value


def test_other_queries_keep_the_limits_of_the_table(tmp_path: Path) -> None:
    path = declare(tmp_path / "r", UNIT, {})
    spec = json.loads(path.read_text())
    counts = {"from": "visits", **QUERIES["counts"]}
    spec["queries"] = {"all": counts, "fewer": {**counts, "max_groups": 1}}
    path.write_text(json.dumps(spec))
    units = {query.name: query.unit for query in dprelease.read_release(path).plan().queries}
    assert (units["all"].max_groups, units["fewer"].max_groups) == (4, 1)
    assert units["all"].max_rows_per_group == units["fewer"].max_rows_per_group == 3


@pytest.mark.parametrize(
    ("unit", "query"),
    [
        ({}, {**QUERIES["counts"], "max_groups": 2}),
        ({}, {**QUERIES["counts"], "max_rows": 2}),
        (
            UNIT,
            {
                **QUERIES["joined"],
                "join": {"table": "people", "on_unit": True, "max_groups": 2},
                "max_groups": 2,
            },
        ),
    ],
)
def test_limits_without_effect_are_refused(
    tmp_path: Path, unit: dict[str, Any], query: dict[str, Any]
) -> None:
    with pytest.raises(DpReleaseError, match="DP-QUERY-016"):
        read_declaration(declare(tmp_path / "r", unit, query))


@pytest.mark.parametrize("value", [0, -1, "1.5", "many", [1], {}, {"value": 2, "choose": {}}])
@pytest.mark.parametrize("limit", ["max_groups", "max_rows_per_group", "max_rows"])
def test_invalid_limits_are_refused(tmp_path: Path, limit: str, value: Any) -> None:
    with pytest.raises(DpReleaseError, match=r"DP-DECL-00\d"):
        read_declaration(declare(tmp_path / "r", UNIT, {**QUERIES["counts"], limit: value}))


def test_queries_of_a_family_must_declare_equal_limits(tmp_path: Path) -> None:
    path = declare(tmp_path / "r", UNIT, {})
    spec = json.loads(path.read_text())
    shared = {"from": "visits", "columns": {"n": {"count": "*"}}, "consistent": True, "family": "f"}
    spec["queries"] = {
        "a": {**shared, "group_by": ["sex"], "max_rows": 2},
        "b": {**shared, "group_by": ["chapter"]},
    }
    path.write_text(json.dumps(spec))
    with pytest.raises(DpReleaseError, match="max_rows"):
        dprelease.read_release(path).plan()


def test_profiles_try_the_limits_of_a_query(tmp_path: Path) -> None:
    """The noise of a tried limit is that of a plan with this limit, in query or table."""
    profiles = []
    for name, unit, more in (
        ("own", UNIT, {"max_groups": 2}),
        ("table", {**UNIT, "max_groups": 2}, {}),
    ):
        path = declare(tmp_path / name, unit, {**QUERIES["counts"], **more})
        found = dprelease.profile_release(path, frames={"visits": FRAME, "people": PEOPLE})
        profiles.append(found.to_json()["bounds"])
    assert profiles[0] == profiles[1]
