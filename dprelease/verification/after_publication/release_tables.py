"""Read the declaration, the noise and the tables of a published release of aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.documents.encoding import sha256_if_readable
from dprelease.documents.manifest import Manifest
from dprelease.documents.metadata import Metadata
from dprelease.documents.release_metadata import metadata_of
from dprelease.planning.kinds import CENTRAL
from dprelease.planning.plan import PlannedColumn
from dprelease.postprocess.families import Family
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.verification.central import recorded_columns, recorded_families
from dprelease.verification.manifest_comparison import read_manifest_as
from dprelease.verification.report import Report, resolve_declaration


@dataclass(frozen=True, slots=True)
class ReleaseTables:
    """A published release of aggregates, whose declaration allows the noise of its manifest."""

    folder: Path
    record: Manifest
    declaration: Declaration
    queries: tuple[Query, ...]
    columns: tuple[PlannedColumn, ...]
    families: tuple[Family, ...]
    metadata: Metadata

    def batches(self, table: str) -> Iterator[Any]:
        """Yield the record batches of a published table, by its name in the manifest."""
        path = self.folder / formats.table_file_name(table)
        yield from formats.PUBLISHED_FORMAT.batches(path, None)

    def refuse_changed_files(self, tables: set[str]) -> None:
        """Raise DP-VERIFY-004 if the file of one of these tables changed since publication."""
        files = {formats.table_file_name(name) for name in tables}
        for file in self.record.files:
            if file.name in files:
                for name, digest in file.digests.items():
                    _refuse_changed_file(self.folder, name, digest)


def _refuse_changed_file(folder: Path, name: str, digest: str) -> None:
    """Raise DP-VERIFY-004 unless a file is there and has a digest."""
    if not (folder / name).is_file() or sha256_if_readable(folder / name) != digest:
        report = Report(folder)
        report.add_finding("DP-VERIFY-004", name=name)
        raise report.findings[0]


def read_release_tables(folder: Path) -> ReleaseTables:
    """Return a published release; its tables are not read yet.

    Raises VerificationError: DP-VERIFY-001 to 003, 007, 009 or 025 for a folder that is not a
    release of aggregates, or whose manifest its declaration does not allow. `verify` checks more.
    """
    report = Report(folder)
    record = read_manifest_as(folder, Manifest)
    resolved = resolve_declaration(report, record, CENTRAL)
    columns = families = None
    if resolved is not None:
        columns = recorded_columns(report, record.measurements, resolved[1])
    if resolved is not None and columns is not None:
        families = recorded_families(report, resolved[0], columns)
    if resolved is None or columns is None or families is None:
        raise report.findings[0]
    declaration, queries = resolved
    metadata = metadata_of(declaration, queries, families)
    return ReleaseTables(folder, record, declaration, tuple(queries), columns, families, metadata)
