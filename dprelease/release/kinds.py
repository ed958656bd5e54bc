"""Plans, tables and manifests of each kind of release, as a run needs them.

`plan_release` selects the class. `planning/kinds.py` has what follows from a declaration alone; it
belongs to a lower layer, which may not import this module. Engines, noise and the modules of other
kinds are imported only when they are needed, because plans use these classes too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest, LedgerRecord
from dprelease.documents.metadata import Metadata
from dprelease.documents.release_manifest import GuaranteedManifest, ReleaseManifest
from dprelease.documents.release_metadata import (
    metadata_of,
    metadata_of_messages,
    metadata_of_records,
)
from dprelease.errors import Place, raise_all
from dprelease.planning.declaration_findings import missing_owner_errors
from dprelease.planning.kinds import FEDERATED, LOCAL, kind_of
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.release.disk import max_bytes
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.extension_names import PARQUET

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.documents.release_manifest import AnyGuaranteed, GuaranteedManifest
    from dprelease.numerics.entropy import BitSource
    from dprelease.planning.federated_plan import FederatedPlan
    from dprelease.planning.local_plan import LocalPlan
    from dprelease.release.execute import Publication


@dataclass(frozen=True, slots=True)
class Exports:
    """The formats other than Parquet in which a release is published, and the metadata for them."""

    names: tuple[str, ...]
    metadata: Metadata
    place: Place = field(default_factory=Place)
    """The position in the release file that requests the formats."""

    @property
    def max_bytes(self) -> int:
        """Return the maximum bytes of the formats, without tables of unknown numbers of rows."""
        from dprelease.exports.trial import max_bytes

        return max_bytes(self.names, self.metadata)

    def try_on_blank_tables(self, draft: GuaranteedManifest, folder: Path | None = None) -> None:
        """Export blank tables as a trial; raises the same errors as `try_formats`.

        `draft`: the manifest without the formats, and without the values that are known only after
        rows are read.
        """
        from dprelease.exports.trial import try_formats

        try_formats(
            self.names, draft.without_exports().as_read(), self.metadata, self.place, folder
        )

    def add_to_draft(self, draft: AnyGuaranteed) -> AnyGuaranteed:
        """Return a draft of the manifest with the largest possible entries for these formats."""
        from dprelease.exports.writer import blank_records

        tables = [table.name for table in self.metadata.tables]
        languages = len(self.metadata.languages)
        # The largest entries, because a manifest over the size limit must be refused before the
        # charge.
        return draft.changed(exports=blank_records(self.names, tables, languages))

    def write_all(
        self, record: AnyGuaranteed, folder: Path, progress: Callable[[str], None]
    ) -> AnyGuaranteed:
        """Write the formats into a release's folder; return the manifest with their entries.

        Raises OutputError: DP-EXPORT-009 if a format fails. Raises OSError if the folder can't be
        written.
        """
        from dprelease.exports.export import PublishedRelease
        from dprelease.exports.writer import write_formats

        written = {PARQUET: record.table_files}
        release = PublishedRelease(
            folder, record.without_exports().as_read(), self.metadata, written
        )
        return record.changed(exports=write_formats(self.names, release, folder, progress))


Frames = Mapping[str, object]
Engines = Mapping[str, Any]
Written = Mapping[str, FileDigest]
"""Digests and rows of published tables, by name."""


@dataclass(frozen=True)
class PlannedRelease:
    """A declared release and its plan; the default methods are for tables of aggregates."""

    declaration: Declaration
    plan: Plan

    def check(self, *, trial: bool = False) -> None:
        """Check the additional requirements of a run.

        `trial`: whether to try the formats on blank tables.

        Raises DpReleaseError: DP-RELEASE-011 for a table without a name for ledgers; the errors of
        `exports`; DP-EXPORT-008.
        """
        raise_all(missing_owner_errors(self.declaration, self.plan.queries))
        exports = self.exports()
        if trial and exports is not None:
            draft = self.draft()
            assert isinstance(draft, GuaranteedManifest)
            exports.try_on_blank_tables(draft)

    def exports(self) -> Exports | None:
        """Return the formats of the release other than Parquet; None if it has no others.

        No package of a format is loaded.

        Raises DeclarationError or Findings: DP-EXPORT-002, 003 or 005 if the declaration can't be
        exported in a format.
        """
        spec = self.declaration.spec
        if not (spec.extra_formats or spec.wide):
            return None
        from dprelease.exports.writer import findings

        metadata = self.export_metadata()
        places = self.declaration.place("formats"), self.declaration.place("wide")
        raise_all(findings(spec.extra_formats, metadata, *places))
        return Exports(spec.extra_formats, metadata, places[0])

    def export_metadata(self) -> Metadata:
        """Return the metadata of the tables for formats other than Parquet."""
        from dprelease.exports.writer import aggregate_metadata

        return aggregate_metadata(self.metadata, self.plan.families, self.declaration.spec.wide)

    @cached_property
    def metadata(self) -> Metadata:
        """Return labels, columns and known numbers of rows of the tables."""
        return metadata_of(self.declaration, self.plan.queries, self.plan.families)

    @property
    def max_table_bytes(self) -> int | None:
        """Return the maximum bytes of the tables; None if it can't be computed."""
        return max_bytes(self.plan.families)

    def draft(self) -> ReleaseManifest:
        """Return the manifest without the values that are known only after rows are read."""
        blank = {
            name: FileDigest.blank(parts.get(name))
            for family in self.plan.families
            for parts in [family.parts]
            for name in family.published_names
        }
        return manifest.build(self.declaration, self.plan, self.metadata, blank)

    def open_engines(self, frames: Frames) -> AbstractContextManager[Engines]:
        """Yield the engines; all statements are compiled, so a missing column raises here."""
        from dprelease.exact.engines import open_engines
        from dprelease.exact.settings import Settings

        spec, settings = self.declaration.spec, Settings.of(self.declaration)
        return open_engines(self.plan.queries, frames, spec, settings)

    def write(
        self, engines: Engines, into: Publication, bits: BitSource, progress: Callable[[str], None]
    ) -> Written:
        """Read, add noise, post-process, and write the tables."""
        from dprelease.release.runs.family_run import write_family_tables

        return write_family_tables(self.plan, engines, bits, into, self.metadata, progress)

    def manifest(
        self, draft: ReleaseManifest, written: Written, ledger: LedgerRecord | None
    ) -> ReleaseManifest:
        """Return the sealed manifest of the written tables.

        `ledger`: the ledger entry that paid for the release.
        """
        assert isinstance(draft, manifest.Manifest)
        return manifest.fill_draft(draft, self.plan.families, self.metadata, written, ledger)


def plan_release(declaration: Declaration) -> PlannedRelease:
    """Return a declared release with its plan; raises the same errors as `prepare`."""
    classes = {LOCAL: PlannedRecords, FEDERATED: PlannedMessages}
    kind = classes.get(kind_of(declaration.spec), PlannedRelease)
    return kind(declaration, prepare(declaration)[1])


class _PlannedWithoutFamilies(PlannedRelease):
    """A release whose tables are written one after the other, without post-processing."""

    max_table_bytes = None  # the size of the tables is not part of the plan

    def draft(self) -> ReleaseManifest:
        """Return the manifest with empty digests and no ledger entry."""
        blank = {table.name: FileDigest("", 0) for table in self.metadata.tables}
        return self._manifest(blank, None)

    def write(
        self, engines: Engines, into: Publication, bits: BitSource, progress: Callable[[str], None]
    ) -> Written:
        """Read, add noise, and write the tables one after the other."""
        from dprelease.documents.encoding import sha256_of
        from dprelease.documents.metadata import field_notes
        from dprelease.tables.field_notes import with_field_notes
        from dprelease.tables.formats import write_table

        written: dict[str, FileDigest] = {}
        for table in self.metadata.tables:
            progress(table.name)
            noised = self.noised_table(table.name, engines, bits)
            path = into.folder / table.file
            rows = write_table(with_field_notes(noised, field_notes(table)), path)
            written[table.name] = FileDigest(sha256_of(path), rows)
        return written

    def manifest(
        self, draft: ReleaseManifest, written: Written, ledger: LedgerRecord | None
    ) -> ReleaseManifest:
        """Return the sealed manifest of the written tables; the draft is not used."""
        return self._manifest(written, ledger)

    def _manifest(self, written: Written, ledger: LedgerRecord | None) -> ReleaseManifest:
        """Return the sealed manifest of the written tables."""
        raise NotImplementedError

    def noised_table(self, name: str, engines: Engines, bits: BitSource) -> pa.Table:
        """Read the rows of a table, and return it with noise."""
        raise NotImplementedError


class PlannedMessages(_PlannedWithoutFamilies):
    """A federated release: the messages of one party, for which there are no other formats."""

    plan: FederatedPlan

    @cached_property
    def metadata(self) -> Metadata:
        """Return the metadata of the tables of messages."""
        return metadata_of_messages(self.declaration, self.plan.queries)

    def noised_table(self, name: str, engines: Engines, bits: BitSource) -> pa.Table:
        """Read the rows of a query, and return the messages of this party."""
        from dprelease.noise.noised_vectors import noised_messages
        from dprelease.tables.summed_messages import messages_to_arrow

        columns = self.plan.of_shares(name)
        query = columns[0].query
        vectors = noised_messages(engines[name].run(query), columns, self.plan.parties, bits)
        return messages_to_arrow(query, vectors)

    def _manifest(self, written: Written, ledger: LedgerRecord | None) -> ReleaseManifest:
        """Return the sealed manifest of the messages; the ledger entry is not part of it."""
        from dprelease.documents import party_manifest
        from dprelease.release.run_options import party_of

        digests = {name: file.digest for name, file in written.items()}
        declaration, plan = self.declaration, self.plan
        return party_manifest.build(declaration, plan.queries, plan, digests, party_of(declaration))


class PlannedRecords(_PlannedWithoutFamilies):
    """A local release, which publishes single records."""

    plan: LocalPlan

    @cached_property
    def metadata(self) -> Metadata:
        """Return the metadata of the tables of records."""
        return metadata_of_records(self.declaration, self.plan.records)

    def export_metadata(self) -> Metadata:
        """Return the metadata of the tables of records, which all formats share."""
        return self.metadata

    @contextmanager
    def open_engines(self, frames: Frames) -> Iterator[Engines]:
        """Yield the engine of each source; all statements are compiled, as for tables."""
        from dprelease.exact.engines import frame_of, open_duckdb
        from dprelease.exact.postgres.server_link import open_servers
        from dprelease.exact.settings import Settings

        opened: dict[str, Any] = {}
        of_table = {part.declared.table.name: part.declared for part in self.plan.records}
        frame = {name: frame_of(one.table, frames) for name, one in of_table.items()}
        with ExitStack() as stack:
            read = (one for name, one in of_table.items() if frame[name] is None)
            settings = Settings.of(self.declaration)
            servers = stack.enter_context(open_servers(read, settings))
            for part in self.plan.records:
                name = part.declared.table.name
                if name not in opened:
                    engine = open_duckdb(part.declared, frame[name], settings, servers)
                    opened[name] = stack.enter_context(engine)
                opened[name].compile_records(part)
            yield opened

    def noised_table(self, name: str, engines: Engines, bits: BitSource) -> pa.Table:
        """Read the records of a part, and return them with noise."""
        from dprelease.noise.noised_vectors import perturb_records
        from dprelease.tables.record_table import records_to_arrow

        (part,) = (part for part in self.plan.records if part.name == name)
        exact = engines[part.declared.table.name].records(part)
        noisy = perturb_records(exact, self.plan.of_records(name), bits)
        return records_to_arrow(noisy, part.columns)

    def _manifest(self, written: Written, ledger: LedgerRecord | None) -> ReleaseManifest:
        from dprelease.documents import local_manifest

        return local_manifest.build(self.declaration, self.plan, written, ledger)
