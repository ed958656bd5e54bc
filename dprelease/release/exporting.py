"""Export formats of a run: checked before any row is read, written before publication."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import Place, raise_all
from dprelease.planning.declaration_findings import nameless
from dprelease.planning.families.family_plan import families_of
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.format_names import PARQUET

if TYPE_CHECKING:
    from dprelease.documents.metadata import Metadata


@dataclass(frozen=True, slots=True)
class Exports:
    """The formats that a release is published in along with Parquet, and their metadata."""

    names: tuple[str, ...]
    metadata: Metadata
    place: Place = field(default_factory=Place)
    """The place in the release file that requests them."""

    @property
    def most_bytes(self) -> int:
        """Return their maximum bytes, as far as numbers of rows are known."""
        from dprelease.exports.trials.sizes import most_bytes

        return most_bytes(self.names, self.metadata)

    def try_on_blank_tables(self, draft: dict[str, Any], folder: Path | None = None) -> None:
        """Export blank tables as a trial; raises as `try_formats`.

        `draft`: the manifest without the formats, and without values known only after rows were
        read.
        """
        from dprelease.exports.trials.trial import try_formats

        try_formats(self.names, _plain_manifest(draft), self.metadata, self.place, folder)

    def in_draft(self, draft: dict[str, Any]) -> dict[str, Any]:
        """Return a draft of the manifest with the largest possible entries for these formats."""
        from dprelease.documents import manifest
        from dprelease.exports.writer import blank_record

        tables = [table.name for table in self.metadata.tables]
        return manifest.with_exports(draft, blank_record(self.names, tables))

    def write_all(
        self, record: dict[str, Any], folder: Path, progress: Callable[[str], None]
    ) -> dict[str, Any]:
        """Write the formats into a release's folder; return the manifest with their entries.

        Raises
        ------
        OutputError
            DP-EXPORT-009 if one fails.
        OSError
            If the folder can't be written.
        """
        from dprelease.documents import manifest
        from dprelease.documents.listed_files import files_of_tables
        from dprelease.exports.export import PublishedRelease
        from dprelease.exports.writer import write_formats

        told = _plain_manifest(record)
        beside = {PARQUET: files_of_tables(told)}
        release = PublishedRelease(folder, told, self.metadata, beside)
        records = write_formats(self.names, release, folder, progress)
        return manifest.with_exports(record, records)


def exports_of(declaration: Declaration, queries: Sequence[Query], plan: Plan) -> Exports | None:
    """Return the formats of a declared release; None if it is Parquet alone.

    Loads no package of a format, and opens no data.

    Raises
    ------
    DeclarationError, Findings
        DP-EXPORT-002, 003 or 005 if the declaration can't be exported in a format.
    """
    names, wide = declaration.spec.extra_formats, declaration.spec.wide
    if not (names or wide):
        return None
    from dprelease.exports.export_metadata import aggregate_metadata, record_metadata
    from dprelease.exports.registry import findings

    if declaration.spec.mode == "local":
        metadata = record_metadata(declaration)
    else:
        metadata = aggregate_metadata(
            declaration, queries, families_of(declaration.spec, plan.columns)
        )
    places = declaration.place("formats"), declaration.place("wide")
    raise_all(findings(names, metadata, *places))
    return Exports(names, metadata, places[0])


def _plain_manifest(record: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest as a verifier reads it, of lists and strings alone, without its digest."""
    from dprelease.documents import manifest

    told: dict[str, Any] = json.loads(manifest.canonical(record))
    told.pop("digest", None)  # a draft may have none
    return told


def draft_of(declaration: Declaration, queries: tuple[Query, ...], plan: Plan) -> dict[str, Any]:
    """Return the manifest of a release, without the values known only after rows were read."""
    from dprelease.documents import manifest
    from dprelease.documents.file_records import FileDigest

    if declaration.spec.mode == "local":
        return local_draft(declaration, plan)
    families = families_of(declaration.spec, plan.columns)
    blank = {
        name: FileDigest.blank(parts.get(name))
        for family in families
        for parts in [family.parts]
        for name in family.published_names
    }
    return manifest.draft(declaration, queries, plan, blank)


def local_draft(declaration: Declaration, plan: Plan) -> dict[str, Any]:
    """Return the manifest of a local release, without digests and numbers of records."""
    from dprelease.documents import local_manifest
    from dprelease.planning.local_plan import LocalPlan

    if not isinstance(plan, LocalPlan):
        raise TypeError("the plan of records is needed")
    names = [part.name for part in plan.records]
    blank, none = dict.fromkeys(names, ""), dict.fromkeys(names, 0)
    return local_manifest.build(declaration, plan, blank, none)


def try_exports(exports: Exports | None, draft: dict[str, Any], folder: Path) -> None:
    """Try the formats of a run in its private folder; does nothing without formats."""
    if exports is not None:
        exports.try_on_blank_tables(draft, folder)


def prepare_release(declaration: Declaration) -> tuple[tuple[Query, ...], Plan]:
    """Return queries and plan of a declaration; check its ledger and its formats.

    Raises
    ------
    DpReleaseError
        As `prepare` and `exports_of`; DP-RELEASE-011.
    """
    queries, plan, _ = _with_exports(declaration)
    return queries, plan


def prepare_with_trial(declaration: Declaration) -> tuple[tuple[Query, ...], Plan]:
    """As `prepare_release`, and try the declared formats on blank tables.

    Raises
    ------
    DpReleaseError
        As `prepare_release`; DP-EXPORT-008.
    """
    queries, plan, exports = _with_exports(declaration)
    if exports is not None:
        exports.try_on_blank_tables(draft_of(declaration, queries, plan))
    return queries, plan


def _with_exports(declaration: Declaration) -> tuple[tuple[Query, ...], Plan, Exports | None]:
    queries, plan = prepare(declaration)
    raise_all(nameless(declaration, queries))
    return queries, plan, exports_of(declaration, queries, plan)
