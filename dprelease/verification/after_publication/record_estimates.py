"""Compute estimates with margins of error from noisy records; only the release is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dprelease.documents.encoding import NAME, sha256_of
from dprelease.documents.local_manifest import LocalManifest
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.errors import DpReleaseError, Place, QueryError, VerificationError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.rounding import Number, exact_of
from dprelease.privacy.guarantee import Event
from dprelease.query.local_records import RecordColumn, Records, resolve_records
from dprelease.tables import formats
from dprelease.tables.record_table import Estimate, record_estimates
from dprelease.verification.local_release import holds_records
from dprelease.verification.manifest_comparison import read_manifest_as
from dprelease.verification.report import rebuild_declaration

if TYPE_CHECKING:
    import pyarrow as pa


@checked_arguments
def local_estimate(
    path: str | Path, column: str, *, records: str | None = None, confidence: Number = 0.95
) -> tuple[Estimate, ...]:
    """Return the estimates for one column of a local release: mean, or frequency of each value.

    Estimates are unbiased, so frequencies may lie outside the range from 0 to 1. The estimates are
    about the published records, with clamped and imputed values as declared, and not about a larger
    population. The margin of error of each estimate holds for that estimate alone, not for all
    estimates jointly.

    Parameters
    ----------
    path
        The folder of the release.
    column
        The name of the column.
    records
        The name of the records, if the release has several tables of records.
    confidence
        The confidence of the margins of error, between 0 and 1.

    Raises
    ------
    QueryError
        DP-LOCAL-008 for a confidence out of range, unknown records, an unknown column, or a file
        without rows.
    VerificationError
        DP-VERIFY-001 to 004 or 009 for a folder that is not a local release, or for a file that was
        changed since publication; `dprelease.verify` checks more.
    """
    check_paths(path)
    confidence = _confidence_of(confidence)
    folder = Path(path)
    held = read_manifest_as(folder, LocalManifest)
    event = _noise_event(held, column, records)
    part, declared, table_metadata = _described_column(folder, held, event)
    mechanism = _mechanism_of(event)
    values = _read_column(folder, held, part, table_metadata, event.column)
    if not len(values):
        raise _no_estimate("there is no record", "publish more records")
    return record_estimates(values, declared, mechanism, confidence)


def _confidence_of(number: Number) -> float:
    """Return a confidence between 0 and 1; raise DP-LOCAL-008 for any other number."""
    try:
        confidence = float(exact_of(number))
    except (ValueError, OverflowError):
        confidence = 0.0
    if 0.0 < confidence < 1.0:
        return confidence
    raise _no_estimate("the confidence is not between 0 and 1", "use a confidence such as 0.95")


def _no_estimate(problem: str, way: str) -> QueryError:
    """Return DP-LOCAL-008 with a problem, and how to solve it."""
    return QueryError("DP-LOCAL-008", problem=problem, way=way)


def _raise_verification_error(code: str, **fields: str) -> NoReturn:
    """Raise a VerificationError about the manifest."""
    named: dict[str, Any] = dict(fields)
    raise VerificationError(code, place=Place(NAME), **named)


def _noise_event(held: LocalManifest, column: str, records: str | None) -> Event:
    """Return the recorded noise of a column; raise DP-LOCAL-008 unless one column has this name."""
    events = [recorded.event for recorded in held.measurements]
    fitting = [e for e in events if e.column == column and records in (None, e.query)]
    if len(fitting) != 1:
        known = ", ".join(f"{e.query}.{e.column}" for e in events)
        found = "no column has this name" if not fitting else "several columns have this name"
        raise _no_estimate(found, f"name one of the columns {known}, with `records` if needed")
    return fitting[0]


def _described_column(
    folder: Path, held: LocalManifest, event: Event
) -> tuple[Records, RecordColumn, TableMetadata]:
    """Return the declared records, the column and its metadata for the noise of a column."""
    try:
        declaration = rebuild_declaration(held, folder)
        for part in resolve_records(declaration):
            for column in part.columns:
                if (part.name, column.name) == (event.query, event.column):
                    return part, column, ReleaseMetadata(declaration.spec).records(part)
    except (DpReleaseError, KeyError):
        pass
    _raise_verification_error("DP-VERIFY-009", why="the column is not declared")


def _mechanism_of(event: Event) -> Mechanism:
    """Return the mechanism of recorded noise; raise DP-VERIFY-009 if there is no such mechanism."""
    try:
        return registry.record_mechanism_of_event(event)
    except DpReleaseError as error:
        why = error.code
    _raise_verification_error("DP-VERIFY-009", why=why)


def _read_column(
    folder: Path, held: LocalManifest, part: Records, table_metadata: TableMetadata, name: str
) -> pa.ChunkedArray:
    """Return a published column of records; raise DP-VERIFY-004 if the file has another digest."""
    path = folder / formats.table_file_name(part.name)
    for file in held.files:
        if file.query != part.name or not holds_records(folder, part, table_metadata, file.rows):
            continue
        if sha256_of(path) == file.sha256:
            return formats.PUBLISHED_FORMAT.read(path, [name]).column(0)
    _raise_verification_error("DP-VERIFY-004", name=path.name)
