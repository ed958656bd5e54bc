"""Estimates from noised records, and how far they may be off; reads nothing but the release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.documents import manifest
from dprelease.documents.described import Described
from dprelease.documents.local_manifest import FORMAT
from dprelease.documents.metadata import TableMetadata
from dprelease.errors import DpReleaseError, Place, VerificationError
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.rounding import finite
from dprelease.postprocess.record_laws import FrequencyLaw, MeanLaw
from dprelease.privacy.event import Event
from dprelease.query.local_records import RecordColumn, Records, resolve_records
from dprelease.tables import formats
from dprelease.tables.record_table import public_values
from dprelease.verification.local_release import holds_records
from dprelease.verification.report import declared_again
from dprelease.verification.sealed import read_sealed

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Estimate:
    """One estimate: a mean (`value` None), or the frequency of one value.

    `standard_error` is None for noise without one. The true number of the n records lies within
    `margin` at the confidence that was asked for.
    """

    value: object
    estimate: float
    standard_error: float | None
    margin: float

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return {
            "value": self.value if self.value is None else str(self.value),
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "margin": self.margin,
        }


def local_estimate(
    path: str | Path, column: str, *, records: str | None = None, confidence: float = 0.95
) -> tuple[Estimate, ...]:
    """Return what a local release tells of one column: its mean, or the frequency of each value.

    Estimates are unbiased, so frequencies may lie outside 0 to 1. They are about the records that
    were published, clamped and completed as declared, not about a larger population. The margin of
    each holds by itself, not for all of them together.

    Parameters
    ----------
    path
        The folder of the release.
    column
        The column.
    records
        The name of the records, where the release holds several.
    confidence
        Above 0 and below 1.

    Raises
    ------
    ValueError
        For a confidence out of range, a column or records that are not there, and no record.
    VerificationError
        DP-VERIFY-001 to 004 or 009 for what is no local release, or a file that is another one
        than was published; `dprelease.verify` says more.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError("a confidence lies between 0 and 1")
    folder = Path(path)
    held = read_sealed(folder, FORMAT)
    event = _event(held, column, records)
    part, declared, told = _column(folder, held, event)
    law = _law(event)
    values = _read(folder, held, part, told, event.column)
    if not len(values):
        raise ValueError("there is no record to estimate from")
    if isinstance(law, RandomizedResponse):
        return _frequencies(values, declared, law, confidence)
    return (_mean(values, declared, law, confidence),)


def _refuse(code: str, **fields: str) -> NoReturn:
    named: dict[str, Any] = dict(fields)
    raise VerificationError(code, place=Place(manifest.NAME), **named)


def _event(held: dict[str, Any], column: str, records: str | None) -> Event:
    events = [Event.from_json(recorded) for recorded in held["measurements"]]
    fitting = [e for e in events if e.column == column and records in (None, e.query)]
    if len(fitting) != 1:
        known = ", ".join(f"{e.query}.{e.column}" for e in events)
        raise ValueError(f"name one of the columns: {known}")
    return fitting[0]


def _column(
    folder: Path, held: dict[str, Any], event: Event
) -> tuple[Records, RecordColumn, TableMetadata]:
    try:
        declaration = declared_again(held, folder)
        for part in resolve_records(declaration):
            for column in part.columns:
                if (part.name, column.name) == (event.query, event.column):
                    return part, column, Described(declaration.spec).records(part)
    except (DpReleaseError, KeyError):
        pass
    _refuse("DP-VERIFY-009", why="the column is not declared")


def _law(event: Event) -> Mechanism:
    try:
        return registry.record_law_of(event)
    except DpReleaseError as error:
        why = error.code
    _refuse("DP-VERIFY-009", why=why)


def _read(
    folder: Path, held: dict[str, Any], part: Records, told: TableMetadata, name: str
) -> pa.ChunkedArray:
    path = folder / formats.file_of(part.name)
    for file in held["files"]:
        if file["query"] != part.name or not holds_records(folder, part, told, file["rows"]):
            continue
        if manifest.sha256_of(path) == file["sha256"]:
            return formats.PUBLISHED.read(path, [name]).column(0)
    _refuse("DP-VERIFY-004", name=path.name)


def _mean(
    values: pa.ChunkedArray, column: RecordColumn, law: Mechanism, confidence: float
) -> Estimate:
    import pyarrow as pa
    import pyarrow.compute as pc

    step = column.measurement.step
    noise = MeanLaw.of(law, step, len(values))
    # 64-bit numbers are added up as 128-bit decimals, exactly.
    wide = values if pa.types.is_decimal(values.type) else values.cast(pa.decimal128(38, 0))
    mean = float(Fraction(pc.sum(wide).as_py()) / len(values)) - law.mean * float(step)
    return Estimate(None, mean, finite(noise.standard_deviation), noise.margin(confidence))


def _frequencies(
    values: pa.ChunkedArray, column: RecordColumn, law: RandomizedResponse, confidence: float
) -> tuple[Estimate, ...]:
    import pyarrow.compute as pc

    known = public_values(column)
    places = pc.index_in(values, value_set=known).to_numpy()
    counts = np.bincount(places[~np.isnan(places)].astype(np.int64), minlength=len(known))
    noise = FrequencyLaw(law, len(values))
    estimates = []
    for value, count in zip(known.to_pylist(), counts.tolist(), strict=True):
        estimate = noise.estimate(count)
        margin = noise.margin(estimate, confidence)
        estimates.append(Estimate(value, estimate, noise.standard_error(estimate), margin))
    return tuple(estimates)
