"""The files of sources: which they are, how errors name them, and what an engine reads of them."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dprelease.errors import DataError
from dprelease.exact.reading.plain import Packing
from dprelease.query import quoting
from dprelease.schema.columns import is_stored
from dprelease.schema.load import Declared
from dprelease.schema.source_files import find_files, problem_of
from dprelease.schema.table import Source

if TYPE_CHECKING:
    import pyarrow as pa


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


class BatchSource(Protocol):
    """Rows that arrive as Arrow batches when they are requested."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns and their types; reads no row."""
        ...

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows, which are read with the first batch."""
        ...


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
    engine can't read unchanged; it reads plain copies of them. `rows`: if the engine does not read
    the files, which then have no relation. `collations`: the columns that the source does not
    compare character by character, and its name for the comparison, as in
    `SourceType.comparisons`.
    """

    files: tuple[Path, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    attach: tuple[str, ...] = ()
    relation: str = ""
    reader: TextReader | None = None
    rows: BatchSource | None = None
    collations: Mapping[str, str] = field(default_factory=dict)

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
    fields = {**source_fields(declared), "format": "" if source is None else source.type.label}
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


def parquet(files: Sequence[Path]) -> str:
    """Return the relation of Parquet files with the same column types."""
    by_name = "true" if len(files) > 1 else "false"
    options = f"union_by_name = {by_name}, hive_partitioning = false"
    return f"read_parquet({pattern_list(files)}, {options})"


def pattern_list(files: Sequence[Path]) -> str:
    """Return files as a list of patterns, for a function of the engine."""
    return f"[{', '.join(quoting.text(pattern(file)) for file in files)}]"


def pattern(file: Path) -> str:
    """Return a file's name as a pattern for the engine, which treats every name as one."""
    return glob.escape(str(file))


def files_of(declared: Declared, source: Source) -> tuple[Path, ...]:
    """Return the files of a declared path, a pattern or a folder, each once.

    Raises
    ------
    DataError
        DP-DATA-001 if there is none, 024 if they may not all count.
    """
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
        raise DataError("DP-DATA-001", **source_fields(declared), format=source.type.label)
    return files
