"""The ledger file: SQLite with a rollback journal, which machines can share on a network disk.

A write-ahead log would need shared memory, which network disks don't have. Every change is one
transaction that holds the only write lock from its first read on, and it is on the disk (fsync of
journal, file and folder) before the call returns. Rows can only be added; triggers refuse all other
changes.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import LedgerError
from dprelease.ledger.chain import START, Entry, digest_of, first_break, signed_text, text_of
from dprelease.ledger.form import is_entry
from dprelease.ledger.steps import SIGNERS
from dprelease.signatures.sshsig import ENTRIES
from dprelease.system.files import NoFile, reason_of, refuse_side_files
from dprelease.system.forks import Maker, can_use_ledgers, parent_only
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.system.mounts import is_mounted

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey

FORMAT = 3
"""Since 2 a reservation records when rows are read, and is held by a lock; 1 can still be read. In
3 budgets can renew and entries can be signed: a ledger becomes format 3 with its first such
entry."""
APPLICATION = 0x44505231  # "DPR1"
PATIENCE = 60.0
"""Seconds that a process waits for the lock of another one."""

TABLES = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, previous TEXT NOT NULL,"
    " digest TEXT NOT NULL UNIQUE) STRICT",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL,"
    " digest TEXT NOT NULL) STRICT",
    "CREATE TRIGGER no_update BEFORE UPDATE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'append only'); END",
)

SCHEMA = (
    ("index", "sqlite_autoindex_entries_1", "entries", None),
    ("table", "entries", "entries", TABLES[0]),
    ("table", "head", "head", TABLES[1]),
    ("trigger", "no_delete", "entries", TABLES[3]),
    ("trigger", "no_update", "entries", TABLES[2]),
)
"""Everything that a ledger file contains, in any format. Additional triggers could do anything, and
triggers with the right names could do nothing."""
ENDS = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_IOERR": errno.EIO, "SQLITE_NOMEM": errno.ENOMEM}
"""Error numbers of the system for SQLite's errors about exhausted resources."""
JOURNALS = ("-journal", "-wal", "-shm")
ODD = "its tables or triggers are not those of a ledger"
UNREADABLE = "its pages can't be read"


class Store:
    """An open ledger file; use it as a context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._maker = Maker()

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Store]:
        """Yield the ledger in an existing file.

        Raises
        ------
        LedgerError
            DP-LEDGER-001 if the file is missing, 002 if it is not a ledger, 003 if its format is
            newer, 023 in a child that was forked while a ledger was open.
        """
        _refuse_second_names(path)
        with _open_connection(path, "rw") as connection:
            store = cls(path, connection)
            store._check_format()
            yield store

    @classmethod
    def create(cls, path: Path) -> None:
        """Create an empty ledger, unless the file exists."""
        if os.path.exists(path):
            _refuse_second_names(path)
        with _open_connection(path, "rwc") as connection:
            store = cls(path, connection)
            with store.transaction():
                if store._number("PRAGMA application_id") == APPLICATION:
                    return
                if store._number("SELECT count(*) FROM sqlite_schema"):
                    raise damage_error(path, "it is a database of another program")
                for statement in TABLES:
                    store._run(statement)
                store._run("INSERT INTO head VALUES (1, 0, ?)", (START,))
                store._run(f"PRAGMA application_id = {APPLICATION}")
                store._run("PRAGMA user_version = 2")

    def _check_format(self) -> None:
        if self._number("PRAGMA application_id") != APPLICATION:
            raise damage_error(self.path, "it is not a ledger")
        written = self._number("PRAGMA user_version")
        if not 1 <= written <= FORMAT:
            raise LedgerError("DP-LEDGER-003", name=self.path.name, found=written, known=FORMAT)

    def _check_pages(self) -> None:
        """Raise LedgerError unless the file holds exactly a ledger's tables, undamaged.

        A used page that is listed as free would be overwritten by the next entry.
        """
        found = self._run("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
        if tuple(found) != SCHEMA:
            raise damage_error(self.path, ODD)
        if self._run("PRAGMA integrity_check(1)") != [("ok",)]:
            raise damage_error(self.path, UNREADABLE)

    def _number(self, query: str) -> int:
        return int(self._run(query)[0][0])

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement; raise LedgerError for errors of the database."""
        with _translate_errors(self.path):
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the only write lock from here on; the block is committed entirely or not at all."""
        self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._roll_back()
            raise
        _refuse_forked(self.path)
        self._run("COMMIT")

    def _roll_back(self) -> None:
        if not self._maker.is_here:  # the journal that a rollback would use is the parent's
            return
        if self._connection.in_transaction:  # a full disk has ended it already
            self._run("ROLLBACK")

    @contextmanager
    def _one_view(self) -> Iterator[None]:
        """Let all reads in the block see the same state, whatever other processes write."""
        if self._connection.in_transaction:
            yield
            return
        self._run("BEGIN")
        try:
            yield
        finally:
            self._roll_back()

    def entries(self) -> list[Entry]:
        """Return the whole history, after checking its chain and its tables.

        Raises
        ------
        LedgerError
            DP-LEDGER-002 if an entry was changed, removed or added from outside, or if the file has
            other tables or triggers, or unreadable ones.
        """
        with self._one_view():
            self._check_pages()
            rows = self._run("SELECT number, body, previous, digest FROM entries ORDER BY number")
            head = self._run("SELECT number, digest FROM head")
        broken = first_break(rows)
        if broken is not None:
            raise damage_error(self.path, f"entry {broken} was changed, removed or inserted")
        last = (rows[-1][0], rows[-1][3]) if rows else (0, START)
        if head != [last]:
            raise damage_error(self.path, f"the history was cut: it ends at entry {last[0]}")
        return [Entry(n, self._body(n, text), before, digest) for n, text, before, digest in rows]

    def _body(self, number: int, text: str) -> dict[str, Any]:
        body: Any = None
        try:
            body = parse_json(text.encode())
        except (ValueError, RecursionError):
            raise damage_error(self.path, f"entry {number} is no JSON") from None
        if not is_entry(body):
            raise damage_error(self.path, f"entry {number}: it is no entry of a ledger")
        return dict(body)

    def append(self, body: dict[str, Any], key: SigningKey | None = None) -> Entry:
        """Add an entry inside a transaction, signed if there is a key; return it.

        Raises ValueError for a body that could not be read back, because it would make the ledger
        unusable.
        """
        number, previous = self._run("SELECT number, digest FROM head")[0]
        if key is not None:
            entry = Entry(number + 1, body, previous, "")
            signature = key.sign(signed_text(entry), ENTRIES).to_armor()
            body = {**body, "signature": signature.decode("ascii")}
        if not is_entry(body):
            raise ValueError("this is no entry of a ledger")
        # Older versions would refund reservations that have read rows, or write entries without a
        # required signature, so the format number must stop them from writing.
        form = max(_form_of(body), self._number("PRAGMA user_version"))
        self._run(f"PRAGMA user_version = {form}")
        text = text_of(body)
        digest = digest_of(number + 1, text, previous)
        self._run("INSERT INTO entries VALUES (?, ?, ?, ?)", (number + 1, text, previous, digest))
        self._run("UPDATE head SET number = ?, digest = ?", (number + 1, digest))
        return Entry(number + 1, body, previous, digest)


def _form_of(body: dict[str, Any]) -> int:
    """Return the minimum format of a ledger with an entry of this body."""
    return 3 if body["kind"] == SIGNERS or body.get("account", {}).get("renews") else 2


def _refuse_second_names(path: Path) -> None:
    """Raise LedgerError for a file that may have another name.

    The journal of a crash is found under one name only. A process that uses the other name adds
    entries, which the journal rolls back when somebody opens the first name again.
    """
    if _stat(path).st_nlink > 1:
        raise damage_error(path, "the file has a second name (a hard link)")
    if is_mounted(path):
        raise damage_error(
            path, "the file has a second name (it is mounted by itself, without its folder)"
        )


def _refuse_odd_journals(path: Path) -> None:
    """Raise LedgerError if something other than a file has the journal's name: it may block."""
    odd: NoFile | None = None
    try:
        refuse_side_files(path, JOURNALS)
    except NoFile as problem:
        odd = problem
    if odd is not None:
        fields = {"journal": odd.filename, "name": path.name, "problem": odd.strerror}
        raise LedgerError("DP-LEDGER-025", **fields)


def refuse_missing(path: Path) -> None:
    """Raise LedgerError DP-LEDGER-001 if the file is missing, 005 if that can't be determined."""
    _stat(path)


def _stat(path: Path) -> os.stat_result:
    failure: LedgerError | None = None
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerError("DP-LEDGER-001", name=path.name or str(path)) from None
    except OSError as refused:
        failure = unwritable(path, refused)
    if failure is not None:
        raise failure
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError("DP-LEDGER-001", name=path.name or str(path))
    return status


def _refuse_forked(path: Path) -> None:
    """Raise LedgerError in a child of a process that had a ledger open when it forked.

    SQLite would take the parent's locks for the child's own.
    """
    if not can_use_ledgers():
        raise LedgerError("DP-LEDGER-023", name=path.name)


@contextmanager
def _open_connection(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with parent_only(breaks_ledgers=True) as open_resources:
        _refuse_forked(path)
        maker = Maker()
        connection = _connection(path, mode)
        open_resources.append(connection)
        try:
            _set_up(path, connection)
            yield connection
        finally:
            if maker.is_here:
                connection.close()


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    _refuse_odd_journals(path)
    with _translate_errors(path):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        # Transactions are begun by hand, because the module would open none for SELECT.
        return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)


def _set_up(path: Path, connection: sqlite3.Connection) -> None:
    with _translate_errors(path):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
        connection.execute("PRAGMA synchronous = EXTRA")
        if mode != "delete":
            raise damage_error(path, f"its journal is of another kind ({mode})")
        connection.execute("PRAGMA trusted_schema = OFF")


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn the database's errors into ours.

    Python decodes SQLite's message about a damaged schema, which quotes the schema, and fails at
    bytes that are not UTF-8.
    """
    failure: LedgerError | None = None
    try:
        yield
    except sqlite3.OperationalError as problem:
        failure = _operational(path, getattr(problem, "sqlite_errorname", ""))
    except (sqlite3.Error, UnicodeError, OverflowError):
        failure = damage_error(path, UNREADABLE)
    if failure is not None:
        raise failure


def _operational(path: Path, name: str) -> LedgerError:
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LedgerError("DP-LEDGER-004", name=path.name)
    if name == "SQLITE_READONLY_DBMOVED":
        return damage_error(path, "the file was removed or replaced while it was open")
    reasons = {
        "SQLITE_FULL": "the disk is full",
        "SQLITE_READONLY": "it is read-only",
        "SQLITE_CANTOPEN": "it, or its folder, can't be opened, or too many files are open",
        "SQLITE_IOERR": "the disk failed",
        "SQLITE_NOMEM": "there is no more memory",
    }
    for start, problem in reasons.items():
        if name.startswith(start):
            refused = OSError(ENDS[start], problem) if start in ENDS else None
            return LedgerError("DP-LEDGER-005", name=path.name, problem=problem, refused_by=refused)
    return damage_error(path, ODD)


def unwritable(path: Path, refused: OSError) -> LedgerError:
    """Return the error for a file that the system does not allow to be written."""
    problem = reason_of(refused)
    return LedgerError("DP-LEDGER-005", name=path.name, problem=problem, refused_by=refused)


def damage_error(path: Path, problem: str) -> LedgerError:
    """Return the error for a damaged file."""
    return LedgerError("DP-LEDGER-002", name=path.name, problem=problem)
