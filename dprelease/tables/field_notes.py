"""Notes on columns, which are stored as metadata of Arrow fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Notes = Mapping[str, Mapping[str, str]]
"""The notes of each column: texts by name."""


def with_field_notes(table: pa.Table, notes: Notes) -> pa.Table:
    """Return a table of the same arrays, with notes in the metadata of its fields."""
    import pyarrow as pa

    fields = [field.with_metadata(dict(notes[field.name])) for field in table.schema]
    schema = pa.schema(fields, metadata=table.schema.metadata)
    return pa.Table.from_arrays(table.columns, schema=schema)


def noted_tables(tables: Iterator[pa.Table], notes: Notes) -> Iterator[pa.Table]:
    """Yield each table with notes in the metadata of its fields."""
    return (with_field_notes(table, notes) for table in tables)


def has_exactly_notes(schema: pa.Schema, notes: Notes) -> bool:
    """Return whether the metadata of a file's fields consist of exactly these notes."""
    return all(
        (field.metadata or {})
        == {name.encode(): text.encode() for name, text in notes.get(field.name, {}).items()}
        for field in schema
    )
