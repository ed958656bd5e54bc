"""Read text files of fixed width: the engine reads lines, and cuts the fields out of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

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
        """Return the format of a file, with a column for each part between blanks of all lines."""
        packing, text, encoding_is_unknown = read_first_lines(file, "csv")
        lines = [line for line in islice(text.split("\n"), MOST_ROWS) if line.strip()]
        width = max(map(len, lines), default=0)
        used = "".join(
            "x" if any(line[i : i + 1].strip() for line in lines) else " " for i in range(width)
        )
        places = {
            f"column_{number}": (found.start() + 1, found.end())
            for number, found in enumerate(re.finditer("x+", used), 1)
        }
        if not places:
            raise ValueError("there is no column")
        rows = [
            [line[first - 1 : last].strip() for first, last in places.values()] for line in lines
        ]
        keys = {key: value for key, value in packing.items() if value}
        keys |= {"columns": {name: [*place] for name, place in places.items()}}
        if Source.model_construct(path=file.name).kind != "fixed_width":
            keys["format"] = "fixed_width"
        source = Source.model_validate({"path": file.name, "format": "fixed_width"} | keys)
        return detect_csv_format(keys, list(places), rows, source, encoding_is_unknown)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Refuse to show values: their places have to be declared first."""
        raise OSError("the places of its columns are not known")


READER = FixedWidthReader()
