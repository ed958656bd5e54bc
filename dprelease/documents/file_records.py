"""What a manifest says of published files: of each table by itself, and of families with a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.documents.said_records import table_record
from dprelease.postprocess.families import Family, FamilyTable, Output
from dprelease.query.resolve import Query
from dprelease.tables import formats

STEPS_OF_NOISE = "noised integers, lattice steps: values before any step was taken with them"
TRUE_STEPS = "true integers, lattice steps: an invariant or sums of one, outside the guarantee"


@dataclass(frozen=True, slots=True)
class Written:
    """One published file: the SHA-256 of its bytes, and its number of rows."""

    digest: str
    rows: int


def file_records(
    families: Sequence[Family], written: Mapping[str, Written], metadata: Metadata
) -> Iterator[dict[str, Any]]:
    """Yield the record of every published file, family by family."""
    told = {table.name: table for table in metadata.tables}
    for family in families:
        if family.step is None:
            for table in family.tables:
                yield file_record(table.query, told[table.query.name], written[table.query.name])
            continue
        for table in family.tables:
            yield _measured_record(table, told[table.measured], written[table.measured])
        for output in family.outputs:
            yield _output_record(family, output, told[output.name], written[output.name])


def file_record(query: Query, told: TableMetadata, written: Written) -> dict[str, Any]:
    """Return the record of one published table; its number of rows is public, or noised."""
    return {
        **named_record(query.name, told, written),
        "computed": {column.name: column.formula for column in query.columns},
        "post_processing": {
            column.name: words
            for column in query.columns
            if (words := list(column.post.words(column.unit)))
        },
    }


def _measured_record(table: FamilyTable, told: TableMetadata, written: Written) -> dict[str, Any]:
    computed = {
        measurement.name: TRUE_STEPS if measurement.exact else STEPS_OF_NOISE
        for measurement in table.vectors
    }
    named = named_record(table.query.name, told, written)
    return {**named, "computed": computed, "post_processing": {}}


def _output_record(
    family: Family, output: Output, told: TableMetadata, written: Written
) -> dict[str, Any]:
    computed = dict(output.computed)
    named = named_record(family.name, told, written)
    return {**named, "computed": computed, "post_processing": {}}


def named_record(query: str, told: TableMetadata, written: Written) -> dict[str, Any]:
    """Return what every record of a file has: its name, its rows, its columns, its digest."""
    return {
        "name": told.file,
        "query": query,
        "rows": written.rows,
        **table_record(told),
        "sha256": written.digest,
    }


def family_records(families: Sequence[Family]) -> dict[str, list[dict[str, Any]]]:
    """Return what the manifest tells of families that are published by a step; nothing without."""
    records = [
        {
            "name": family.name,
            "step": family.step.name,
            "tables": [table.query.name for table in family.tables],
            "measurements": [formats.file_of(table.measured) for table in family.tables],
            "published": [formats.file_of(output.name) for output in family.outputs],
            "record": family.step.record(family.tables),
        }
        for family in families
        if family.step is not None
    ]
    return {"families": records} if records else {}
