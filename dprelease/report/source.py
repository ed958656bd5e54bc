"""What a report is made of: a published release, the outcome of its checks, a rehearsal's truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dprelease.documents.audits.audit_record import Audit
from dprelease.documents.metadata import Metadata, TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa


class ReleaseFiles(Protocol):
    """A release whose tables are written, and what is said of it."""

    @property
    def record(self) -> Mapping[str, Any]:
        """Return its manifest."""

    @property
    def metadata(self) -> Metadata:
        """Return its labels, roles and codes."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in their order, some columns or all."""


class Truth(Protocol):
    """What a rehearsal knows: the true values of invented people, never those of real ones."""

    def batches(
        self, table: TableMetadata, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """Yield true values in the order of the published rows; None where it has none."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What a verification has checked, in words, and what it saw and did not check.

    `audit`: the outcome of the one that the release names, which was checked too.
    """

    checked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    audit: Audit | None = None
