"""The inputs of a report: a published release, the results of its checks, a rehearsal's truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dprelease.documents.audits.audit_record import Audit
from dprelease.documents.metadata import Metadata, TableMetadata
from dprelease.documents.release_manifest import ReleaseManifest

if TYPE_CHECKING:
    import pyarrow as pa


class ReleaseFiles(Protocol):
    """A release whose tables are written, with its metadata."""

    @property
    def record(self) -> ReleaseManifest:
        """Return its manifest."""

    @property
    def metadata(self) -> Metadata:
        """Return its labels, roles and codes."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in order, for some columns or all."""


class Truth(Protocol):
    """The true values of a rehearsal; they are about synthetic people only."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """Yield true values in the order of the published rows; None if there are none."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What a verification has checked, in words, and what it found but did not check.

    `audit`: the results of the audit that the release refers to, which were checked too.
    """

    checked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    audit: Audit | None = None
