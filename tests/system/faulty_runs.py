"""Runs whose system calls fail one after the other, or that are killed at one.

`LD_PRELOAD=faults.so python -m tests.system.faulty_runs FOLDER WAY MODE FIRST EVERY` runs a release
in a fork for each case, looks at what is on the disk and in the ledger afterwards, and compares it
with what was said. It prints how many cases there were, and every disagreement.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

import dprelease
from dprelease import cli
from dprelease.errors import State
from dprelease.errors.state import ADVICE_IF_PUBLISHED
from dprelease.exact.duckdb import Engine
from dprelease.ledger.account import Account
from dprelease.ledger.entries import READ
from dprelease.ledger.ledger import Ledger
from dprelease.release import kinds
from tests.processes import ended
from tests.release.build import RELEASE, SCHEMA, write

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES)
ONCE, FROM_THEN_ON, KILL = "once", "from-then-on", "kill"
MODES = (ONCE, FROM_THEN_ON, KILL)
PURE = "title: One\ntables: [people.yaml]\noutput: out/people\nbudget: {epsilon: '0.001'}\n"
RELEASES = {
    "central": RELEASE.replace("epsilon: 1, delta: 1e-8", "epsilon: 0.001")
    .replace("discrete_gaussian", "laplace")
    .replace("mechanism: gaussian, ", ""),
    "local": PURE.replace("'0.001'", "'0.001', neighbours: replace")
    + "mode: local\nrecords: {given: {from: people, columns: {age: {}}}}\n",
    "federated": PURE.replace("0.001", "1")
    + "federated: {parties: 2}\nqueries: {q: {from: people, columns: {n: {count: '*'}}}}\n",
}
RELEASES["formats"] = RELEASES["central"] + "formats: [csv, excel, json-stat, datapackage]\n"
STATEMENT = "SELECT COUNT(*) AS n FROM people"
WAYS = (*RELEASES, "sql", "sql to a folder", "session")

library = ctypes.CDLL(None)


@dataclass
class World:
    """The state of the disk and the ledger."""

    release: str | None
    charged: set[str]

    @classmethod
    def of(cls, folder: Path) -> World:
        ledger = Ledger(folder / "ledger.sqlite")
        ledger.recover()
        held = ledger.state().reservations
        return cls(published_digest(folder), {name for name, r in held.items() if r.is_charged})


def published_digest(folder: Path) -> str | None:
    """Return the digest of the published release."""
    path = folder / "out" / "people" / "manifest.json"
    return json.loads(path.read_bytes())["digest"] if path.exists() else None


def prepare(folder: Path, way: str) -> Callable[[], int]:
    """Write the files for an interface, and return its run, which returns an exit code."""
    path = write(folder)
    schema = SCHEMA.replace("people\n", "people\nowner: office\n", 1)
    if way == "local":
        schema = schema.replace(
            "privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}\n", ""
        )
    schema = schema.replace("upper: 115}", "upper: 115, fill: 0}")
    (folder / "people.yaml").write_text(schema)
    unit = "each row" if way == "local" else "person"
    near = "replace" if way == "local" else "add_remove"
    account = Account("office/people", near, unit, Fraction(1000), Fraction(0), None)
    Ledger(folder / "ledger.sqlite").open_account(account)
    if way in RELEASES:
        text = RELEASES[way]
        path.write_text(text if way == "federated" else text + "ledger: ledger.sqlite\n")
        party = ["--party", "1"] if way == "federated" else []
        return lambda: command("run", str(path), "--overwrite", "--json", *party)
    ledger = str(folder / "ledger.sqlite")
    if way == "session":
        frame = pd.read_csv(folder / "people.csv")[["person"]]
        return lambda: run_query(folder, frame)
    words = ["sql", STATEMENT, "--schema", str(folder / "people.yaml"), "--epsilon", "0.01"]
    words += ["--ledger", ledger, "--mechanism", "laplace", "--json"]
    if way == "sql to a folder":
        # The command never replaces what is there: a new folder each time, looked at as `out`.
        words += ["--output", str(folder / "out" / "people")]
    return lambda: command(*words)


def command(*words: str) -> int:
    try:
        cli.app(list(words))
    except SystemExit as ending:
        return int(ending.code or 0)
    return 0


def run_query(folder: Path, frame: Any) -> int:
    frame.attrs.clear()
    try:
        ledger = folder / "ledger.sqlite"
        session = dprelease.Session(folder / "people.yaml", epsilon=10**6, ledger=ledger)
        frame.dp.use(session)
        frame.dp.count(epsilon="0.01", mechanism="laplace")
    except Exception as problem:  # noqa: BLE001 - what it says is compared with what happened
        library.faults_arm(ctypes.c_long(-1), 0, 0)
        print(problem, *getattr(problem, "__notes__", ()), flush=True)
        return 2
    return 0


def in_a_fork(folder: Path, work: Callable[[], int], at: int, number: int, mode: int) -> int:
    """Return how a fork ends that does the work with one fault."""
    child = os.fork()
    if child:
        return ended(child)
    code = 99
    try:
        for stream in (1, 2):
            opened = os.open(folder / f"said{stream}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(opened, stream)
            os.close(opened)
        library.faults_arm(ctypes.c_long(at), number, mode)
        code = work()
    finally:
        calls = library.faults_seen()
        library.faults_arm(ctypes.c_long(-1), 0, 0)
        (folder / "calls").write_text(str(calls))
        (folder / "rows").write_text(" ".join(READING))
        os._exit(code)


READING: list[str] = []


def record_reads() -> None:
    """Record when rows are read, and plan each declaration once, because plans read no files."""
    for name in ("run", "records", "partitions"):
        real = getattr(Engine, name)

        def noted(*given: Any, real: Any = real, name: str = name) -> Any:
            READING.append(name)
            return real(*given)

        setattr(Engine, name, noted)
    kinds.prepare = once(kinds.prepare)


def once(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of a declaration that is called once for each folder."""
    kept: dict[Path, Any] = {}

    def known(declaration: Any) -> Any:
        if declaration.folder not in kept:
            kept[declaration.folder] = real(declaration)
        return kept[declaration.folder]

    return known


def disagreements(folder: Path, code: int, before: World, way: str) -> list[str]:
    """Return where the reported state differs from the real one."""
    found = has_staged_noise(folder)
    after = World.of(folder)
    charged = bool(after.charged - before.charged) or way == "federated"
    is_released = after.release != before.release
    if before.release and after.release is None:
        found.append("the old release is gone")
    if (is_released or code == 0) and not charged:
        found.append("what was released is not charged")
    if code <= 0:  # done, or killed: nothing is said of a state
        return found
    if code > 4:
        found.append(f"exit {code}")
    told = reported_states(folder)
    if not told:
        quiet = (folder / "mode").read_text() == FROM_THEN_ON
        return found if quiet else [*found, "nothing was said"]
    rows = (folder / "rows").exists() and bool((folder / "rows").read_text())
    return found + contradictions(told[-1], is_released, rows, charged and way != "federated")


def contradictions(state: State, is_released: bool, rows: bool, charged: bool) -> list[str]:
    """Return the facts that contradict a state; some states leave some open."""
    unread = (State.NOTHING, State.HELD, State.SPENT)
    free = (State.NOTHING, State.READ)
    wrong = {
        "released": state is not State.UNKNOWN and is_released != (state in ADVICE_IF_PUBLISHED),
        # That rows are read is noted right before the first one is, so it may be said too early.
        "rows were read": rows and state in unread,
        "charged": charged and state in free,
        "not charged": not charged and state in (State.SPENT, State.CHARGED, State.PAID),
    }
    return [f"{fact}, but {state.name} was said" for fact, is_so in wrong.items() if is_so]


def reported_states(folder: Path) -> list[State]:
    """Return the reported states."""
    text = "".join((folder / f"said{stream}").read_text() for stream in (1, 2))
    if "Traceback" in text:
        return []
    return [state for state in State if state.value in text]


def has_staged_noise(folder: Path) -> list[str]:
    """Return whether a private folder contains noisy tables that could be restored."""
    left = (folder / "out").glob(".*/*.parquet") if (folder / "out").exists() else ()
    if not any(path.stat().st_size for path in left):
        return []
    held = Ledger(folder / "ledger.sqlite").state().reservations.values()
    kept = [r for r in held if r.is_open and READ not in r.steps]
    return ["noised answers that could be given back"] if kept else []


def main() -> None:
    folder, way, mode = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    first, every = int(sys.argv[4]), int(sys.argv[5])
    record_reads()
    work = prepare(folder, way)
    (folder / "mode").write_text(mode)
    if way == "sql to a folder":
        again, fresh = work, folder / "out" / "people"

        def work() -> int:
            shutil.rmtree(fresh, ignore_errors=True)
            return again()

    work()  # loads modules, and makes what is replaced
    READING.clear()
    assert in_a_fork(folder, work, -1, 0, 1) == 0, (folder / "said2").read_text()
    calls = int((folder / "calls").read_text())
    World.of(folder)
    cases, problems = 0, 0
    for at in range(first, calls + 1, every):
        if way == "sql to a folder":
            shutil.rmtree(folder / "out" / "people", ignore_errors=True)
        before = World.of(folder)
        for name in ("rows", "calls"):
            (folder / name).unlink(missing_ok=True)
        number = ERRORS[(at // every) % len(ERRORS)]
        code = in_a_fork(folder, work, at, number, 1 + MODES.index(mode))
        cases += 1
        for problem in disagreements(folder, code, before, way):
            problems += 1
            print(f"{way}, {mode} at {at} ({errno.errorcode[number]}): {problem}", flush=True)
            if os.environ.get("SHOW"):
                print(*((folder / f"said{i}").read_text() for i in (1, 2)))
    assert in_a_fork(folder, work, -1, 0, 1) == 0, (folder / "said2").read_text()
    left = [path.name for path in [*(folder / "out").glob(".*"), *folder.glob(".ledger*")]]
    if left:
        problems += 1
        print("left behind:", *left)
    print("cases", cases, "of", calls, "problems", problems)


if __name__ == "__main__":
    main()
