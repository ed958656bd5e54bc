"""Read CSV files: this module reads the header, and the engine reads the rows, as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dprelease.errors import DataError, State
from dprelease.exact.reading.line_selection import LineSelection, common_width, first_bytes
from dprelease.exact.reading.plain import NO_ARCHIVE, TextDecoding, open_file
from dprelease.exact.reading.sources import (
    EngineCall,
    file_label,
    source_fields,
    stored_columns,
    unreadable_error,
)
from dprelease.exact.sources.source_reader import Description
from dprelease.exact.sources.text_files_reader import (
    BYTES_BESIDE_BUFFERS,
    TextFilesReader,
    marked_columns,
    plain_number_columns,
    remove_null_texts,
    struct_of_texts_sql,
)
from dprelease.query import quoting
from dprelease.schema.load import Declared
from dprelease.schema.model import MOST_COLUMNS, shorten, unused_name
from dprelease.schema.source_texts import UTF_8, HeaderRows
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.detection.csv_layout import KeyValue
    from dprelease.exact.detection.dialect import DetectedFormat

LONGEST_RECORD = 1 << 26
CSV_BUFFER = 2 * LONGEST_RECORD
END_MARK_SQL = "chr(26)"
"""The character ^Z, by which old programs end a file. As a line, it is no row, wherever it is:
otherwise the row of another person below it would decide whether it counts."""

NO_HEADER = 0
"""The number of the header's line for `init`, if a file has no header."""

IMPOSSIBLE_TEXT = "\r"
"""A text that can't occur in a CSV file, because line feeds replace carriage returns before the
engine reads the file. So the engine takes no text for a missing value."""


class CsvReader(TextFilesReader):
    """Reads CSV files."""

    keeps_carriage_returns = False

    def header_lines(self, source: Source) -> int:
        """Return 1 if the engine leaves out the header, and 0 if the header is left out before."""
        return int(source.has_header and LineSelection.of(source).is_whole)

    def text_reader(self, declared: Declared, source: Source, files: Sequence[Path]) -> EngineCall:
        """Return the call of the engine that reads CSV files.

        Raises
        ------
        DataError
            DP-DATA-003 or 009 for a header that can't be read, 024 if the files have different
            headers, or if no row of a file is as wide as its header.
        """
        header = _common_header(declared, source, files)
        plain_numbers = plain_number_columns(declared, source, header, has_plain_numbers=False)
        more = unused_name("dp_more", {name.casefold() for name in header})
        options, rows = (
            _options_sql(source, header, more),
            _rows_sql(declared, source, header, more),
        )
        marked = marked_columns(declared, header)
        return EngineCall(self.packing(source), "read_csv", options, plain_numbers, rows, marked)

    def least_memory_bytes(self, sizes: Sequence[int], threads: int) -> int:
        """Return the bytes that all threads need: each reads one file at a time, in two buffers."""
        shares = sorted(min(size, 2 * CSV_BUFFER) + BYTES_BESIDE_BUFFERS for size in sizes)
        return sum(shares[-threads:])

    def form(self, file: Path, header: HeaderRows | None = None) -> DetectedFormat:
        """Return the format of a file, detected from its first rows, which are read as in a run."""
        from dprelease.exact.detection.csv_layout import (
            detect_csv_layout,
            has_names_below,
            have_equal_lengths,
        )
        from dprelease.exact.detection.dialect import detect_csv_format, read_first_lines

        packing, text, encoding_is_unknown = read_first_lines(file, "csv")
        if Source.model_construct(path=file.name).kind is None:  # the text may be no table at all
            if text[:1] in ("", "{", "[", "<", "%") or "\0" in text:
                raise ValueError("it is no CSV file")
            packing["format"] = "csv"
        keys = {key: value for key, value in packing.items() if value}
        separator = Source(path=file.name, format="csv").separator
        keys |= detect_csv_layout(text, separator, has_header=header != NO_HEADER)
        if header is not None and header != NO_HEADER:
            keys = {k: v for k, v in keys.items() if k not in ("names", "ragged")}
            keys |= {"header": [*header] if isinstance(header, tuple) else header}
        source = Source.model_validate({"path": file.name, "format": "csv"} | keys)
        cells = LineSelection.of(source).header_names(iter([text.encode()]))
        names = _generate_missing_names(list(source.names) or cells)
        are_unlike = len({name.casefold() for name in names}) == len(names) > 0
        can_run = are_unlike and len(names) <= MOST_COLUMNS
        found = _first_rows(text, source, names) if can_run else FirstRows()
        if found.misfits:
            more, found = _fitting_keys(text, source, names, found)
            keys |= more
            source = source.model_copy(update=more)
        form = detect_csv_format(keys, names, found.cells, source, encoding_is_unknown)
        for name, cell in zip(names, cells, strict=False):
            if not cell and not any(row[names.index(name)] for row in found.cells):
                form.columns.pop(name, None)  # a delimiter at the end of the header or of all rows
        has_equal_lines = len(names) == 1 and have_equal_lengths(text.split("\n"))
        names_below = None
        if found.cells and has_names_below(cells, found.cells[0]):
            place = LineSelection.of(source).header
            names_below = place + 1 if isinstance(place, int) else 0
        return replace(
            form,
            has_equal_lines=has_equal_lines,
            has_misfits=found.misfits > 0,
            names_below=names_below,
        )

    def peek(self, file: Path, table: str | None) -> pa.Table:
        """Return all values of a file, read in the format that `init` proposes."""
        from pyarrow import csv

        form = self.form(file)
        source = Source.model_validate({"path": file.name, "format": "csv"} | form.source)
        layouts = {kind.layout for kind in form.columns.values() if kind.layout is not None}
        cells = csv.read_csv(
            self.plain_text(file, source),
            read_options=csv.ReadOptions(
                column_names=form.names, skip_rows_after_names=self.header_lines(source)
            ),
            parse_options=csv.ParseOptions(
                delimiter=source.separator,
                quote_char=source.quote_character or False,
                escape_char=source.escape or False,
                newlines_in_values=True,
                invalid_row_handler=lambda _row: "skip",
            ),
            convert_options=csv.ConvertOptions(
                decimal_point=source.decimal,
                timestamp_parsers=[csv.ISO8601, *sorted(layouts)],
                null_values=[*csv.ConvertOptions().null_values, *source.nulls],
                column_types=_code_columns(form),
            ),
        )
        return remove_null_texts(cells, source.nulls)


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The cells of the first rows of a text, and how many of its lines a run would leave out."""

    cells: Sequence[list[str]] = ()
    misfits: int = 0


def _fitting_keys(
    text: str, source: Source, names: Sequence[str], found: FirstRows
) -> tuple[dict[str, KeyValue], FirstRows]:
    """Return the keys of `source` with which fewer lines of a text are left out, if there are any.

    Quotes may be characters like others if no field stands in quotes. Rows may lack their last
    fields, but a line with few fields may be a note.
    """
    from dprelease.exact.detection.csv_layout import has_quoted_fields

    keys: list[dict[str, KeyValue]] = []
    if source.escape is None and not has_quoted_fields(text, source.separator):
        keys.append({"quote": "none"})
    least = max(2, len(names) // 2)
    if all(least <= width <= len(names) for width in LineSelection.of(source).widths(text)):
        keys.append({"ragged": "pad"})
    best: tuple[dict[str, KeyValue], FirstRows] = {}, found
    for more in keys:
        other = _first_rows(text, source.model_copy(update=more), names)
        if other.misfits < best[1].misfits:
            best = more, other
    return best


def _first_rows(text: str, source: Source, names: Sequence[str]) -> FirstRows:
    """Return the first rows of a text, read by the statement of a run."""
    import duckdb

    from dprelease.exact.detection.dialect import MOST_ROWS

    packing = {"encoding": UTF_8, "compression": "none", "delimiter": source.separator}
    plain = source.model_copy(update={**packing, "nulls": ("",)})
    with TemporaryDirectory() as folder, duckdb.connect() as link:
        name = Path(source.path or "").name  # errors show it
        file, rows = Path(folder, name), Path(folder, f"{name}.rows")
        file.write_text(text, encoding=UTF_8, newline="")
        declared = Description([(name, "") for name in names], {"format": "csv"}).declare_table(
            file
        )
        table = declared.table.model_copy(update={"source": plain})
        reader = READER.text_reader(replace(declared, table=table), plain, [file])
        reader.packing.write(file, rows)
        relation = reader.relation([rows])
        found = link.execute(f"FROM {relation} LIMIT {MOST_ROWS}").fetchall()
        read = len(found) if len(found) < MOST_ROWS else link.sql(f"FROM {relation}").shape[0]
    misfits = max(0, len(LineSelection.of(source).widths(text)) - read)
    return FirstRows([[cell or "" for cell in row] for row in found], misfits)


def _code_columns(form: DetectedFormat) -> dict[str, pa.DataType]:
    """Return the types of columns with codes, such as 007, which Arrow must read as texts."""
    import pyarrow as pa

    return {name: pa.string() for name, kind in form.columns.items() if kind.is_code}


def _common_header(declared: Declared, source: Source, files: Sequence[Path]) -> tuple[str, ...]:
    """Return the header of all files.

    Raises
    ------
    DataError
        DP-DATA-024 if the files have different headers, or rows of another width than the header.
    """
    first, *others = (tuple(_read_header(declared, source, file, files)) for file in files)
    for file, header in zip(files[1:], others, strict=True):
        if header != first:
            one, other = file_label(file, files), file_label(files[0], files)
            reason = f"the header of {one} is another than that of {other}"
            way = "use the same columns in the same order in all files"
            raise unreadable_error(declared, reason, way)
    return first


def _rows_sql(
    declared: Declared, source: Source, header: Sequence[str], more: str
) -> tuple[str, str]:
    """Return the SELECT list for lines, and the condition that a line is as long as the header.

    The engine itself accepts a line with one additional field if that field is empty. So it reads
    one more column, `more`, and distinguishes empty fields from absent fields: a line of the right
    length has the last field of the header, and no field after it. Only then are the texts in
    `nulls` replaced by missing values.
    """
    known = {name.casefold() for name in stored_columns(declared)}
    columns = [quoting.identifier(name) for name in header if name.casefold() in known]
    nulls = ", ".join(quoting.text(null) for null in source.nulls)
    unquoted = not source.quote_character and source.escape is not None
    texts = [(one, _unescaped_sql(one) if unquoted else one) for one in columns]
    values = [f"CASE WHEN {one} NOT IN ({nulls}) THEN {text} END AS {one}" for one, text in texts]
    replaced = f" REPLACE ({', '.join(values)})" if values else ""
    last, behind = quoting.identifier(header[-1]), quoting.identifier(more)
    fits = f"{last} IS NOT NULL AND {behind} IS NULL"
    if source.ragged == "pad":
        fits = f"coalesce({behind}, '') = ''"
    if source.ragged == "pad" or len(header) == 1:
        fits += f" AND {quoting.identifier(header[0])} IS DISTINCT FROM {END_MARK_SQL}"
    return f"* EXCLUDE ({behind}){replaced}", fits


def _unescaped_sql(text: str) -> str:
    """Return SQL of a text in which a backslash escapes tabs, line ends and backslashes.

    Only in quoted texts the engine itself reads escapes.
    """
    # The engine reads texts without carriage returns: with one, each sign below is unmistakable.
    replacements = (
        (r"\\", "\rb"), (r"\t", "\t"), (r"\n", "\n"), (r"\r", "\rr"), ("\rb", "\\"), ("\rr", "\r")
    )  # fmt: skip
    for written, meant in replacements:
        text = f"replace({text}, {quoting.text(written)}, {quoting.text(meant)})"
    return text


def _options_sql(source: Source, header: Sequence[str], more: str) -> str:
    """Return the options of the engine's CSV function.

    `more`: the name of an additional column for cells beyond the last column of the header.
    """
    escape = (source.escape or source.quote_character) if source.quote_character else ""
    options = [
        f"columns = {struct_of_texts_sql([*header, more])}",
        f"header = {'true' if READER.header_lines(source) else 'false'}",
        "auto_detect = false",
        f"delim = {quoting.text(source.separator)}",
        f"quote = {quoting.text(source.quote_character)}",
        f"escape = {quoting.text(escape)}",
        f"nullstr = {quoting.text(IMPOSSIBLE_TEXT)}",
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


def _generate_missing_names(header: list[str]) -> list[str]:
    """Return the names in a header on one line each, with a generated name for each empty one.

    pandas writes an index as a column without a name, and a delimiter at the end makes another.
    """
    names = [" ".join(name.split()) if "\n" in name else name for name in header]
    return [name or f"dp_unnamed_{place}" for place, name in enumerate(names)] if any(names) else []


def _read_header(
    declared: Declared, source: Source, file: Path, files: Sequence[Path]
) -> list[str]:
    """Return the names in the header.

    No other line is read, except to compare the width of the first rows with that of the header.
    """
    failed = is_no_archive = False
    header: list[str] = []
    widths: list[int] = []
    try:
        header, widths = _header_and_widths(source, file)
    except (OSError, ValueError) as problem:
        failed, is_no_archive = True, str(problem) == NO_ARCHIVE
    header = list(source.names) or _generate_missing_names(header)
    folded = [name.casefold() for name in header]
    if failed or not header or any("\0" in name for name in header):
        reason = NO_ARCHIVE if is_no_archive else "" if failed else _header_problem(source, header)
        fields = source_fields(declared, file=file, files=files)
        raise DataError("DP-DATA-009", **fields, reason=f": {reason}" if reason else "")
    if len(header) > MOST_COLUMNS:  # the engine takes much memory for each, read or not
        most = f"{MOST_COLUMNS:,}"
        raise DataError("DP-DATA-022", **source_fields(declared), most=most)
    for name in stored_columns(declared):
        if folded.count(name.casefold()) > 1:
            fault = DataError("DP-DATA-003", table=declared.table.name, column=name)
            if len(files) > 1:
                fault.add_file_to_cause(file_label(file, files))
            raise fault
    if len(set(folded)) < len(folded):
        fields = source_fields(declared, file=file, files=files)
        raise DataError("DP-DATA-009", **fields, reason=": some of its names are equal")
    width = common_width(widths, len(header), pads=source.ragged == "pad")
    if width is not None:
        raise _width_error(declared, file_label(file, files), len(header), width)
    return header


def _header_problem(source: Source, header: Sequence[str]) -> str:
    """Return why the header of a file can't be used; empty if it has names."""
    if header:
        return ""
    if isinstance(source.header, str):
        return f"none of its lines has the name '{shorten(source.header)}'"
    return "there is no name in its line"


def _header_and_widths(source: Source, file: Path) -> tuple[list[str], list[int]]:
    """Return the cells of the header of a file, and the numbers of fields of its first rows."""
    selection = LineSelection.of(source)
    packing = TextDecoding.of(source, keeps_carriage_returns=False)
    with open_file(file) as raw:
        head = list(first_bytes(packing.text(raw)))
    header = selection.header_names(head) if selection.has_header else []
    return header, selection.first_widths(head)


def _width_error(declared: Declared, file: str, width: int, other: int) -> DataError:
    """Return DP-DATA-024 for a file none of whose first rows is as wide as its header."""
    reason = (
        f"the header of {file} has {width:,} fields, and none of its first rows has: most of them "
        f"have {other:,}"
    )
    way = (
        "declare `ragged: pad` if rows lack their last fields or end with a delimiter, `names` "
        "with a name for each field if the header lacks one, or another `header`, `delimiter` or "
        "`quote`"
    )
    return unreadable_error(declared, reason, way, State.READ)


READER = CsvReader()
