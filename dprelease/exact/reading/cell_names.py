"""The columns of SQLite files and workbooks by name, for a first schema: no row is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dprelease.exact.reading.packages import Unreadable
from dprelease.exact.reading.sqlite_files import columns_of, tables_of
from dprelease.exact.reading.workbooks import columns_in
from dprelease.schema.load import Declared, table_from_mapping
from dprelease.schema.table import Format
from dprelease.system.late_dataclasses import dataclass

KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("INT",), "integer"),
    (("CHAR", "CLOB", "TEXT"), "text"),
    (("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"), "number"),
    (("BOOL",), "boolean"),
    (("DATETIME", "TIMESTAMP"), "timestamp"),
    (("DATE",), "date"),
)
"""By parts of a type that a SQLite table declares, the first that is found: what to propose."""

EITHER = "text or number"


@dataclass(frozen=True, slots=True)
class CellForm:
    """What `source` has to say of a file beside its path, and proposals for its columns."""

    source: dict[str, str]
    columns: dict[str, str]
    names: tuple[str, ...] = ()
    """Those of a header as they stand there, one of which may stand there twice."""

    def declared(self, file: Path) -> Declared:
        """Return a table of all columns, which read as the texts that their cells are."""
        columns: Mapping[str, object] = {name: {"type": "number"} for name in self.columns}
        source = {"path": str(file.absolute()), **self.source}
        return table_from_mapping({"table": "t", "source": source, "columns": columns}, Path())


def cell_form(file: Path, kind: Format, name: str | None) -> CellForm | None:
    """Return what a SQLite file or workbook says of one of its tables, or sheets.

    None if it can't be read, or has several and `name` says none of them.
    """
    try:
        return _of_sqlite(file, name) if kind == "sqlite" else _of_workbook(file, name)
    except (OSError, Unreadable):
        return None


def _of_workbook(file: Path, name: str | None) -> CellForm:
    _, columns = columns_in(file, name, 1)
    return CellForm(
        {} if name is None else {"sheet": name}, dict.fromkeys(columns, EITHER), tuple(columns)
    )


def _of_sqlite(file: Path, name: str | None) -> CellForm | None:
    known = tables_of(file)
    if name is None and len(known) == 1:
        name = known[0]
    if name is None or name not in known:
        return None
    columns = {column: _proposed(kind) for column, kind in columns_of(file, name).items()}
    return CellForm({"table": name}, columns)


def _proposed(declared: str) -> str:
    upper = declared.upper()
    return next((kind for parts, kind in KINDS if any(p in upper for p in parts)), EITHER)
