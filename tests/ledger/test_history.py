"""Ledger files with forged steps or forged digests are refused (V87)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dprelease
from dprelease.documents.file_records import LedgerRecord
from dprelease.errors import LedgerError
from dprelease.ledger.entries import canonical_json_text, entry_digest
from dprelease.ledger.history import lock_path
from dprelease.ledger.ledger import Ledger
from dprelease.release.accounts import check_recorded_costs
from dprelease.release.charging import reservation_problem
from dprelease.schema.load import read_declaration
from dprelease.system.locks import is_held
from tests import processes
from tests.ledger.test_ledger import TABLE, charge, ledger, release_with_ledger, unguarded

__all__ = ["ledger"]  # a fixture

NAME = "0" * 32


def rewrite_entries(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the entries of a ledger, with right digests throughout, as who can write it could."""
    with unguarded(path) as connection:
        bodies = [json.loads(row[0]) for row in connection.execute("SELECT body FROM entries")]
        connection.execute("DELETE FROM entries")
        change(bodies)
        previous = "0" * 64
        for number, body in enumerate(bodies, 1):
            digest = entry_digest(number, canonical_json_text(body), previous)
            row = (number, canonical_json_text(body), previous, digest)
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
            previous = digest
        connection.execute("UPDATE head SET number = ?, digest = ?", (len(bodies), previous))


def step(kind: str, name: str | None = None, **more: Any) -> Callable[[list[dict[str, Any]]], Any]:
    """Return what adds a step to the first reservation, or to one of that name."""

    def add(bodies: list[dict[str, Any]]) -> None:
        known = next((b["id"] for b in bodies if b["kind"] == "reserve"), NAME)
        bodies.append({"kind": kind, "id": name or known, "time": "now", **more})

    return add


IMPOSSIBLE: dict[str, tuple[list[str], Callable[[list[dict[str, Any]]], Any]]] = {
    "cancel after commit": (["read", "publish", "commit"], step("cancel")),
    "cancel after read": (["read"], step("cancel")),
    "cancel after publish": (["read", "publish"], step("cancel")),
    "cancel twice": (["cancel"], step("cancel")),
    "read after cancel": (["cancel"], step("read")),
    "read twice": (["read"], step("read")),
    "read after publish": (["read", "publish"], step("read")),
    "publish after cancel": (["cancel"], step("publish")),
    "publish after commit": (["read", "publish", "commit"], step("publish")),
    "commit after cancel": (["cancel"], step("commit", manifest=None)),
    "commit twice": (["read", "publish", "commit"], step("commit", manifest="d")),
    "commit of what was not published": (["read"], step("commit", manifest="d" * 64)),
    "answer to what was not read": ([], step("commit", manifest="")),
    "unknown step": ([], step("refund")),
    "step of no reservation": ([], step("cancel", NAME)),
    "second reservation of a name": ([], lambda b: b.append(b[1])),
    "second budget": ([], lambda b: b.append(b[0])),
    "a budget that is raised": (
        [],
        lambda b: b.append({**b[0], "account": {**b[0]["account"], "epsilon": "100"}}),
    ),
    "charge to nobody": ([], lambda b: b[1]["charges"][0].update(table="x/y")),
    "charge below zero": ([], lambda b: b[1]["charges"][0].update(price="-5.0")),
    "charge of no number": ([], lambda b: b[1]["charges"][0].update(price="nan")),
    "name of another folder": ([], lambda b: b[1].update(id="../../precious")),
    "no process": ([], lambda b: b[1].pop("process")),
    "no kind": ([], lambda b: b[1].pop("kind")),
    "no object": ([], lambda b: b.append(["cancel"])),  # type: ignore[arg-type]
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible_steps_are_found(ledger: Ledger, case: str) -> None:
    """By every way in: looking, checking, reserving, recovering, opening."""
    steps, change = IMPOSSIBLE[case]
    reservation = ledger.reserve([charge()], "r")
    for name in steps:
        getattr(ledger, name)(reservation, *(["d" * 64] if name == "commit" else []))
    ledger.state()
    rewrite_entries(ledger.path, change)
    for use in (
        ledger.state,
        ledger.recover,
        lambda: check_recorded_costs(ledger.path),
        lambda: ledger.reserve([charge()], "r"),
        lambda: ledger.cancel(reservation),
    ):
        with pytest.raises(LedgerError, match="DP-LEDGER-002") as caught:
            use()
        assert "entry" in caught.value.cause


def test_impossible_steps_are_not_written(ledger: Ledger) -> None:
    for steps in (["cancel"], ["read"], ["read", "publish"], ["read", "publish", "commit"]):
        reservation = ledger.reserve([charge()], "r")
        for name in steps:
            getattr(ledger, name)(reservation, *(["d"] if name == "commit" else []))
        before = ledger.history()
        for name in ("cancel", "read", "publish", "commit"):
            allowed = {"read": ("publish",), "publish": ("commit",)}.get(steps[-1], ())
            if name not in allowed:
                with pytest.raises(LedgerError, match="DP-LEDGER-009"):
                    getattr(ledger, name)(reservation, *(["d"] if name == "commit" else []))
        assert ledger.history() == before


@pytest.mark.parametrize("number", [1, 2, 3])
def test_changed_entry_breaks_the_digest_chain(ledger: Ledger, number: int) -> None:
    """Right by itself, and following from what was before: what comes after does not follow."""
    ledger.cancel(ledger.reserve([charge()], "r"))
    ledger.reserve([charge()], "r")
    entry = ledger.history()[number - 1]
    body = {**entry.body, "time": "another"}
    digest = entry_digest(number, canonical_json_text(body), entry.previous)
    with unguarded(ledger.path) as connection:
        connection.execute(
            "UPDATE entries SET body = ?, digest = ? WHERE number = ?",
            (canonical_json_text(body), digest, number),
        )
    with pytest.raises(LedgerError, match=f"DP-LEDGER-002.*\n?.*entry {number + 1}"):
        ledger.state()


@pytest.mark.share(0.5)
@pytest.mark.parametrize("wrong", ["digest", "entry", "reservation"])
def test_release_is_bound_to_its_ledger_entry(wrong: str, tmp_path: Path) -> None:
    target = dprelease.read_release(release_with_ledger(tmp_path)).run()
    path = tmp_path / "ledger.sqlite"
    held = json.loads((target / "manifest.json").read_bytes())["ledger"]
    record = LedgerRecord.model_validate(held)
    assert reservation_problem(path, record) is None
    other = {"digest": "0" * 64, "entry": record.entry + 1, "reservation": NAME}[wrong]
    assert reservation_problem(path, record.model_copy(update={wrong: other})) is not None


OLD = [
    ["publish", "commit"],
    ["publish", "commit-none"],
    ["publish"],
    ["commit-none"],
    ["cancel"],
    [],
]


@pytest.mark.parametrize("steps", OLD, ids=str)
def test_format_1_ledgers_are_read(ledger: Ledger, steps: list[str]) -> None:
    """Its reservations have no `read` and no lock; the first entry of ours makes it format 2."""
    ledger.reserve([charge()], "old")
    gone = {"host": "elsewhere", "pid": 1, "started": "boot/1"}

    def change(bodies: list[dict[str, Any]]) -> None:
        bodies[1].pop("locked")
        bodies[1]["process"] = gone
        for name in steps:
            kind, _, none = name.partition("-")
            more = {"manifest": None if none else "d"} if kind == "commit" else {}
            step(kind, **more)(bodies)

    rewrite_entries(ledger.path, change)
    connection = sqlite3.connect(ledger.path)
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    (found,) = ledger.state().reservations.values()
    assert found.is_charged == (steps != ["cancel"])
    assert bool(ledger.recover()) is False  # another machine's
    words = ledger.recover(ended_hosts=["elsewhere"])
    assert bool(words) == found.is_open
    ledger.reserve([charge()], "new")
    (old, new) = ledger.state().reservations.values()
    assert old.is_charged == (steps != ["cancel"])  # it is unknown what it had read
    assert new.is_open
    connection = sqlite3.connect(ledger.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


HOLDING = """
import os, sys
from pathlib import Path
from dprelease.ledger.ledger import Ledger
from tests.ledger.test_ledger import charge
ledger = Ledger(Path(sys.argv[1]))
made = ledger.reserve([charge()], "held")
if sys.argv[2] == "read":
    ledger.read(made)
print(made.id, os.getpid(), flush=True)
sys.stdin.read()
os._exit(9)
"""


@pytest.mark.share(0.25)
@pytest.mark.parametrize("last", ["reserve", "read"])
@pytest.mark.parametrize("kinds", [(), processes.OWN_PROCESSES], ids=["a process", "the first"])
def test_reservation_is_held_by_a_lock(ledger: Ledger, kinds: tuple[str, ...], last: str) -> None:
    """Whatever number its process has, in whatever namespace (V86)."""
    way = processes.unshared(*kinds) if kinds else []
    root = Path(__file__).parents[2]
    command = [*way, sys.executable, "-c", HOLDING, str(ledger.path), last]
    with processes.started(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        name, _, pid = processes.first_line(run).strip().partition(" ")
        assert not way or pid == "1"
        assert is_held(lock_path(ledger.path, name))
        assert ledger.recover() == []
        assert ledger.state().reservations[name].is_open
        run.communicate(timeout=processes.PATIENCE)
    told = "rows had been read; the charge remains" if last == "read" else "charge returned"
    (words,) = ledger.recover()
    assert told in words
    assert (ledger.state().spent(TABLE) > 0) == (last == "read")
    assert not lock_path(ledger.path, name).exists()


def test_ledger_steps_precede_reading_and_publishing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of a run, as ledger and disk see it."""
    path = release_with_ledger(tmp_path)
    found: list[tuple[str, tuple[str, ...]]] = []

    def noting(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def noted(*given: Any, **named: Any) -> Any:
            held = Ledger(tmp_path / "ledger.sqlite").state().reservations.values()
            found.append((name, tuple(step for r in held for step in ("reserve", *r.steps))))
            return real(*given, **named)

        monkeypatch.setattr(owner, name, noted)

    from dprelease.exact import engines
    from dprelease.exact.duckdb import Engine
    from dprelease.noise import noised_vectors as perturb
    from dprelease.release import folder
    from dprelease.release.runs import family_run as stream

    noting(folder.Lock, "acquire")
    noting(engines, "open_engines")
    noting(Engine, "run")
    noting(perturb, "sample")
    noting(folder, "rename_new")
    assert stream is not None
    dprelease.read_release(path).run()
    steps = {name: {before for at, before in found if at == name} for name, _ in found}
    assert found[0] == ("acquire", ())
    assert steps["open_engines"] == {("reserve",)}
    assert steps["run"] == steps["sample"] == {("reserve", "read")}
    assert steps["rename_new"] == {("reserve", "read", "publish")}
    assert read_declaration(path) is not None


def test_ledger_mounted_without_folder_is_refused(tmp_path: Path) -> None:
    """The journal of a crash would lie where nobody else finds it, and undo what they add."""
    own = processes.unshared(*processes.OWN_MOUNTS)
    release_with_ledger(tmp_path)
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    (inside / "ledger.sqlite").touch()
    shown = '"$0" -m dprelease ledger show'
    script = (
        f"mount --bind ledger.sqlite inside/ledger.sqlite; {shown} inside/ledger.sqlite;"
        f"mount --bind . inside/folder && {shown} inside/folder/ledger.sqlite"
    )
    done = processes.run(
        [*own, "bash", "-c", script, sys.executable],
        env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "DP-LEDGER-002" in done.stderr
    assert "mounted by itself" in done.stderr
    assert done.returncode == 0  # by its folder
    assert "office/people" in done.stdout
