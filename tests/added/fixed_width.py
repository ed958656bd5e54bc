"""A source type that the package does not know: text in columns of fixed width.

The first line names the columns and their widths, as in `person:3 city:5`; all others are records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dprelease.exact.reading.cell_rows import CellRows, Row, cell_rows, wanted_columns
from dprelease.exact.reading.sources import unreadable_error
from dprelease.exact.sources.cell_reader import CellReader
from dprelease.exact.sources.source_reader import TEXT_OR_NUMBER, Description
from dprelease.schema.load import Declared
from dprelease.schema.source_types.source import Source
from dprelease.schema.source_types.source_type import BY_CHARACTERS, TIME_OPTIONS, SourceType


class FixedWidth(SourceType, CellReader):
    """Files of fixed width: both halves of the source type in one class."""

    name = "own_width"
    label = "a file of fixed width"
    suffixes = (".own",)
    options = ("nulls", *TIME_OPTIONS)
    has_texts_for_booleans = True
    comparisons = BY_CHARACTERS

    def rows(self, declared: Declared, source: Source, files: Sequence[Path]) -> CellRows:
        """Return the declared columns; reads only the first line of each file."""
        headers = [_header(file) for file in files]
        if any(header != headers[0] for header in headers):
            way = "use the same columns in all of them"
            raise unreadable_error(declared, "the files have different headers", way)
        wanted = wanted_columns(declared, list(headers[0]))

        def read() -> Iterator[Row]:
            for file in files:
                with file.open(encoding="utf-8", errors="replace") as lines:
                    next(lines, "")
                    for line in lines:
                        cells = [line[headers[0][name]].strip() for name in wanted]
                        yield [None if cell in source.nulls else cell for cell in cells] or [None]

        return cell_rows(declared, wanted, read, {})

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns that the first line names."""
        try:
            return Description([(name, TEXT_OR_NUMBER) for name in _header(file)])
        except (OSError, ValueError):
            return Description()


def _header(file: Path) -> dict[str, slice]:
    """Return the places of columns; raise OSError or ValueError if the first line has none."""
    with file.open(encoding="utf-8") as lines:
        first = next(lines, "")
    places: dict[str, slice] = {}
    start = 0
    for word in first.split():
        name, _, width = word.rpartition(":")
        places[name] = slice(start, start + int(width))
        start += int(width)
    return places


SOURCE_TYPE = FixedWidth()
