"""Contribution limits that a release chooses privately, before it reads its tables."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import NAME, canonical
from dprelease.errors import BudgetError, DpReleaseError, Findings, OutputError, State
from dprelease.exact.engines import open_engines
from dprelease.ledger.ledger import Ledger
from dprelease.planning.prepare import prepare
from dprelease.privacy.unit import Neighbours
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.limit_release import limit_release
from dprelease.release.accounts import account_of
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.schema.release_parts.limit_choice import with_limits
from dprelease.verification.verify import verify
from tests.covering import examples
from tests.exact.reference import cell
from tests.manifest_files import with_digest
from tests.processes import ended
from tests.release.killed_limits import count_steps, run_killed_at

TABLE = """\
table: visits
owner: office
source: visits.csv
privacy_unit: {id: patient, max_groups: 6, max_rows_per_group: 4}
columns:
  patient: {type: integer}
  chapter: {type: category, values: [a, b, c, d]}
  sex: {type: category, values: [f, m]}
  cost: {type: integer, lower: 0, upper: 9, fill: drop}
  max_groups_1: {type: integer, lower: 0, upper: 9}
"""
RELEASE = """\
title: Visits
tables: [visits.yaml]
budget: BUDGET
mechanism: discrete_laplace
queries:
  visits:
    from: visits
    KEYS
    max_groups: {choose: {share: 10 %}}
    MORE
    columns: COLUMNS
output: out/visits
"""
COUNT = 'columns: {n: {count: "*"}}'.removeprefix("columns: ")


def write(
    folder: Path,
    *,
    budget: str = "{epsilon: 1}",
    keys: str = "group_by: [chapter]",
    more: str = "where: cost >= 2",
    columns: str = COUNT,
    ledger: str | None = None,
    people: int = 40,
) -> Path:
    """Write a release that chooses a limit, and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{i},{'abcd'[j % 4]},{'fm'[i % 2]},{(i + j) % 10},0"
        for i in range(people)
        for j in range(1 + i % 5)
    ]
    text = "\n".join(["patient,chapter,sex,cost,max_groups_1", *rows, ""])
    (folder / "visits.csv").write_text(text)
    (folder / "visits.yaml").write_text(TABLE)
    text = RELEASE.replace("BUDGET", budget).replace("KEYS", keys).replace("MORE", more)
    text = text.replace("COLUMNS", columns)
    if ledger is not None:
        text += "ledger: ledger.sqlite\n"
        account = account_of("office/visits", "patient", "add_remove", ledger, "0", None)
        Ledger(folder / "ledger.sqlite").open_account(account)
    path = folder / "release.yaml"
    path.write_text(text)
    return path


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / NAME).read_text())
    return found


def charges(folder: Path) -> list[str]:
    """Return the titles of all charged reservations in the ledger, in order."""
    state = Ledger(folder / "ledger.sqlite").state()
    return [r.entry.body["title"] for r in state.reservations.values() if r.is_charged]


CHOICE, TABLES = "Contribution limits of: Visits", "Visits"


@pytest.mark.each
@pytest.mark.parametrize("budget", ["epsilon: 2", "epsilon: 2, delta: 1e-6", "rho: 0.5"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("keys", "more", "columns"),
    [
        ("group_by: [chapter]", "where: cost >= 2", COUNT),
        (
            "marginals: [[], [chapter], [chapter, sex]]",
            "consistent: true",
            '{n: {count: "*"}, cost: {sum: cost}}',
        ),
        (
            "group_by: [chapter, sex]",
            "max_rows_per_group: {choose: {up_to: 3, share: 20 %, persons: 80 %}}",
            "{patients: {count_distinct: patient}, mean: {mean: cost}, mid: {median: cost}}",
        ),
    ],
)
def test_limits_with_every_budget_neighbour_and_aggregate(
    tmp_path: Path, budget: str, neighbours: str, keys: str, more: str, columns: str
) -> None:
    amounts = f"{{{budget}, neighbours: {neighbours}}}"
    path = write(tmp_path, budget=amounts, keys=keys, more=more, columns=columns)
    planned = prepare(read_declaration(path))[1]
    out = dprelease.read_release(path).run()
    report = verify(out, certify=True)
    assert report.ok, report.findings
    record, limits = manifest(out), manifest(out.with_name("visits-limits"))
    assert record["limits"]["manifest"] == limits["digest"]
    name, declared = ("rho", Fraction("0.5")) if "rho" in budget else ("epsilon", Fraction(2))
    parts = [record["limits"][part][name] for part in ("guarantee", "tables")]
    share = Fraction(3, 10) if "max_rows" in more else Fraction(1, 10)
    assert Fraction(parts[0]) <= share * declared
    assert Fraction(parts[1]) <= (1 - share) * declared
    assert Fraction(record["guarantee"][name]) <= declared
    assert Fraction(float(record["guarantee"][name])) >= sum(Fraction(float(x)) for x in parts)
    if "rho" not in budget:  # of one rho, other noise may have another epsilon
        planned_epsilon = planned.guarantee.epsilon
        assert float(record["guarantee"]["epsilon"]) == pytest.approx(planned_epsilon, rel=1e-3)
    values = {one["limit"]: one["value"] for one in record["limits"]["chosen"]}
    for unit in record["privacy_unit"]:
        assert values.items() <= unit.items()
    for one in record["limits"]["chosen"]:
        file = out / "limits" / f"{one['noise']['query']}.parquet"
        assert pq.read_table(file).to_pylist() == [{one["limit"]: one["value"]}]
        assert 1 <= one["value"] <= one["up_to"]
    texts = json.dumps([column for file in record["files"] for column in file["columns"]])
    assert "(limit chosen privately)" in texts
    texts = json.dumps([limits["files"], limits["privacy_unit"]])
    assert "at most" not in texts  # every person counts once, and loses nothing
    assert {one["rows"] for one in limits["treatments"]} <= {
        one["rows"] for one in record["treatments"]
    }


def true_profile(declaration: Declaration, frame: pd.DataFrame) -> list[np.ndarray[Any, Any]]:
    """Return how many persons have each value, for each choice of a release."""
    first = limit_release(declaration)
    queries, _ = prepare(first)
    found = []
    with open_engines(queries, {"visits": frame}, first.spec) as engines:
        for query in queries:
            (one,) = query.measurements
            profile = engines[query.name].run(query).profile(one.name)
            assert isinstance(one.aggregate, Quantile)
            assert not isinstance(profile, type(None))
            found.append(profile.dense(one.aggregate.candidates)[0])  # type: ignore[union-attr]
    return found


ROW = st.tuples(
    st.sampled_from([None, 1, 1, 2, 3]),
    st.sampled_from(["a", "b", "c", "d", "zz", None]),
    st.sampled_from(["f", "m", None]),
    st.sampled_from([None, 0, 1, 2, 9, 50]),
)


def frame_of(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["patient", "chapter", "sex", "cost"])
    types = {"patient": "Int64", "cost": "Int64", "chapter": "str", "sex": "str"}
    return frame.astype({name: types[name] for name in ("patient", "cost")}).assign(max_groups_1=0)


def scores(counts: np.ndarray[Any, Any], at: Fraction) -> list[Fraction]:
    """Return the score of each candidate, from the definition of a quantile."""
    total, below, found = int(counts.sum()), 0, []
    for tied in counts.tolist():
        rank = at * total
        found.append(-max(Fraction(0), below - rank, rank - below - tied))
        below += tied
    return found


@pytest.fixture(scope="module")
def declarations(tmp_path_factory: pytest.TempPathFactory) -> list[Declaration]:
    """Return releases of one table and of consistent tables that choose both limits."""
    rows = "max_rows_per_group: {choose: {up_to: 2, share: 20 %, persons: 80 %}}"
    made = []
    for i, (keys, more) in enumerate(
        [
            ("group_by: [chapter]", "where: cost >= 2"),
            ("marginals: [[chapter], [sex]]", "consistent: true"),
        ]
    ):
        folder = tmp_path_factory.mktemp(f"limits{i}")
        made.append(read_declaration(write(folder, keys=keys, more=f"{more}\n    {rows}")))
    return made


@examples(25)
@given(rows=st.lists(ROW, max_size=12), others=st.lists(ROW, max_size=6))
def test_limit_scores_of_neighbours_against_a_reference(
    declarations: list[Declaration], rows: list[Any], others: list[Any]
) -> None:
    """The values of persons are those of plain Python; one person moves scores as claimed."""
    others = [(1, *row[1:]) for row in others]
    rest = [row for row in rows if row[0] != 1]
    for declaration in declarations:
        limited = prepare(declaration)[0][0]
        choices = declaration.choices
        assert choices is not None
        tables = [rows, rest, [*rest, *others]]
        found = [true_profile(declaration, frame_of(table)) for table in tables]
        for table, profiles in zip(tables, found, strict=True):
            by_person: dict[int, dict[int, int]] = {}
            for patient, chapter, sex, cost in table:
                row = {"patient": patient, "chapter": chapter, "sex": sex, "cost": cost}
                if limited.finest is not None:
                    place = _finest_cell(chapter, sex)
                else:
                    place = cell(limited, row) if cost is not None and cost >= 2 else None
                if patient is not None and place is not None:
                    groups = by_person.setdefault(patient, {})
                    groups[place] = groups.get(place, 0) + 1
            for choice, profile in zip(choices.limits, profiles, strict=True):
                wanted = [0] * choice.up_to
                for groups in by_person.values():
                    value = len(groups) if choice.limit == "max_groups" else max(groups.values())
                    wanted[min(value, choice.up_to) - 1] += 1
                assert profile.tolist() == wanted
        for neighbours, (one, other) in (
            (Neighbours.ADD_REMOVE, (found[0], found[1])),
            (Neighbours.REPLACE, (found[0], found[2])),
        ):
            spec = declaration.spec.budget.model_copy(update={"neighbours": neighbours})
            _check_moves(declaration, neighbours, spec, one, other)


def _finest_cell(chapter: str | None, sex: str | None) -> int | None:
    if chapter not in list("abcd") or sex not in ("f", "m"):
        return None
    return "abcd".index(chapter) * 2 + "fm".index(sex)


def _check_moves(
    declaration: Declaration, neighbours: Neighbours, budget: Any, one: Any, other: Any
) -> None:
    """Compare the movements of scores with the sensitivity that the plan claims."""
    first = limit_release(declaration)
    first = copy.copy(first)
    budget = first.spec.budget.model_copy(update={"neighbours": neighbours})
    object.__setattr__(first, "spec", first.spec.model_copy(update={"budget": budget}))
    queries, plan = prepare(first)
    for query, before, after in zip(queries, one, other, strict=True):
        (column,) = plan.of_query(query.name)
        aggregate = column.measurement.aggregate
        assert isinstance(aggregate, Quantile)
        assert query.unit.max_groups == query.unit.max_rows_per_group == 1
        moves = [
            (b - a) * aggregate.at.denominator
            for a, b in zip(scores(before, aggregate.at), scores(after, aggregate.at), strict=True)
        ]
        assert max(moves) - min(moves) <= column.measurement.sensitivity.largest_shift


def test_rerun_reuses_limits_and_pays_for_tables_only(tmp_path: Path) -> None:
    path = write(tmp_path, ledger="10")
    release = dprelease.read_release(path)
    out = release.run()
    first = manifest(out)
    assert charges(tmp_path) == [CHOICE, TABLES]
    again = manifest(release.run(overwrite=True))
    assert charges(tmp_path) == [CHOICE, TABLES, TABLES]
    assert first["limits"] == again["limits"]
    report = verify(out, ledger=tmp_path / "ledger.sqlite")
    assert report.ok, report.findings
    assert release.outlook() is not None


def test_ledger_must_cover_both_charges(tmp_path: Path) -> None:
    path = write(tmp_path, ledger="0.95")
    with pytest.raises(BudgetError) as caught:
        run(read_declaration(path))
    assert caught.value.code == "DP-BUDGET-091"
    assert caught.value.state is State.NOTHING
    assert charges(tmp_path) == []
    assert not (tmp_path / "out" / "visits-limits").exists()


def test_failing_second_charge_keeps_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dprelease.release.runs import pipeline

    path = write(tmp_path, ledger="10")
    ledger = Ledger(tmp_path / "ledger.sqlite")

    def taken(*args: Any, **options: Any) -> Any:
        raise BudgetError("DP-BUDGET-091", table="t", price="1", left="0", amount="1", counted="e")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "reserve", _second_fails(Ledger.reserve, taken))
        with pytest.raises(BudgetError) as caught:
            pipeline.run(read_declaration(path))
    assert caught.value.state is State.LIMITED
    assert charges(tmp_path) == [CHOICE]
    digest = manifest(tmp_path / "out" / "visits-limits")["digest"]
    out = run(read_declaration(path))
    assert charges(tmp_path) == [CHOICE, TABLES]
    assert manifest(out)["limits"]["manifest"] == digest
    assert verify(out, ledger=ledger.path).ok


def _second_fails(reserve: Any, failure: Any) -> Any:
    calls: list[int] = []

    def reserved(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return (reserve if len(calls) == 1 else failure)(*args, **options)

    return reserved


def test_refusals_come_before_limits_are_charged(tmp_path: Path) -> None:
    path = write(tmp_path, ledger="10")
    out = tmp_path / "out" / "visits"
    out.mkdir(parents=True)
    (out / "other.txt").write_text("x")
    with pytest.raises(OutputError):
        run(read_declaration(path))
    assert charges(tmp_path) == []
    shutil.rmtree(out)
    (tmp_path / "visits.csv").write_text("patient,chapter,sex\n1,a,f\n")
    with pytest.raises(DpReleaseError) as caught:
        run(read_declaration(path))
    assert caught.value.state is State.NOTHING
    assert charges(tmp_path) == []


def test_limits_of_another_declaration_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ledger="10")
    out = run(read_declaration(path))
    shutil.rmtree(out)
    text = path.read_text()
    path.write_text(text.replace("title: Visits", "title: Stays"))
    with pytest.raises(OutputError) as caught:
        run(read_declaration(path))
    assert caught.value.code == "DP-OUTPUT-023"
    path.write_text(text)
    limits = out.with_name("visits-limits")
    file = limits / "max_groups_1.parquet"
    whole = file.read_bytes()
    for damage in (b"", whole[:-1], None):
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage)
        with pytest.raises(OutputError) as caught:
            run(read_declaration(path))
        assert caught.value.code == "DP-OUTPUT-023"
    file.write_bytes(whole)
    (tmp_path / "ledger.sqlite").unlink()
    account = account_of("office/visits", "patient", "add_remove", "10", "0", None)
    Ledger(tmp_path / "ledger.sqlite").open_account(account)
    with pytest.raises(OutputError) as caught:  # the ledger was rolled back
        run(read_declaration(path))
    assert caught.value.code == "DP-OUTPUT-023"
    assert charges(tmp_path) == []


def reseal(folder: Path, record: dict[str, Any]) -> None:
    (folder / NAME).write_bytes(canonical(with_digest(record)))


def _forgeries(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield manifests whose part on limits is changed in one place."""
    for key, value in (
        ("value", record["limits"]["chosen"][0]["value"] % 6 + 1),
        ("up_to", 5),
        ("share", "0.01"),
        ("persons", "0.5"),
        ("limit", "max_rows_per_group"),
        ("queries", ["other"]),
    ):
        forged = copy.deepcopy(record)
        forged["limits"]["chosen"][0][key] = value
        yield forged
    for part in ("guarantee", "tables"):
        forged = copy.deepcopy(record)
        forged["limits"][part]["epsilon"] = "0.001"
        yield forged
    forged = copy.deepcopy(record)
    forged["guarantee"] = forged["limits"]["tables"]  # the choice left out
    forged["privacy_parameters"]["epsilon"] = forged["guarantee"]["epsilon"]
    yield forged
    forged = copy.deepcopy(record)
    forged["limits"]["manifest"] = "0" * 64
    yield forged
    forged = copy.deepcopy(record)
    forged["limits"]["chosen"][0]["noise"]["parameters"]["scale"] = "900.0"
    yield forged


def test_forged_limits_are_found(tmp_path: Path) -> None:
    out = run(read_declaration(write(tmp_path)))
    record = manifest(out)
    for forged in _forgeries(record):
        reseal(out, forged)
        assert not verify(out).ok, forged["limits"]
    reseal(out, {name: value for name, value in record.items() if name != "limits"})
    assert "DP-VERIFY-027" in {finding.code for finding in verify(out).findings}
    reseal(out, record)
    assert verify(out).ok
    # A chosen limit that the release of limits states differently, with all digests adjusted.
    limits = out / "limits"
    table = pq.read_table(limits / "max_groups_1.parquet")
    value = table.to_pylist()[0]["max_groups"] % 6 + 1
    column = table.column("max_groups")
    import pyarrow as pa

    forged_table = table.set_column(0, table.schema.field(0), pa.array([value], column.type))
    pq.write_table(forged_table, limits / "max_groups_1.parquet")
    assert "DP-VERIFY-004" in {finding.code for finding in verify(out).findings}
    # An ordinary release in the place of the limits.
    other = write(tmp_path / "other")
    other.write_text(other.read_text().replace("max_groups: {choose: {share: 10 %}}", ""))
    shutil.rmtree(limits)
    shutil.copytree(run(read_declaration(other)), limits)
    assert not verify(out).ok


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("share: 10 %", "up_to: 3", "share"),
        ("share: 10 %", "share: 0 %", "above 0 %"),
        ("share: 10 %", "share: 100 %", "below 100 %"),
        ("share: 10 %", "share: 10", "10"),
        ("share: 10 %", "share: 10 %, up_to: 1", "up_to"),
        ("share: 10 %", "share: 10 %, up_to: 5000", "up_to"),
        ("share: 10 %", "share: 10 %, persons: 100 %", "at most 99.9 %"),
        ("group_by: [chapter]", "marginals: [[chapter], [sex]]", "consistent: true"),
        ("epsilon: 1", "neighbours: replace", "no epsilon and no rho"),
        ("where: cost >= 2", "private_keys: true", "private keys"),
        ("output:", "engine: spark\noutput:", "engine duckdb"),
        ("output:", "federated: {parties: 3}\noutput:", "federated"),
        (
            "where: cost >= 2",
            "max_rows_per_group: {choose: {share: 95 %}}",
            "105 % of the budget",
        ),
    ],
)
def test_impossible_private_limits_are_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DpReleaseError) as caught:
        prepare(read_declaration(path))
    assert words in str(caught.value)
    several = caught.value.errors if isinstance(caught.value, Findings) else (caught.value,)
    assert all(error.place.key for error in several)


def test_entry_points_without_private_limits_refuse_them(tmp_path: Path) -> None:
    release = dprelease.read_release(write(tmp_path))
    with pytest.raises(DpReleaseError, match="DP-SPARK-005"):
        release.run(engine="spark")
    with pytest.raises(DpReleaseError, match="DP-QUERY-016"):
        dprelease.audit(release)
    rehearsed = tmp_path / "rehearsed"
    dprelease.rehearse(release, output=rehearsed)
    report = verify(rehearsed, rehearsal=True)
    assert report.ok, report.findings


def test_profiles_try_private_limits(tmp_path: Path) -> None:
    """A profile has the noise of a plan with each limit, also where a limit is to be chosen."""
    path = write(tmp_path)
    shown = CliRunner().invoke(cli.app, ["profile", str(path), "--i-may-see-it", "--json"])
    rows = [one for one in json.loads(shown.stdout)["bounds"] if one["bound"] == "max_groups"]
    declaration = read_declaration(path)
    assert declaration.choices is not None
    assert {1, 2} <= {one["value"] for one in rows}
    for one in rows:
        spec = with_limits(declaration.spec, declaration.choices, {"max_groups_1": one["value"]})
        (column,) = prepare(replace(declaration, spec=spec))[1].columns
        assert one["noise"] == column.mean_absolute_error


def test_private_limits_of_empty_and_small_frames(tmp_path: Path) -> None:
    """Nothing but the limit depends on the data, and an empty table is a table like any other."""
    release = dprelease.read_release(write(tmp_path))
    for name, frame in (("empty", frame_of([])), ("one", frame_of([(1, "a", "f", 5)]))):
        out = release.run(output=tmp_path / name, frames={"visits": frame})
        assert verify(out).ok
        assert (tmp_path / f"{name}-limits" / NAME).exists()


def test_queries_of_a_family_share_one_limit(tmp_path: Path) -> None:
    path = write(tmp_path)
    choose = "max_groups: {choose: {share: 10 %}}"
    common = f"from: visits, consistent: true, family: all, {choose}, columns: {COUNT}"
    head = path.read_text().split("queries:")[0]
    queries = f"  one: {{group_by: [chapter], {common}}}\n  two: {{group_by: [sex], {common}}}\n"
    path.write_text(f"{head}queries:\n{queries}output: out/visits\n")
    out = run(read_declaration(path))
    assert verify(out).ok
    record = manifest(out)
    assert [one["queries"] for one in record["limits"]["chosen"]] == [["one", "two"]]
    assert len({unit["max_groups"] for unit in record["privacy_unit"]}) == 1
    path.write_text(path.read_text().replace("share: 10 %", "share: 20 %", 1))
    with pytest.raises(DpReleaseError, match="DP-CONSIST-030"):
        prepare(read_declaration(path))


@pytest.mark.share(0.05)
@pytest.mark.parametrize("part", range(8))
def test_kills_at_every_step_lose_no_limits(tmp_path: Path, part: int) -> None:
    """After a kill, the next run uses published limits, and pays for nothing that it could use."""
    steps = count_steps(write(tmp_path / "whole", ledger="10"))
    assert steps > 40
    for target in range(1 + part, steps + 1, 8):
        folder = tmp_path / str(target)
        path = write(folder, ledger="10", people=5)
        assert run_killed_at(path, target), target
        Ledger(folder / "ledger.sqlite").recover()
        limits = folder / "out" / "visits-limits"
        published, before = limits.exists(), charges(folder)
        assert before.count(CHOICE) >= published
        if (folder / "out" / "visits").exists():
            assert TABLES in before
            assert verify(folder / "out" / "visits", ledger=folder / "ledger.sqlite").ok
        run(read_declaration(path), overwrite=True)
        after = charges(folder)
        assert after.count(CHOICE) == before.count(CHOICE) + (not published)
        assert after.count(CHOICE) <= 2
        assert verify(folder / "out" / "visits", ledger=folder / "ledger.sqlite").ok


def test_parallel_runs_choose_limits_once(tmp_path: Path) -> None:
    path = write(tmp_path, ledger="10", people=400)
    children = [run_killed_at(path, 0, wait=False) for _ in range(3)]
    for child in children:
        ended(child)
    Ledger(tmp_path / "ledger.sqlite").recover()
    assert charges(tmp_path).count(CHOICE) == 1
    if not (tmp_path / "out" / "visits").exists():  # each lost the claim to another
        run(read_declaration(path))
    assert charges(tmp_path) == [CHOICE, TABLES]
    assert verify(tmp_path / "out" / "visits", ledger=tmp_path / "ledger.sqlite").ok


def test_plan_and_check_show_the_choice(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "visits.csv").unlink()  # no data are needed
    for command in ("plan", "check"):
        done = CliRunner().invoke(cli.app, [command, str(path)])
        assert done.exit_code == 0, done.output
        text = done.stdout
        for words in ("10 % of the budget", "epsilon 0.1)", "epsilon 0.9 remains", "1 to 6"):
            assert words in text
    explained = CliRunner().invoke(cli.app, ["plan", str(path), "--explain"]).stdout
    assert "6 (highest)" in explained
