"""CSV files: their header is read here, their rows by the engine, as texts."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.reading.plain import Packing, open_file
from dprelease.exact.reading.sources import (
    TextReader,
    file_label,
    source_fields,
    stored_columns,
    unreadable,
)
from dprelease.exact.sources.text_files_reader import (
    BESIDE,
    TextFilesReader,
    numbers_of,
    struct_of_texts,
)
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.model import free_name
from dprelease.schema.table import MOST_COLUMNS, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.reading.dialect import Form

HEADER_LIMIT = 1 << 20
LONGEST_RECORD = 1 << 26
CSV_BUFFER = 2 * LONGEST_RECORD
NOWHERE = "\r"
"""A text that occurs in no CSV file, because line ends are line feeds when it is read."""


class CsvReader(TextFilesReader):
    """Reads CSV files."""

    header_lines = 1
    returns = False

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> TextReader:
        """Return how CSV files are read.

        Raises
        ------
        DataError
            DP-DATA-003 or 009 for a header that can't be read, 024 if the files have different
            headers.
        """
        header = _common_header(declared, source, files)
        numbers = numbers_of(declared, source, header, own=False)
        more = free_name("dp_more", {name.casefold() for name in header})
        options, rows = _csv(source, header, more), _rows(declared, source, header, more)
        return TextReader(self.packing(source), "read_csv", options, numbers, rows)

    def memory(self, sizes: Sequence[int], threads: int) -> int:
        """Return the buffers of threads that read a whole file each: one, and the next."""
        shares = sorted(min(size, 2 * CSV_BUFFER) + BESIDE for size in sizes)
        return sum(shares[-threads:])

    def form(self, file: Path) -> Form:
        """Return the form of a file's first rows."""
        from dprelease.exact.reading.dialect import form_of

        return form_of(file)

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all values, read in the form that `init` proposes."""
        from pyarrow import csv

        form = self.form(file)
        source = Source.model_validate({"path": file.name, "format": "csv", **form.source})
        layouts = {kind.layout for kind in form.columns.values() if kind.layout is not None}
        held = csv.read_csv(
            self.plain_text(file, source),
            parse_options=csv.ParseOptions(delimiter=source.separator, quote_char=source.quote),
            convert_options=csv.ConvertOptions(
                decimal_point=source.decimal,
                timestamp_parsers=[csv.ISO8601, *sorted(layouts)],
                null_values=[*csv.ConvertOptions().null_values, *source.nulls],
                column_types=_codes(form),
            ),
        )
        return _without(held, source.nulls)


def _codes(form: Form) -> dict[str, pa.DataType]:
    """Return the columns of codes, such as 007, which are texts."""
    import pyarrow as pa

    return {name: pa.string() for name, kind in form.columns.items() if kind.is_code}


def _without(held: pa.Table, nulls: Sequence[str]) -> pa.Table:
    """Return columns of texts without the texts that stand for missing values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pa.array(nulls, pa.string())
    for i, (name, column) in enumerate(zip(held.column_names, held.columns, strict=True)):
        if pa.types.is_string(column.type):
            known = pc.invert(pc.is_in(column, value_set=missing))
            held = held.set_column(i, name, pc.if_else(known, column, None))
    return held


def _common_header(declared: Declared, source: Source, files: Sequence[Path]) -> tuple[str, ...]:
    first, *others = (tuple(_header(declared, source, file, files)) for file in files)
    for file, header in zip(files[1:], others, strict=True):
        if header != first:
            one, other = file_label(file, files), file_label(files[0], files)
            reason = f"the header of {one} is another than that of {other}"
            way = "use the same columns in the same order in all files"
            raise unreadable(declared, reason, way)
    return first


def _rows(declared: Declared, source: Source, header: Sequence[str], more: str) -> tuple[str, str]:
    """Return what is selected from lines, and the condition that a line has the right length.

    The engine itself accepts a line with one additional field if that is empty. So it reads one
    more column, `more`, and distinguishes empty from absent fields: a line has the last field of
    the header and none after it. Missing values by `nulls` are detected after that.
    """
    known = {name.casefold() for name in stored_columns(declared)}
    columns = [quoting.identifier(name) for name in header if name.casefold() in known]
    nulls = ", ".join(quoting.text(null) for null in source.nulls)
    values = [f"CASE WHEN {one} NOT IN ({nulls}) THEN {one} END AS {one}" for one in columns]
    replaced = f" REPLACE ({', '.join(values)})" if values else ""
    last, behind = quoting.identifier(header[-1]), quoting.identifier(more)
    return f"* EXCLUDE ({behind}){replaced}", f"{last} IS NOT NULL AND {behind} IS NULL"


def _csv(source: Source, header: Sequence[str], more: str) -> str:
    """Return the engine's options; see `_rows` for the column `more`."""
    options = [
        f"columns = {struct_of_texts([*header, more])}",
        "header = true",
        "auto_detect = false",
        f"delim = {quoting.text(source.separator)}",
        f"quote = {quoting.text(source.quote)}",
        f"escape = {quoting.text(source.quote)}",
        f"nullstr = {quoting.text(NOWHERE)}",
        # A line with more fields, or with invalid bytes in columns that are read, is a missing row:
        # no line can stop a run or be quoted in a message. In non-strict mode a quote inside a
        # quoted text would open another one, which would swallow all following lines.
        "ignore_errors = true",
        "strict_mode = true",
        "null_padding = true",
        # In parallel, or longer than a buffer, a quoted text can be read as separate rows and lose
        # thousands of others: one person would decide about the rows of many.
        "parallel = false",
        f"max_line_size = {LONGEST_RECORD}",
        f"buffer_size = {CSV_BUFFER}",
        "compression = 'none'",
        "hive_partitioning = false",
    ]
    return ", ".join(options)


def _first_line(source: Source, file: Path) -> bytes:
    """Return the first line in UTF-8; the rest of the file is not decoded."""
    start = b""
    with open_file(file) as raw:
        for chunk in Packing.of(source, returns=False).chunks(raw):
            start += chunk
            if b"\n" in chunk or len(start) >= HEADER_LIMIT:
                break
    line, end, _ = start.partition(b"\n")
    return (line + end)[:HEADER_LIMIT]


def _name_index_columns(header: list[str]) -> list[str]:
    """Return the names, with generated ones for unnamed columns, as the index that pandas writes.

    Not for those at the end: rows may be shorter than such a header there, and would all be lost.
    """
    last = max((place for place, name in enumerate(header) if name), default=-1)
    return [
        name or (f"dp_unnamed_{place}" if place < last else "") for place, name in enumerate(header)
    ]


def _header(declared: Declared, source: Source, file: Path, files: Sequence[Path]) -> list[str]:
    """Return the names in the header line; no other line is read."""
    failed = False
    header: list[str] = []
    try:
        first = _first_line(source, file).decode("utf-8-sig")
        rows = csv.reader([first], delimiter=source.separator, quotechar=source.quote, strict=True)
        header = _name_index_columns(next(rows, []))
    except (OSError, ValueError, csv.Error):
        failed = True
    folded = [name.casefold() for name in header]
    if failed or not header or any("\0" in name or not name for name in header):
        raise DataError("DP-DATA-009", **source_fields(declared, file=file, files=files))
    if len(header) > MOST_COLUMNS:  # the engine takes much memory for each, read or not
        most = f"{MOST_COLUMNS:,}"
        raise DataError("DP-DATA-022", **source_fields(declared), most=most)
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            fault = DataError("DP-DATA-003", table=declared.table.name, column=name)
            if len(files) > 1:
                fault.found_in(file_label(file, files))
            raise fault
    if len(set(folded)) < len(folded):
        raise DataError("DP-DATA-009", **source_fields(declared, file=file, files=files))
    return header


READER = CsvReader()
