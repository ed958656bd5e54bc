"""Read the options of a rehearsal: the number of rows of tables, and public stand-in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dprelease.errors import DeclarationError, UsageError
from dprelease.errors.local_paths import check_paths
from dprelease.schema.load import Declaration
from dprelease.schema.model import shorten
from dprelease.schema.rehearsal_form import MOST_ROWS

OptionValues = Sequence[str | int | Path] | Mapping[str, int | str | Path] | str | int | Path | None


def requested_rows(declaration: Declaration, options: OptionValues) -> dict[str, int]:
    """Return the requested numbers of rows, by table.

    The option `N` is the number of rows of every table about people, and the option `table=N` the
    number of rows of one table.

    Raises DeclarationError: DP-REHEARSE-002 for an invalid number of rows, or an unknown table.
    """
    about_people = [name for name, d in declaration.tables.items() if not d.table.public]
    rows: dict[str, int] = {}
    for name, written in _named_values(options):
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


def requested_files(declaration: Declaration, options: OptionValues) -> dict[str, Path]:
    """Return the stand-in files, by table.

    The option `FILE=table` names the table that the file replaces; `FILE` replaces the only table
    about people.

    Raises DeclarationError: DP-PATH-001 for a URI, DP-REHEARSE-003 for a file whose table is
    unknown or missing.
    """
    check_paths(options)
    files: dict[str, Path] = {}
    for name, written in _named_values(options, file_first=True, known=[*declaration.tables]):
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
            file, named_table = shorten(Path(written).name), name or "?"
            raise DeclarationError("DP-REHEARSE-003", file=file, table=named_table, problem=problem)
        check_paths(written)
        files[table] = Path(written)
    return files


def _named_values(
    options: OptionValues, *, file_first: bool = False, known: Sequence[str] = ()
) -> Iterator[tuple[str | None, str]]:
    """Yield the name of the table (None if an option names no table) and the value of each option.

    `file_first` says that the table's name comes after the value, and `known` are the tables that
    may be named there.
    """
    given: object = options
    if given is not None and not isinstance(given, str | int | Path | Mapping | Sequence):
        wanted, kind = "a value, a list of values, or a value for each table", type(given)
        raise UsageError("DP-SESSION-016", name="rows and on", wanted=wanted, kind=kind.__name__)
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
