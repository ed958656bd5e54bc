"""What a manifest, and each file of its own, say of published tables in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dprelease.documents.metadata import ColumnMetadata, Metadata, TableMetadata, Texts
from dprelease.schema.load import Declaration
from dprelease.tables.field_notes import Notes


def about_record(declaration: Declaration, metadata: Metadata) -> dict[str, Any]:
    """Return what a manifest says of the release as a whole, if anything was declared."""
    if declaration.spec.about is None:
        return {}
    told = {name: value for name, value in asdict(metadata.about).items() if value}
    told.pop("title", None)  # the manifest's own; there is none to tell of an empty one
    return {"about": {"languages": list(metadata.languages), **_plain(told)}}


def table_record(table: TableMetadata) -> dict[str, Any]:
    """Return the columns of a published table, and what was declared of it."""
    columns = [column_record(column) for column in table.columns]
    return {**_text_fields(table.label, table.description, table.footnotes), "columns": columns}


def column_record(column: ColumnMetadata) -> dict[str, Any]:
    """Return name, type and role of a published column, and what was declared of it."""
    return {
        "name": column.name,
        "type": column.kind,
        "role": column.role.value,
        **({"of": column.of} if column.of != column.name else {}),
        **({"unit": column.unit} if column.unit else {}),
        **({} if column.decimals is None else {"decimals": column.decimals}),
        **_text_fields(column.label, column.description, column.footnotes),
    }


def _text_fields(label: Texts, description: Texts, footnotes: Sequence[Texts]) -> dict[str, Any]:
    told = {"label": label, "description": description, "footnotes": footnotes}
    return _plain({name: value for name, value in told.items() if value})


def _plain(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values: texts by language, and lists of these."""
    return {
        name: [dict(text) for text in value] if isinstance(value, tuple) else
        dict(value) if isinstance(value, Mapping) else value
        for name, value in told.items()
    }  # fmt: skip


def field_notes(table: TableMetadata) -> Notes:
    """Return what the file of a table says of each column: its role, its unit, its label.

    `label` is that of the first language; others have the language behind a colon.
    """
    return {column.name: _notes(column) for column in table.columns}


def _notes(column: ColumnMetadata) -> dict[str, str]:
    notes = {"role": column.role.value}
    if column.unit:
        notes["unit"] = column.unit
    for i, (tag, text) in enumerate(column.label.items()):
        notes[f"label:{tag}" if i else "label"] = text
    return notes
