"""What every format of publication is: told of a release before it is drawn, then of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PublishedRelease:
    """A release whose tables are written.

    `folder`: holds the Parquet files. `record`: its manifest, without what it says of exports and
    without its digest, so that it is known before these are made. `beside`: by the name of each
    format that is in the folder that is written into, its files, "parquet" among them where that
    folder is, or will be, the release's own.
    """

    folder: Path
    record: Mapping[str, Any]
    metadata: Metadata
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def batches(
        self, table: TableMetadata, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in their order, some columns or all."""
        return formats.PUBLISHED.batches(self.folder / table.file, columns)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a format can't be had of a release: in words, with a mend, and the table or column."""

    words: str
    table: str | None = None
    column: str | None = None

    @property
    def message(self) -> str:
        """Return it in words, with what it is about before them."""
        spot = ".".join(part for part in (self.table, self.column) if part is not None)
        return f"'{spot}': {self.words}" if spot else self.words


class Export(Protocol):
    """One format: an instance called `EXPORT` in a module of its own.

    `name`: its word in `formats`. `extra`: the optional dependency that has its package, as
    `pip install dprelease[...]` names it; None if nothing more is needed.

    To import the module loads no package of an extra.
    """

    name: str
    extra: str | None

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield why it can't be had, from declarations alone, before any row is read."""

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write its files into a folder and return their names, relative to it, in order.

        They lie below `name/`, but for descriptors that have a place of their own. The folder may
        be that of the release itself, before it is published. In memory are some rows of each
        table, unless the format itself can't be streamed.
        """


@runtime_checkable
class PackagedExport(Protocol):
    """An export whose bytes other packages shape, so that their other versions write others.

    `packages`: the distributions, each needed; they are looked for before any row is read, and the
    manifest tells their versions.
    """

    packages: tuple[str, ...]

    def same(self, one: Path, other: Path) -> bool:
        """Return whether two of its files say the same to who reads them, whatever their bytes.

        Raises
        ------
        OSError, ValueError, KeyError, ArrowException
            If one is no file of the format: anybody may have written it.
        """
