"""Keys of tables that agree: levels from one tree of areas, and the finest cells of all tables."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from dprelease.errors import DpReleaseError, Findings
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import declaration_of

SCHEMA = """\
table: people
source: people.csv
columns:
  country: {type: category, values: [CH]}
  state: {type: category, within: country, values: {CH: [ZH, BE]}}
  county: {type: category, within: state, values_from: counties.csv}
  sex: {type: category, values: [f, m]}
  age: {type: integer, lower: 0, upper: 119}
  band: {cut: age, edges: [0, 18, 65, 120]}
  decade: {cut: age, edges: [0, 10, 120]}
"""
COUNTIES = "county,state\nThun,BE\nUster,ZH\nBern,BE\nZurich,ZH\n"
RELEASE = """\
title: A family
tables: [people.yaml]
budget: {{epsilon: 1}}
queries:
  pop:
    from: people
    {asked}
    columns: {{n: {{count: "*"}}}}
    consistent: {consistent}
output: out/people
"""


def queries(folder: Path, asked: str, consistent: str = "true") -> tuple[Query, ...]:
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "counties.csv").write_text(COUNTIES)
    text = RELEASE.format(asked=asked, consistent=consistent)
    return resolve(declaration_of(text, folder / "release.yaml"))


def test_hierarchy_times_marginals(tmp_path: Path) -> None:
    made = queries(tmp_path, "hierarchy: [state, county]\n    marginals: [[], [sex], [sex, band]]")
    assert [query.name for query in made] == [
        "pop_total", "pop_sex", "pop_sex_band",
        "pop_state", "pop_state_sex", "pop_state_sex_band",
        "pop_county", "pop_county_sex", "pop_county_sex_band",
    ]  # fmt: skip
    for query in made:
        assert query.finest is not None
        assert [key.column for key in query.finest.keys] == ["county", "sex", "band"]
    state, county = (made[i].keys.keys[0] for i in (3, 6))
    # The parts of an area stand side by side, as they were declared.
    assert list(county.values) == ["Uster", "Zurich", "Thun", "Bern"]
    assert (state.level, *state.parents) == (1, 0, 0)
    assert (county.level, *county.parents) == (2, 0, 0, 1, 1)
    assert (tuple(state.ancestors), tuple(county.ancestors)) == ((0, 0, 1, 1), (0, 1, 2, 3))
    assert {state.leaf, county.leaf} == {"county"}
    assert made[1].keys.keys[0].level == 0


@pytest.mark.parametrize("levels", [["country", "county"], ["county"], ["state"], ["country"]])
def test_levels_may_be_omitted(tmp_path: Path, levels: list[str]) -> None:
    made = queries(tmp_path, f"hierarchy: [{', '.join(levels)}]")
    keys = [query.keys.keys[0] for query in made[1:]]
    assert [key.column for key in keys] == levels
    assert {0} == set(keys[0].parents)
    for key in keys:
        assert all(a <= b for a, b in pairwise(key.parents))
        assert all(a <= b for a, b in pairwise(key.ancestors))
        assert set(key.ancestors) == set(range(key.size))


@pytest.mark.parametrize(
    "asked", ["marginals: [[], [sex]]", "cube: [sex, band]", "rollup: [sex, band]",
              "group_by: [sex]", "hierarchy: [state]\n    cube: [sex, band]",
              "hierarchy: [state]\n    histogram: {column: age, edges: [0, 50, 120]}"],
)  # fmt: skip
def test_equivalent_family_declarations(tmp_path: Path, asked: str) -> None:
    made = queries(tmp_path, asked)
    finest = {query.finest for query in made}
    assert len(finest) == 1
    (space,) = finest
    assert space is not None
    columns = {key.column for query in made for key in query.keys.keys}
    leaves = {key.leaf for query in made for key in query.keys.keys if key.level}
    attributes = {key.column for query in made for key in query.keys.keys if not key.level}
    assert {key.column for key in space.keys} == attributes | leaves <= columns


@pytest.mark.parametrize(
    ("asked", "consistent", "code"),
    [
        ("hierarchy: [state]\n    marginals: [[sex]]", "false", "DP-RELEASE-008"),
        ("hierarchy: [county, state]", "true", "DP-CONSIST-001"),
        ("hierarchy: [sex, county]", "true", "DP-CONSIST-001"),
        ("hierarchy: [age]", "true", "DP-CONSIST-001"),
        ("hierarchy: [state]\n    marginals: [[county]]", "true", "DP-CONSIST-002"),
        ("hierarchy: [county]\n    marginals: [[state]]", "true", "DP-CONSIST-002"),
        ("hierarchy: [county]\n    marginals: [[county]]", "true", "DP-DECL-003"),
        ("marginals: [[sex, band], [], [band, sex]]", "true", "DP-DECL-003"),
        ("marginals: [[sex, band], [band, sex]]", "false", "DP-DECL-003"),
        ("hierarchy: [state]\n    marginals: [[sex, band], [band, sex]]", "true", "DP-DECL-003"),
        ("marginals: [[state], [county]]", "true", "DP-CONSIST-002"),
        ("marginals: [[band], [decade]]", "true", "DP-CONSIST-002"),
        ("marginals: [[band], [age]]", "true", "DP-CONSIST-002"),
        ("hierarchy: [state, where]", "true", "DP-QUERY-001"),
        ("group_by: [sex]", "{acknowledge: 'yes'}", "DP-CONSIST-013"),
        ("group_by: [sex]", "{targets: [{table: [sex]}]}", "DP-DECL-003"),
        (
            "group_by: [sex]\n    derive: {x: {type: category, expression: sex, within: sex, "
            "values: {f: [a], m: [b]}}}",
            "true",
            "DP-SCHEMA-016",
        ),
    ],
)
def test_impossible_families_are_refused(
    tmp_path: Path, asked: str, consistent: str, code: str
) -> None:
    with pytest.raises(DpReleaseError) as caught:
        queries(tmp_path, asked, consistent)
    error = caught.value
    codes = {one.code for one in (error.errors if isinstance(error, Findings) else [error])}
    assert codes == {code}, str(error)
