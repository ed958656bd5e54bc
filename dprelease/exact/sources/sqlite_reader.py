"""Read tables of SQLite files with Python's SQLite: stored values only, nothing computed.

A cell of SQLite has its own type, whatever its column declares, and is read independently of other
cells. The declared type of a column (its "affinity") may have changed the values that were written
into it: 01 becomes 1 in a column of integers. A column whose values may have been changed in this
way is refused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.reading.cell_rows import (
    CellRows,
    Row,
    cell_rows,
    wanted_columns,
)
from dprelease.exact.reading.sources import source_fields, unreadable_error
from dprelease.exact.sources.cell_reader import CellReader
from dprelease.exact.sources.source_reader import TEXT_OR_NUMBER, Description, choose_table
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.public_values.key_files import are_valid_texts
from dprelease.schema.source_types.source import Source
from dprelease.schema.source_types.source_type import OTHER
from dprelease.statements.values.lossy_types import may_lose_values
from dprelease.statements.values.source_equality import is_no_id
from dprelease.system.files import OPEN_FLAGS

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 2**12

GENERATED_COLUMN_CODES = (2, 3)
"""SQLite's codes for generated columns in `hidden`: virtual, or stored."""

AFFINITIES = (
    (("INT",), "BIGINT"),
    (("CHAR", "CLOB", "TEXT"), "VARCHAR"),
    (("BLOB",), "VARCHAR"),
    (("REAL", "FLOA", "DOUB"), "DOUBLE"),
)
"""Parts of declared types, each with the type to which SQLite converts texts and numbers, as a type
of the engine. The first match counts; VARCHAR loses nothing.
https://sqlite.org/datatype3.html#affname"""

PROPOSED_TYPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("INT",), "integer"),
    (("CHAR", "CLOB", "TEXT"), "text"),
    (("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"), "number"),
    (("BOOL",), "boolean"),
    (("DATETIME", "TIMESTAMP"), "timestamp"),
    (("DATE",), "date"),
)
"""Types that `init` proposes, by parts of a declared type; the first match counts."""

EQUAL_TEXTS = {"COLLATE NOCASE": "('x'), ('X')", "COLLATE RTRIM": "('x'), ('x ')"}
"""Collations of SQLite, each with two texts that are equal by it but different by BINARY."""

ALLOWED_ACTIONS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA})


@dataclass(frozen=True, slots=True)
class StoredTable:
    """SQLite's description of a table: its columns, with the corresponding types of the engine.

    `computed`: the generated columns. `is_computed`: whether it is a view or a virtual table.
    """

    types: dict[str, str]
    computed: frozenset[str]
    is_computed: bool
    collations: dict[str, str]
    """The collations of the declared columns that are not compared character by character."""


class SQLiteReader(CellReader):
    """Reads tables of SQLite files."""

    def rows(self, declared: Declared, source: Source, files: Sequence[Path]) -> CellRows:
        """Return the declared columns of a table of SQLite files; reads none of its rows.

        Raises
        ------
        DataError
            DP-DATA-001 for a file that is not SQLite or has no such table, DP-DATA-003 for columns
            that differ only in case, DP-DATA-014 for a view, a virtual table or a generated column,
            and DP-DATA-024 for a file that is being written to.
        """
        table = source.table or ""
        held = [_inspect_table(declared, file, table) for file in files]
        names = list(dict.fromkeys(name for stored in held for name in stored.types))
        wanted = wanted_columns(declared, names)
        refused = _lossy_columns(declared, wanted, held)
        collations = {name: words for stored in held for name, words in stored.collations.items()}

        def read() -> Iterator[Row]:
            """Yield the wanted cells of each row, file by file (None if a file lacks a column)."""
            for file, stored in zip(files, held, strict=True):
                yield from _rows(file, table, [n if n in stored.types else None for n in wanted])

        return cell_rows(declared, wanted, read, refused, collations)

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of a table, by the types that it declares."""
        try:
            names = tables_of(file)
            table_name = choose_table(table, names)
            if table_name is None:
                return Description(several=tuple(names) if table is None else ())
            columns = [(name, _propose_type(kind)) for name, kind in columns_of(file, table_name)]
            # A name that is not UTF-8 can be neither declared nor queried.
            usable = [name for name, _ in columns if are_valid_texts([name])]
            collations = collations_in(file, table_name, usable)
        except OSError:
            return Description()
        return Description(columns, {"table": table_name}, collations=collations)


def _propose_type(declared: str) -> str:
    """Return the type to propose for a column, from its declared type in SQLite."""
    upper = declared.upper()
    return next(
        (kind for parts, kind in PROPOSED_TYPES if any(p in upper for p in parts)), TEXT_OR_NUMBER
    )


def tables_of(file: Path) -> list[str]:
    """Return the names of the tables that a SQLite file stores.

    Raises
    ------
    OSError
        If it can't be read.
    """
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rowid"
    with _read_only_connection(file) as link:
        names = [str(name) for (name,) in link.execute(sql) if name is not None]
        return [name for name in names if not name.lower().startswith("sqlite_")]


def columns_of(file: Path, table: str) -> list[tuple[str, str]]:
    """Return the stored columns of a table and their declared types, as written.

    A byte of a name that is not UTF-8 becomes half a surrogate pair, as in file names.

    Raises
    ------
    OSError
        If it can't be read.
    """
    with _read_only_connection(file) as link:
        link.text_factory = os.fsdecode
        rows = link.execute(f"PRAGMA table_xinfo({quoting.identifier(table)})").fetchall()
    return [(str(name), str(kind or "")) for _, name, kind, *_, hidden in rows if not hidden]


def collations_in(file: Path, table: str, names: Sequence[str]) -> dict[str, str]:
    """Return the comparisons of columns of a table; raise OSError if it can't be read."""
    with _read_only_connection(file) as link:
        return _collations(link, quoting.identifier(table), names)


def _inspect_table(declared: Declared, file: Path, table: str) -> StoredTable:
    """Return a file's description of the table, if it can be read as stored."""
    if _is_in_use(file):
        raise unreadable_error(
            declared,
            "its journal file contains changes that are not in the database file yet",
            "close the program that writes to it, or copy it with VACUUM INTO",
        )
    stored: StoredTable | None = None
    try:
        with _read_only_connection(file) as link:
            stored = _describe_table(link, table, {*declared.table.columns})
    except OSError:
        stored = None  # the message may quote content of a hostile file
    if stored is None:
        raise DataError("DP-DATA-001", **source_fields(declared), format="SQLite")
    declares = {*declared.table.columns} & stored.computed
    if stored.is_computed or declares:
        raise DataError("DP-DATA-014", table=declared.table.name)
    return stored


def _is_in_use(file: Path) -> bool:
    """Return whether a file has a journal with changes; a finished journal starts with a zero."""
    beside = [file.with_name(file.name + ending) for ending in ("-wal", "-journal")]
    for journal in beside:
        try:
            begin = _first_byte(journal)
        except FileNotFoundError:
            continue
        except OSError:
            return True
        if begin not in (b"", b"\0"):
            return True
    return False


def _first_byte(file: Path) -> bytes:
    """Return the first byte of a file; no bytes if the file is empty."""
    handle = os.open(file, OPEN_FLAGS)  # a regular file may have become a pipe in the meantime
    try:
        return os.read(handle, 1)
    finally:
        os.close(handle)


@contextmanager
def _read_only_connection(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a read-only connection to a file.

    Raises
    ------
    OSError
        If it is not SQLite, or damaged. Python decodes SQLite's message about a damaged schema,
        which quotes the schema, and fails at bytes that are not UTF-8.
    """
    failed = False
    try:
        with closing(_connect(file)) as link:
            yield link
    except (sqlite3.Error, UnicodeError, OverflowError):
        failed = True
    if failed:
        raise OSError("not an SQLite file, or an incomplete one")


def _connect(file: Path) -> sqlite3.Connection:
    """Return a connection that reads a file, and that can't write, lock or compute anything."""
    # Of an immutable file, SQLite makes no lock and no journal, and reads none: see `_is_in_use`.
    uri = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
    link = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        # `trusted_schema = OFF` would refuse files with indexes on JSON. No function is called in
        # any case: `_authorize` refuses those of views, and no index or generated column is read.
        link.execute("PRAGMA query_only = ON")
        link.execute("PRAGMA cell_size_check = ON")
        link.text_factory = _decode_or_none
        link.set_authorizer(_authorize)
    except BaseException:
        link.close()
        raise
    return link


def _authorize(action: int, *_: object) -> int:
    """Allow statements to read columns, but not to call functions, which a file may contain."""
    return sqlite3.SQLITE_OK if action in ALLOWED_ACTIONS else sqlite3.SQLITE_DENY


def _decode_or_none(held: bytes) -> str | None:
    """Return the text of bytes; None for invalid UTF-8, so that no cell can stop a run."""
    try:
        return held.decode()
    except UnicodeDecodeError:
        return None


def _describe_table(link: sqlite3.Connection, table: str, names: Set[str]) -> StoredTable | None:
    """Return the columns of the table with this name; None unless exactly one has it."""
    known = link.execute(
        "SELECT name, rootpage FROM sqlite_master "
        "WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE",
        (table,),
    ).fetchall()
    if len(known) != 1:
        return None
    ((name, page),) = known
    if not page:  # a view, or a virtual table, which stores nothing: it is not queried
        return StoredTable({}, frozenset(), is_computed=True, collations={})
    quoted = quoting.identifier(str(name))
    columns = link.execute(f"PRAGMA table_xinfo({quoted})").fetchall()
    return StoredTable(
        {str(name): _affinity_type(str(kind or "")) for _, name, kind, *_ in columns if name},
        frozenset(
            str(column) for _, column, *_, hidden in columns if hidden in GENERATED_COLUMN_CODES
        ),
        False,
        _collations(
            link, quoted, [one for _, one, *_, hidden in columns if one in names and not hidden]
        ),
    )


def _collations(link: sqlite3.Connection, table: str, names: Iterable[str]) -> dict[str, str]:
    """Return the comparisons of the columns that SQLite does not compare character by character.

    A column is compared by its own collation, by the collation of a unique index that includes it,
    and by the collation of the column to which it refers as a foreign key.
    """
    also: dict[str, str] = dict(_unique_index_collations(link, table))
    for name, parent, referred in _foreign_keys(link, table):
        words = _collation(link, parent, referred)
        if words:
            also[name] = words
    found = {name: _collation(link, table, name) or also.get(name, "") for name in names}
    return {name: words for name, words in found.items() if words}


def _unique_index_collations(link: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    """Yield columns with a unique index or primary key that compares by another collation.

    Each column is yielded with that collation, which is not BINARY.
    """
    for _, index, is_unique, *_ in link.execute(f"PRAGMA index_list({table})").fetchall():
        columns = link.execute(f"PRAGMA index_xinfo({quoting.identifier(index)})").fetchall()
        for _, _, name, _, collation, is_key in columns:
            if is_unique and is_key and name is not None and collation.upper() != "BINARY":
                words = f"COLLATE {collation.upper()}"
                yield name, words if words in EQUAL_TEXTS else OTHER


def _foreign_keys(link: sqlite3.Connection, table: str) -> Iterator[tuple[str, str, str]]:
    """Yield each column that is a foreign key, with the table and the column to which it refers.

    The table must exist. A foreign key that names no column refers to the primary key.
    """
    for _, place, parent, name, referred, *_ in link.execute(
        f"PRAGMA foreign_key_list({table})"
    ).fetchall():
        quoted = quoting.identifier(str(parent))
        columns = link.execute(f"PRAGMA table_xinfo({quoted})").fetchall()
        keys = {number: str(column) for _, column, *_, number, _ in columns if number}
        target = keys.get(place + 1) if referred is None else referred
        known = {str(column).casefold() for _, column, *_ in columns}
        if target is not None and str(target).casefold() in known:
            yield str(name), quoted, str(target)


def _collation(link: sqlite3.Connection, table: str, name: str) -> str:
    """Return how SQLite compares the texts of a column, as in `SourceType.comparisons`.

    The result is empty if SQLite compares them character by character. A UNION drops texts that are
    equal by the collation of its first column, and the UNION here reads no row of the table.
    https://sqlite.org/lang_select.html#compound_select_statements
    """
    column = f"SELECT t.{quoting.identifier(name)} FROM {table} AS t WHERE 0"
    try:
        for comparison, texts in EQUAL_TEXTS.items():
            if len(link.execute(f"{column} UNION VALUES {texts}").fetchall()) == 1:
                return comparison
    except sqlite3.OperationalError:  # no such collation sequence: an application's own
        return OTHER
    return ""


def _affinity_type(kind: str) -> str:
    """Return the engine's type to which a declared type converts what is written."""
    upper = kind.upper()
    for parts, stored in AFFINITIES:
        if any(part in upper for part in parts):
            return stored
    return "DECIMAL" if upper else "VARCHAR"


def _lossy_columns(
    declared: Declared, wanted: Sequence[str], held: Sequence[StoredTable]
) -> dict[str, pa.DataType]:
    """Return columns whose values may have been changed when they were stored.

    Each has the Arrow type for which a query that uses the column is refused.
    """
    import pyarrow as pa

    types = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "DECIMAL": pa.decimal128(38, 0)}
    ids, found = declared.table.ids, {}
    for name in wanted:
        for stored in sorted({one.types[name] for one in held if name in one.types}):
            is_float_id = name in ids and is_no_id(stored)
            if may_lose_values(declared.table.columns[name], stored) or is_float_id:
                found[name] = types[stored]
    return found


def _rows(file: Path, table: str, columns: Sequence[str | None]) -> Iterator[Row]:
    """Yield the rows of a table in stored order, because the table is read and not an index.

    Columns are qualified, because otherwise SQLite takes an unknown name for a text. The rows have
    None for a column whose name is None.
    """
    asked = [f"t.{quoting.identifier(name)}" if name else "NULL" for name in columns] or ["NULL"]
    sql = f"SELECT {', '.join(asked)} FROM {quoting.identifier(table)} AS t NOT INDEXED"
    with _read_only_connection(file) as link:
        cursor = link.execute(sql)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from rows


READER = SQLiteReader()
