"""What a manifest says of published files: of each table by itself, and of families with a step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.documents.metadata_json import table_record
from dprelease.postprocess.families import Family, FamilyTable, Output
from dprelease.postprocess.partition import Parts
from dprelease.query.resolve import Query
from dprelease.tables import formats

STEPS_OF_NOISE = "noised integers, in steps: before any post-processing"
TRUE_STEPS = "true integers, in steps: an invariant or sums of one, outside the guarantee"


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """One file of a table in parts: its name in the table's folder, its SHA-256, its rows."""

    name: str
    digest: str
    rows: int


@dataclass(frozen=True, slots=True)
class FileDigest:
    """One published table: the SHA-256 of its file's bytes, and its number of rows.

    `parts`: its files, if it has several. `digest` is then that of their list.
    """

    digest: str
    rows: int
    parts: tuple[WrittenPart, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[WrittenPart]) -> FileDigest:
        """Return a table of these parts, whose list is as `sha256sum` writes it."""
        listed = "".join(f"{part.digest}  {part.name}\n" for part in parts)
        digest = hashlib.sha256(listed.encode()).hexdigest()
        return cls(digest, sum(part.rows for part in parts), tuple(parts))

    @classmethod
    def blank(cls, parts: Parts | None) -> FileDigest:
        """Return one that is as long as any, where all that is told of it stands for itself."""
        if parts is None:
            return cls("", 0)
        return cls.of([WrittenPart(name, "0" * 64, 0) for name in files_of_parts(parts)])


def files_of_parts(parts: Parts) -> list[str]:
    """Return the names of the files of parts, in the folder of their table."""
    return [formats.file_of(name) for name in parts.names]


def file_records(
    families: Sequence[Family], written: Mapping[str, FileDigest], metadata: Metadata
) -> Iterator[dict[str, Any]]:
    """Yield the record of every published file, family by family."""
    told = {table.name: table for table in metadata.tables}
    for family in families:
        if family.step is None:
            for table in family.tables:
                yield file_record(table.query, told[table.query.name], written[table.query.name])
            continue
        for table in family.tables:
            yield _measured_record(
                table, told[table.measurements_name], written[table.measurements_name]
            )
        for output in family.outputs:
            yield _output_record(family, output, told[output.name], written[output.name])


def file_record(query: Query, told: TableMetadata, written: FileDigest) -> dict[str, Any]:
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


def _measured_record(
    table: FamilyTable, told: TableMetadata, written: FileDigest
) -> dict[str, Any]:
    computed = {
        measurement.name: TRUE_STEPS if measurement.exact else STEPS_OF_NOISE
        for measurement in table.vectors
    }
    named = named_record(table.query.name, told, written)
    return {**named, "computed": computed, "post_processing": {}}


def _output_record(
    family: Family, output: Output, told: TableMetadata, written: FileDigest
) -> dict[str, Any]:
    computed = dict(output.computed)
    named = named_record(family.name, told, written)
    return {**named, "computed": computed, "post_processing": {}}


def named_record(query: str, told: TableMetadata, written: FileDigest) -> dict[str, Any]:
    """Return what every record of a file has: its name, its rows, its columns, its digest."""
    return {
        "name": told.file,
        "query": query,
        "rows": written.rows,
        **table_record(told),
        "sha256": written.digest,
        **({"parts": [_part_record(part) for part in written.parts]} if written.parts else {}),
    }


def _part_record(part: WrittenPart) -> dict[str, Any]:
    return {"name": part.name, "rows": part.rows, "sha256": part.digest}


def family_records(families: Sequence[Family]) -> dict[str, list[dict[str, Any]]]:
    """Return what the manifest tells of families that are published by a step; nothing without."""
    records = [
        {
            "name": family.name,
            "step": family.step.name,
            "tables": [table.query.name for table in family.tables],
            "measurements": [formats.file_of(table.measurements_name) for table in family.tables],
            "published": [formats.file_of(output.name) for output in family.outputs],
            "record": family.step.record(family.tables),
        }
        for family in families
        if family.step is not None
    ]
    return {"families": records} if records else {}
