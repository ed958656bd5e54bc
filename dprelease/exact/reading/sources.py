"""Sources as SQL over declared files; nothing about them is ever inferred from their values."""

from __future__ import annotations

import csv
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.errors import DataError
from dprelease.exact.reading.plain import Packing, is_marked, open_file
from dprelease.query import quoting
from dprelease.schema.columns import IntegerColumn, NumberColumn, is_stored
from dprelease.schema.load import Declared
from dprelease.schema.model import free_name
from dprelease.schema.source_files import find_files, problem_of
from dprelease.schema.table import MOST_COLUMNS, Source
from dprelease.statements.values.written_forms import plain_number

FORMATS = {
    "csv": "CSV",
    "sqlite": "a SQLite file",
    "excel": "an Excel workbook",
    "postgres": "a table of a PostgreSQL server",
}
"""Their names in messages."""

HEADER_LIMIT = 1 << 20
LONGEST_RECORD = 1 << 26
CSV_BUFFER = 2 * LONGEST_RECORD
NOWHERE = "\r"
"""A text that occurs in no CSV file, because line ends are line feeds when it is read."""


@dataclass(frozen=True, slots=True)
class TextReader:
    """How text files are read: an engine's function, its options, and the columns.

    `packing`: how their bytes are decoded. `numbers`: columns with their plain forms as SQL.
    `rows`: for CSV, what is selected from each line, and a condition on lines.
    """

    packing: Packing
    function: str
    options: str
    numbers: tuple[tuple[str, str], ...]
    rows: tuple[str, str] = ("", "")

    def relation(self, files: Sequence[Path]) -> str:
        """Return the relation of plain files."""
        read = f"{self.function}({pattern_list(files)}, {self.options})"
        selected, condition = self.rows
        read = f"(SELECT {selected} FROM {read} WHERE {condition})" if selected else read
        plain = [f"{value} AS {quoting.identifier(name)}" for name, value in self.numbers]
        return f"(SELECT * REPLACE ({', '.join(plain)}) FROM {read})" if plain else read


Stamp = tuple[int, ...]
SIZE = 2


def stamp(file: Path) -> Stamp:
    """Return values that change when a file is replaced or written to; empty if it is missing.

    A writer can reset a file's modification time and keep its size. Nobody can reset its status
    change time (ctime), which every write updates, and so does setting times.
    """
    try:
        status = file.stat()
    except OSError:
        return ()
    inode = status.st_dev, status.st_ino
    return (*inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """The files of a source, statements that register them, and the relation to read.

    `stamps`: of the files, from before anything of them was read. `reader`: for text files that the
    engine can't read unchanged; it reads plain copies of them. The relation is empty if the engine
    does not read the files: their rows arrive as Arrow.
    """

    files: tuple[Path, ...]
    stamps: tuple[Stamp, ...]
    attach: tuple[str, ...]
    relation: str
    reader: TextReader | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the files before anything of them was read."""
        return tuple(one[SIZE] for one in self.stamps if one)


def source_fields(
    declared: Declared,
    is_read: bool = True,
    file: Path | None = None,
    files: Sequence[Path] = (),
) -> dict[str, Any]:
    """Return the declared place, table and path of a source, for messages.

    `is_read`: whether the source is read, rather than a frame in its place. `file`: the one among
    the `files` of the source that the message is about.
    """
    source = declared.table.source
    told = _source_text(source) if source is not None and is_read else ""
    if (
        told
        and file is not None
        and source is not None
        and file.name != Path(source.path or "").name
    ):
        told = f"{file_label(file, files)} of {told}"
    return {
        "place": declared.document.place("source") if told else None,
        "table": declared.table.name,
        "named": f", {told}," if told else "",
    }


def _source_text(source: Source) -> str:
    if source.path and source.table:
        return f"the table '{source.table}' of '{source.path}'"
    name = source.path or source.table
    return f"'{name}'" if name else ""


def unreadable(declared: Declared, reason: str, way: str) -> DataError:
    """Return the error DP-DATA-024 for a source whose rows were not read."""
    source = declared.table.source
    kind = "" if source is None else source.kind or ""
    fields = {**source_fields(declared), "format": FORMATS.get(kind, kind)}
    return DataError("DP-DATA-024", **fields, reason=reason, way=way)


def file_label(file: Path, files: Sequence[Path]) -> str:
    """Return the name of one of several files in messages, without folders that may hold values.

    Names of folders above it may hold values, as in `state=NY/part-0.parquet`: they are left out.
    """
    if [other.name for other in files].count(file.name) < 2:
        return f"'{file.name}'"
    number = files.index(file) + 1
    return f"'{file.name}' (file {number} of {len(files)}, in the order of their paths)"


def stored_columns(declared: Declared) -> list[str]:
    """Return the declared columns that a source must store: all but computed ones."""
    return [name for name, column in declared.table.columns.items() if is_stored(column)]


def open_files(declared: Declared, source: Source, database: str = "dp_database") -> OpenedSource:
    """Return the relation of a declared path or glob; a DuckDB file is attached as `database`.

    Raises
    ------
    DataError
        DP-DATA-001 if nothing is there, DP-DATA-009 for an unreadable CSV header.
    """
    files = _files(declared, source)
    stamps = tuple(map(stamp, files))
    match source.kind:
        case "parquet":
            return OpenedSource(files, stamps, (), parquet(files))
        case "csv" | "json_lines":
            reader = text_reader(declared, source, files)
            marked = source.kind == "json_lines" and any(map(is_marked, files))
            copied = None if reader.packing.is_plain and not marked else reader
            return OpenedSource(files, stamps, (), reader.relation(files), copied)
        case "sqlite" | "excel":
            return OpenedSource(files, stamps, (), "")
    path = quoting.text(str(files[0]))
    parts = [quoting.identifier(part) for part in (source.table or "").split(".")]
    attach = f"ATTACH {path} AS {database} (READ_ONLY, TYPE duckdb)"
    return OpenedSource(files[:1], stamps[:1], (attach,), ".".join([database, *parts]))


def parquet(files: Sequence[Path]) -> str:
    """Return the relation of Parquet files with the same column types."""
    by_name = "true" if len(files) > 1 else "false"
    options = f"union_by_name = {by_name}, hive_partitioning = false"
    return f"read_parquet({pattern_list(files)}, {options})"


def pattern_list(files: Sequence[Path]) -> str:
    """Return files as a list of patterns, for a function of the engine."""
    return f"[{', '.join(quoting.text(pattern(file)) for file in files)}]"


def text_reader(declared: Declared, source: Source, files: Sequence[Path]) -> TextReader:
    """Return how the text files of a source are read.

    Raises
    ------
    DataError
        DP-DATA-003 or 009 for a CSV header that can't be read, 024 if the files have different
        headers.
    """
    packing = Packing.of(source)
    if source.kind == "csv":
        header = _common_header(declared, source, files)
        numbers = _numbers(declared, source, header)
        more = free_name("dp_more", {name.casefold() for name in header})
        options, rows = _csv(source, header, more), _rows(declared, source, header, more)
        return TextReader(packing, "read_csv", options, numbers, rows)
    names = stored_columns(declared)
    options = (
        f"format = 'newline_delimited', columns = {_struct(names)}, auto_detect = false, "
        "ignore_errors = true, compression = 'none', hive_partitioning = false"
    )
    return TextReader(packing, "read_json", options, _numbers(declared, source, names))


def _numbers(
    declared: Declared, source: Source, stored: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return the numeric columns that are not written plainly, with their plain forms."""
    if source.decimal == "." and source.thousands is None:
        return ()
    columns, own = declared.table.columns, source.kind == "json_lines"
    return tuple(
        (name, plain_number(quoting.identifier(name), source.decimal, source.thousands, own))
        for name in stored_columns(declared)
        if name in stored and isinstance(columns[name], IntegerColumn | NumberColumn)
    )


def pattern(file: Path) -> str:
    """Return a file's name as a pattern for the engine, which treats every name as one."""
    return glob.escape(str(file))


def _files(declared: Declared, source: Source) -> tuple[Path, ...]:
    found = find_files(declared.folder, source)
    problem = problem_of(declared.folder, source, found)
    if problem is not None:
        raise unreadable(declared, *problem)
    # Resolved, so that a file with several links, such as the latest of a folder, counts once.
    files = tuple(dict.fromkeys(file.resolve() for file in found))
    if not files and source.is_folder and (declared.folder / (source.path or "")).is_dir():
        way = "put the files into it, or write a pattern for files elsewhere"
        raise unreadable(declared, "the folder contains no Parquet file", way)
    if not files:
        raise DataError("DP-DATA-001", **source_fields(declared), format=source.kind)
    return files


def _struct(names: Sequence[str]) -> str:
    """Return a struct of column names, all text: no type is ever sniffed."""
    return "{" + ", ".join(f"{quoting.text(name)}: 'VARCHAR'" for name in names) + "}"


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
        f"columns = {_struct([*header, more])}",
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
        for chunk in Packing.of(source).chunks(raw):
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
