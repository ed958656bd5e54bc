"""Whole releases of rows whose persons are looked up: those of rows that have the persons."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.errors import DpReleaseError, LedgerError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.replay import Keyed

CARDS = [(card, card * 7 % 60) for card in range(150)] + [(card, 70) for card in range(0, 150, 9)]
"""Lines of a card and a person; some cards have two."""
OWNER = {card: min(person for own, person in CARDS if own == card) for card, _ in CARDS}
ROWS = [
    {"card": i * 11 % 160, "drug": "abc"[i % 3], "day": i % 5, "packs": i % 7, "shop": f"s{i % 4}"}
    for i in range(600)
]
"""Rows, some of whose cards have no person."""
STAYS = [{"person": i * 3 % 80, "ward": f"w{i % 2}", "nights": i % 6} for i in range(150)]
DRUGS: dict[str, Any] = {
    "table": "drugs",
    "owner": "insurer",
    "source": "drugs.csv",
    "privacy_unit": {
        "id": "person",
        "lookup": {"source": "cards.csv", "on": "card"},
        "max_groups": 2,
        "max_rows_per_group": 2,
    },
    "columns": {
        "person": {"type": "integer"},
        "card": {"type": "integer"},
        "drug": {"type": "category", "values": ["a", "b", "c"]},
        "day": {"type": "integer", "lower": 0, "upper": 4},
        "packs": {"type": "number", "lower": 0, "upper": 6, "step": 1},
        "shop": {"type": "text"},
    },
}
WARDS: dict[str, Any] = {
    "table": "stays",
    "owner": "hospital",
    "source": "stays.csv",
    "privacy_unit": {"id": "person", "max_groups": 1, "max_rows_per_group": 1},
    "columns": {
        "person": {"type": "integer"},
        "ward": {"type": "category", "values": ["w0", "w1"]},
        "nights": {"type": "integer", "lower": 0, "upper": 5},
    },
}
ALL = {"count": "*"}
QUERIES: dict[str, Any] = {
    "limits": {"from": "drugs", "group_by": ["drug"], "columns": {"n": ALL, "t": {"sum": "packs"}}},
    "persons": {"from": "drugs", "group_by": ["day"], "columns": {"p": {"count_distinct": "person"}}},
    "whole": {"from": "drugs", "columns": {"m": {"mean": "packs"}, "q": {"median": "packs"}, "o": {"mode": "drug"}}},
    "keys": {"from": "drugs", "group_by": ["shop"], "private_keys": True, "columns": {"n": ALL}},
    "levels": {"from": "drugs", "marginals": [["drug"], ["day"]], "consistent": True, "columns": {"n": ALL}},
    "where": {"from": "drugs", "where": "card % 2 = 0", "group_by": ["drug"], "columns": {"n": ALL}},
    "joined": {
        "from": "drugs", "group_by": ["drug", "ward"], "columns": {"n": ALL, "p": {"count_distinct": "person"}},
        "join": {"table": "stays", "on_unit": True, "max_groups": 2, "max_rows_per_group": 3},
    },
    "other": {
        "from": "stays", "group_by": ["ward"], "columns": {"n": ALL, "t": {"sum": "packs"}},
        "join": {"table": "drugs", "on_unit": True, "max_groups": 2, "max_rows_per_group": 3},
    },
}  # fmt: skip


def without_lookup(schema: dict[str, Any]) -> dict[str, Any]:
    unit = {key: one for key, one in schema["privacy_unit"].items() if key != "lookup"}
    return {**schema, "privacy_unit": unit}


def write(folder: Path, drugs: dict[str, Any] = DRUGS, **more: Any) -> Path:
    """Return the release file; without `lookup`, the rows have their persons."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = pd.DataFrame(ROWS)
    if "lookup" not in drugs["privacy_unit"]:
        rows["person"] = rows["card"].map(OWNER).astype("Int64")
    rows.to_csv(folder / "drugs.csv", index=False)
    pd.DataFrame(STAYS).to_csv(folder / "stays.csv", index=False)
    pd.DataFrame(CARDS, columns=["card", "person"]).to_csv(folder / "cards.csv", index=False)
    release = {
        "title": "Drugs and stays", "tables": ["drugs.yaml", "stays.yaml"], "output": "out",
        "budget": {"epsilon": 80}, "mechanism": "discrete_laplace", "queries": {n: QUERIES[n] for n in ("limits", "joined")}, **more,
    }  # fmt: skip
    for name, values in (("drugs", drugs), ("stays", WARDS), ("release", release)):
        (folder / f"{name}.yaml").write_text(json.dumps(values))
    return folder / "release.yaml"


def tables(folder: Path) -> dict[str, Any]:
    files = sorted(folder.rglob("*.parquet"))
    return {str(path.relative_to(folder)): pq.read_table(path).to_pydict() for path in files}


def sources(folder: Path) -> dict[str, Any]:
    """Write both sources into DuckDB files of their own, and return the schema that reads them."""
    for name in ("drugs", "cards"):
        with duckdb.connect(str(folder / f"{name}.duckdb")) as link:
            link.execute(f"CREATE TABLE t AS FROM read_csv('{folder / name}.csv')")
    lookup = {"source": {"path": "cards.duckdb", "table": "t"}, "on": "card"}
    unit = {**DRUGS["privacy_unit"], "lookup": lookup}
    return {**DRUGS, "source": {"path": "drugs.duckdb", "table": "t"}, "privacy_unit": unit}


@pytest.mark.parametrize("store", ["csv", "duckdb", "frame"])
def test_releases_are_those_of_rows_with_persons(tmp_path: Path, store: str) -> None:
    more = {"queries": QUERIES, "budget": {"epsilon": 80, "delta": "1e-6"}}
    path = write(tmp_path / "a", **more)
    if store == "duckdb":
        path = write(tmp_path / "a", sources(tmp_path / "a"), **more)
    frames = {"drugs": pd.DataFrame(ROWS)} if store == "frame" else {}
    found = run(read_declaration(path), bits=Keyed("same"), frames=frames)
    other = write(tmp_path / "b", without_lookup(DRUGS), **more)
    wanted = run(read_declaration(other), bits=Keyed("same"))
    assert tables(found) == tables(wanted)
    assert all(any(held.values()) for held in tables(found).values())
    report = dprelease.verify(found)
    assert report.ok, report.findings
    record = json.loads((found / "manifest.json").read_text())
    words = [unit["words"] for unit in record["privacy_unit"] if unit["table"] == "drugs"]
    assert all("'card'" in text for text in words)
    assert all("'card'" in one["columns"]["person"] for one in record["treatments"] if one["query"] != "other")  # fmt: skip


def test_ledgers_charge_persons(tmp_path: Path) -> None:
    path = write(tmp_path, ledger="l.sqlite")
    for name, unit in (("insurer/drugs", "card"), ("hospital/stays", "person")):
        Ledger(tmp_path / "l.sqlite").open_account(
            Account(name, "add_remove", unit, Fraction(99), Fraction("0.1"), None)
        )
    with pytest.raises(LedgerError, match="DP-LEDGER"):
        dprelease.read_release(path).run()
    (tmp_path / "l.sqlite").unlink()
    for name in ("insurer/drugs", "hospital/stays"):
        Ledger(tmp_path / "l.sqlite").open_account(
            Account(name, "add_remove", "person", Fraction(99), Fraction("0.1"), None)
        )
    published = dprelease.read_release(path).run()
    assert dprelease.verify(published, ledger=tmp_path / "l.sqlite").ok


def test_missing_correspondence_charges_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, ledger="l.sqlite")
    for name in ("insurer/drugs", "hospital/stays"):
        Ledger(tmp_path / "l.sqlite").open_account(
            Account(name, "add_remove", "person", Fraction(99), Fraction("0.1"), None)
        )
    (tmp_path / "cards.csv").unlink()
    with pytest.raises(DpReleaseError, match=r"DP-DATA-001.*cards"):
        dprelease.read_release(path).run()
    held = Ledger(tmp_path / "l.sqlite").state().reservations.values()
    assert not any(one.is_charged for one in held)


def test_rehearsals_need_no_correspondence(tmp_path: Path) -> None:
    path = write(tmp_path)
    for name in ("drugs", "cards", "stays"):
        (tmp_path / f"{name}.csv").unlink()
    found = dprelease.rehearse(path, rows=2000)
    report = dprelease.verify(found.folder, rehearsal=True)
    assert report.ok, report.findings


def test_output_may_not_be_read_as_correspondence(tmp_path: Path) -> None:
    lookup = {"source": "out/*.parquet", "on": "card"}
    drugs = {**DRUGS, "privacy_unit": {**DRUGS["privacy_unit"], "lookup": lookup}}
    with pytest.raises(DpReleaseError, match="DP-OUTPUT-012"):
        dprelease.read_release(write(tmp_path, drugs)).run()


def test_profiles_and_audits_see_persons(tmp_path: Path) -> None:
    path = write(tmp_path, queries={"q": QUERIES["limits"]})
    shown = CliRunner().invoke(app, ["profile", str(path), "--i-may-see-it", "--json"])
    assert shown.exit_code == 0, shown.output
    held = [row for row in ROWS if row["card"] in OWNER]
    read = json.loads(shown.output)
    texts = json.dumps(read)
    assert str(len(ROWS)) in texts
    assert str(len(ROWS) - len(held)) in texts
    audit = ["audit", str(path), "--no-draws", "--time-limit", "5", "--json"]
    assert CliRunner().invoke(app, audit).exit_code == 0


def test_sessions_look_persons_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    frame, other = pd.DataFrame(ROWS), pd.DataFrame(ROWS)
    other["person"] = other["card"].map(OWNER).astype("Int64")
    schemas, answers = (DRUGS, without_lookup(DRUGS)), []
    sessions = [dprelease.Session(schema, epsilon=99) for schema in schemas]
    for rows, session in zip((frame, other), sessions, strict=True):
        rows.dp.use(session)
        answers.append(rows.dp.groupby("drug")["person"].nunique(epsilon=90))
    pd.testing.assert_series_equal(answers[0].round(), answers[1].round())
    changed = frame.assign(card=1)
    with pytest.raises(DpReleaseError, match="DP-SESSION-002"):
        changed.dp.use(sessions[0])


def test_variables_name_the_correspondence(tmp_path: Path) -> None:
    lookup = {"source": {"path": "cards_${year}.csv"}, "on": "card"}
    drugs = {**DRUGS, "privacy_unit": {**DRUGS["privacy_unit"], "lookup": lookup}}
    path = write(tmp_path, drugs, variables={"year": "integer"})
    (tmp_path / "cards.csv").rename(tmp_path / "cards_2024.csv")
    published = dprelease.read_release(path, variables={"year": 2024}).run()
    assert dprelease.verify(published).ok
