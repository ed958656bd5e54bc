"""Read the command-line options of a rehearsal: rows per table, and public stand-in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dprelease.errors import DeclarationError
from dprelease.errors.local_paths import check_paths
from dprelease.schema.load import Declaration
from dprelease.schema.model import shorten
from dprelease.schema.rehearsal_form import MOST_ROWS

Words = Sequence[str | int | Path] | Mapping[str, int | str | Path] | str | int | Path | None


def requested_rows(declaration: Declaration, options: Words) -> dict[str, int]:
    """Return the number of rows by table: `N` for all tables about people, or `table=N`.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-002 for an invalid number of rows, or an unknown table.
    """
    about_people = [name for name, d in declaration.tables.items() if not d.table.public]
    rows: dict[str, int] = {}
    for name, written in _pairs(options):
        text = written.replace(",", "").replace("_", "")
        known = name is None or name in declaration.tables
        if not known or not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_ROWS:
            found = written if name is None else f"{name}={written}"
            tables = ", ".join(declaration.tables)
            raise DeclarationError("DP-REHEARSE-002", found=shorten(found), known=tables)
        for table in about_people if name is None else [name]:
            if name is not None or table not in rows:
                rows[table] = int(text)
    return rows


def requested_files(declaration: Declaration, options: Words) -> dict[str, Path]:
    """Return stand-in files by table: `FILE=table`, or `FILE` for the only table about people.

    Raises
    ------
    DeclarationError
        DP-PATH-001 for a URI, DP-REHEARSE-003 for a file whose table is unknown or missing.
    """
    check_paths(options)
    files: dict[str, Path] = {}
    for name, written in _pairs(options, file_first=True, known=[*declaration.tables]):
        about_people = [n for n, d in declaration.tables.items() if not d.table.public]
        problem = ""
        if name is None and len(about_people) != 1:
            problem = f"name the table, as in FILE=table; the tables are {', '.join(about_people)}"
        table = name or about_people[0]
        if not problem and table not in declaration.tables:
            problem = f"there is no such table; the tables are {', '.join(declaration.tables)}"
        elif not problem and table in files:
            problem = "another file already replaces it"
        if problem:
            file, asked_of = shorten(Path(written).name), name or "?"
            raise DeclarationError("DP-REHEARSE-003", file=file, table=asked_of, problem=problem)
        files[table] = Path(written)
    return files


def _pairs(
    options: Words, *, file_first: bool = False, known: Sequence[str] = ()
) -> Iterator[tuple[str | None, str]]:
    """Yield the table (None for all tables) and the value of each option."""
    if isinstance(options, Mapping):
        yield from ((str(name), str(value)) for name, value in options.items())
        return
    pair_texts = [options] if isinstance(options, str | int | Path) else list(options or ())
    for pair_text in map(str, pair_texts):
        left, equals, right = pair_text.rpartition("=") if file_first else pair_text.partition("=")
        if file_first:
            is_table = bool(equals) and right in known
            yield (right, left) if is_table else (None, pair_text)
        else:
            yield (left, right) if equals else (None, pair_text)
