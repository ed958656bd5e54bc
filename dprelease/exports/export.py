"""Define what every export format implements.

A format first reports problems from the declarations, before any noise is drawn, and writes its
files afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dprelease.documents.manifest import CentralManifest
from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PublishedRelease:
    """A release whose tables are written.

    `folder`: holds the Parquet files. `record`: its manifest without the entries of exports and
    without its digest, which are not known before the exports are made. `written`: the files of
    each
    format that is in the output folder, by the name of the format; with "parquet" where that
    folder
    is, or will be, the release's own.
    """

    folder: Path
    record: ReleaseManifest
    metadata: Metadata
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def central(self) -> CentralManifest:
        """Return the manifest of a release of tables; the formats of others don't ask for it."""
        assert isinstance(self.record, CentralManifest)
        return self.record

    def batches(
        self, table: TableMetadata, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in order, for some columns or all."""
        return formats.PUBLISHED.batches(self.folder / table.file, columns)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a format can't be written for a release, with a remedy, and the table or column."""

    words: str
    table: str | None = None
    column: str | None = None

    @property
    def message(self) -> str:
        """Return the message, preceded by the table or column."""
        spot = ".".join(part for part in (self.table, self.column) if part is not None)
        return f"'{spot}': {self.words}" if spot else self.words


class Export(Protocol):
    """One format: a subclass, whose instance is called `EXPORT` in its own module.

    `name`: its word in `formats`. `extra`: the optional dependency that has its package, as in
    `pip install dprelease[...]`; None if nothing more is needed.

    Importing the module loads no package of an extra.
    """

    name: str
    extra: str | None = None

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield why the format can't be written, from declarations alone, before rows are read."""
        yield from ()

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write its files into a folder and return their names, relative to it, in order.

        Files are below `name/`, except descriptors with a fixed path. The folder may be that of
        the
        release itself, before it is published. Only some rows of each table are in memory,
        unless the
        format itself can't be streamed.
        """


@runtime_checkable
class PackagedExport(Protocol):
    """An export whose bytes depend on the versions of other packages.

    `packages`: the required distributions. Their presence is checked before any row is read,
    and the
    manifest records their versions.
    """

    packages: tuple[str, ...]

    def same(self, one: Path, other: Path) -> bool:
        """Return whether two of its files have the same content, even if the bytes differ.

        Raises
        ------
        OSError, ValueError, KeyError, ArrowException
            If one is not a file of the format, since anybody may have written it.
        """
