"""What a run publishes: one class for each kind of release, with the plan and its own tables.

`planned` chooses the class. What follows from a declaration alone is in `planning/kinds.py`, a
layer that may import none of what stands here. Engines and noise are imported only when a run
needs them, because plans are made by these classes, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dprelease.documents.file_records import FileDigest
from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.errors import raise_all
from dprelease.planning.declaration_findings import nameless
from dprelease.planning.kinds import FEDERATED, LOCAL, kind_of
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.release.exporting import Exports
from dprelease.schema.load import Declaration

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from dprelease.exact.engine_api import Answering, Recording
    from dprelease.numerics.entropy import BitSource
    from dprelease.planning.federated_plan import FederatedPlan
    from dprelease.planning.local_plan import LocalPlan
    from dprelease.release.execute import Publication

Progress = Callable[[str], None]
Frames = Mapping[str, object]
Written = Mapping[str, FileDigest]
"""Digests and rows of published tables, by name."""


@dataclass(frozen=True)
class PlannedRelease(ABC):
    """A declared release with its plan; opens no data until `open_engines`."""

    declaration: Declaration
    plan: Plan

    def check(self, *, trial: bool = False) -> None:
        """Check what a run needs besides a plan; `trial`: also try formats on blank tables.

        Raises
        ------
        DpReleaseError
            DP-RELEASE-011 for a table without a name for ledgers; as `exports`; DP-EXPORT-008.
        """
        raise_all(nameless(self.declaration, self.plan.queries))
        exports = self.exports()
        if trial and exports is not None:
            exports.try_on_blank_tables(self.draft())

    def exports(self) -> Exports | None:
        """Return the formats to publish in besides Parquet; None without any.

        Loads no package of a format.

        Raises
        ------
        DeclarationError, Findings
            DP-EXPORT-002, 003 or 005 if the declaration can't be exported in a format.
        """
        names = self.declaration.spec.extra_formats
        if not (names or self.declaration.spec.wide):
            return None
        from dprelease.exports.registry import findings

        metadata = self.export_metadata()
        places = self.declaration.place("formats"), self.declaration.place("wide")
        raise_all(findings(names, metadata, *places))
        return Exports(names, metadata, places[0])

    def export_metadata(self) -> Metadata:
        """Return the metadata of the tables for formats other than Parquet."""
        return self.metadata

    @property
    def tables_at_most(self) -> int | None:
        """Return the maximum bytes of the tables; None if it can't be computed."""
        return None

    def bytes_at_most(self, exports: Exports | None) -> int:
        """Return the bytes that tables and formats may take, as far as they can be computed."""
        tables = self.tables_at_most
        return 0 if tables is None else tables + (0 if exports is None else exports.most_bytes)

    @property
    @abstractmethod
    def metadata(self) -> Metadata:
        """Return labels, columns and known numbers of rows of the tables."""

    @abstractmethod
    def draft(self) -> dict[str, Any]:
        """Return the manifest without the values that are known only after rows are read."""

    def open_engines(self, frames: Frames) -> AbstractContextManager[Mapping[str, Any]]:
        """Yield the engines; every statement is compiled, so a missing column raises here."""
        from dprelease.exact.engines import open_engines
        from dprelease.exact.settings import Settings

        spec, settings = self.declaration.spec, Settings.of(self.declaration)
        return open_engines(self.plan.queries, frames, spec, settings)

    @abstractmethod
    def write(
        self,
        engines: Mapping[str, Any],
        publication: Publication,
        bits: BitSource,
        progress: Progress,
    ) -> Written:
        """Read, add noise, post-process and write the tables."""

    @abstractmethod
    def manifest(
        self, draft: dict[str, Any], written: Written, ledger: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return the sealed manifest of the written tables; `ledger`: the entry that paid."""


def planned(declaration: Declaration) -> PlannedRelease:
    """Return a declared release with its plan.

    Raises
    ------
    QueryError, BudgetError, Findings
        As `prepare`.
    """
    classes = {LOCAL: PlannedRecords, FEDERATED: PlannedMessages}
    make = classes.get(kind_of(declaration.spec), PlannedTables)
    return make(declaration, prepare(declaration)[1])


class PlannedTables(PlannedRelease):
    """A central release: tables of aggregates."""

    @cached_property
    def metadata(self) -> Metadata:
        from dprelease.documents.release_metadata import metadata_of

        return metadata_of(self.declaration, self.plan.queries, self.plan.families)

    def export_metadata(self) -> Metadata:
        from dprelease.exports.export_metadata import aggregate_metadata

        return aggregate_metadata(self.metadata, self.plan.families, self.declaration.spec.wide)

    @property
    def tables_at_most(self) -> int:
        from dprelease.release.disk import most_bytes

        return most_bytes(self.plan.families)

    def draft(self) -> dict[str, Any]:
        from dprelease.documents import manifest

        blank = {
            name: FileDigest.blank(parts.get(name))
            for family in self.plan.families
            for parts in [family.parts]
            for name in family.published_names
        }
        return manifest.draft(self.declaration, self.plan, self.metadata, blank)

    def write(
        self,
        engines: Mapping[str, Answering],
        publication: Publication,
        bits: BitSource,
        progress: Progress,
    ) -> Written:
        from dprelease.release.runs.family_run import publish_families

        return publish_families(self.plan, engines, bits, publication, self.metadata, progress)

    def manifest(
        self, draft: dict[str, Any], written: Written, ledger: dict[str, Any] | None
    ) -> dict[str, Any]:
        from dprelease.documents import manifest

        return manifest.fill_draft(draft, self.plan.families, self.metadata, written, ledger)


class PlannedMessages(PlannedRelease):
    """A federated release: the messages of one party, which no other format has."""

    plan: FederatedPlan

    @cached_property
    def metadata(self) -> Metadata:
        from dprelease.documents.release_metadata import metadata_of_messages

        return metadata_of_messages(self.declaration, self.plan.queries)

    def draft(self) -> dict[str, Any]:
        blank = FileDigest("", 0)
        return self.manifest({}, {query.name: blank for query in self.plan.queries}, None)

    def write(
        self,
        engines: Mapping[str, Answering],
        publication: Publication,
        bits: BitSource,
        progress: Progress,
    ) -> Written:
        from dprelease.noise.noise_shares import messages
        from dprelease.tables.summed_messages import messages_to_arrow

        written: dict[str, FileDigest] = {}
        for query, told in zip(self.plan.queries, self.metadata.tables, strict=True):
            progress(query.name)
            columns = self.plan.of_shares(query.name)
            exact = engines[query.name].run(query)
            vectors = messages(exact, columns, self.plan.parties, bits)
            table = messages_to_arrow(query, vectors)
            written[query.name] = _write_table(table, told, publication.folder)
        return written

    def manifest(
        self, draft: dict[str, Any], written: Written, ledger: dict[str, Any] | None
    ) -> dict[str, Any]:
        from dprelease.documents import party_manifest
        from dprelease.release.party import party_of

        digests = {name: file.digest for name, file in written.items()}
        party = party_of(self.declaration)
        return party_manifest.build(self.declaration, self.plan.queries, self.plan, digests, party)


class PlannedRecords(PlannedRelease):
    """A local release: single records."""

    plan: LocalPlan

    @cached_property
    def metadata(self) -> Metadata:
        from dprelease.documents.release_metadata import metadata_of_records

        return metadata_of_records(self.declaration, self.plan.records)

    def draft(self) -> dict[str, Any]:
        blank = FileDigest("", 0)
        return self.manifest({}, {part.name: blank for part in self.plan.records}, None)

    @contextmanager
    def open_engines(self, frames: Frames) -> Iterator[Mapping[str, Recording]]:
        from dprelease.exact.engines import frame_of, open_engine
        from dprelease.exact.postgres.server_link import servers_of
        from dprelease.exact.settings import Settings

        opened: dict[str, Recording] = {}
        parts = self.plan.records
        read = (p.declared for p in parts if frame_of(p.declared.table, frames) is None)
        with ExitStack() as stack:
            servers = stack.enter_context(servers_of(read))
            for part in parts:
                name = part.declared.table.name
                if name not in opened:
                    frame = frame_of(part.declared.table, frames)
                    settings = Settings.of(self.declaration)
                    engine = open_engine(part.declared, frame, settings, servers)
                    opened[name] = stack.enter_context(engine)
                opened[name].compile_records(part)
            yield opened

    def write(
        self,
        engines: Mapping[str, Recording],
        publication: Publication,
        bits: BitSource,
        progress: Progress,
    ) -> Written:
        from dprelease.noise.noised_records import perturb_records
        from dprelease.tables.record_table import records_to_arrow

        written: dict[str, FileDigest] = {}
        for part, told in zip(self.plan.records, self.metadata.tables, strict=True):
            progress(part.name)
            exact = engines[part.declared.table.name].records(part)
            noisy = perturb_records(exact, self.plan.of_records(part.name), bits)
            table = records_to_arrow(noisy, part.columns)
            written[part.name] = _write_table(table, told, publication.folder)
        return written

    def manifest(
        self, draft: dict[str, Any], written: Written, ledger: dict[str, Any] | None
    ) -> dict[str, Any]:
        from dprelease.documents import local_manifest

        digests = {name: file.digest for name, file in written.items()}
        rows = {name: file.rows for name, file in written.items()}
        return local_manifest.build(self.declaration, self.plan, digests, rows, ledger)


def _write_table(table: pa.Table, told: TableMetadata, folder: Path) -> FileDigest:
    """Write a table with its metadata into the private folder."""
    from dprelease.documents.manifest import sha256_of
    from dprelease.documents.metadata_json import field_notes
    from dprelease.tables.field_notes import with_field_notes
    from dprelease.tables.formats import write_table

    path = folder / told.file
    rows = write_table(with_field_notes(table, field_notes(told)), path)
    return FileDigest(sha256_of(path), rows)
