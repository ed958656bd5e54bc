"""Several groupings of the same towns: they add up, with the errors of least squares over all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dprelease
from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import first_pass
from dprelease.errors import DpReleaseError, Findings
from dprelease.planning.families.family_errors import consistent_errors
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent import area_tables, values
from dprelease.postprocess.consistent.area_tables import group_errors, leaves_of_groups
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.postprocess.test_consistent_coverage import ROOTS, drawn_errors
from tests.release.area_family import (
    CLASSES,
    GROUPED,
    TOWNS,
    TREE,
    publish_family,
    read_family,
    write_family,
)
from tests.replay import Keyed

GROUPINGS = "groupings: [size, zone, market]"
STATE_OF = {town: state for state, some in TOWNS.items() for town in some}
GROUP_OF = {
    "size": {town: size for town, (size, _) in CLASSES.items()},
    "market": {town: market for town, (_, market) in CLASSES.items()},
    "zone": {town: "West" if market == "M3" else "East" for town, (_, market) in CLASSES.items()},
}
SITUATIONS: dict[str, dict[str, str]] = {
    "integers": {"consistent": f"{{{GROUPINGS}, non_negative: true}}"},
    "sums and means": {
        "consistent": f"{{{GROUPINGS}}}",
        "columns": '{n: {count: "*", margin: 0.9}, pay: {sum: pay}, mean: {mean: pay}}',
        "step": "0.25",
    },
    "other tables of towns": {
        "asked": "hierarchy: [state, town]\n    marginals: [[], [sex]]\n"
        "    marginals_at: {town: [[band, sex]]}",
        "consistent": f"{{{GROUPINGS}, non_negative: true, zeros: [{{band: 0-17, sex: m}}]}}",
    },
    "measured": {
        "asked": f"{TREE}\n    marginals_at: {{market: [[], [sex]], size: [[band, sex]]}}",
        "consistent": f"{{{GROUPINGS}, non_negative: true}}",
        "columns": '{n: {count: "*"}, pay: {sum: pay}, mean: {mean: pay}}',
    },
    "noise with a mean": {
        "consistent": f"{{{GROUPINGS}}}",
        "mechanism": "{name: asymmetric_laplace, k: 1.5, debias: false}",
    },
}


def read_frame(folder: Path, table: str) -> pd.DataFrame:
    return pq.read_table(folder / f"{table}.parquet").to_pandas()


class LeastSquares:
    """Least squares over all measured cells, from published numbers alone, by dense matrices."""

    def __init__(self, folder: Path) -> None:
        (family,) = json.loads((folder / "manifest.json").read_text())["families"]
        measured = family["record"]["columns"][0]["measured"]
        finest = max(
            (one for one in measured if one["level"] == "town"), key=lambda o: len(o["keys"])
        )
        keys = ["town", *finest["keys"]]
        self.cells = read_frame(folder, f"measurements/{finest['table']}")[keys]
        self.cells["state"] = self.cells["town"].map(STATE_OF)
        for name, groups in GROUP_OF.items():
            self.cells[name] = self.cells["town"].map(groups)
        rows, right = [], []
        for one in measured:
            weight = one["variance"] ** -0.5
            for row in read_frame(folder, f"measurements/{one['table']}").to_dict("records"):
                right.append((row["n"] - one["mean"]) * weight)
                cell = {key: row[key] for key in row if key in self.cells}
                rows.append(self.weights(cell) * weight)
        design = np.array(rows)
        self.estimates = np.linalg.lstsq(design, np.array(right), rcond=None)[0]
        self.covariance = np.linalg.inv(design.T @ design)

    def weights(self, cell: dict[str, Any]) -> Any:
        """Return 1 for the finest cells with these values of keys, and 0 for all others."""
        inside = np.ones(len(self.cells), bool)
        for key, value in cell.items():
            inside &= self.cells[key] == value
        return np.asarray(inside, float)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_groupings_equal_least_squares_over_all_tables(situation: str, tmp_path: Path) -> None:
    """Values and errors are those of dense normal equations; areas drawn by hand agree."""
    folder = publish_family(tmp_path, **{**GROUPED, **SITUATIONS[situation]})
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    exact, seen = LeastSquares(folder), set()
    for path in sorted(folder.glob("estimates/*.parquet")):
        table = pq.read_table(path).to_pandas()
        name = table.columns[0]
        if name not in GROUP_OF:
            continue
        keys = [key for key in (name, "sex", "band") if key in table]
        seen.add(name)
        for row in table.to_dict("records"):
            q = exact.weights({key: row[key] for key in keys})
            assert row["n"] == pytest.approx(q @ exact.estimates, abs=1e-3)
            assert row["n_se"] == pytest.approx(math.sqrt(q @ exact.covariance @ q), rel=1e-6)
        drawn = dprelease.areas(
            folder, {"leaf": list(CLASSES), "area": [GROUP_OF[name][town] for town in CLASSES]}
        )
        left = [key for key in ("sex", "band") if key not in keys]
        drawn = drawn[drawn[left].isna().all(axis=1) & drawn[keys[1:]].notna().all(axis=1)]
        drawn = (
            drawn.rename(columns={"area": name}).set_index(keys).loc[table.set_index(keys).index]
        )
        for column in table.columns.difference(keys):
            if column.endswith("_quality"):
                assert drawn[column].tolist() == table[column].tolist()
            else:
                assert drawn[column].to_numpy() == pytest.approx(table[column], nan_ok=True)
        if "non_negative" in SITUATIONS[situation]["consistent"]:
            whole = read_frame(folder, f"tables/{path.stem}")
            towns = read_frame(folder, f"tables/{path.stem.replace(name, 'town')}")
            towns[name] = towns["town"].map(GROUP_OF[name])
            sums = towns.groupby(keys)["n"].sum()
            assert whole.set_index(keys)["n"].to_dict() == sums.to_dict()
            width = whole["n_upper"] - whole["n_lower"]
            assert (
                np.maximum(whole["n_upper"] - whole["n"], whole["n"] - whole["n_lower"])
                <= whole["n_moe"]
            ).all()
            possible = width > 0  # other cells are zeros by declaration
            near = 2 * 1.9 * table["n_se"][possible & (whole["n_lower"] > 0)]
            assert (width[near.index] >= near - 2).all()  # cut to whole numbers
            assert possible.sum() >= len(table) * 5 / 6
    assert seen == {*GROUP_OF}


def test_groups_of_invariant_areas_are_exact(tmp_path: Path) -> None:
    """Invariants of states: a group that is a union of states has no error, another one has."""
    lands = {town: "North" if state == "BE" else "South" for town, state in STATE_OF.items()}
    path = write_family(
        tmp_path,
        within="[state, size, land]",
        classes=GROUPED["classes"].splitlines()[0]
        + "\n  land: {type: category, values: [North, South]}\n",
        consistent="{groupings: [land, size], non_negative: true, invariants: [{level: state}],"
        " acknowledge: invariants are published exactly}",
        budget="epsilon: 1, delta: 1e-6, neighbours: replace",
    )
    lines = [f"{town},{STATE_OF[town]},{CLASSES[town][0]},{lands[town]}" for town in CLASSES]
    (tmp_path / "towns.csv").write_text("\n".join(["town,state,size,land", *lines, ""]))
    folder = run(read_declaration(path), bits=Keyed("exact"))
    assert dprelease.verify(folder).ok
    land, size = (read_frame(folder, f"estimates/pop_{name}") for name in ("land", "size"))
    assert land["n_se"].tolist() == [0.0, 0.0]
    assert (size["n_se"] > 1).all()
    whole = read_frame(folder, "tables/pop_land")
    assert whole["n"].tolist() == whole["n_lower"].tolist() == whole["n_upper"].tolist()
    assert whole["n"].tolist() == land["n"].tolist()
    cells: dict[str, Any] = {"old_cells": {"land": "North"}, "new_cells": {"land": "South"}}
    (change,) = dprelease.compare(folder, folder, table="pop_land", **cells).to_dict("records")
    assert change["change_lower"] == change["change"] == change["change_upper"]


def family_column(folder: Path, **asked: str) -> FamilyColumn:
    declaration = read_family(folder, **{**GROUPED, "consistent": f"{{{GROUPINGS}}}", **asked})
    (family,) = prepare(declaration)[1].families
    return consistent_columns(Shape.of(family.tables))[0]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_margins_of_groups_have_stated_coverage(mechanism: str, tmp_path: Path) -> None:
    """Two-armed: neither too rarely nor much too often, and errors have the stated variance."""
    column = family_column(tmp_path, mechanism=mechanism, budget="epsilon: 0.2, delta: 1e-6")
    shape = column.shape
    variances, found = drawn_errors(column)
    unit = 2.0**variances.structure.bits
    leaves = len(CLASSES)
    for number, tables in enumerate(shape.grouped):
        known = group_errors(shape, number, column.variances)
        for placed, _ in tables:
            table: Table = placed.attributes
            cells = found[-1][table].reshape(ROOTS, leaves, -1)[:, :, 0] / unit
            for some, one in zip(leaves_of_groups(shape, number), known, strict=True):
                sums, error = (
                    cells[:, some].sum(axis=1),
                    one.standard_error(column.variances, table),
                )
                assert np.mean(sums**2) == pytest.approx(error**2, rel=7 * math.sqrt(8 / ROOTS))
                inside = int((np.abs(sums) <= column.quantile * error).sum())
                assert inside >= stats.binom.ppf(1e-9, ROOTS, 0.95)
                most = 0.95 if mechanism == "discrete_gaussian" else 0.97
                assert inside <= stats.binom.isf(1e-9, ROOTS, most)


def test_groupings_cost_no_budget(tmp_path: Path) -> None:
    """They are computed from the same measurements with the same noise; `plan` has their errors."""
    plans = [
        prepare(read_family(tmp_path / name, **GROUPED, consistent=asked))[1]
        for name, asked in (("with", f"{{{GROUPINGS}}}"), ("without", "true"))
    ]
    assert plans[0].guarantee == plans[1].guarantee
    measured = [[(c.query.name, c.mechanism) for c in plan.columns] for plan in plans]
    assert measured[0] == measured[1]
    (planned,) = consistent_errors(plans[0])
    rows = {row["table"]: row for row in planned.to_json()}
    folder = publish_family(tmp_path / "with", **GROUPED, consistent=f"{{{GROUPINGS}}}")
    for name in ("pop_size", "pop_market_sex", "pop_zone_band_sex"):
        held = read_frame(folder, f"estimates/{name}")
        assert rows[name]["largest"] == pytest.approx(held["n_se"].max(), rel=1e-6)
        assert rows[name]["level"] == name.split("_")[1]
        assert rows[name]["cells"] == len(held)


def test_measured_groupings_share_the_budget(tmp_path: Path) -> None:
    """A measured table has the mean share of all others, times the root of its weight."""
    tables = {**GROUPED, "asked": f"{TREE}\n    marginals_at: {{market: [[], [sex]]}}"}
    target = ", targets: [{level: market, weight: 16}]"
    shares, errors_of = [], []
    for name, targets in (("equal", ""), ("weighted", target)):
        plan = prepare(
            read_family(tmp_path / name, **tables, consistent=f"{{{GROUPINGS}{targets}}}")
        )[1]
        (planned,) = consistent_errors(plan)
        agreed = planned.agreed
        share = {
            one.name: 1 / float(agreed.moments_of(one).variance)
            for one in (*agreed.shape.placed, *agreed.shape.grouping_tables)
        }
        mean = math.fsum(share[one.name] for one in agreed.shape.placed) / len(agreed.shape.placed)
        shares.append((share["pop_market"] / mean, share["pop_market_sex"] / mean))
        errors_of.append({row["table"]: row for row in planned.to_json()})
    assert np.array(shares) == pytest.approx(np.array([[1, 1], [4, 1]]), rel=0.01)
    row, summed = errors_of[0]["pop_market"], errors_of[0]["pop_size"]
    assert row["estimate"] < row["one_table"] <= row["measured"]
    assert summed["measured"] is None
    assert errors_of[1]["pop_market"]["estimate"] < row["estimate"]


def larger(column: str, by: float) -> Any:
    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        rows[0][column] += by
        return pa.Table.from_pylist(rows, schema=table.schema)

    return change


@pytest.mark.parametrize(
    ("kind", "column", "by", "problem"),
    [
        ("estimates", "n", 2.0**-20, "is not the sum of 'pop_town_sex'"),
        ("estimates", "n_se", 1e-3, "are not those of a solve"),
        ("tables", "n", 1, "is not the sum of 'pop_town_sex'"),
    ],
)
def test_the_second_check_finds_planted_faults(
    kind: str, column: str, by: float, problem: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The step has the fault too, so the first check does not see it."""
    asked = {**GROUPED, "consistent": f"{{{GROUPINGS}, non_negative: true}}"}
    rows = area_tables.GroupTables.rows

    def wrong(self: area_tables.GroupTables, *, with_integers: bool) -> Any:
        for name, batch in rows(self, with_integers=with_integers):
            if name == f"{kind}/pop_market_sex":
                numbers = batch.values[column]
                numbers[0] += type(numbers[0])(by)
            yield name, batch

    monkeypatch.setattr(area_tables.GroupTables, "rows", wrong)
    report = dprelease.verify(publish_family(tmp_path, **asked))
    assert [f.code for f in report.findings] == ["DP-VERIFY-013"]
    assert problem in str(report.findings[0])


REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "no hierarchy": (
        {"asked": "marginals: [[], [sex]]", "consistent": "{groupings: size}"},
        "DP-CONSIST-013", "there is no hierarchy",
    ),
    "no such column": ({"consistent": "{groupings: sizes}"}, "DP-CONSIST-013", "lie within"),
    "no area": ({"consistent": "{groupings: sex}"}, "DP-CONSIST-013", "already"),
    "a level": ({"consistent": "{groupings: state}"}, "DP-CONSIST-013", "already"),
    "twice": ({"consistent": "{groupings: [size, size]}"}, "DP-CONSIST-013", "already"),
    "another column": ({"consistent": "{groupings: old}"}, "DP-CONSIST-013", "lie within"),
    "towns without estimates": (
        {"consistent": "{groupings: size, publish: {down_to: state}}"},
        "DP-CONSIST-013", "no estimates",
    ),
    "a second chain as levels": (
        {"asked": "hierarchy: [size, town]", "consistent": "true"},
        "DP-CONSIST-001", "`groupings`",
    ),
    "a grouping as a key": (
        {"asked": "hierarchy: [state, town]\n    marginals: [[size]]", "consistent": "true"},
        "DP-CONSIST-002", "areas of one tree",
    ),
    "a measured table that towns do not have": (
        {"asked": f"{TREE}\n    marginals_at: {{size: [[band]]}}", "consistent": "{groupings: size}"},
        "DP-CONSIST-013", "must be tables of 'town'",
    ),
    "measured tables of no grouping": (
        {"asked": f"{TREE}\n    marginals_at: {{market: [[]]}}", "consistent": "{groupings: size}"},
        "DP-DECL-003", "levels are state, town, size",
    ),
    "a margin as a target": (
        {
            "asked": f"{TREE}\n    marginals_at: {{size: [[]]}}",
            "consistent": "{groupings: size, targets: [{level: size, moe: 5}]}",
        },
        "DP-CONSIST-013", "no margin as a target",
    ),
    "a name of a column": (
        {"columns": "{size: {count: '*'}}", "consistent": "{groupings: size}"},
        "DP-CONSIST-011", "another column has this name",
    ),
    "a name of a table": (
        {"consistent": "{groupings: size}", "more": "  pop_size: {from: people, columns: {n: {count: '*'}}}\n"},
        "DP-DECL-006", "pop_size",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_groupings_are_refused(case: str, tmp_path: Path) -> None:
    asked, code, text = REFUSED[case]
    with pytest.raises((DpReleaseError, Findings)) as caught:
        prepare(read_family(tmp_path, **{**GROUPED, **asked}))
    found = getattr(caught.value, "findings", (caught.value,))
    assert any(one.code == code and text in str(one) for one in found), [str(f) for f in found]


def test_contradicting_groupings_are_refused(tmp_path: Path) -> None:
    """A zone contains towns by their state and by their market."""
    within = GROUPED["classes"].replace("[West, East]}", "[West, East]}")
    ways = {
        **GROUPED,
        "classes": within + "  land: {type: category, within: zone, "
        "values: {West: [large], East: [small]}}\n",
    }
    ways["classes"] = ways["classes"].replace("  size:", "  size_of:").replace("  land:", "  size:")
    with pytest.raises((DpReleaseError, Findings)) as caught:
        prepare(read_family(tmp_path, **ways, consistent="{groupings: zone}"))
    assert "contradict each other" in str(caught.value)


def test_pieces_of_the_tree_do_not_change_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Towns of a group are in several pieces, which are computed one by one."""
    asked = {
        **GROUPED,
        "asked": f"{TREE}\n    marginals_at: {{market: [[sex]]}}",
        "consistent": f"{{{GROUPINGS}, non_negative: true}}",
    }
    whole = publish_family(tmp_path / "whole", **asked)
    monkeypatch.setattr(values, "FEW", 0)
    least = (*(first_pass.__defaults__ or ())[:-1], 1)  # the last default: cells of a piece
    monkeypatch.setattr(first_pass, "__defaults__", least)
    parts = publish_family(tmp_path / "parts", **asked)
    tables = [*whole.glob("estimates/pop_market*"), *whole.glob("tables/pop_zone*")]
    assert len(tables) == 6
    for table in tables:
        assert pq.read_table(table).equals(pq.read_table(parts / table.relative_to(whole)))
