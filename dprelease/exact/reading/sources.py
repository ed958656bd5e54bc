"""Find the files of sources, name them in errors, and describe how an engine reads them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dprelease.errors import DataError, Place, State
from dprelease.exact.reading.line_selection import MOST_NOTES
from dprelease.exact.reading.plain import TextDecoding
from dprelease.query import quoting
from dprelease.schema.columns import is_stored
from dprelease.schema.load import Declared
from dprelease.schema.source_files import find_files, problem_of
from dprelease.schema.source_types.source import Source
from dprelease.statements.meanings import typed_value_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.exact.lakes.lake_version import LakeVersion
    from dprelease.exact.reading.store_copies import StoreCopies


@dataclass(frozen=True, slots=True)
class EngineCall:
    """The call of a function of the engine that reads text files.

    `packing`: how the bytes of the files are decoded before the engine reads them. `function` and
    `options`: the name of the function, and its options in SQL. `plain_numbers`: columns of
    numbers, each with SQL that rewrites its numbers with a decimal point and without thousands
    separators. `rows`: for CSV, the SELECT list for lines, and a condition on lines. `marked`: the
    columns with marks, which are also read as they are stored, by the name `stored_name`.
    """

    packing: TextDecoding
    function: str
    options: str
    plain_numbers: tuple[tuple[str, str], ...]
    rows: tuple[str, str] = ("", "")
    marked: tuple[str, ...] = ()

    def relation(self, files: Sequence[Path]) -> str:
        """Return SQL of a relation that reads plain files."""
        read = f"{self.function}({pattern_list_sql(files)}, {self.options})"
        selected, condition = self.rows
        read = f"(SELECT {selected} FROM {read} WHERE {condition})" if selected else read
        plain = [f"{value} AS {quoting.identifier(name)}" for name, value in self.plain_numbers]
        columns = [f"* REPLACE ({', '.join(plain)})" if plain else "*"]
        for name in self.marked:
            columns.append(f"{quoting.identifier(name)} AS {quoting.identifier(stored_name(name))}")
        return f"(SELECT {', '.join(columns)} FROM {read})" if plain or self.marked else read


def stored_name(column: str) -> str:
    """Return the name of a column with marks before its numbers are rewritten."""
    return f"dp_stored_{column}"


class BatchSource(Protocol):
    """Rows that arrive as Arrow batches when they are requested."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns and their types, without reading any row."""
        ...

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows; the source is read when the first batch is requested."""
        ...


FileStamp = tuple[int, ...]
SIZE_INDEX = 2


def file_stamp(file: Path) -> FileStamp:
    """Return values that change when a file is replaced or written to; empty for a missing file.

    A writer can reset a file's modification time and keep its size. Nobody can reset its status
    change time (ctime), which every write updates, and so does setting times.
    """
    try:
        status = file.stat()
    except OSError:
        return ()
    inode = status.st_dev, status.st_ino
    return (*inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def file_identity(file: Path) -> tuple[int, ...]:
    """Return device and number of a file, which all of its names share; empty if it is missing.

    Also empty if the file system has no numbers of files: then all of its files have the number 0.
    """
    identity = file_stamp(file)[:SIZE_INDEX]
    return identity if any(identity[1:]) else ()


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """The files of a source, statements that register them, and the relation to read.

    `stamps`: the stamp of each file, from before any byte of the file was read. `attach`:
    statements that attach database files. `reader`: for text files that the engine can't read
    unchanged, the call that reads plain copies of them. `rows`: the rows of a source that the
    engine does not read itself; such a source has no relation. `collations`: the columns that the
    source does not compare character by character, each with the name that the source has for its
    comparison, as in `SourceType.comparisons`. `lake`: for a table of a lakehouse format, its
    version.
    """

    files: tuple[Path, ...] = ()
    stamps: tuple[FileStamp, ...] = ()
    attach: tuple[str, ...] = ()
    relation: str = ""
    reader: EngineCall | None = None
    rows: BatchSource | None = None
    collations: Mapping[str, str] = field(default_factory=dict)
    lake: LakeVersion | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes that the files had before any byte of them was read."""
        return tuple(one[SIZE_INDEX] for one in self.stamps if one)


def source_fields(
    declared: Declared,
    is_read: bool = True,
    file: Path | None = None,
    files: Sequence[Path] = (),
) -> dict[str, Any]:
    """Return the fields of messages that name the declaration, the table and the path of a source.

    `is_read`: whether the source itself is read, and not a frame in its place. `file`: the file
    that the message is about, one of the `files` of the source.
    """
    source = declared.table.source
    label = _source_text(source) if source is not None and is_read else ""
    if (
        label
        and file is not None
        and source is not None
        and file.name != Path(source.path or "").name
    ):
        label = f"{file_label(file, files)} of {label}"
    return {
        "place": declared.source_place if label else None,
        "table": declared.table.name,
        "named": f", {label}," if label else "",
    }


def _source_text(source: Source) -> str:
    """Return the path or the table of a source as an error message names it."""
    if source.path and source.table:
        return f"the table '{source.table}' of '{source.path}'"
    name = source.path or source.table
    return f"'{name}'" if name else ""


def unreadable_error(
    declared: Declared, reason: str, way: str, state: State = State.NOTHING
) -> DataError:
    """Return the error DP-DATA-024 for a source that can't be read."""
    source = declared.table.source
    fields = {**source_fields(declared), "format": "" if source is None else source.type.label}
    return DataError("DP-DATA-024", state=state, **fields, reason=reason, way=way)


def missing_notes_error(declared: Declared, file: str, key: str) -> DataError:
    """Return the error DP-DATA-024 for a file that lacks the notes of a key of its source.

    The error depends on no row: a file that ends with its notes has them with any rows.
    """
    if key == "until":
        reason = f"none of the last lines of {file} begins with the text in `until`"
        way = (
            "write the beginning of the first line of the notes as it is in the file, or remove "
            f"`until`; notes have at most {MOST_NOTES:,} lines"
        )
    else:
        reason = f"{file} has fewer lines than `footer` leaves out"
        way = "write as `footer` how many lines of totals and notes are below the rows"
    return unreadable_error(declared, reason, way, State.READ)


def file_label(file: Path, files: Sequence[Path]) -> str:
    """Return the name of one of several files, as messages write it.

    Names of the folders above a file may contain values, as in `state=NY/part-0.parquet`, so they
    are left out.
    """
    if [other.name for other in files].count(file.name) < 2:
        return f"'{file.name}'"
    number = files.index(file) + 1
    return f"'{file.name}' (file {number} of {len(files)}, in the order of their paths)"


def stored_columns(declared: Declared) -> list[str]:
    """Return the declared columns that a source must store: all except computed columns."""
    return [name for name, column in declared.table.columns.items() if is_stored(column)]


def parquet_sql(files: Sequence[Path]) -> str:
    """Return SQL of a relation that reads Parquet files with the same column types."""
    by_name = "true" if len(files) > 1 else "false"
    # Names of folders are no columns: a schema declares the columns that the files store.
    options = f"union_by_name = {by_name}, hive_partitioning = false"
    return f"read_parquet({pattern_list_sql(files)}, {options})"


def pattern_list_sql(files: Sequence[Path]) -> str:
    """Return SQL of a list of the files' names, each as a pattern, for a function of the engine."""
    return f"[{', '.join(quoting.text(escape_pattern(file)) for file in files)}]"


def escape_pattern(file: Path) -> str:
    """Return a pattern that matches only this file, because the engine reads names as patterns."""
    return glob.escape(str(file))


def files_of_source(
    declared: Declared, source: Source, copies: StoreCopies | None = None
) -> tuple[Path, ...]:
    """Return the files of a declared path, a pattern or a folder, each of them once.

    `copies`: the copies of objects that a run reads from stores.

    Raises DataError: DP-DATA-001 if there is no file, 024 if some of the files may be stale.
    """
    if source.store is not None and copies is not None:
        return copies.files(declared, source)
    found = find_files(declared.folder, source)
    problem = problem_of(declared.folder, source, found)
    if problem is not None:
        raise unreadable_error(declared, *problem)
    # A file with several names counts once, such as a link to the latest file of a folder.
    by_identity: dict[tuple[int, ...] | Path, Path] = {}
    for file in found:
        path = file.resolve()
        by_identity.setdefault(file_identity(file) or path, path)
    files = tuple(by_identity.values())
    if not files and source.is_folder and (declared.folder / (source.path or "")).is_dir():
        way = "put the files into it, or write a pattern for files elsewhere"
        raise unreadable_error(declared, "the folder contains no Parquet file", way)
    if not files:
        raise DataError("DP-DATA-001", **source_fields(declared), format=source.type.label)
    return files


class EngineTable(Protocol):
    """A table of an engine: its declaration, and the engine's types of its columns."""

    declared: Declared
    physical: dict[str, str]


@contextmanager
def locate_errors(tables: Sequence[EngineTable], *, is_read: bool = True) -> Iterator[None]:
    """Add the position in the schema to an error about these tables that has no position yet.

    `is_read`: True if the sources of the tables are read; False if frames are read instead.
    """
    try:
        yield
    except DataError as error:
        # Code that checks types knows only the name of a column, because it also checks views and
        # frames.
        place = _error_place(error, tables, is_read) if error.place == Place() else None
        if place is not None:
            error.set_place(place)
        raise


def place_of(declared: Declared, column: str) -> Place:
    """Return the position of a column in the schema of its table."""
    return declared.document.place("columns", column)


def _error_place(error: DataError, tables: Sequence[EngineTable], is_read: bool) -> Place | None:
    """Return the position of the declaration that an error is about; None if it is not known."""
    name = error.column
    if name is None:
        alone = tables[0].declared if len(tables) == 1 and is_read else None
        return None if alone is None else alone.source_place
    tables_with_column = [
        table.declared for table in tables if name in table.declared.table.columns
    ]
    mistyped_tables = [table.declared for table in tables if _is_mistyped(table, name)]
    return next(
        (place_of(declared, name) for declared in (*mistyped_tables, *tables_with_column)), None
    )


def _is_mistyped(asked: EngineTable, name: str) -> bool:
    """Return whether a table stores a column of this name with a type that can't be used.

    If both tables of a join have such a column, this shows which table the error is about.
    """
    table = asked.declared.table
    if name not in table.columns or name not in asked.physical:
        return False
    try:
        typed_value_sql(name, table.columns[name], asked.physical[name], table.time_zone)
    except DataError:
        return True
    return False
