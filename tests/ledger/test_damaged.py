"""Damaged ledgers, by a disk or by somebody: nothing is charged to them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DpReleaseError, LedgerError
from dprelease.ledger import store
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.periods import Renewal
from tests.ledger.test_ledger import account, charge, event, ledger
from tests.signatures.keys import held, public

__all__ = ["ledger"]  # a fixture

PAGE = 4096
SECRET = "a-title-that-no-message-quotes"


def full_ledger(folder: Path, *, signed: bool) -> Ledger:
    """Return a ledger with entries of every kind, on more pages than one of every sort."""
    made = Ledger(folder / "ledger.sqlite", held(folder) if signed else None)
    if signed:
        made.set_signers(f"me@office {public()}\n")
    renewal = Renewal("year", date(2020, 2, 3)) if signed else None
    made.open_account(account(epsilon=Fraction(100), renewal=renewal, invariants=("rows",)))
    for i in range(12):
        many = [event(scale=f"{100 + 10 * i + j}.0") for j in range(1 + 4 * (i % 3))]
        reservation = made.reserve([charge(*many)], f"{SECRET} {i}")
        if i % 3 == 0:
            made.cancel(reservation)
            continue
        made.read(reservation)
        if i % 3 == 1:
            made.publish(reservation)
            made.commit(reservation, "d" * 64)
        elif i > 6:
            made.fail(reservation)
    return made


def damages(whole: bytes, seed: int, number: int) -> Iterator[tuple[str, bytes]]:
    """Yield a file with damages: bits, bytes, pages, and its end."""
    rng = random.Random(seed)
    pages = len(whole) // PAGE
    busy = [*range(100), *range(PAGE - 1400, PAGE)]  # the header, and what the schema says
    for _ in range(number):
        data = bytearray(whole)
        kind = rng.choice(["bit", "header", "schema", "bytes", "zeros", "swap", "copy", "cut", "0"])
        if kind in ("bit", "header", "schema"):
            for _ in range(rng.choice([1, 1, 4])):
                at = rng.choice(busy) if kind != "bit" else rng.randrange(len(data))
                data[at] = rng.randrange(256) if kind == "schema" else data[at] ^ 1 << at % 8
        elif kind == "bytes":
            at, size = rng.randrange(len(data)), rng.choice([2, 16, 500])
            data[at : at + size] = rng.randbytes(len(data[at : at + size]))
        elif kind in ("zeros", "0"):
            at = rng.randrange(pages) * PAGE + (rng.randrange(PAGE) if kind == "0" else 0)
            size = PAGE if kind == "zeros" else 8
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif kind in ("swap", "copy"):
            one, two = (slice(i * PAGE, (i + 1) * PAGE) for i in rng.sample(range(pages), 2))
            data[one], data[two] = data[two], data[one] if kind == "swap" else data[two]
        else:
            del data[rng.randrange(len(data)) :]
        if data != whole:
            yield kind, bytes(data)


def outcome(path: Path, *words: str) -> str:
    """Return the code that a command ends with; empty if it succeeds."""
    answer = CliRunner().invoke(cli.app, ["ledger", *words, str(path)])
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    if answer.exit_code == 0:
        return ""
    found = answer.output + (answer.stderr if answer.stderr_bytes else "")
    assert "DP-LEDGER-" in found, found
    assert "DP-INTERNAL" not in found, found
    assert SECRET not in found
    return found[found.index("DP-LEDGER-") :][:13]


CODES = {"DP-LEDGER-001", "DP-LEDGER-002", "DP-LEDGER-003", "DP-LEDGER-005"}


def check_damaged(made: Ledger, data: bytes, command: str) -> None:
    """Assert that commands read a damaged ledger completely or refuse it."""
    path, known = made.path, [entry.digest for entry in made.history()]
    path.write_bytes(data)
    found = outcome(path, command)
    assert found in {"", *CODES}
    refusal: DpReleaseError | None = None
    try:
        made.reserve([charge()], "another")
    except DpReleaseError as refused:
        refusal = refused
    if refusal is None:
        assert [entry.digest for entry in made.history()][: len(known)] == known
        assert found == ""
    else:
        assert refusal.code in CODES, refusal
        assert SECRET not in str(refusal)


@pytest.mark.share(0.4)
@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed, of periods"])
def test_damaged_bytes_lose_no_charges(tmp_path: Path, signed: bool) -> None:
    """For any damage, the error names the ledger, and no charge is lost or added."""
    made = full_ledger(tmp_path, signed=signed)
    whole = made.path.read_bytes()
    assert len(whole) >= 5 * PAGE
    for i, (_, data) in enumerate(damages(whole, 7 + signed, 30)):
        made.path.write_bytes(whole)
        check_damaged(made, data, COMMANDS[i % len(COMMANDS)])


CHANGES = {
    "a trigger is missing": ("DROP TRIGGER no_update",),
    "a trigger that does nothing": (
        "DROP TRIGGER no_delete",
        "CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT 1; END",
    ),
    "a trigger of another table": (
        "DROP TRIGGER no_delete",
        "CREATE TRIGGER no_delete BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'append only'); END",
    ),
    "a trigger that skips": (
        "DROP TRIGGER no_update",
        "CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(IGNORE); END",
    ),
    "another trigger": (
        "CREATE TRIGGER x AFTER INSERT ON entries BEGIN UPDATE head SET number = 1; END",
    ),
    "a view": ("CREATE VIEW v AS SELECT 1",),
    "another table": ("CREATE TABLE t (x)",),
    "an index": ("CREATE INDEX i ON entries (previous)",),
    "an index that is unique": ("CREATE UNIQUE INDEX i ON entries (substr(digest, 1, 1))",),
    "another column": ("ALTER TABLE head ADD COLUMN more INTEGER",),
    "a table of another name": ("ALTER TABLE head RENAME TO heads",),
    "statistics": ("ANALYZE",),
    "a check that fails one day": (
        "CREATE TABLE other (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL CHECK (number < 3), digest TEXT NOT NULL) STRICT",
        "INSERT INTO other SELECT * FROM head",
        "DROP TABLE head",
        "ALTER TABLE other RENAME TO head",
    ),
    "an index that lacks a row": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'head') WHERE type = 'index'",
    ),
    "bodies that are bytes": (
        "DROP TRIGGER no_update",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'body TEXT', 'body BLOB')",
        "PRAGMA writable_schema = RESET",
        "UPDATE entries SET body = CAST(body AS BLOB)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'body BLOB', 'body TEXT')",
        "PRAGMA writable_schema = RESET",
        store.TABLES[2],
    ),
}  # fmt: skip


COMMANDS = ("check", "show", "history", "recover", "export")


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("number", "change"), [*enumerate(CHANGES)])
def test_foreign_tables_and_triggers_are_refused(ledger: Ledger, number: int, change: str) -> None:
    """By what they are, whatever their names; every command looks, and nothing is written."""
    form = 1 + number % 3
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as link:
        link.execute(f"PRAGMA user_version = {form}")
    assert len(ledger.history()) == 1
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as link:
        for statement in CHANGES[change]:
            link.execute(statement)
    before = ledger.path.read_bytes()
    assert outcome(ledger.path, COMMANDS[number % len(COMMANDS)]) == "DP-LEDGER-002"
    for question in (
        ledger.history,
        ledger.state,
        ledger.recover,
        lambda: ledger.reserve([charge()], "r"),
        lambda: ledger.open_account(account(epsilon=Fraction(1))),
    ):
        with pytest.raises(LedgerError, match="DP-LEDGER-002"):
            question()
    assert ledger.path.read_bytes() == before


def test_copied_and_vacuumed_ledgers_are_accepted(ledger: Ledger) -> None:
    """Whichever way a copy was made."""
    copy = ledger.path.with_name("copy.sqlite")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as link:
        link.execute("VACUUM")
        link.execute(f"VACUUM INTO '{copy}'")
    for path in (ledger.path, copy):
        Ledger(path).reserve([charge()], "r")
        assert outcome(path, "check") == ""
