"""Provide the metadata for exports: texts of the tables, and their layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dprelease.documents.metadata import Metadata
from dprelease.documents.release_metadata import metadata_of_records
from dprelease.postprocess.consistent.consistency_record import ConsistencyRecord
from dprelease.postprocess.families import Family
from dprelease.query.local_records import resolve_records
from dprelease.schema.load import Declaration
from dprelease.tables import formats


def aggregate_metadata(
    metadata: Metadata, families: Sequence[Family], wide: tuple[str, ...]
) -> Metadata:
    """Return the metadata of a release of aggregates, with the declared numbers of rows.

    Other numbers of rows are left out, because the layout must be the same before the release is
    drawn, after it, and in `verify`.
    """
    rows = dict(_complete_outputs(families))
    tables = tuple(
        replace(table, rows=rows[table.name]) if table.name in rows else table
        for table in metadata.tables
    )
    return replace(metadata, tables=tables, wide=wide)


def record_metadata(declaration: Declaration) -> Metadata:
    """Return the metadata of a release of single records, whose number of rows is not declared."""
    return metadata_of_records(declaration, resolve_records(declaration))


def _complete_outputs(families: Sequence[Family]) -> Iterator[tuple[str, int]]:
    """Yield name and number of rows of step outputs that have a row for every cell."""
    for family in families:
        record = None if family.step is None else family.step.record(family.tables)
        wholes = record.whole_tables if isinstance(record, ConsistencyRecord) else []
        # Only some cells of these integer tables are published, so their number of rows is not
        # declared.
        few = {whole.name for whole in wholes if whole.cells != "all"}
        for output in family.outputs:
            named = {output.name, formats.table_file_name(output.name)}
            if output.columns and not named & few:
                yield output.name, output.keys.size
