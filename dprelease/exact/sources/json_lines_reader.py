"""Read JSON lines files: the engine reads all rows, as texts, and `init` only the first rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import State
from dprelease.exact.detection.dialect import (
    MOST_ROWS,
    ApparentType,
    DetectedFormat,
    detect_cell_formats,
    null_texts_of,
    read_first_lines,
)
from dprelease.exact.reading.line_selection import HEAD_LIMIT, first_bytes
from dprelease.exact.reading.plain import has_byte_order_mark, open_file
from dprelease.exact.reading.sources import (
    EngineCall,
    file_label,
    stored_columns,
    unreadable_error,
)
from dprelease.exact.sources.text_files_reader import (
    BYTES_BESIDE_BUFFERS,
    TextFilesReader,
    marked_columns,
    plain_number_columns,
    struct_of_texts_sql,
)
from dprelease.schema.load import Declared
from dprelease.schema.source_texts import UTF_8, HeaderRows
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

NESTED_TYPE = ApparentType("nested", refusal="lists and objects can't be used")

JSON_BUFFER = 32 << 20
"""Bytes of a file that a thread of the engine reads at once; the engine's default."""


class JsonLinesReader(TextFilesReader):
    """Reads JSON lines files."""

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> EngineCall:
        """Return the call of the engine that reads JSON lines files.

        Raises
        ------
        DataError
            DP-DATA-024 if the first rows of a file have none of the declared columns.
        """
        names = stored_columns(declared)
        for file in files:
            if self._lacks_columns(file, source, names):
                label = file_label(file, files)
                reason = f"none of the first rows of {label} has one of the declared columns"
                way = "correct the names of the columns (case matters), or the declared source"
                raise unreadable_error(declared, reason, way, State.READ)
        # Nothing is detected, as in CSV: the types of values in the first lines must not decide how
        # the others are read.
        options = (
            f"format = 'newline_delimited', columns = {struct_of_texts_sql(names)}, "
            "auto_detect = false, ignore_errors = true, compression = 'none', "
            "hive_partitioning = false"
        )
        plain_numbers = plain_number_columns(declared, source, names, has_plain_numbers=True)
        marked = marked_columns(declared, names)
        return EngineCall(self.packing(source), "read_json", options, plain_numbers, marked=marked)

    def _lacks_columns(self, file: Path, source: Source, names: Sequence[str]) -> bool:
        """Return whether the first rows of a file have no column of these names.

        An unreadable line, which a run counts as a row, is none here.
        """
        try:
            with open_file(file) as raw:
                head = b"".join(first_bytes(self.packing(source).text(raw)))
        except OSError:
            return False  # reading the rows reports it
        whole = head if len(head) < HEAD_LIMIT else head.rpartition(b"\n")[0]
        lines = islice(whole.decode(UTF_8, "replace").split("\n"), MOST_ROWS)
        rows = [row for row in map(_row_of_line, lines) if row]
        return bool(names) and bool(rows) and all(row.keys().isdisjoint(names) for row in rows)

    def needs_copy(self, file: Path) -> bool:
        """Return whether a file begins with a byte order mark, at which the engine would fail."""
        return has_byte_order_mark(file)

    def least_memory_bytes(self, sizes: Sequence[int], threads: int) -> int:
        """Return the bytes that all threads need: they share a file, and each part fills a buffer.

        At most two threads work on each part, and one more thread waits for the next part.
        """
        parts = sum(2 * -(-size // JSON_BUFFER) for size in sizes)
        readers = min(threads, parts)
        waiting = readers > 1 and max(sizes) > JSON_BUFFER
        return (readers + waiting) * (JSON_BUFFER + BYTES_BESIDE_BUFFERS)

    def form(self, file: Path, header: HeaderRows | None = None) -> DetectedFormat:
        """Return the format of a file, detected from its first rows."""
        return detect_json_lines_format(file)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all values of a file, read in the format that `init` proposes."""
        from pyarrow import json

        form = self.form(file)
        source = Source.model_validate({"path": file.name, "format": "json_lines", **form.source})
        return json.read_json(self.plain_text(file, source))


def detect_json_lines_format(file: Path) -> DetectedFormat:
    """Return the apparent format of a JSON lines file.

    It contains only names that occur in at least half of the first rows: a rare name may be about
    one person.

    Raises
    ------
    OSError
        If the first bytes of the file can't be read.
    """
    source, text, encoding_is_unknown = read_first_lines(file, "json_lines")
    rows = [row for row in map(_row_of_line, islice(text.splitlines(), MOST_ROWS)) if row]
    seen = Counter(name for row in rows for name in row)
    names = [name for name in seen if name and 2 * seen[name] >= len(rows)]
    nested = {name for name in names if any(isinstance(row.get(name), list | dict) for row in rows)}
    cells = {
        name: [_cell_text(row.get(name)) for row in rows] for name in names if name not in nested
    }
    cell_form, columns = detect_cell_formats(cells, semicolons=False)
    columns = {  # a source of JSON has no `nulls`
        name: replace(kind, codes=(*kind.codes, *null_texts_of(cells[name])))
        if kind.name != "text"
        else kind
        for name, kind in columns.items()
    }
    if cell_form["thousands"] == ".":  # numbers of JSON have a decimal point
        cell_form["thousands"] = ""
    kept = {key: value for key, value in (source | cell_form).items() if value}
    return DetectedFormat(
        kept, {name: columns.get(name, NESTED_TYPE) for name in names}, encoding_is_unknown
    )


def _row_of_line(line: str) -> dict[str, Any]:
    """Return the row in a line, with numbers as written; empty if the line is not an object."""
    try:
        # Numbers stay texts, because a float would lose digits, and Python refuses to convert more
        # than 4,300 digits to an integer.
        row = json.loads(line, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _cell_text(value: object) -> str:
    """Return the text of a value of JSON; empty if the value is missing."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else ""


READER = JsonLinesReader()
