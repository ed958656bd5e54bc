"""The entries of a manifest for its ledger and published files, and the digests of all files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field

from dprelease.documents.metadata import ColumnMetadata, Metadata, TableMetadata
from dprelease.postprocess.consistent.consistency_record import ConsistencyRecord
from dprelease.postprocess.families import Family, FamilyTable, Output
from dprelease.postprocess.partition import Parts
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import quality_formula
from dprelease.query.resolve import Query
from dprelease.schema.document_part import Part
from dprelease.schema.public_values.large_files import FileCopy
from dprelease.tables import formats

STEPS_OF_NOISE = "noised integers, in steps: before any post-processing"
TRUE_STEPS = "true integers, in steps: an invariant or sums of one, outside the guarantee"

Texts = dict[str, str]
"""One text in each language of a release, by its BCP 47 tag."""

RoleName = Literal[
    "key", "value", "margin", "lower", "upper", "standard_error", "flag", "label", "quality",
    "measurement",
]  # fmt: skip


class ColumnRecord(Part):
    """Name, Arrow type and role of a published column, and its texts for readers.

    `of`: the value column whose companion this column is. Texts are by language.
    """

    name: str
    type: str
    role: RoleName
    of: str | None = None
    unit: str | None = None
    decimals: int | None = None
    label: Texts = Field(default_factory=dict)
    description: Texts = Field(default_factory=dict)
    footnotes: list[Texts] = Field(default_factory=list)

    @classmethod
    def describe(cls, column: ColumnMetadata) -> Self:
        """Return the record of a published column."""
        return cls.model_validate(
            {
                "name": column.name,
                "type": column.kind,
                "role": column.role.value,
                "of": None if column.of == column.name else column.of,
                "unit": column.unit or None,
                "decimals": column.decimals,
                "label": dict(column.label),
                "description": dict(column.description),
                "footnotes": [dict(note) for note in column.footnotes],
            }
        )


class PartRecord(Part):
    """One file of a partitioned table, by its name in the table's folder."""

    name: str
    rows: int
    sha256: str


class FileRecord(Part):
    """One published table: a file, or a folder of `parts`.

    `sha256`: the digest of the file's bytes. For a table in parts it is the digest of their list,
    which has one line for each part: its digest, two spaces and its name.
    """

    name: str
    query: str
    rows: int
    label: Texts = Field(default_factory=dict)
    description: Texts = Field(default_factory=dict)
    footnotes: list[Texts] = Field(default_factory=list)
    columns: list[ColumnRecord]
    sha256: str
    parts: list[PartRecord] = Field(default_factory=list)

    @property
    def digests(self) -> dict[str, str]:
        """Return the digests of the table's files by name: of its only file, or of its parts."""
        if not self.parts:
            return {self.name: self.sha256}
        return {f"{self.name}/{part.name}": part.sha256 for part in self.parts}


class TableRecord(FileRecord):
    """One published table of aggregates, and how its columns are computed; see `FileRecord`."""

    computed: dict[str, str]
    post_processing: dict[str, list[str]]


class FamilyRecord(Part):
    """Tables that are published together: their measurements, and the results of a step."""

    name: str
    step: str
    tables: list[str]
    measurements: list[str]
    published: list[str]
    record: ConsistencyRecord | dict[str, Any]

    @property
    def words(self) -> list[str]:
        """Return sentences on the properties of the values that the step computes."""
        if isinstance(self.record, ConsistencyRecord):
            return self.record.words
        return list(self.record.get("words", ()))


class ExportedFile(Part):
    """One file of a format other than Parquet."""

    name: str
    sha256: str


class ExportRecord(Part):
    """Another format of the tables, and the versions of packages that affect its bytes."""

    format: str
    files: list[ExportedFile]
    packages: dict[str, str]


@dataclass(frozen=True, slots=True)
class FileDigest:
    """One published table: the SHA-256 of its file's bytes, and its number of rows.

    `parts`: the files of a table in several files; `digest` is then that of their list.
    """

    digest: str
    rows: int
    parts: tuple[PartRecord, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[PartRecord]) -> FileDigest:
        """Return the digest of a table in parts, from their list in the format of `sha256sum`."""
        listed = "".join(f"{part.sha256}  {part.name}\n" for part in parts)
        digest = hashlib.sha256(listed.encode()).hexdigest()
        return cls(digest, sum(part.rows for part in parts), tuple(parts))

    @classmethod
    def blank(cls, parts: Parts | None) -> FileDigest:
        """Return a placeholder that is as long as any real digest and number of rows."""
        if parts is None:
            # The digest of one file has a fixed length.
            return cls("", 0)
        names = files_of_parts(parts)
        return cls.of([PartRecord(name=name, rows=0, sha256="0" * 64) for name in names])


def files_of_parts(parts: Parts) -> list[str]:
    """Return the names of the files of partitions, in the folder of their table."""
    return [formats.table_file_name(name) for name in parts.names]


def file_record(query: str, table: TableMetadata, written: FileDigest) -> FileRecord:
    """Return the record of a file: its name, its number of rows, its columns and its digest."""
    return FileRecord(**_record_fields(query, table, written))


def _record_fields(query: str, table: TableMetadata, written: FileDigest) -> dict[str, Any]:
    """Return the fields that the records of all kinds of files have in common."""
    return {
        "name": table.file,
        "query": query,
        "rows": written.rows,
        "label": dict(table.label),
        "description": dict(table.description),
        "footnotes": [dict(note) for note in table.footnotes],
        "columns": [ColumnRecord.describe(column) for column in table.columns],
        "sha256": written.digest,
        "parts": list(written.parts),
    }


def table_records(
    families: Sequence[Family], written: Mapping[str, FileDigest], metadata: Metadata
) -> Iterator[TableRecord]:
    """Yield the record of every published table, family by family."""
    described = {table.name: table for table in metadata.tables}
    for family in families:
        if family.step is None:
            for table in family.tables:
                name = table.query.name
                yield _table_record(table.query, described[name], written[name])
            continue
        for table in family.tables:
            name = table.measurements_name
            yield _measured_record(table, described[name], written[name])
        for output in family.outputs:
            yield _output_record(family, output, described[output.name], written[output.name])


def _table_record(query: Query, table: TableMetadata, written: FileDigest) -> TableRecord:
    """Return the record of one published table; its number of rows is public or noised."""
    return TableRecord(
        **_record_fields(query.name, table, written),
        computed={name: formula for column in query.columns for name, formula in _formulas(column)},
        post_processing={
            column.name: words
            for column in query.columns
            if (words := list(column.post.descriptions(column.unit)))
        },
    )


def _formulas(column: OutputColumn) -> Iterator[tuple[str, str]]:
    """Yield the formulas of a column and of its quality, by name."""
    yield column.name, column.formula
    if column.quality:
        yield f"{column.name}_quality", quality_formula(column.name, column.quality)


def _measured_record(
    measured: FamilyTable, table: TableMetadata, written: FileDigest
) -> TableRecord:
    """Return the record of a family's noised integers, before post-processing."""
    computed = {
        measurement.name: TRUE_STEPS if measurement.exact else STEPS_OF_NOISE
        for measurement in measured.vectors
    }
    fields = _record_fields(measured.query.name, table, written)
    return TableRecord(**fields, computed=computed, post_processing={})


def _output_record(
    family: Family, output: Output, table: TableMetadata, written: FileDigest
) -> TableRecord:
    """Return the record of a table that the step of a family computes."""
    fields = _record_fields(family.name, table, written)
    return TableRecord(**fields, computed=dict(output.computed), post_processing={})


def family_records(families: Sequence[Family]) -> list[FamilyRecord]:
    """Return the manifest's records of families that are published by a step."""
    return [
        FamilyRecord.model_validate(
            {
                "name": family.name,
                "step": family.step.name,
                "tables": [table.query.name for table in family.tables],
                "measurements": [
                    formats.table_file_name(one.measurements_name) for one in family.tables
                ],
                "published": [formats.table_file_name(output.name) for output in family.outputs],
                "record": family.step.record(family.tables),
            }
        )
        for family in families
        if family.step is not None
    ]


def listed_files(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every file of a release by name; the files of tables come first.

    `record`: a manifest as JSON values, possibly of an older version.

    Raises KeyError, TypeError or AttributeError if `record` is not a manifest.
    """
    # Manifests of older versions lack the keys that are read with a default.
    exported = [file for export in record.get("exports", ()) for file in export["files"]]
    tables = [one for file in record["files"] for one in _digests_of(file).items()]
    listed = {str(file["name"]): file["sha256"] for file in exported} | dict(tables)
    lists = [
        FileCopy(str(kept["sha256"]), 0, str(kept["form"]))
        for kept in record["declaration"].get("files", {}).values()
    ]
    audit = record["declaration"].get("audit")
    named = {} if audit is None else {str(audit["file"]): audit["sha256"]}
    copies = {kept.copy: kept.sha256 for kept in lists}
    rehearsal = record.get("rehearsal", {})
    limits = record.get("limits") or {"folder": "", "files": {}}
    chosen = {f"{limits['folder']}/{name}": digest for name, digest in limits["files"].items()}
    truth = [*rehearsal.get("truth", ()), *rehearsal.get("messages", ())]
    true_values = {one["name"]: one["sha256"] for one in truth}
    # The last one wins: a name in two lists has the digest of the published file.
    return {**true_values, **copies, **named, **chosen, **listed}


def _digests_of(file: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of a table's files by name: of its only file, or of its parts."""
    parts = file.get("parts") or ()
    if not parts:
        return {str(file["name"]): file["sha256"]}
    return {f"{file['name']}/{part['name']}": part["sha256"] for part in parts}


class BudgetRecord(Part):
    """A budget in a ledger: an epsilon, possibly with a delta, or a rho.

    `rho_delta`: the part of the delta for outputs without a rho; missing if it is 0.
    """

    epsilon: str | None
    delta: str
    rho: str | None
    rho_delta: str | None = None


class RenewalRecord(Part):
    """The current period of a renewing budget, and what the renewal means for a person's risk."""

    table: str
    budget: BudgetRecord
    every: Literal["month", "year"]
    begins: str
    periods: int | None
    period: int
    from_: str = Field(alias="from")
    until: str
    words: str


class LedgerRecord(Part):
    """The entry of the ledger that paid for the release."""

    file: str
    reservation: str
    entry: int
    digest: str
    renewals: list[RenewalRecord] = Field(default_factory=list)
