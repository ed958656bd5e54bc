"""Whole releases with computed columns and joins: planned, charged, published, verified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.errors import DataError, DeclarationError, State
from dprelease.exact.duckdb import Engine
from dprelease.ledger.ledger import Ledger
from dprelease.planning.prepare import prepare
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.replay import Keyed

FILES = {
    "people.yaml": """\
table: people
owner: office
source: people.csv
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}
columns:
  person: {type: integer}
  hours: {type: number, lower: 0, upper: 80}
  rate: {type: number, lower: 0, upper: 200}
  stop: {type: text}
  pay: {expression: hours * rate, type: number, lower: 0, upper: 5000, step: 0.5, fill: 0}
""",
    "visits.yaml": """\
table: visits
owner: hospital
source: visits.csv
privacy_unit: {id: person, max_groups: 1, max_rows_per_group: 1}
columns:
  person: {type: integer}
  ward: {type: category, values: [w1, w2]}
  days: {type: integer, lower: 0, upper: 30}
""",
    "stations.yaml": """\
table: stations
public: true
source: stations.csv
columns:
  name: {type: text}
  region: {type: category, values: [north, south, nowhere], fill: nowhere}
  km: {type: number, lower: 0, upper: 10, step: 0.5}
  key: {expression: lower(trim(name)), type: text}
""",
    "words.csv": "word\\ncheap\\ndear\\n",
    "stations.csv": "name,region,km\\n A,north,3.5\\nb,south,\\nB2,south,4\\n",
    "release.yaml": """\
title: Pay, places and wards
tables: [people.yaml, stations.yaml, visits.yaml]
budget: {epsilon: 1, delta: 1e-8}
mechanism: discrete_gaussian
queries:
  pay:
    from: people
    derive:
      price:
        expression: "if(pay / hours > 100, 'dear', 'cheap')"
        type: category
        values_from: words.csv
    group_by: [price]
    columns: {rows: {count: "*"}, pay: {sum: pay}}
  places:
    from: people
    derive: {place: {expression: lower(trim(stop)), type: text}}
    join: {table: stations, on: {place: key}}
    where: km > 3 OR region IS NULL OR hours % 7 = 5
    group_by: [region]
    columns: {rows: {count: "*"}, km: {sum: km}}
  wards:
    from: people
    join: {table: visits, on_unit: true, max_groups: 1, max_rows_per_group: 4}
    group_by: [ward]
    columns: {rows: {count: "*"}, days: {sum: days}, people: {count_distinct: person}}
output: out/joined
""",
}
PEOPLE = [f"{i},{i % 50},{i * 7 % 230},{' aA b c'[i % 7]}" for i in range(40)] * 2
VISITS = [f"{i % 45},w{i % 3},{i % 35}" for i in range(120)]


def write(
    folder: Path, people: list[str] = PEOPLE, visits: list[str] = VISITS, **edit: str
) -> Path:
    """Return the release file, written into a folder with its tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (FILES | edit).items():
        (folder / name).write_text(text.replace("\\n", "\n") if name.endswith("csv") else text)
    (folder / "people.csv").write_text("\n".join(["person,hours,rate,stop", *people, ""]))
    (folder / "visits.csv").write_text("\n".join(["person,ward,days", *visits, ""]))
    return folder / "release.yaml"


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def test_commands_work_with_joins(tmp_path: Path) -> None:
    path = write(tmp_path)
    for words in (["check"], ["plan"], ["run", "--dry-run"], ["run"]):
        done = CliRunner().invoke(app, [words[0], str(path), *words[1:]])
        assert done.exit_code == 0, done.output
    published = tmp_path / "out/joined"
    report = dprelease.verify(published)
    assert report.ok, report.findings
    record = manifest(published)
    assert set(record["declaration"]["texts"]) == {
        "release.yaml", "people.yaml", "stations.yaml", "visits.yaml", "words.csv",
    }  # fmt: skip
    pay, places, wards = record["treatments"]
    assert "computed in each row: hours * rate" in pay["columns"]["pay"]
    assert "from 'stations'" in places["columns"]["km"]
    assert "place = key" in places["join"]
    assert "of the same privacy unit" in wards["join"]
    assert "join" not in pay
    unit = record["privacy_unit"][2]
    assert (unit["max_groups"], unit["max_rows_per_group"]) == (1, 4)


def test_verify_needs_no_files_outside_the_release(tmp_path: Path) -> None:
    published = run(read_declaration(write(tmp_path)))
    moved = tmp_path / "elsewhere"
    published.rename(moved)
    for name in FILES:
        (tmp_path / name).unlink()
    assert dprelease.verify(moved).ok


def published_values(folder: Path) -> dict[str, list[Any]]:
    tables = {path.stem: pq.read_table(path) for path in folder.glob("*.parquet")}
    return {f"{q}.{c}": t[c].to_pylist() for q, t in tables.items() for c in t.column_names}


POISON = [
    "7777,1e300,1e300,a",
    "7777,0,nan,A ",
    "7777,-inf,5e-324,b",
    '7777,not a number,1,"\'); DROP TABLE dp_source; --"',
    "7777,,,",
]
TWINS = {
    "one person less, in both tables": (
        [row for row in PEOPLE if not row.startswith("5,")],
        [row for row in VISITS if not row.startswith("5,")],
    ),
    "a heavy person": (
        PEOPLE + ["900,79,200,A"] * 60,
        VISITS + [f"900,w{i % 3},30" for i in range(60)],
    ),
    "a poisonous person": (PEOPLE + POISON, [*VISITS, "7777,w1,1e99", "7777,w2,-5"]),
    "a person without a name": ([*PEOPLE, ",40,100,a"], [*VISITS, ",w1,3"]),
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", TWINS)
def test_neighbours_differ_only_in_claimed_cells(name: str, tmp_path: Path) -> None:
    """With the same bits, one person in or out of both tables changes the claimed cells (V22, V29)."""
    people, visits = TWINS[name]
    paths = write(tmp_path / "a"), write(tmp_path / "b", people, visits)
    one, other = (run(read_declaration(path), bits=Keyed("noise")) for path in paths)
    ours, theirs = published_values(one), published_values(other)
    for claim in manifest(one)["measurements"]:
        column = f"{claim['query']}.{claim['column']}"
        step = float(claim["step"])
        pairs = zip(ours[column], theirs[column], strict=True)
        moved = np.array([abs(float(x - y)) / step for x, y in pairs])
        bound = claim["sensitivity"]
        assert (moved > 0).sum() <= bound["slots"] * max(m["cells"] for m in bound["moves"])
        assert moved.max() <= max(m["shift"] for m in bound["moves"])
        if name == "a person without a name":
            assert moved.max() == 0


def with_ledger(folder: Path, **edit: str) -> tuple[Path, Path]:
    """Return the release file with a ledger, and the ledger with an account for each table."""
    release = edit.pop("release.yaml", FILES["release.yaml"])
    edit["release.yaml"] = release + "ledger: ledger.sqlite\n"
    path, ledger = write(folder, **edit), folder / "ledger.sqlite"
    for table, owner in (("people", "office"), ("visits", "hospital")):
        words = ["--table", table, "--owner", owner, "--unit", "person"]
        budget = ["--epsilon", "3", "--delta", "1e-8"]
        done = CliRunner().invoke(app, ["ledger", "init", str(ledger), *words, *budget])
        assert done.exit_code == 0, done.output
    return path, ledger


def test_accounts_of_both_tables_are_charged(tmp_path: Path) -> None:
    """The account of visits is charged for the joined query, the account of people for all queries."""
    path, ledger = with_ledger(tmp_path)
    published = run(read_declaration(path))
    assert dprelease.verify(published, ledger=ledger).ok
    state = Ledger(ledger).state()
    assert 0 < state.spent("hospital/visits") < state.spent("office/people")


def test_joined_table_without_owner_is_refused(tmp_path: Path) -> None:
    nameless = FILES["visits.yaml"].replace("owner: hospital\n", "")
    path, _ = with_ledger(tmp_path, **{"visits.yaml": nameless})
    with pytest.raises(DeclarationError, match="DP-RELEASE-011"):
        run(read_declaration(path))
    for command in ("check", "plan"):  # that follows from the declarations alone
        done = CliRunner().invoke(app, [command, str(path)])
        assert (done.exit_code, done.output.count("DP-RELEASE-011")) == (2, 1), done.output


@contextmanager
def no_row_is_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail as soon as any query runs."""

    def fail(*_: object) -> None:
        raise AssertionError("a row about people was read")

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "run", fail)
        yield


def test_duplicate_keys_are_refused_before_any_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public tables are checked before any query runs (V26)."""
    twice = FILES["stations.csv"] + " a ,south,1\\n"
    path, ledger = with_ledger(tmp_path, **{"stations.csv": twice})
    with no_row_is_read(monkeypatch), pytest.raises(DataError, match="DP-DATA-012") as caught:
        run(read_declaration(path))
    assert caught.value.state is State.NOTHING
    assert Ledger(ledger).state().spent("office/people") == 0
    assert not (tmp_path / "out/joined").exists()


def test_overlapping_and_disjoint_conditions_are_both_charged_twice(tmp_path: Path) -> None:
    """Only groups of one query compose in parallel; conditions never do (V27)."""
    wheres = [("hours > 30", "hours < 60"), ("hours > 30", "hours <= 30"), ("hours > 30",)]
    prices = []
    for i, pair in enumerate(wheres):
        queries = "".join(
            f"  q{j}:\n    from: people\n    where: {where}\n    columns:\n"
            "      rows: {count: '*', mechanism: discrete_laplace, epsilon: 0.25}\n"
            for j, where in enumerate(pair)
        )
        release = (
            f"title: T\ntables: [people.yaml]\nbudget: {{delta: 0}}\nqueries:\n{queries}output: o\n"
        )
        path = write(tmp_path / str(i), **{"release.yaml": release})
        prices.append(prepare(read_declaration(path))[1].guarantee.epsilon)
    assert prices[0] == prices[1] == pytest.approx(2 * prices[2])


def test_joins_of_frames_and_files_agree(tmp_path: Path) -> None:
    """Frames can replace any source."""
    import pandas as pd

    path = write(tmp_path)
    first = published_values(run(read_declaration(path), bits=Keyed("noise")))
    frames = {name: pd.read_csv(tmp_path / f"{name}.csv", dtype_backend="pyarrow")
              for name in ("people", "visits", "stations")}  # fmt: skip
    for name in frames:
        (tmp_path / f"{name}.csv").unlink()
    second = run(
        read_declaration(path), bits=Keyed("noise"), frames=frames, output=tmp_path / "other"
    )
    assert published_values(second) == first
