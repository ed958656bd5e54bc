"""Define what every export format implements.

A format first reports problems from the declarations, before any noise is drawn. It writes its
files later.
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

    `folder`: the folder of the Parquet files. `record`: the manifest without the entries of exports
    and without its digest, which are not known before the exports are written. `written`: the files
    of each format in the output folder, by the name of the format; they include "parquet" if that
    folder is, or will be, the folder of the release.
    """

    folder: Path
    record: ReleaseManifest
    metadata: Metadata
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def central(self) -> CentralManifest:
        """Return the manifest of a release of tables; formats of other kinds don't call this."""
        assert isinstance(self.record, CentralManifest)
        return self.record

    def batches(
        self, table: TableMetadata, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in order, for some columns or all."""
        return formats.PUBLISHED_FORMAT.batches(self.folder / table.file, columns)


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a format can't be written, with a fix, and the table or column concerned."""

    words: str
    table: str | None = None
    column: str | None = None

    @property
    def message(self) -> str:
        """Return the message, preceded by the table or column."""
        spot = ".".join(part for part in (self.table, self.column) if part is not None)
        return f"'{spot}': {self.words}" if spot else self.words


class Export(Protocol):
    """A format of publication; each format is a subclass, with an instance `EXPORT` in its module.

    `name`: its name in `formats`. `extra`: the optional dependency that has its package, as in `pip
    install dprelease[...]`; None if no package is needed.

    Importing the module loads no package of an extra.
    """

    name: str
    extra: str | None = None

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield why the format can't be written, from declarations alone, before rows are read."""
        yield from ()

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the files of the format into a folder, and return their names in order.

        Names are relative to the folder. Files are below `name/`, except descriptors with a fixed
        path. The folder may be the unpublished folder of the release itself. Only some rows of each
        table are in memory, unless the format can't be streamed.
        """


@runtime_checkable
class PackagedExport(Protocol):
    """An export whose bytes depend on the versions of other packages.

    `packages`: the required distributions. Whether they are installed is checked before any row is
    read, and the manifest records their versions.
    """

    packages: tuple[str, ...]

    def has_same_content(self, one: Path, other: Path) -> bool:
        """Return whether two files of the format have the same content, even if their bytes differ.

        Raises OSError, ValueError, KeyError or ArrowException if a file is not in this format,
        which is possible since anybody may have written it.
        """
