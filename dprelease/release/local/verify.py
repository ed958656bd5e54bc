"""Checks a local release from its folder alone: types, noise, laws of estimates and the price."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flint import ctx

from dprelease.errors import DpReleaseError
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.privacy.event import Event
from dprelease.query.records import RecordColumn, Records, resolve_records
from dprelease.release.draft import priced
from dprelease.release.guarantee import Guarantee, guarantee_of, within
from dprelease.release.local import manifest
from dprelease.release.local.plan import LocalColumn, local_reading
from dprelease.release.manifest import composition
from dprelease.release.report import Report, check_words, has_shape, is_written, resolved_again
from dprelease.schema.mechanism import AUTO
from dprelease.schema.release import BudgetSpec

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_local(report: Report, record: dict[str, Any]) -> None:
    """Add to a report what is found about a local release whose digests have been checked.

    The manifest's declaration is resolved again; files have its columns and types, as many records
    as the manifest says, and only declared values; every noise is one that was declared, for the
    sensitivity that follows; errors and laws of estimates are computed again; the events cost what
    the guarantee says, within the budget.
    """
    found = resolved_again(
        report,
        record,
        declares=lambda declaration: declaration.spec.mode == "local",
        other="it declares no mode local",
        resolve=resolve_records,
    )
    if found is None:
        return
    declaration, parts = found
    sizes = {file["query"]: file["rows"] for file in record["files"]}
    _check_files(report, record, parts)
    _check_measurements(report, record, parts, sizes)
    words = {
        "model": manifest.MODEL,
        "treatments": [manifest.treatment(part) for part in parts],
        "post_processing": manifest.POST_PROCESSING,
        "unprotected_quantities": manifest.UNPROTECTED,
    }
    check_words(report, record, words)
    _check_guarantee(report, record, declaration.spec.budget)


def _check_files(report: Report, record: dict[str, Any], parts: Sequence[Records]) -> None:
    recorded = {file["query"]: file for file in record["files"]}
    for part in parts:
        file = recorded.get(part.name)
        same = file is not None and file == manifest.file_record(part, file["sha256"], file["rows"])
        if file is None or not same or not _holds(report, part, file["rows"]):
            report.found("DP-VERIFY-006", name=f"{part.name}.parquet")
    if len(record["files"]) != len(parts):
        report.found("DP-VERIFY-006", name="files")
    report.checked.append("columns, values and numbers of records follow from the declaration")


def _holds(report: Report, part: Records, rows: int) -> bool:
    """Return whether a file has the declared columns, the recorded rows, and declared values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dprelease.release.local.write import declared_values, schema_of_records

    if not is_written(report, part.name, schema_of_records(part), rows):
        return False
    try:
        table = pq.ParquetFile(report.path / f"{part.name}.parquet").read()
    except (OSError, pa.ArrowException):
        return False
    return all(declared_values(table.column(column.name), column) for column in part.columns)


def _check_measurements(
    report: Report, record: dict[str, Any], parts: Sequence[Records], sizes: dict[str, int]
) -> None:
    recorded = {(held["query"], held["column"]): held for held in record["measurements"]}
    if len(recorded) != len(record["measurements"]):
        report.found("DP-VERIFY-002", problem="a column is recorded twice")
    for part in parts:
        for column in part.columns:
            held = recorded.pop((part.name, column.name), None)
            problem = _problem(part, column, held, sizes.get(part.name, 0))
            if problem is not None:
                report.found("DP-VERIFY-007", what=problem, query=part.name, column=column.name)
    for query, name in recorded:
        report.found("DP-VERIFY-007", what="noise", query=query, column=name)
    report.checked.append("sensitivities, errors and laws of estimates follow from the declaration")


def _problem(
    part: Records, column: RecordColumn, held: dict[str, Any] | None, records: int
) -> str | None:
    """Return what does not follow from the declaration; None if everything does."""
    if held is None:
        return "noise"
    event = Event.from_json(held)
    if event.sensitivity != column.measure.sensitivity:
        return "sensitivity"
    law = _law(event)
    if law is None or not _is_declared(law, column):
        return "mechanism"
    planned = LocalColumn(part.query, column.measure, law, held["chosen_by"], column)
    if manifest.measurement(planned, records) != held:
        return "error or law of estimates"
    return None


def _law(event: Event) -> Mechanism | None:
    try:
        return registry.record_law_of(event)
    except DpReleaseError:
        return None


def _is_declared(law: Mechanism, column: RecordColumn) -> bool:
    """Return whether a law is the declared one, with the declared shape or number of values."""
    spec = column.measure.mechanism
    if isinstance(law, RandomizedResponse) or column.is_response:
        is_response = isinstance(law, RandomizedResponse) and column.is_response
        return is_response and getattr(law, "values", 0) == column.values
    return spec.name in (AUTO, law.name) and has_shape(law, column.measure)


def _check_guarantee(report: Report, record: dict[str, Any], budget: BudgetSpec) -> None:
    try:
        events = [Event.from_json(held) for held in record["measurements"]]
        laws = [(registry.record_law_of(event), event.sensitivity) for event in events]
        found = guarantee_of([priced(law, moves) for law, moves in laws], budget)
    except DpReleaseError:
        return  # a mechanism that can't be priced has been found above
    report.guarantee = found
    if not _same(record, found) or not within(found, budget):
        recorded = record["guarantee"]["epsilon"]
        report.found("DP-VERIFY-008", found=repr(found.epsilon), recorded=recorded)
    report.checked.append("one record costs what the guarantee says, within the budget")
    if math.isfinite(found.epsilon) and within(found, budget):
        _ask_again(report, events, found)


def _ask_again(report: Report, events: list[Event], claimed: Guarantee) -> None:
    """Price the noise a second time, from the masses of what is answered.

    Numbers as `second_opinion` does; for a pure claim, randomized response by the ratio of two
    masses, rounded down. Leaving out answers can only lower the price.
    """
    from dprelease.release.second_opinion import second_opinion

    numbers = [event for event in events if event.mechanism not in registry.RECORD_NAMES]
    price = 0.0
    if numbers:
        opinion = report.opinion = second_opinion(numbers, claimed)
        price = opinion.at_least
    if claimed.accountant == "pure":
        price += sum(_response_price(event) for event in events if event not in numbers)
    counted = "rho" if claimed.rho is not None else "epsilon"
    limit = claimed.epsilon if claimed.rho is None else claimed.rho
    if price > limit * (1 + 1e-9):
        report.found("DP-VERIFY-011", found=f"{price:.6g}", claimed=f"{limit:.6g}")
    report.checked.append(
        f"what one record answers costs at least {price:.6g} of the {limit:.6g} {counted} claimed"
    )


def _response_price(event: Event) -> float:
    """Return ln P(K = 0) / P(K = 1), rounded down."""
    law = registry.record_law_of(event)
    with ctx.workprec(128):
        kept = law.tail(0, upper=False)
        other = law.tail(1, upper=False) - kept
        return float((kept / other).log().lower()) * (1 - 2.0**-50)


def _same(record: dict[str, Any], found: Guarantee) -> bool:
    told = {"epsilon": repr(found.epsilon), "delta": found.to_json()["delta"]}
    return bool(
        record["guarantee"] == found.to_json()
        and record["privacy_parameters"] == told
        and record["composition"] == composition(found)
        and record["reading"] == local_reading(found)
    )
