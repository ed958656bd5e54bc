"""Export formats of a run: checked before rows are read, written before publication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import Place
from dprelease.schema.release_parts.format_names import PARQUET

if TYPE_CHECKING:
    from dprelease.documents.metadata import Metadata
    from dprelease.documents.release_manifest import AnyGuaranteed, GuaranteedManifest


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
