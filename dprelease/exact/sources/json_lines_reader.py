"""JSON lines files: their rows are read by the engine, as texts; `init` reads the first of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.exact.reading.dialect import MOST_ROWS, Form, Kind, first_text, form_of_cells
from dprelease.exact.reading.plain import is_marked
from dprelease.exact.reading.sources import TextReader, stored_columns
from dprelease.exact.sources.text_files_reader import (
    BESIDE,
    TextFilesReader,
    numbers_of,
    struct_of_texts,
)
from dprelease.schema.load import Declared
from dprelease.schema.table import Source

if TYPE_CHECKING:
    import pyarrow as pa

NESTED = Kind("nested", refusal="lists and objects can't be used")

JSON_BUFFER = 32 << 20
"""Bytes of a file that a thread reads at once: the engine's own value."""


class JsonLinesReader(TextFilesReader):
    """Reads JSON lines files."""

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> TextReader:
        """Return how JSON lines files are read."""
        names = stored_columns(declared)
        options = (
            f"format = 'newline_delimited', columns = {struct_of_texts(names)}, "
            "auto_detect = false, ignore_errors = true, compression = 'none', "
            "hive_partitioning = false"
        )
        numbers = numbers_of(declared, source, names, own=True)
        return TextReader(self.packing(source), "read_json", options, numbers)

    def needs_copy(self, file: Path) -> bool:
        """Return whether a file begins with a byte order mark, at which the engine stops."""
        return is_marked(file)

    def memory(self, sizes: Sequence[int], threads: int) -> int:
        """Return the buffers of threads that share the parts of a file.

        Two share the parts that fill a buffer each, and one more waits for them.
        """
        parts = sum(2 * -(-size // JSON_BUFFER) for size in sizes)
        readers = min(threads, parts)
        waiting = readers > 1 and max(sizes) > JSON_BUFFER
        return (readers + waiting) * (JSON_BUFFER + BESIDE)

    def form(self, file: Path) -> Form:
        """Return the form of a file's first rows."""
        return form_of_json_lines(file)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all values, read in the form that `init` proposes."""
        from pyarrow import json

        form = self.form(file)
        source = Source.model_validate({"path": file.name, "format": "json_lines", **form.source})
        return json.read_json(self.plain_text(file, source))


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


READER = JsonLinesReader()
