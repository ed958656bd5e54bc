"""The formats of a run: asked for before any row is read, written before all is published."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import raise_all
from dprelease.planning.family_plan import families_of
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.format_names import PARQUET

if TYPE_CHECKING:
    from dprelease.documents.metadata import Metadata


@dataclass(frozen=True, slots=True)
class Exports:
    """The formats that a release is published in beside Parquet, and what they tell of it."""

    names: tuple[str, ...]
    metadata: Metadata

    def in_draft(self, draft: dict[str, Any]) -> dict[str, Any]:
        """Return a draft of the manifest with as much of these as there may be at most."""
        from dprelease.documents import manifest
        from dprelease.exports.written import blank_record

        tables = [table.name for table in self.metadata.tables]
        return manifest.with_exports(draft, blank_record(self.names, tables))

    def written(
        self, record: dict[str, Any], folder: Path, progress: Callable[[str], None]
    ) -> dict[str, Any]:
        """Write them into the folder of a release; return its manifest with what is said of them.

        Raises
        ------
        OSError
            If the folder does not take them.
        """
        from dprelease.documents import manifest
        from dprelease.exports.base import PublishedRelease
        from dprelease.exports.written import write_formats

        # As who verifies it reads the manifest: made of lists and texts alone.
        told = json.loads(manifest.canonical(record))
        told.pop("digest")
        beside = {PARQUET: [file["name"] for file in told["files"]]}
        release = PublishedRelease(folder, told, self.metadata, beside)
        records = write_formats(self.names, release, folder, progress)
        return manifest.with_exports(record, records)


def exports_of(declaration: Declaration, queries: Sequence[Query], plan: Plan) -> Exports | None:
    """Return the formats of a declared release; None for one that is Parquet alone.

    Loads no package of a format, and opens no data.

    Raises
    ------
    DeclarationError, Findings
        DP-EXPORT-002, 003 or 005 if one can't be had of what is declared.
    """
    names, wide = declaration.spec.formats_beside, declaration.spec.wide
    if not (names or wide):
        return None
    from dprelease.exports.known import findings
    from dprelease.exports.told import told_metadata

    metadata = told_metadata(declaration, queries, families_of(declaration.spec, plan.columns))
    places = declaration.place("formats"), declaration.place("wide")
    raise_all(findings(names, metadata, *places))
    return Exports(names, metadata)


def prepared(declaration: Declaration) -> tuple[tuple[Query, ...], Plan]:
    """Return the queries and the plan of a declaration whose formats can be had.

    Raises
    ------
    DpReleaseError
        As `prepare` and `exports_of`.
    """
    queries, plan = prepare(declaration)
    exports_of(declaration, queries, plan)
    return queries, plan
