"""The inputs of a report: a published release, results of its checks, a rehearsal's true values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dprelease.documents.audit_record import Audit
from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.documents.release_manifest import ReleaseManifest

if TYPE_CHECKING:
    import pyarrow as pa


class ReleaseFiles(Protocol):
    """The files of a published release, with its manifest and its metadata."""

    @property
    def record(self) -> ReleaseManifest:
        """Return the manifest of the release."""

    @property
    def metadata(self) -> Metadata:
        """Return the labels, roles and code lists of the release."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in order, for some columns or all."""


class Truth(Protocol):
    """The true values of a rehearsal, which are about invented people only."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """Yield true values in the order of the published rows; None if the rehearsal has none."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What a verification has checked, in sentences, and what it found but did not check.

    `audit`: the outcome of the audit that the release names, which was checked too.
    """

    checked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    audit: Audit | None = None
