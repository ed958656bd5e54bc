"""The files that tables are published in, and read again from: one class for each format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 20
"""Rows of a row group, and of a batch that is made while another one is written."""

BATCH = 1 << 18


class Format(Protocol):
    """How tables are written, and read by those who verify them.

    Readers raise OSError or ArrowException for what is no file of the format: anybody may have
    written it.
    """

    extension: str

    def write(self, tables: Iterable[pa.Table], path: Path) -> int:
        """Write tables one after the other, at least one; return the number of rows.

        Nothing is in the file that the noised tables do not say.
        """

    def shape(self, path: Path) -> tuple[pa.Schema, int]:
        """Return columns and number of rows, without reading these."""

    def batches(self, path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield some columns, or all, in the order in which they were written."""

    def read(self, path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        """Return some columns, or all."""


class Parquet:
    """Parquet without statistics, which would say least and largest values again."""

    extension = "parquet"

    def write(self, tables: Iterable[pa.Table], path: Path) -> int:
        """See `Format.write`."""
        import pyarrow.parquet as pq

        parts = iter(tables)
        first = next(parts)
        rows = 0
        with pq.ParquetWriter(
            path, first.schema, compression="zstd", write_statistics=False, store_schema=False
        ) as writer:
            for part in chain([first], parts):
                writer.write_table(part, row_group_size=ROW_GROUP)
                rows += len(part)
        return rows

    def shape(self, path: Path) -> tuple[pa.Schema, int]:
        """See `Format.shape`."""
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path)
        return file.schema_arrow, file.metadata.num_rows

    def batches(self, path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """See `Format.batches`."""
        import pyarrow.parquet as pq

        yield from pq.ParquetFile(path).iter_batches(batch_size=BATCH, columns=columns)

    def read(self, path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        """See `Format.read`."""
        import pyarrow.parquet as pq

        return pq.ParquetFile(path).read(columns)


PUBLISHED: Format = Parquet()
"""The format of releases."""


def file_of(name: str) -> str:
    """Return the name of the file of a table."""
    return f"{name}.{PUBLISHED.extension}"


def write_table(table: pa.Table | Iterable[pa.Table], path: Path) -> int:
    """Write a table, or tables one after the other; return the number of rows."""
    import pyarrow as pa

    return PUBLISHED.write([table] if isinstance(table, pa.Table) else table, path)
