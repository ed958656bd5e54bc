"""Families with different tables at some levels: measured, charged, published, verified."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError, Findings
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from tests.release.area_family import BY_ID, publish_family, read_family, write_family
from tests.release.test_consistent import read_tables, sums
from tests.release.test_shared_families import ASKED as FAMILY
from tests.release.test_shared_families import OTHER

FINEST = "hierarchy: [state, town]\n    marginals: [[], [sex], [band, sex]]\n    {at}"
AT_TOWNS = FINEST.format(at="marginals_at: {town: [[band, sex]]}")
WHOLE = "{non_negative: true}"


ABOVE = ["total", "sex", "band_sex", "state", "state_sex", "state_band_sex"]
LEVELS = {
    AT_TOWNS: [*ABOVE, "town_band_sex"],
    FINEST.format(at="marginals_at: {state: [[sex, band], [band]]}"): [
        *ABOVE[:3], "state_sex_band", "state_band", "town", "town_sex", "town_band_sex",
    ],
    "hierarchy: [state, town]\n    marginals_at: {town: [[sex]], state: [[], [sex]]}\n"
    "    group_by: [sex]": ["sex", "state", "state_sex", "town_sex"],
}  # fmt: skip


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("asked", "tables"), LEVELS.items())
@pytest.mark.parametrize("consistent", ["true", WHOLE])
def test_each_level_publishes_its_own_tables(
    asked: str, tables: list[str], consistent: str, tmp_path: Path
) -> None:
    """Nothing else is measured or published; tables add up, and both checks pass."""
    folder = publish_family(tmp_path, asked=asked, consistent=consistent)
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    named = {f"pop_{name}" for name in tables}
    assert read_tables(folder, "measurements").keys() == named
    for kind in ("estimates", *(["tables"] if consistent == WHOLE else [])):
        held = read_tables(folder, kind)
        assert held.keys() == named
        assert len({sum(sums(table, "n")) for table in held.values()}) == 1
    record = json.loads((folder / "manifest.json").read_text())
    assert {one["query"] for one in record["measurements"]} == named


def standard_deviations(plan: Plan) -> dict[str, float]:
    return {column.query.name: column.standard_deviation for column in plan.columns}


@pytest.mark.parametrize("unit", ["privacy_unit: {}\n", BY_ID])
def test_unmeasured_tables_cost_no_budget(unit: str, tmp_path: Path) -> None:
    """The measured tables get the whole budget; sensitivities stay those of the family."""
    _, some = prepare(read_family(tmp_path / "some", asked=AT_TOWNS, unit=unit))
    _, every = prepare(read_family(tmp_path / "all", asked=FINEST.format(at=""), unit=unit))
    assert len(some.columns) == len(every.columns) - 2
    assert some.guarantee.epsilon == pytest.approx(every.guarantee.epsilon, rel=1e-2)
    claimed = {c.query.name: c.measurement.sensitivity for c in every.columns}
    assert all(c.measurement.sensitivity == claimed[c.query.name] for c in some.columns)
    if unit != BY_ID:  # each table costs the same for its precision
        one, other = (
            sum(error**-2 for error in standard_deviations(plan).values()) for plan in (some, every)
        )
        assert one == pytest.approx(other, rel=0.02)


def test_queries_of_a_family_have_their_own_levels(tmp_path: Path) -> None:
    """One query has a table at a level where another has none; the noise is that of one query."""
    asked = FAMILY["asked"] + "\n    marginals_at: {town: [[sex, old]]}"
    left = (
        "hierarchy: [state, town]\n    marginals: [[band]]\n"
        "    marginals_at: {town: [[], [band, old]]}"
    )
    more = OTHER.format(asked=left, rest="")
    family = {**FAMILY, "asked": asked, "more": more}
    folder = publish_family(tmp_path / "two", **family)
    assert dprelease.verify(folder).ok
    held = read_tables(folder, "estimates")
    assert {"pop_town_sex_old", "other_town", "other_town_band_old"} <= held.keys()
    assert not {"pop_town", "other_town_band"} & held.keys()
    assert len({sum(table["n"].to_pylist()) for table in held.values()}) == 1
    _, apart = prepare(read_family(tmp_path / "apart", **family))
    together = FINEST.format(at="marginals_at: {town: [[sex, old], [], [band, old]]}").replace(
        "[[], [sex], [band, sex]]", "[[], [sex], [sex, old], [band]]"
    )
    _, one = prepare(read_family(tmp_path / "one", asked=together))
    assert sorted(standard_deviations(one).values()) == sorted(standard_deviations(apart).values())


REFUSED = {
    "another level": (FINEST.format(at="marginals_at: {city: [[sex]]}"), {}, "DP-DECL-003"),
    "without consistent": (
        "marginals: [[sex]]\n    marginals_at: {town: [[sex]]}",
        {"consistent": "false"},
        "DP-DECL-003",
    ),
    "no table": (FINEST.format(at="marginals_at: {town: []}"), {}, "DP-DECL-003"),
    "one twice": (FINEST.format(at="marginals_at: {town: [[sex, old], [old, sex]]}"), {},
                  "DP-DECL-003"),
    "an area as key": (FINEST.format(at="marginals_at: {town: [[state]]}"), {}, "DP-DECL-003"),
    "an unknown key": (FINEST.format(at="marginals_at: {town: [[colour]]}"), {}, "DP-QUERY-001"),
    "a target elsewhere": (
        AT_TOWNS, {"consistent": "{targets: [{level: town, table: [sex], weight: 2}]}"},
        "DP-CONSIST-013",
    ),
    "one table of two queries": (
        FAMILY["asked"],
        {
            "consistent": FAMILY["consistent"],
            "more": OTHER.format(
                asked="hierarchy: [state, town]\n    marginals: [[band]]\n"
                "    marginals_at: {town: [[sex]]}", rest="",
            ),
        },
        "DP-CONSIST-030",
    ),
}  # fmt: skip


@pytest.mark.parametrize("tables", ["[[sex]]", "[[sex], [band]]"])
def test_integer_tables_without_full_table_at_a_level(tables: str, tmp_path: Path) -> None:
    asked = FINEST.format(at=f"marginals_at: {{town: {tables}}}")
    folder = publish_family(
        tmp_path, asked=asked, consistent="{non_negative: true, publish: {records: true}}"
    )
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    persons = pq.read_table(folder / "records/pop_invented.parquet").to_pandas()
    towns = pq.read_table(folder / "tables/pop_town_sex.parquet").to_pandas()
    counted = persons.groupby(["town", "sex"]).size()
    for town, sex, number in zip(towns["town"], towns["sex"], towns["n"], strict=True):
        assert counted.get((town, sex), 0) == number


@pytest.mark.parametrize("what", REFUSED)
def test_impossible_tables_at_a_level_are_refused(what: str, tmp_path: Path) -> None:
    asked, more, code = REFUSED[what]
    with pytest.raises(DpReleaseError) as refused:
        prepare(read_family(tmp_path, asked=asked, **more))
    error = refused.value
    found = error.errors if isinstance(error, Findings) else (error,)
    assert {one.code for one in found} == {code}
    text = write_family(tmp_path, asked=asked, **more).read_text().splitlines()
    if what in ("an unknown key", "one table of two queries", "an area as key"):
        assert all("marginals_at" in text[(one.place.line or 1) - 1] for one in found)
