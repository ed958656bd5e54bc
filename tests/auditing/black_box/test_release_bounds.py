"""Bounds of complete releases: tables, selections, keys, local records, parties, and planted faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from dprelease.auditing.black_box import (
    lower_bounds,
    proven_bounds,
    release_bounds,
    table_questions,
)
from dprelease.auditing.pairs import Pair
from dprelease.auditing.stage import AuditedRelease
from dprelease.documents.audit_record import EpsilonBound, UntestedPart
from dprelease.noise import noised_vectors
from dprelease.planning.plan import PlannedColumn
from dprelease.schema.load import read_declaration
from dprelease.schema.release import PRIVATE_KEYS
from tests.auditing.black_box.build import streams, with_scale
from tests.release.area_family import read_family

SCHEMA = """\
table: people
source: nowhere.csv
{unit}
columns:
  person: {{type: integer, lower: 0, upper: 9}}
  city: {{type: category, values: [Bern, Oslo, Rome], fill: Bern, others: Rome}}
  area: {{type: integer, lower: 0, upper: 99, fill: 0}}
  pay: {{type: integer, lower: 0, upper: 20, fill: 0}}
"""
UNIT = "privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 1}"
TABLES = """\
title: People
tables: [people.yaml]
budget: {epsilon: 6, delta: 1e-4, neighbours: add_remove}
mechanism: discrete_laplace
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      people: {count: "*"}
      pay: {sum: pay, mechanism: discrete_gaussian}
      top: {top_k: area, k: 2}
      mid: {median: pay}
  areas:
    from: people
    group_by: [area]
    private_keys: true
    columns:
      people: {count: "*"}
output: out
"""
REPLACED = """\
title: People
tables: [people.yaml]
budget: {epsilon: 2, neighbours: replace}
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      people: {count: "*"}
      pay: {sum: pay}
output: out
"""
RECORDS = """\
title: People
tables: [people.yaml]
mode: local
budget: {epsilon: 3, neighbours: replace}
records: {people: {from: people, columns: {city: {}, pay: {mechanism: laplace}}}}
output: out
"""
PARTIES = """\
title: People
tables: [people.yaml]
federated: {parties: 3, honest: 2}
budget: {epsilon: 2}
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      people: {count: "*"}
output: out
"""

ONE = [(1, "Bern", 7, 20), (1, "Rome", 8, 20), (2, "Bern", 7, 3), (3, "Oslo", 8, 9)]
OTHERS = {"add_remove": ONE[2:], "replace": [(1, "Oslo", 3, 0), (1, "Rome", 4, 0), *ONE[2:]]}


def table(rows: list[tuple[int, str, int, int]]) -> pa.Table:
    columns = dict(zip(("person", "city", "area", "pay"), zip(*rows, strict=True), strict=True))
    return pa.table({name: list(values) for name, values in columns.items()})


@dataclass(frozen=True)
class ReleaseUnderAudit:
    """A release that is tested."""

    stage: AuditedRelease
    worst: dict[tuple[str, str], Pair]

    def bounds(self, key: str, seconds: float = 1e9) -> list[EpsilonBound]:
        bounds, left = self.outcome(key, seconds)
        assert left == []
        return bounds

    def outcome(
        self, key: str, seconds: float = 1e9
    ) -> tuple[list[EpsilonBound], list[UntestedPart]]:
        until = time.monotonic() + seconds
        bounds, left, failed = lower_bounds(self.stage, self.worst, until, bits=streams(key))
        assert failed == []
        return bounds, left

    def planted(self, change: Callable[[PlannedColumn], PlannedColumn]) -> ReleaseUnderAudit:
        """Return the release whose plan says other things of its columns than it promises."""
        columns = tuple(map(change, self.stage.plan.columns))
        return replace(
            self, stage=replace(self.stage, plan=replace(self.stage.plan, columns=columns))
        )


def audited_release(folder: Path, release: str, unit: str = UNIT) -> ReleaseUnderAudit:
    (folder / "people.yaml").write_text(SCHEMA.format(unit=unit))
    (folder / "release.yaml").write_text(release)
    stage = AuditedRelease.of(read_declaration(folder / "release.yaml"))
    rows, others = ONE, OTHERS[stage.plan.guarantee.neighbours.value]
    if not unit:  # every row is one
        others = ONE[1:]
    if stage.records:
        rows, others = ONE[:1], OTHERS["replace"][:1]
    pair = Pair("a unit", {"people": table(rows)}, {"people": table(others)}, "people")
    return ReleaseUnderAudit(
        stage, {(c.query.name, c.measurement.name): pair for c in stage.plan.noisy_columns}
    )


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_questions, "DRAWS", 40_000)
    monkeypatch.setattr(table_questions, "CHOICE_DRAWS", 4_000)
    monkeypatch.setattr(table_questions, "RELEASE_DRAWS", 400)
    monkeypatch.setattr(release_bounds, "DRAWS", 40_000)


def names(found: Sequence[EpsilonBound | UntestedPart]) -> set[tuple[str, str]]:
    return {(one.query, one.column) for one in found}


def test_every_measurement_stays_below_its_claim(tmp_path: Path) -> None:
    release = audited_release(tmp_path, TABLES)
    found = release.bounds("tables")
    assert all(one.holds and one.bound <= one.claimed for one in found)
    assert names(found) == {*release.worst, ("", "")}
    own = [one for one in found if one.delta == float(Fraction("1e-4"))]
    claimed = {(one.query, one.column): one.claimed for one in own if one.draws > 500}
    shown = {(one.query, one.column): one.bound / one.claimed for one in own if one.draws > 5000}
    assert claimed["by_city", "top.2"] > 1.9 * claimed["by_city", "top.1"]  # it depends on both
    assert shown["by_city", "people"] > 0.5
    assert shown["by_city", "pay"] > 0.2
    whole = [one for one in own if not one.query]
    assert {one.mechanism for one in whole} == {
        "all noised numbers",
        "whole releases",
        "releases one by one",
    }
    assert max(one.bound for one in whole) > 0.3 * whole[0].claimed
    assert ("areas", PRIVATE_KEYS) in names(found)


@pytest.mark.share(0.4)
@pytest.mark.parametrize("reached", [0, 1])
def test_untested_parts_are_named_after_the_time_limit(
    reached: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of the questions, or all but those that share the first draws."""
    release = audited_release(tmp_path, TABLES)
    clock = mock.Mock(wraps=time, monotonic=mock.Mock(return_value=0.0 if reached else 10.0))
    monkeypatch.setattr(proven_bounds, "time", clock)
    draw = proven_bounds._GroupTest.epsilon_bounds

    def late(trial: Any, *more: Any) -> Iterator[Any]:
        yield from draw(trial, *more)
        clock.monotonic.return_value = 10.0

    monkeypatch.setattr(proven_bounds._GroupTest, "epsilon_bounds", late)
    found, left, _ = lower_bounds(release.stage, release.worst, 5.0, bits=streams("late"))
    told = {(one.query, one.column, one.mechanism) for one in found}
    untried = [(one.query, one.column, one.mechanism) for one in left]
    assert len(set(untried)) == len(untried)
    assert bool(told) is bool(reached)
    assert {names[:2] for names in [*told, *untried]} == {*release.worst, ("", "")}
    assert ("", "", "whole releases") in untried


def test_columns_with_too_little_noise_are_named(tmp_path: Path) -> None:
    release = audited_release(tmp_path, TABLES)
    scales = {"pay": 0.3, "top.1": 0.02, "mid": 0.05}

    def change(planned: PlannedColumn) -> PlannedColumn:
        return with_scale(planned, scales.get(planned.measurement.name, 1.0))

    found = [
        one for one in bounds_with_other_plan(release, release.planted(change)) if not one.holds
    ]
    assert {("by_city", column) for column in scales} <= names(found)
    assert not names(found) & {("by_city", "people"), ("areas", PRIVATE_KEYS)}


def bounds_with_other_plan(
    promised: ReleaseUnderAudit, drawn: ReleaseUnderAudit
) -> list[EpsilonBound]:
    """Return the bounds of a release whose answers are drawn by another plan."""
    claims = {
        (c.query.name, c.measurement.name): c.accounting_input for c in promised.stage.plan.columns
    }
    kept = PlannedColumn.accounting_input
    try:
        PlannedColumn.accounting_input = property(
            lambda c: claims[c.query.name, c.measurement.name]
        )  # type: ignore[assignment, method-assign]
        return drawn.bounds("drawn")
    finally:
        PlannedColumn.accounting_input = kept  # type: ignore[method-assign]


def test_releases_with_replace_neighbours(tmp_path: Path) -> None:
    release = audited_release(tmp_path, REPLACED)
    found = release.bounds("replaced")
    assert all(one.holds for one in found)
    whole = [one for one in found if not one.query and one.mechanism == "all noised numbers"]
    assert whole[0].bound > 0.1 * whole[0].claimed
    wrong = release.planted(lambda column: with_scale(column, 0.3))
    broken = [one for one in bounds_with_other_plan(release, wrong) if not one.holds]
    assert {("by_city", "people"), ("by_city", "pay"), ("", "")} <= names(broken)


def test_neighbours_agree_in_invariants(tmp_path: Path) -> None:
    """Between others the release promises nothing; marginals of one family that agree otherwise."""
    consistent = "{invariants: [{level: state}], acknowledge: invariants are published exactly}"
    budget = "epsilon: 4, delta: 1e-4, neighbours: replace"
    stage = AuditedRelease.of(read_family(tmp_path, budget=budget, consistent=consistent))
    person = {"id": 1, "town": "Bern", "sex": "f", "old": False, "age": 3, "pay": 1.0}
    inside, elsewhere = ({**person, "town": town, "sex": "m"} for town in ("Thun", "Uster"))
    other_units = [{**person, "id": 2}]
    found = []
    for other in (inside, elsewhere):
        sides = [{"people": pa.Table.from_pylist([one, *other_units])} for one in (person, other)]
        pair = Pair("a person", sides[0], sides[1], "people")
        worst = {(c.query.name, c.measurement.name): pair for c in stage.plan.noisy_columns}
        found.append(ReleaseUnderAudit(stage, worst).outcome("invariants"))
    (bounds, left), (none, untried) = found
    assert all(one.holds for one in bounds)
    noised = {(c.query.name, c.measurement.name) for c in stage.plan.noisy_columns}
    assert noised == names(bounds) - {("", "")} | names(left)  # nothing passes in silence
    assert names(bounds)
    assert (none, names(untried)) == ([], noised)


def test_bounds_of_local_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = audited_release(tmp_path, RECORDS, unit="")
    found = release.bounds("records")
    assert all(one.holds for one in found)
    assert names(found) == {*release.worst, ("people", "")}
    assert max(one.bound / one.claimed for one in found if one.column == "city") > 0.85
    draw = noised_vectors.sample

    def less(law: Any, n: int, bits: Any) -> Any:
        return draw(law, n, bits) // 2

    monkeypatch.setattr(noised_vectors, "sample", less)
    assert ("people", "pay") in names([one for one in release.bounds("less") if not one.holds])


def test_bounds_of_federated_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = audited_release(tmp_path, PARTIES, unit="")
    found = release.bounds("parties")
    assert all(one.holds for one in found)
    assert names(found) == {*release.worst, ("", "")}
    assert {one.mechanism for one in found} == {"sums, 2 honest", "sums, 1 honest"}
    assert max(one.bound / one.claimed for one in found) > 0.6
    draw = noised_vectors.sample

    def less(law: Any, n: int, bits: Any, *, modular: bool) -> Any:
        return draw(law, n, bits, modular=modular) // 2

    monkeypatch.setattr(noised_vectors, "sample", less)
    assert not all(one.holds for one in release.bounds("less"))


@pytest.mark.audit
def test_time_limit_reduces_the_reported_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that others at work on the machine don't move."""
    monkeypatch.setattr(time, "monotonic", time.process_time)
    monkeypatch.setattr(table_questions, "DRAWS", 10**8)
    monkeypatch.setattr(table_questions, "CHOICE_DRAWS", 10**7)
    release = audited_release(tmp_path, REPLACED)
    none, left, _ = lower_bounds(release.stage, release.worst, time.monotonic() - 1.0)
    assert not none
    assert left
    begun = time.process_time()
    until = time.monotonic() + 1.5
    found, *_ = lower_bounds(release.stage, release.worst, until, bits=streams("some"))
    assert time.process_time() - begun < 6
    assert found
    assert all(200 <= one.draws < 10**8 and one.tested < one.draws for one in found)
