"""Write and read files of published tables: one class for each format."""

from __future__ import annotations

import base64
import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 20
"""Number of rows of a row group, and of a batch that is computed while another is written."""

BATCH_ROWS = 1 << 15
"""Number of rows that are read at a time; all files of a family are open at once."""

ARROW_SCHEMA_KEY = b"ARROW:schema"
"""The key of the Arrow schema in the metadata of a Parquet file."""


class Writer(Protocol):
    """An open file for writing."""

    def write(self, table: pa.Table) -> None:
        """Add the rows of a table with the columns of the file."""


class Format(Protocol):
    """The interface for writing tables, and for reading them in `verify`.

    Readers raise OSError or ArrowException for files of another format, because anybody may have
    written the files. A path may be the folder of a partitioned table (`part_files`), which is read
    as one table.
    """

    extension: str

    def writer(self, path: Path, schema: pa.Schema) -> AbstractContextManager[Writer]:
        """Open a file with these columns for writing one or more tables.

        The file contains only the noisy tables, and the metadata of the schema and its fields.
        Several files may be open at once.
        """

    def shape(self, path: Path) -> tuple[pa.Schema, int]:
        """Return the columns with their notes and the number of rows, without reading rows."""

    def notes(self, path: Path) -> dict[bytes, bytes]:
        """Return the metadata of the file by name, without the metadata of columns."""

    def batches(self, path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns, or of all, in the order in which they were written."""

    def read(self, path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a table of some columns, or of all."""


class Parquet:
    """Parquet files without statistics, which would repeat the minimum and maximum of columns.

    Arrow gets absolute paths, because it reads `~` at the start of a relative path as the home
    folder, and `c:` as a URI.

    Notes on columns are stored in the Arrow schema, because a Parquet file can't hold them
    elsewhere. A file without notes has no Arrow schema.
    """

    extension = "parquet"

    @contextmanager
    def writer(self, path: Path, schema: pa.Schema) -> Iterator[Writer]:
        """Open a Parquet file with these columns, and yield a writer of its rows."""
        import pyarrow.parquet as pq

        has_field_notes = any(field.metadata for field in schema)
        plain = _with_plain_texts(schema)
        stored = has_field_notes and plain.equals(schema)
        with pq.ParquetWriter(
            path.absolute(), schema, compression="zstd", write_statistics=False, store_schema=stored
        ) as writer:
            notes = dict(schema.metadata or {})
            if has_field_notes and not stored:  # don't publish the dictionary encoding
                notes[ARROW_SCHEMA_KEY] = base64.b64encode(plain.serialize().to_pybytes())
            if notes and not stored:  # without a stored schema, notes are separate metadata
                writer.add_key_value_metadata(notes)
            yield _RowGroups(writer)

    def shape(self, path: Path) -> tuple[pa.Schema, int]:
        """Return the columns with their notes and the number of rows, without reading rows."""
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path.absolute())
        return file.schema_arrow, file.metadata.num_rows

    def notes(self, path: Path) -> dict[bytes, bytes]:
        """Return the metadata of the file by name, without the metadata of columns."""
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path.absolute())
        schema, notes = file.schema_arrow, dict(file.metadata.metadata or {})
        stored = notes.pop(ARROW_SCHEMA_KEY, None)
        is_complete = stored is None or _has_only_notes(stored, schema)
        # Returned as one more note, so that `verify` finds a difference: a stored schema may hide
        # anything.
        if not is_complete or dict(schema.metadata or {}) != notes or not _has_unique_notes(schema):
            notes[ARROW_SCHEMA_KEY] = stored or b""
        return notes

    def batches(self, path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns, or of all, in the order in which they were written."""
        import pyarrow.parquet as pq

        for part in part_files(path):
            # With `pre_buffer`, pages would stay in memory until the last row is read.
            file = pq.ParquetFile(part.absolute(), pre_buffer=False)
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)

    def read(self, path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a table of some columns, or of all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if path.is_file():
            return pq.ParquetFile(path.absolute()).read(columns)
        parts = part_files(path.absolute())
        return pa.concat_tables(pq.ParquetFile(file).read(columns) for file in parts)


def _with_plain_texts(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which dictionary-encoded texts are plain texts."""
    import pyarrow as pa

    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def _has_only_notes(stored: bytes, schema: pa.Schema) -> bool:
    """Return whether a stored Arrow schema contains only the columns and notes of its file."""
    import pyarrow as pa

    try:
        held = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored, validate=True)))
    except (ValueError, pa.ArrowException, OSError):
        return False
    return bool(held.equals(schema, check_metadata=True))


def _has_unique_notes(schema: pa.Schema) -> bool:
    """Return whether all names in the metadata differ; a mapping would hide duplicates."""
    import pyarrow as pa

    fields = [
        field if field.metadata is None else field.with_metadata(dict(field.metadata))
        for field in schema
    ]
    once = pa.schema(fields, metadata=schema.metadata)
    return bool(schema.equals(once, check_metadata=True))


class _RowGroups:
    """A Parquet file that is written in row groups of equal size."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, table: pa.Table) -> None:
        """Write a table as row groups of equal size."""
        self._writer.write_table(table, row_group_size=ROW_GROUP)


PUBLISHED_FORMAT: Format = Parquet()
"""The format of published tables."""


def part_files(path: Path) -> list[Path]:
    """Return the file of a table, or the files of its parts in order.

    Raises FileNotFoundError for a folder without parts.
    """
    if not path.is_dir():
        return [path]
    parts = path.glob(table_file_name("*/part-*"))  # each in a folder named after an area
    # By length first, because numbers beyond 99999 have one digit more.
    found = sorted(parts, key=lambda file: (len(file.name), file.name, file))
    if not found:
        raise FileNotFoundError(errno.ENOENT, "it has no parts")
    return found


def table_file_name(name: str) -> str:
    """Return the name of the file of a table."""
    return f"{name}.{PUBLISHED_FORMAT.extension}"


def write_table(table: pa.Table | Iterable[pa.Table], path: Path) -> int:
    """Write a table, or several tables one after the other; return the number of rows."""
    import pyarrow as pa

    parts = iter([table] if isinstance(table, pa.Table) else table)
    first = next(parts)
    rows = 0
    with PUBLISHED_FORMAT.writer(path, first.schema) as writer:
        for part in chain([first], parts):
            writer.write(part)
            rows += len(part)
    return rows
