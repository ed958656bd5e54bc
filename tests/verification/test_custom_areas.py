"""Custom areas: sums of estimates, exact errors, and errors with their place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.errors import DpReleaseError, QueryError, VerificationError
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent.family_columns import consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from tests.release.area_family import TOWNS, publish_family, read_family

ASKED = {"columns": '{n: {count: "*", margin: 0.9}, pay: {sum: pay}}', "step": "0.25"}
NAMES = [town for some in TOWNS.values() for town in some]
DRAWN = {
    "leaf": ["Uster", "Thun", "Bern", "Zurich", "Altdorf", "Biel"],
    "area": ["East", "East", "West", "West", "Alps", "West"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_family(tmp_path_factory.mktemp("areas"), **ASKED)


def estimates(folder: Path, table: str) -> pd.DataFrame:
    return pq.read_table(folder / f"estimates/{table}.parquet").to_pandas()


def variance(folder: Path, shares: dict[str, float], keys: tuple[int, ...]) -> float:
    """Return the variance of a sum over towns of one cell of a table by dense least squares."""
    declaration = read_family(folder.parents[1], **ASKED)
    (family,) = prepare(declaration)[1].families
    shape = Shape.of(family.tables)
    state = np.array([i for i, some in enumerate(TOWNS.values()) for _ in some])
    areas = [np.zeros(6), state, np.arange(6)]

    def same(table: tuple[int, ...]) -> Any:
        found = np.ones((1, 1))
        for i, n in enumerate(shape.sizes):
            found = np.kron(found, np.eye(n) if i in table else np.ones((n, n)))
        return found

    size = 6 * math.prod(shape.sizes)
    information = np.zeros((size, size))
    for level, laws in enumerate(consistent_columns(shape)[0].noise_moments):
        for table, law in laws:
            together = areas[level][:, None] == areas[level]
            information += np.kron(together, same(table)) / float(law.variance)
    weights = np.array([shares.get(town, 0.0) for town in NAMES])
    q = np.kron(weights, same(keys)[0])
    return float(q @ np.linalg.solve(information, q))


def test_areas_are_sums_with_exact_errors(folder: Path) -> None:
    found = dprelease.areas(folder, DRAWN)
    assert list(found.columns) == [
        "area", "sex", "band", "n", "n_se", "n_moe", "n_quality",
        "pay", "pay_se", "pay_moe", "pay_quality",
    ]  # fmt: skip
    assert len(found) == 3 * (1 + 2 + 6)
    totals = found[found["sex"].isna() & found["band"].isna()].set_index("area")
    towns = estimates(folder, "pop_town").set_index("town")
    for name in ("East", "West", "Alps"):
        some = [t for t, area in zip(DRAWN["leaf"], DRAWN["area"], strict=True) if area == name]
        for column in ("n", "pay"):
            assert totals.loc[name, column] == towns.loc[some, column].sum()
        exact = math.sqrt(variance(folder, dict.fromkeys(some, 1.0), ()))
        assert totals.loc[name, "n_se"] == pytest.approx(exact, rel=1e-7)
        assert totals.loc[name, "n_se"] >= exact * (1 - 1e-12)
        assert totals.loc[name, "n_moe"] == pytest.approx(1.645 * exact, rel=2e-2)
    by_sex = found[found["band"].isna() & found["sex"].notna()]
    east = math.sqrt(variance(folder, {"Uster": 1.0, "Thun": 1.0}, (0,)))
    assert by_sex[by_sex["area"] == "East"]["n_se"].tolist() == pytest.approx([east] * 2, rel=1e-7)
    # Areas that a release knows have its own estimates and errors.
    assert totals.loc["Alps", "n_se"] == pytest.approx(towns.loc["Altdorf", "n_se"], rel=1e-9)


def test_areas_of_a_level_equal_published_estimates(folder: Path) -> None:
    """The areas of the level above, drawn by hand, have the estimates and errors of the release."""
    drawn = {"town": NAMES, "area": [state for state, some in TOWNS.items() for _ in some]}
    found = dprelease.areas(folder, pd.DataFrame(drawn))
    for table, keys in (("pop_state", ()), ("pop_state_sex", ("sex",))):
        held = estimates(folder, table)
        left = [key for key in ("sex", "band") if key not in keys]
        rows = found[found[left].isna().all(axis=1) & found[list(keys)].notna().all(axis=1)]
        assert len(rows) == len(held)
        order = ["area", *keys]
        rows = rows.set_index(order).sort_index()
        held = held.rename(columns={"state": "area"}).set_index(order).sort_index()
        for column in ("n", "pay"):
            assert rows[column].tolist() == held[column].tolist()
            assert rows[f"{column}_se"].tolist() == pytest.approx(
                held[f"{column}_se"].tolist(), rel=1e-6
            )
        assert rows["n_moe"].tolist() == pytest.approx(held["n_moe"].tolist(), rel=1e-5)


def test_areas_with_shares_of_leaves(folder: Path) -> None:
    drawn = {
        "leaf": ["Uster", "Thun", "Thun", "Bern"],
        "area": ["A", "A", "B", "B"],
        "share": [1, "0.25", 0.75, None],
    }
    found = dprelease.areas(folder, drawn)
    totals = found[found["sex"].isna() & found["band"].isna()].set_index("area")
    towns = estimates(folder, "pop_town").set_index("town")["n"]
    assert totals.loc["A", "n"] == pytest.approx(towns["Uster"] + 0.25 * towns["Thun"], abs=1e-5)
    assert totals.loc["B", "n"] == pytest.approx(0.75 * towns["Thun"] + towns["Bern"], abs=1e-5)
    exact = math.sqrt(variance(folder, {"Uster": 1.0, "Thun": 0.25}, ()))
    assert totals.loc["A", "n_se"] == pytest.approx(exact, rel=1e-7)


BAD: dict[str, tuple[str, str, str]] = {
    "no file": ("", "DP-AREA-001", "No such file"),
    "an empty file": ("\n", "DP-AREA-001", "no column `leaf` (or 'town')"),
    "a header alone": ("leaf,area\n", "DP-AREA-001", "no row names a leaf"),
    "no area": ("leaf,share\nBern,1\n", "DP-AREA-001", "no column `area`"),
    "two areas": ("leaf,area,area\nBern,A,B\n", "DP-AREA-001", "more than one column `area`"),
    "a short line": ("leaf,area\nBern\n", "DP-AREA-001", "too short"),
    "a nameless area": ("leaf,area\nBern,\n", "DP-AREA-001", "no name"),
    "broken quotes": ('leaf,area\n"Bern,A\n', "DP-AREA-001", "no CSV"),
    "no text": ("\x00\ud800", "DP-AREA-001", "UTF-8"),
    "an unknown leaf": ("leaf,area\nBern,A\nBerm,A\n", "DP-AREA-002", "did you mean 'Bern'"),
    "a level above": ("leaf,area\nBE,A\n", "DP-AREA-002", "'BE' is not a value of 'town'"),
    "a leaf in two areas": ("leaf,area\nBern,A\nBern,B\n", "DP-AREA-003", "already belongs to another"),
    "a leaf twice": ("leaf,area\nBern,A\nBern,A\n", "DP-AREA-003", "listed twice"),
    "too much of a leaf": (
        "leaf,area,share\nBern,A,0.7\nThun,A,1\nBern,B,0.31\n", "DP-AREA-003", "more than 1",
    ),
    "a share of more": ("leaf,area,share\nBern,A,1.5\n", "DP-AREA-003", "not a share"),
    "a share of nothing": ("leaf,area,share\nBern,A,0\n", "DP-AREA-003", "not a share"),
    "a share of words": ("leaf,area,share\nBern,A,half\n", "DP-AREA-003", "not a share"),
    "a share that is none": ("leaf,area,share\nBern,A,nan\n", "DP-AREA-003", "not a share"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_areas_are_refused(what: str, folder: Path, tmp_path: Path) -> None:
    text, code, words = BAD[what]
    path = tmp_path / "districts.csv"
    if text:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(QueryError) as caught:
        dprelease.areas(folder, path)
    assert (caught.value.code, words in str(caught.value)) == (code, True), str(caught.value)
    assert caught.value.place.file == "districts.csv"


LONGER = {"leaf": ["Bern", "Thun"], "area": ["A"]}


@pytest.mark.parametrize("given", [3, None, ["Bern"], {"leaf": ["Bern"]}, LONGER, object()])
def test_arguments_that_are_no_areas_are_refused(given: object, folder: Path) -> None:
    with pytest.raises(QueryError) as caught:
        dprelease.areas(folder, given)
    assert caught.value.code == "DP-AREA-001"


NAMED = {
    "no other": ({}, "area"),
    "a column": ({"columns": "{Area: {sum: pay}}"}, "drawn_area"),
    "a key": (
        {"asked": "derive: {area: {type: boolean, expression: old}}\n"
                  "    hierarchy: [town]\n    marginals: [[], [area]]"}, "drawn_area",
    ),
    "all of them": (
        {"asked": "derive: {area: {type: boolean, expression: old}}\n"
                  "    hierarchy: [town]\n    marginals: [[], [area]]",
         "columns": "{drawn_area: {count: '*'}}"}, "drawn_drawn_area",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NAMED)
def test_area_column_avoids_names_of_the_release(what: str, tmp_path: Path) -> None:
    """Each area has its own sums, in a column of its own."""
    given, called = NAMED[what]
    found = dprelease.areas(publish_family(tmp_path, **given), DRAWN)
    assert found.columns[0] == called
    assert set(found[called]) == {"East", "West", "Alps"}
    assert len(found) % 3 == 0
    assert len({name.casefold() for name in found.columns}) == len(found.columns)


NONE: dict[str, tuple[dict[str, str], str]] = {
    "no family": ({"consistent": "false", "asked": "hierarchy: [town]"}, "it has none"),
    "no hierarchy": ({"asked": "group_by: [sex]"}, "it has no hierarchy"),
    "higher levels alone": ({"consistent": "{publish: {down_to: state}}"}, "no estimates"),
    "several": (
        {"more": "  other: {from: people, hierarchy: [state, town], consistent: true, "
                 "columns: {n: {count: '*'}}}\n"}, "pop, other",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NONE)
def test_releases_without_areas_are_refused(what: str, tmp_path: Path) -> None:
    asked, words = NONE[what]
    folder = publish_family(tmp_path, **asked)
    with pytest.raises(QueryError) as caught:
        dprelease.areas(folder, DRAWN)
    assert (caught.value.code, words in str(caught.value)) == ("DP-AREA-004", True), caught.value
    if what == "several":
        assert len(dprelease.areas(folder, DRAWN, query="other")) == 3
        with pytest.raises(QueryError):
            dprelease.areas(folder, DRAWN, query="third")


def test_folders_without_valid_release_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(VerificationError) as caught:
        dprelease.areas(tmp_path, DRAWN)
    assert caught.value.code == "DP-VERIFY-001"
    altered = publish_family(tmp_path, **ASKED)
    path = altered / "estimates/pop_town.parquet"
    path.write_bytes((folder / "estimates/pop_state.parquet").read_bytes())
    with pytest.raises(DpReleaseError) as other:
        dprelease.areas(altered, DRAWN)
    assert other.value.code == "DP-VERIFY-004"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_areas_command_writes_a_new_file(form: str, folder: Path, tmp_path: Path) -> None:
    districts, output = tmp_path / "districts.csv", tmp_path / f"found.{form}"
    pd.DataFrame(DRAWN).to_csv(districts, index=False)
    command = ["areas", str(folder), str(districts), "--output", str(output)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    as_written = {"n": float, "n_se": float}  # to the bit in any version
    held = pd.read_csv(output, converters=as_written) if form == "csv" else pd.read_parquet(output)
    wanted = dprelease.areas(folder, DRAWN)
    assert held["n"].tolist() == wanted["n"].tolist()
    assert held["n_se"].tolist() == wanted["n_se"].tolist()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "DP-OUTPUT-014" in again.output


def test_areas_command_shows_areas(folder: Path, tmp_path: Path) -> None:
    districts = tmp_path / "districts.csv"
    pd.DataFrame(DRAWN).to_csv(districts, index=False)
    shown = CliRunner().invoke(app, ["areas", str(folder), str(districts), "--wide"])
    assert shown.exit_code == 0
    assert "East" in shown.output
    told = CliRunner().invoke(app, ["areas", str(folder), str(districts), "--json"])
    rows = json.loads(told.output)
    assert [row["area"] for row in rows[:3]] == ["East", "West", "Alps"]
    assert rows[0]["sex"] is None
    wrong = CliRunner().invoke(app, ["areas", str(folder), str(districts), "--output", "x.txt"])
    assert wrong.exit_code == 2
