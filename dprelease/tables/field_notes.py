"""What a file says of its columns beside their values: fields of Arrow with metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Notes = Mapping[str, Mapping[str, str]]
"""Texts by name, of each column by its name."""


def with_field_notes(table: pa.Table, notes: Notes) -> pa.Table:
    """Return a table over the same arrays whose fields say what is noted of their columns."""
    import pyarrow as pa

    fields = [field.with_metadata(dict(notes[field.name])) for field in table.schema]
    schema = pa.schema(fields, metadata=table.schema.metadata)
    return pa.Table.from_arrays(table.columns, schema=schema)


def noted_tables(tables: Iterator[pa.Table], notes: Notes) -> Iterator[pa.Table]:
    """Yield tables one after the other as `with_field_notes` makes them."""
    return (with_field_notes(table, notes) for table in tables)


def says(schema: pa.Schema, notes: Notes) -> bool:
    """Return whether the fields of a file say what is noted of their columns, and nothing else."""
    return all(
        (field.metadata or {})
        == {name.encode(): text.encode() for name, text in notes.get(field.name, {}).items()}
        for field in schema
    )
