"""Read the columns of database files and workbooks, for a first schema; reads no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dprelease.exact.reading import duckdb_files
from dprelease.exact.reading.packages import Unreadable
from dprelease.exact.reading.sqlite_files import collations_in, columns_of, tables_of
from dprelease.exact.reading.workbooks import columns_in
from dprelease.schema.load import Declared, table_from_mapping
from dprelease.schema.public_values.key_files import are_usable
from dprelease.schema.table import Format

KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("INT",), "integer"),
    (("CHAR", "CLOB", "TEXT"), "text"),
    (("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"), "number"),
    (("BOOL",), "boolean"),
    (("DATETIME", "TIMESTAMP"), "timestamp"),
    (("DATE",), "date"),
)
"""Proposed types, by parts of a type that a SQLite table declares; the first match counts."""

EITHER = "text or number"

OF_DUCKDB: dict[str, str] = {
    **dict.fromkeys(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"], "integer"),
    **dict.fromkeys(["UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"], "integer"),
    **dict.fromkeys(["FLOAT", "DOUBLE", "DECIMAL"], "number"),
    **dict.fromkeys(["VARCHAR", "ENUM"], "text"),
    **dict.fromkeys(["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP"], "timestamp"),
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "BOOLEAN": "boolean",
    "DATE": "date",
}
"""Proposed types, by the engine's types."""


@dataclass(frozen=True, slots=True)
class CellForm:
    """The keys of `source` for a file, other than its path, and proposals for its columns."""

    source: dict[str, str]
    columns: dict[str, str]
    names: tuple[str, ...] = ()
    """The names in a header, in order; one may occur twice."""
    collations: Mapping[str, str] = field(default_factory=dict)
    """Columns that the file does not compare character by character; see `RULES`."""

    def declare_table(self, file: Path) -> Declared:
        """Return a table of all columns, declared as the texts of their cells."""
        columns: Mapping[str, object] = {
            name: {"type": "number"} for name in self.columns if are_usable([name])
        }
        source = {"path": str(file.absolute()), **self.source}
        return table_from_mapping({"table": "t", "source": source, "columns": columns}, Path())


def cell_form(file: Path, kind: Format, name: str | None) -> CellForm | None:
    """Return the description of one of the tables, or sheets, in a DuckDB, SQLite or Excel file.

    None if it can't be read, or has several tables and `name` names none of them.
    """
    forms = {"duckdb": _of_duckdb, "sqlite": _of_sqlite, "excel": _of_workbook}
    try:
        return forms[kind](file, name)
    except (OSError, Unreadable):
        return None


def _of_workbook(file: Path, name: str | None) -> CellForm:
    _, columns = columns_in(file, name, 1)
    return CellForm(
        {} if name is None else {"sheet": name}, dict.fromkeys(columns, EITHER), tuple(columns)
    )


def _choose_table(name: str | None, known: Sequence[str]) -> str | None:
    """Return the requested table: the named one, or the only one."""
    if name is None and len(known) == 1:
        return known[0]
    return name if name in known else None


def _of_duckdb(file: Path, name: str | None) -> CellForm | None:
    table = _choose_table(name, duckdb_files.tables_of(file))
    if table is None:
        return None
    columns = {
        column: _of_engine(kind) for column, kind in duckdb_files.columns_of(file, table).items()
    }
    collations = duckdb_files.collations_in(file, table, list(columns))
    return CellForm({"table": table}, columns, collations=collations)


def _of_engine(kind: str) -> str:
    """Return the proposed type for one of the engine's types, or why there is none."""
    # The text after the first bracket may hold names and values, such as those of an ENUM.
    base = "list" if kind.endswith("]") else kind.partition("(")[0].strip()
    return OF_DUCKDB.get(base) or f"{base.lower()} columns can't be used"


def _of_sqlite(file: Path, name: str | None) -> CellForm | None:
    table = _choose_table(name, tables_of(file))
    if table is None:
        return None
    columns = {column: _propose_type(kind) for column, kind in columns_of(file, table).items()}
    # A name that is not UTF-8 can be neither declared nor queried.
    usable = [column for column in columns if are_usable([column])]
    collations = collations_in(file, table, usable)
    return CellForm({"table": table}, columns, collations=collations)


def _propose_type(declared: str) -> str:
    upper = declared.upper()
    return next((kind for parts, kind in KINDS if any(p in upper for p in parts)), EITHER)
