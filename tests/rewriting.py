"""Published files written again with other rows, and with all that is said of their columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write a changed table into a file; its columns say what those of the same name said."""
    held = pq.read_table(path)
    table = change(held)
    fields = [
        field.with_metadata(held.schema.field(field.name).metadata)
        if field.name in held.column_names
        else field
        for field in table.schema
    ]
    schema = pa.schema(fields, metadata=held.schema.metadata)
    table = pa.Table.from_arrays(table.columns, schema=schema)
    pq.write_table(table, path, compression="zstd", write_statistics=False)
