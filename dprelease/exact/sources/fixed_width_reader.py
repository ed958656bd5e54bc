"""Read text files of fixed width: the engine reads lines, and cuts the fields out of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.exact.detection.csv_layout import MOST_TITLES, first_note
from dprelease.exact.detection.dialect import MOST_ROWS, detect_csv_format, read_first_lines
from dprelease.exact.reading.sources import EngineCall, stored_columns
from dprelease.exact.sources.csv_reader import (
    END_MARK_SQL,
    IMPOSSIBLE_TEXT,
    LONGEST_RECORD,
    CsvReader,
)
from dprelease.exact.sources.text_files_reader import marked_columns, plain_number_columns
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.source_texts import HeaderRows
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.detection.dialect import DetectedFormat

LINE = "dp_line"
NO_DELIMITER = "\x01"
"""The delimiter of lines that have a single field. A line that contains it is left out."""


class FixedWidthReader(CsvReader):
    """Reads text files of fixed width, whose lines are selected as those of CSV files."""

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> EngineCall:
        """Return the call of the engine that reads lines, and the places of the columns."""
        names = [name for name in stored_columns(declared) if name in source.places]
        plain_numbers = plain_number_columns(declared, source, names, has_plain_numbers=False)
        nulls = ", ".join(quoting.text(null) for null in sorted({*source.nulls, ""}))
        fields = []
        for name in names:
            first, last = source.places[name]
            field = f"trim(substring({LINE}, {first}, {last - first + 1}))"
            fields.append(
                f"CASE WHEN {field} NOT IN ({nulls}) THEN {field} END AS {quoting.identifier(name)}"
            )
        # Nothing is detected: a format that the engine guesses from values would let one row decide
        # how all others are read.
        options = (
            f"columns = {{{LINE}: 'VARCHAR'}}, header = false, auto_detect = false, "
            f"delim = {quoting.text(NO_DELIMITER)}, quote = '', escape = '', "
            f"nullstr = {quoting.text(IMPOSSIBLE_TEXT)}, ignore_errors = true, strict_mode = true, "
            f"parallel = false, max_line_size = {LONGEST_RECORD}, "
            f"buffer_size = {2 * LONGEST_RECORD}, compression = 'none', hive_partitioning = false"
        )
        rows = ", ".join(fields) or f"1 AS {LINE}", f"trim({LINE}) NOT IN ('', {END_MARK_SQL})"
        marked = marked_columns(declared, names)
        return EngineCall(self.packing(source), "read_csv", options, plain_numbers, rows, marked)

    def form(self, file: Path, header: HeaderRows | None = None) -> DetectedFormat:
        """Return the format of a file, with a column for each part between blanks of all lines.

        The first line has names if it has as many words as there are columns, and no digits. The
        last lines may be totals and notes.
        """
        packing, text, encoding_is_unknown = read_first_lines(file, "csv")
        written = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
        note = first_note([[line.strip()] for _, line in written[-MOST_TITLES:]], 1)
        notes = [] if note is None else written[-MOST_TITLES:][note:]
        footer = notes[-1][0] - notes[0][0] + 1 if notes else 0
        lines = [line for _, line in written[: len(written) - len(notes)]][:MOST_ROWS]
        names, places = lines[0].split() if lines else [], _places(lines[1:])
        is_header = _are_names(names, [_fields(line, places) for line in lines[1:]])
        if is_header:
            lines = lines[1:]
        places = dict(zip(names, places.values(), strict=True)) if is_header else _places(lines)
        if not places:
            raise ValueError("there is no column")
        rows = [_fields(line, places) for line in lines]
        keys = {key: value for key, value in packing.items() if value}
        keys |= {"skip": written[0][0]} if is_header else {}
        keys |= {"footer": footer} if footer else {}
        keys |= {"columns": {name: [*place] for name, place in places.items()}}
        if Source.model_construct(path=file.name).kind != "fixed_width":
            keys["format"] = "fixed_width"
        source = Source.model_validate({"path": file.name, "format": "fixed_width"} | keys)
        return detect_csv_format(keys, list(places), rows, source, encoding_is_unknown)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Refuse to show values: their places have to be declared first."""
        raise OSError("the places of its columns are not known")


def _places(lines: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the first and last character of each part of lines between blanks of all lines."""
    width = max(map(len, lines), default=0)
    used = "".join(
        "x" if any(line[i : i + 1].strip() for line in lines) else " " for i in range(width)
    )
    return {
        f"column_{number}": (found.start() + 1, found.end())
        for number, found in enumerate(re.finditer("x+", used), 1)
    }


def _fields(line: str, places: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return the fields of a line in these places."""
    return [line[first - 1 : last].strip() for first, last in places.values()]


def _are_names(words: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether words can only be the names of columns, and no values of a row.

    They differ and have no digits, and stand above rows with as many fields, one of which is a
    number in every row.
    """
    has_numbers = any(
        all(cell.replace(".", "").isdigit() for cell in cells) for cells in zip(*rows, strict=True)
    )
    are_unlike = len({word.casefold() for word in words}) == len(words)
    has_digits = any(map(str.isdigit, "".join(words)))
    is_as_wide = bool(rows) and len(words) == len(rows[0])
    return is_as_wide and are_unlike and has_numbers and not has_digits


READER = FixedWidthReader()
