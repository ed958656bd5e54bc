"""Read and write the ledger file: SQLite with a rollback journal, which works on network disks.

A write-ahead log would need shared memory, which network disks don't provide. Every change is one
transaction, which holds the only write lock from its first read on. The change is on the disk
(fsync of journal, file and folder) before the call returns. Rows can only be added, because
triggers reject all other changes.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import LedgerError
from dprelease.ledger.entries import (
    FIRST_DIGEST,
    SIGNERS,
    Entry,
    canonical_json_text,
    entry_digest,
    first_broken_entry,
    is_entry,
    signed_text,
)
from dprelease.signatures.sshsig import ENTRIES
from dprelease.system.files import NotRegularFile, reason_of, refuse_side_files
from dprelease.system.forks import Maker, can_use_ledgers, parent_only
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.system.renaming import is_mounted
from dprelease.system.resource_errors import EXHAUSTED_ERRNO

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey

FORMAT = 3
"""The newest format. Format 1 can still be read. Since format 2, a ledger records when a run reads
rows, and the run holds a lock. In format 3, budgets can renew and entries can be signed; a ledger
changes to format 3 with its first entry that needs this format."""
APPLICATION_ID = 0x44505231  # "DPR1"
LOCK_SECONDS = 60.0
"""The number of seconds that a process waits for the write lock of another process."""

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
"""All tables, indices and triggers of a ledger file, which are the same in all formats. They are
compared with those in a file, because an additional trigger could do anything, and a trigger with
the right name could do nothing."""
JOURNAL_SUFFIXES = ("-journal", "-wal", "-shm")
WRONG_SCHEMA = "its tables or triggers are not those of a ledger"
UNREADABLE_PAGES = "its pages can't be read"


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

        Raises LedgerError: DP-LEDGER-001 if the file is missing, 002 if it is not a ledger, 003 if
        its format is newer, 023 in a child that was forked while a ledger was open.
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
                # Asked inside the transaction: another process may have created the ledger just
                # now.
                if store._read_integer("PRAGMA application_id") == APPLICATION_ID:
                    return
                if store._read_integer("SELECT count(*) FROM sqlite_schema"):
                    raise damage_error(path, "it is a database of another program")
                for statement in TABLES:
                    store._run(statement)
                store._run("INSERT INTO head VALUES (1, 0, ?)", (FIRST_DIGEST,))
                store._run(f"PRAGMA application_id = {APPLICATION_ID}")
                store._run("PRAGMA user_version = 2")

    def _check_format(self) -> None:
        """Raise LedgerError if the file is not a ledger, or has an unknown format."""
        if self._read_integer("PRAGMA application_id") != APPLICATION_ID:
            raise damage_error(self.path, "it is not a ledger")
        written = self._read_integer("PRAGMA user_version")
        if not 1 <= written <= FORMAT:
            raise LedgerError("DP-LEDGER-003", name=self.path.name, found=written, known=FORMAT)

    def _check_pages(self) -> None:
        """Raise LedgerError unless the file has exactly the tables of a ledger, without damage.

        SQLite's integrity check is needed because the next entry would overwrite a used page that
        is listed as free.
        """
        found = self._run("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
        # The schema first, because a view or trigger of another author could act on later
        # statements.
        if tuple(found) != SCHEMA:
            raise damage_error(self.path, WRONG_SCHEMA)
        if self._run("PRAGMA integrity_check(1)") != [("ok",)]:
            raise damage_error(self.path, UNREADABLE_PAGES)

    def _read_integer(self, query: str) -> int:
        return int(self._run(query)[0][0])

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement; raise LedgerError for an error of the database."""
        with _translate_errors(self.path):
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the only write lock during a `with` block; commit all of its changes, or none."""
        # The write lock from the first read on: after a plain BEGIN, two processes could see the
        # same balance, and both spend it.
        self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._roll_back()
            raise
        # The block may have forked, and a child must not commit under the locks of its parent.
        _refuse_forked(self.path)
        self._run("COMMIT")

    def _roll_back(self) -> None:
        """Undo an open transaction, unless this process is a child of the process that began it."""
        if not self._maker.is_here:  # in a child, a rollback would use the parent's journal
            return
        if self._connection.in_transaction:  # otherwise a full disk has ended the transaction
            self._run("ROLLBACK")

    @contextmanager
    def _read_snapshot(self) -> Iterator[None]:
        """Let all reads in a `with` block see one state, even if other processes write."""
        if self._connection.in_transaction:
            yield
            return
        self._run("BEGIN")
        try:
            yield
        finally:
            self._roll_back()

    def entries(self) -> list[Entry]:
        """Check the tables and the chain of the ledger, and return all its entries.

        Raises LedgerError: DP-LEDGER-002 if another program changed, removed or added an entry, or
        if the file has other or unreadable tables or triggers.
        """
        with self._read_snapshot():
            self._check_pages()
            rows = self._run("SELECT number, body, previous, digest FROM entries ORDER BY number")
            # A chain of digests alone does not show that its last entries were cut off.
            head = self._run("SELECT number, digest FROM head")
        broken = first_broken_entry(rows)
        if broken is not None:
            raise damage_error(self.path, f"entry {broken} was changed, removed or inserted")
        last = (rows[-1][0], rows[-1][3]) if rows else (0, FIRST_DIGEST)
        if head != [last]:
            raise damage_error(self.path, f"the history was cut: it ends at entry {last[0]}")
        return [
            Entry(n, self._parse_body(n, text), before, digest) for n, text, before, digest in rows
        ]

    def _parse_body(self, number: int, text: str) -> dict[str, Any]:
        """Return the body of an entry as JSON values; raise LedgerError if it is not valid."""
        body: Any = None
        try:
            body = parse_json(text.encode())
        except (ValueError, RecursionError):
            raise damage_error(self.path, f"entry {number} is no JSON") from None
        if not is_entry(body):
            raise damage_error(self.path, f"entry {number}: it is no entry of a ledger")
        return dict(body)

    def append(self, body: dict[str, Any], key: SigningKey | None = None) -> Entry:
        """Add an entry inside a transaction, with a signature if there is a key; return the entry.

        Raises ValueError for an invalid body, with which no version could read the ledger any more.
        """
        number, previous = self._run("SELECT number, digest FROM head")[0]
        if key is not None:
            entry = Entry(number + 1, body, previous, "")
            signature = key.sign(signed_text(entry), ENTRIES).to_armor()
            # The signature covers the number and the previous digest, so it is made inside the
            # transaction.
            body = {**body, "signature": signature.decode("ascii")}
        if not is_entry(body):
            raise ValueError("this is no entry of a ledger")
        # Older versions would refund reservations whose runs have read rows, or write entries
        # without a required signature. The higher format number stops older versions from writing.
        form = max(_lowest_format(body), self._read_integer("PRAGMA user_version"))
        self._run(f"PRAGMA user_version = {form}")
        text = canonical_json_text(body)
        digest = entry_digest(number + 1, text, previous)
        self._run("INSERT INTO entries VALUES (?, ?, ?, ?)", (number + 1, text, previous, digest))
        self._run("UPDATE head SET number = ?, digest = ?", (number + 1, digest))
        return Entry(number + 1, body, previous, digest)


def _lowest_format(body: dict[str, Any]) -> int:
    """Return the lowest format of ledgers in which an entry may have this body."""
    return 3 if body["kind"] == SIGNERS or body.get("account", {}).get("renews") else 2


def _refuse_second_names(path: Path) -> None:
    """Raise LedgerError for a file that may have a second name.

    After a crash, SQLite finds the journal under one name of the file only. A process that uses the
    other name would add entries, which the journal removes when the first name is opened again.
    """
    if _file_status(path).st_nlink > 1:
        raise damage_error(path, "the file has a second name (a hard link)")
    if is_mounted(path):
        raise damage_error(
            path, "the file has a second name (it is mounted by itself, without its folder)"
        )


def _refuse_special_journals(path: Path) -> None:
    """Raise LedgerError if a journal is no regular file, because it might block SQLite."""
    special_file: NotRegularFile | None = None
    try:
        refuse_side_files(path, JOURNAL_SUFFIXES)
    except NotRegularFile as problem:
        special_file = problem
    if special_file is not None:
        fields = {
            "journal": special_file.filename,
            "name": path.name,
            "problem": special_file.strerror,
        }
        raise LedgerError("DP-LEDGER-025", **fields)


def refuse_missing(path: Path) -> None:
    """Raise LedgerError DP-LEDGER-001 for a missing file, and 005 if its status can't be read."""
    _file_status(path)


def _file_status(path: Path) -> os.stat_result:
    """Return the status of a regular file; raise LedgerError for any other path."""
    failure: LedgerError | None = None
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerError("DP-LEDGER-001", name=path.name or str(path)) from None
    except OSError as refused:
        failure = write_error(path, refused)
    if failure is not None:
        raise failure
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError("DP-LEDGER-001", name=path.name or str(path))
    return status


def _refuse_forked(path: Path) -> None:
    """Raise LedgerError in a child of a process that had a ledger open when it forked.

    SQLite would treat the locks of the parent as locks of the child.
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
            _configure(path, connection)
            yield connection
        finally:
            if maker.is_here:
                connection.close()


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    """Return a new connection to a ledger file, which waits for the locks of other processes."""
    _refuse_special_journals(path)
    with _translate_errors(path):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        # `transaction` begins transactions itself: Python's module would begin none for SELECT.
        return sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)


def _configure(path: Path, connection: sqlite3.Connection) -> None:
    """Set the limits, the journal and the safety options of a connection."""
    with _translate_errors(path):
        # A text in a file of unknown origin must not fill the memory.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
        # EXTRA also syncs the folder when the journal is removed. Otherwise a power failure could
        # bring the journal back, which would undo a charge.
        connection.execute("PRAGMA synchronous = EXTRA")
        if mode != "delete":
            raise damage_error(path, f"its journal is of another kind ({mode})")
        # Functions with side effects must not run because a strange file calls them.
        connection.execute("PRAGMA trusted_schema = OFF")


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise LedgerError instead of the errors of the database.

    These include UnicodeError, because SQLite's message about a damaged schema quotes the schema,
    and Python can't decode a message that is not UTF-8.
    """
    failure: LedgerError | None = None
    try:
        yield
    except sqlite3.OperationalError as problem:
        failure = _operational_error(path, getattr(problem, "sqlite_errorname", ""))
    except (sqlite3.Error, UnicodeError, OverflowError):
        failure = damage_error(path, UNREADABLE_PAGES)
    if failure is not None:
        raise failure


def _operational_error(path: Path, name: str) -> LedgerError:
    """Return the LedgerError for an error code of SQLite."""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        # Another process has held the lock for `LOCK_SECONDS`.
        return LedgerError("DP-LEDGER-004", name=path.name)
    if name == "SQLITE_READONLY_DBMOVED":
        return damage_error(path, "the file was removed or replaced while it was open")
    reasons = {
        "SQLITE_FULL": "the disk is full",
        "SQLITE_READONLY": "it is read-only",
        "SQLITE_CANTOPEN": "it, or its folder, can't be opened, or too many files are open"
        if path.parent.is_dir()
        else "its folder does not exist",
        "SQLITE_IOERR": "the disk failed",
        "SQLITE_NOMEM": "there is no more memory",
    }
    for start, problem in reasons.items():
        if name.startswith(start):
            refused = OSError(EXHAUSTED_ERRNO[start], problem) if start in EXHAUSTED_ERRNO else None
            return LedgerError("DP-LEDGER-005", name=path.name, problem=problem, refused_by=refused)
    return damage_error(path, WRONG_SCHEMA)


def write_error(path: Path, refused: OSError) -> LedgerError:
    """Return the error for a file that the operating system does not allow to be written."""
    problem = reason_of(refused)
    return LedgerError("DP-LEDGER-005", name=path.name, problem=problem, refused_by=refused)


def damage_error(path: Path, problem: str) -> LedgerError:
    """Return the error for a damaged file."""
    return LedgerError("DP-LEDGER-002", name=path.name, problem=problem)
