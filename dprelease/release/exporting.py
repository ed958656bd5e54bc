"""Export formats of a run: checked before any row is read, written before publication."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import Place
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


def _plain_manifest(record: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest as a verifier reads it, of lists and strings alone, without its digest."""
    from dprelease.documents import manifest

    told: dict[str, Any] = json.loads(manifest.canonical(record))
    told.pop("digest", None)  # a draft may have none
    return told
