"""Detect the format of a JSON lines file from its first bytes: proposals, and no values."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from dprelease.exact.reading.dialect import MOST_ROWS, Form, Kind, first_text, form_of_cells

NESTED = Kind("nested")


def form_of_json_lines(file: Path) -> Form:
    """Return the apparent format of a JSON lines file.

    Only names that occur in most of the first rows: a rare one may be about one person.

    Raises
    ------
    OSError
        If its first bytes can't be read.
    """
    source, text, is_ascii = first_text(file, "json_lines")
    rows = [row for row in map(_row, islice(text.splitlines(), MOST_ROWS)) if row]
    seen = Counter(name for row in rows for name in row)
    names = [name for name in seen if name and 2 * seen[name] >= len(rows)]
    nested = {name for name in names if any(isinstance(row.get(name), list | dict) for row in rows)}
    cells = {name: [_cell(row.get(name)) for row in rows] for name in names if name not in nested}
    cell_form, columns = form_of_cells(cells, semicolons=False)
    if cell_form["thousands"] == ".":  # its own numbers have points
        cell_form["thousands"] = ""
    kept = {key: value for key, value in (source | cell_form).items() if value}
    return Form(kept, {name: columns.get(name, NESTED) for name in names}, is_ascii)


def _row(line: str) -> dict[str, Any]:
    """Return one row, its numbers as written; empty for a line that is not a row."""
    try:
        row = json.loads(line, parse_float=str, parse_int=str)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else ""
