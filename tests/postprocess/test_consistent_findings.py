"""Declarations that can't be made consistent are refused with their location."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.errors import DpReleaseError, Findings, Place
from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape, aim_of
from dprelease.postprocess.consistent.outputs import lowest_estimated_level
from dprelease.postprocess.consistent.step import all_findings
from dprelease.postprocess.families import FamilyTable
from dprelease.schema.load import declaration_from_texts
from dprelease.schema.release_parts.consistent import ConsistentSpec, TargetSpec
from tests.release.area_family import read_family

WHOLE = "{non_negative: true}"
BOTH = "{non_negative: true, publish: {records: true}}"
REFUSED: dict[str, tuple[dict[str, str], str, str, str]] = {
    "a variance": (
        {"columns": '{n: {count: "*"}, v: {variance: pay}}'}, "DP-CONSIST-011", "columns.v",
        "not a count",
    ),
    "a rounded mean": (
        {"columns": '{n: {count: "*"}, m: {mean: pay, round_to: 5}}'}, "DP-CONSIST-011",
        "columns.m", "rounded",
    ),
    "a mean without a variance": (
        {"columns": "{m: {mean: pay}}", "mechanism": "staircase"}, "DP-CONSIST-012", "columns.m",
        "staircase",
    ),
    "a mean alone, whole": (
        {"columns": "{m: {mean: pay}}", "consistent": WHOLE}, "DP-CONSIST-013",
        "consistent.non_negative", "there are none",
    ),
    "a name beside a mean": (
        {"columns": "{m: {mean: pay}, m_se: {count: '*'}}"}, "DP-CONSIST-011", "columns.m",
        "m_se",
    ),
    "distinct values": ({"columns": "{d: {count_distinct: age}}"}, "DP-CONSIST-011", "columns.d", ""),
    "rounding": ({"columns": "{n: {count: '*', round_to: 5}}"}, "DP-CONSIST-011", "columns.n", ""),
    "suppression": (
        {"columns": "{n: {count: '*', suppress_below: 5}}"}, "DP-CONSIST-011", "columns.n", "",
    ),
    "sums that may be below 0": (
        {"columns": "{pay: {sum: pay}}", "least": "-1", "consistent": WHOLE},
        "DP-CONSIST-011", "columns.pay", "below 0",
    ),
    "a staircase": ({"mechanism": "staircase"}, "DP-CONSIST-012", "columns.n", "staircase"),
    "stable noise": (
        {"mechanism": "{name: symmetric_alpha_stable, alpha: 1.5}"}, "DP-CONSIST-012", "columns.n",
        "symmetric_alpha_stable",
    ),
    "a name of another column": (
        {"columns": "{n: {count: '*'}, n_se: {sum: pay}}"}, "DP-CONSIST-011", "columns.n_se", "n_se",
    ),
    "a name by its case": (
        {"columns": "{N: {count: '*'}, n_SE: {sum: pay}}"}, "DP-CONSIST-011", "columns.n_SE", "n_SE",
    ),
    "a name of a whole table": (
        {"columns": "{n: {count: '*'}, n_lower: {sum: pay}}", "consistent": WHOLE},
        "DP-CONSIST-011", "columns.n_lower", "n_lower",
    ),
    "no such level": (
        {"consistent": "{publish: {down_to: street}}"}, "DP-CONSIST-013",
        "consistent.publish.down_to", "levels are state, town",
    ),
    "a level without a tree": (
        {"asked": "group_by: [sex]", "consistent": "{publish: {down_to: town}}"},
        "DP-CONSIST-013", "consistent.publish.down_to", "no hierarchy",
    ),
    "a zero of no key": (
        {"consistent": "{non_negative: true, zeros: [{age: 3}]}"}, "DP-CONSIST-013",
        "consistent.zeros[0].age", "not a key",
    ),
    "a zero of an area": (
        {"consistent": "{non_negative: true, zeros: [{sex: f}, {town: Bern}]}"}, "DP-CONSIST-013",
        "consistent.zeros[1].town", "other than areas",
    ),
    "a zero of no value": (
        {"consistent": "{non_negative: true, zeros: [{sex: [f, x]}]}"}, "DP-CONSIST-013",
        "consistent.zeros[0].sex", "'x' is no value of 'sex', which are f, m",
    ),
    "nothing but zeros": (
        {"consistent": "{non_negative: true, zeros: [{sex: f}, {sex: m}]}"}, "DP-CONSIST-013",
        "consistent.zeros", "nothing is left",
    ),
    "zeros of estimates": (
        {"consistent": "{zeros: [{sex: f}]}"}, "DP-CONSIST-013", "consistent.zeros", "unbiased",
    ),
    "a method of estimates": (
        {"consistent": "{method: fast}"}, "DP-CONSIST-013", "consistent.method", "unbiased",
    ),
    "composition by least squares": (
        {"consistent": "{non_negative: true, composition: parent, method: least_squares}"},
        "DP-CONSIST-013", "consistent.composition", "method: fast",
    ),
    "persons of estimates": (
        {"consistent": "{publish: {records: true}}"}, "DP-CONSIST-013",
        "consistent.publish.records", "non_negative",
    ),
    "persons with pay": (
        {"columns": "{n: {count: '*'}, pay: {sum: pay}}", "consistent": BOTH}, "DP-CONSIST-013",
        "consistent.publish.records", "the count of rows",
    ),
    "persons who are sums": (
        {"columns": "{pay: {sum: pay}}", "consistent": BOTH}, "DP-CONSIST-013",
        "consistent.publish.records", "the count of rows",
    ),
    "persons without keys": (
        {"asked": "group_by: []", "consistent": BOTH}, "DP-CONSIST-013",
        "consistent.publish.records", "at least one key",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_impossible_consistent_tables_are_refused(what: str, tmp_path: Path) -> None:
    """No source is opened."""
    asked, code, place, words = REFUSED[what]
    declaration = read_family(tmp_path, **asked)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(DpReleaseError) as caught:
        prepare(declaration)
    error = caught.value
    found = list(error.errors) if isinstance(error, Findings) else [error]
    assert {one.code for one in found} == {code}, str(error)
    told = [one for one in found if one.place.key.startswith(f"queries.pop.{place}")]
    assert told, [one.place for one in found]
    assert any(words in one.cause for one in told), told[0].cause


def test_several_consistency_errors_are_reported_together(tmp_path: Path) -> None:
    declaration = read_family(
        tmp_path,
        columns="{m: {mean: pay}, d: {count_distinct: age}}",
        consistent="{zeros: [{x: 1}], publish: {down_to: y}}",
    )
    with pytest.raises(Findings) as caught:
        prepare(declaration)
    assert len(caught.value.errors) >= 4


def _place(*keys: str | int) -> Place:
    return Place(key=".".join(map(str, keys)))


def _tables(folder: Path) -> list[FamilyTable]:
    declaration = read_family(folder)
    (family,) = prepare(declaration)[1].families
    return list(family.tables)


def test_undetermined_tables_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If only totals of towns were measured, their tables by sex would be undetermined."""
    shape = Shape.of(_tables(tmp_path))
    spec = ConsistentSpec.model_validate({})
    assert list(all_findings(shape, consistent_columns(shape), spec, _place)) == []
    (column,) = consistent_columns(shape)
    *upper, (total, *_) = column.noise_moments
    monkeypatch.setattr(FamilyColumn, "noise_moments", (*upper, (total,)))
    found = list(all_findings(shape, consistent_columns(shape), spec, _place))
    assert {(one.code, one.place.key) for one in found} == {("DP-CONSIST-015", "consistent")}
    told = [one.cause for one in found]
    assert len(told) == 2
    assert all("level 'town'" in words for words in told)
    assert "[sex, band]" in told[1]
    monkeypatch.setattr(FamilyColumn, "noise_moments", ((), *upper[1:], column.noise_moments[2]))
    assert list(all_findings(shape, consistent_columns(shape), spec, _place)) == []


def test_mechanisms_without_a_variance_are_found_by_table(tmp_path: Path) -> None:
    tables = _tables(tmp_path)
    shape = Shape.of(tables)
    assert all(isinstance(table.mechanisms["n"], DiscreteGaussian) for table in tables)
    assert shape.levels == ("whole", "state", "town")
    assert [one.order.axes for one in shape.placed[:3]] == [(), (0,), (1, 0)]


def test_areas_named_like_the_total() -> None:
    """The name means the area; without such an area it means the total."""
    schema = (
        "table: people\ncolumns:\n"
        "  country: {type: category, values: [CH, AT]}\n"
        "  whole: {type: category, within: country, values: {CH: [ZH, BE], AT: [W]}}\n"
    )
    texts = {"people.yaml": schema}
    found = []
    for levels in ("[country, whole]", "[country]"):
        texts["release.yaml"] = (
            "title: areas\ntables: [people.yaml]\nbudget: {rho: 1, delta: 1e-9}\noutput: out\n"
            "mechanism: discrete_gaussian\nqueries:\n  pop:\n    from: people\n"
            f"    hierarchy: {levels}\n    columns: {{n: {{count: '*'}}}}\n    consistent: true\n"
        )
        declaration = declaration_from_texts(texts, "release.yaml")
        (family,) = prepare(declaration)[1].families
        shape = Shape.of(family.tables)
        aims = [aim_of(shape, TargetSpec(level=name, weight="2")) for name in ("whole", None)]
        found.append(
            (aims, lowest_estimated_level(shape, ConsistentSpec(publish={"down_to": "whole"})))
        )
    assert found == [([(2, ()), (0, ())], 2), ([(0, ()), (0, ())], 1)]
