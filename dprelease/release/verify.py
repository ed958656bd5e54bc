"""Checks a release from its folder alone: bytes, digests, sensitivities and the price."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from dprelease.errors import (
    DpReleaseError,
    LedgerError,
)
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.privacy.event import Event
from dprelease.query.resolve import Query, resolve
from dprelease.release import manifest
from dprelease.release.charging import ledger_of
from dprelease.release.federated.json_schema import FederatedManifest
from dprelease.release.federated.manifest import FORMAT as FEDERATED
from dprelease.release.guarantee import Guarantee, within
from dprelease.release.json_schema import Manifest
from dprelease.release.local.json_schema import LocalManifest
from dprelease.release.local.manifest import FORMAT as LOCAL
from dprelease.release.plan import PlannedColumn, price
from dprelease.release.report import Report, has_shape, is_written, resolved_again
from dprelease.release.write import schema_of
from dprelease.schema.load import Declaration
from dprelease.schema.mechanism import AUTO

if TYPE_CHECKING:
    pass

FORMS: dict[str, tuple[str, type[BaseModel]]] = {
    manifest.FORMAT: ("manifest", Manifest),
    LOCAL: ("local_manifest", LocalManifest),
    FEDERATED: ("federated_manifest", FederatedManifest),
}
"""The forms of manifests that are known, and the name of each one's JSON Schema."""


def verify(path: str | Path, *, ledger: str | Path | None = None) -> Report:
    """Return the report on a release folder; it never raises for what is in the folder.

    Checked: the manifest's bytes are the canonical encoding of what it says, with its digest; every
    file has its digest, and no other file is there; rows and columns follow from the declaration,
    and so does what is told of units, treatments and joins; every sensitivity, error and margin
    follows from the declaration; the events cost what the guarantee says, and no more than the
    budget. With a ledger also: it holds the reservation that paid for the release, so it was not
    rolled back since.
    """
    report = Report(Path(path))
    record = _read_manifest(report)
    if record is None:
        return report
    _check_files(report, record)
    if record["format"] != manifest.FORMAT:
        _check_other(report, record)
        declared = None
    else:
        declared = resolved_again(
            report,
            record,
            declares=lambda d: d.spec.mode == "central" and d.spec.federated is None,
            other="it declares another mode",
            resolve=resolve,
        )
    if declared is not None:
        declaration, queries = declared
        _check_tables(report, record, queries)
        _check_told(report, record, queries)
        _check_measurements(report, record, queries)
        _check_guarantee(report, record, declaration)
    if ledger is not None:
        _check_ledger(report, record, Path(ledger))
    return report


def _check_other(report: Report, record: dict[str, Any]) -> None:
    """Check single records, or the messages of one party."""
    if record["format"] == LOCAL:
        from dprelease.release.local.verify import check_local

        check_local(report, record)
        return
    from dprelease.release.federated.verify import check_federated

    check_federated(report, record)


def _check_ledger(report: Report, record: dict[str, Any], path: Path) -> None:
    try:
        problem = ledger_of(path, record.get("ledger"))
    except LedgerError as error:
        problem = error.cause
    if problem is not None:
        report.found("DP-VERIFY-010", name=path.name, problem=problem.rstrip("."))
    else:
        report.checked.append("the ledger holds the reservation that paid for the release")


def _read_manifest(report: Report) -> dict[str, Any] | None:
    try:
        raw = (report.path / manifest.NAME).read_bytes()
    except OSError:
        report.found("DP-VERIFY-001")
        return None
    try:
        record: dict[str, Any] = json.loads(raw, parse_constant=_refuse_constant)
        same = isinstance(record, dict) and manifest.canonical(record) == raw
    except (ValueError, RecursionError):
        report.found("DP-VERIFY-002", problem="it is not strict JSON")
        return None
    if not same:
        report.found("DP-VERIFY-002", problem="its bytes are not the canonical encoding")
        return None
    if record.get("digest") != manifest.digest_of(record):
        report.found("DP-VERIFY-002", problem="its digest does not match")
        return None
    if record.get("format") not in FORMS:
        found = str(record.get("format"))[:40]
        report.found("DP-VERIFY-003", found=found, known=manifest.FORMAT)
        return None
    try:
        name, form = FORMS[record["format"]]
        form.model_validate(record)
    except ValidationError:
        problem = f"it does not fit schemas/json/{name}.schema.json"
        report.found("DP-VERIFY-002", problem=problem)
        return None
    report.checked.append("the manifest is the canonical encoding with its own digest")
    return record


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _check_files(report: Report, record: dict[str, Any]) -> None:
    expected = {file["name"]: file["sha256"] for file in record["files"]}
    for name, digest in expected.items():
        path = report.path / name
        inside = path.parent == report.path and not path.is_symlink() and path.is_file()
        if not inside or manifest.sha256_of(path) != digest:
            report.found("DP-VERIFY-004", name=name)
    for path in report.path.iterdir():
        if path.name not in expected and path.name != manifest.NAME:
            report.found("DP-VERIFY-005", name=path.name)
    report.checked.append(f"{len(expected)} files have their SHA-256, and there is no other")


def _check_tables(report: Report, record: dict[str, Any], queries: tuple[Query, ...]) -> None:
    recorded = {file["query"]: file for file in record["files"]}
    for query in queries:
        found = recorded.get(query.name, {})
        rows = found.get("rows", 0) if query.cells is None else query.keys.size
        written = manifest.Written(found.get("sha256", ""), rows)
        same = found == manifest.file_record(query, written)
        if not same or not is_written(report, query.name, schema_of(query), rows):
            report.found("DP-VERIFY-006", name=f"{query.name}.parquet")
    if len(recorded) != len(queries):
        report.found("DP-VERIFY-006", name="files")
    report.checked.append("rows and columns of every table follow from the declaration")


def _check_told(report: Report, record: dict[str, Any], queries: tuple[Query, ...]) -> None:
    for key, wanted in manifest.told(queries).items():
        recorded = {part["query"]: part for part in record[key]}
        for part in wanted:
            if recorded.get(part["query"]) != part or len(record[key]) != len(wanted):
                report.found("DP-VERIFY-007", what="text", query=part["query"], column=key)
    report.checked.append("units, treatments and joins are told as they are declared")


def _check_measurements(report: Report, record: dict[str, Any], queries: tuple[Query, ...]) -> None:
    recorded = {(m["query"], m["column"]): m for m in record["measurements"]}
    wanted = [(query, measure) for query in queries for measure in query.measures]
    for query, measure in wanted:
        held = recorded.pop((query.name, measure.name), None)
        name = {"query": query.name, "column": measure.name}
        if held is None:
            report.found("DP-VERIFY-007", what="noise", **name)
            continue
        event = Event.from_json(held)
        if event.sensitivity != measure.sensitivity:
            report.found("DP-VERIFY-007", what="sensitivity", **name)
            continue
        if measure.mechanism.name not in (AUTO, event.mechanism):
            report.found("DP-VERIFY-007", what="mechanism", **name)
            continue
        mechanism = _mechanism(event)
        if mechanism is None or not has_shape(mechanism, measure):
            report.found("DP-VERIFY-007", what="mechanism", **name)
            continue
        column = PlannedColumn(query, measure, mechanism, held["chosen_by"])
        if manifest.measurement(column) != held:
            report.found("DP-VERIFY-007", what="error or margin", **name)
    for query_name, column_name in recorded:
        report.found("DP-VERIFY-007", what="noise", query=query_name, column=column_name)
    report.checked.append("sensitivities, errors and margins follow from the declaration")


def _mechanism(event: Event) -> Randomizer | None:
    if event.mechanism in registry.RECORD_NAMES:
        return None  # no noise that is added to an aggregate
    try:
        return registry.law_of(event)
    except DpReleaseError:
        return None


def _check_guarantee(report: Report, record: dict[str, Any], declaration: Declaration) -> None:
    budget = declaration.spec.budget
    try:
        events = [Event.from_json(held) for held in record["measurements"]]
        found = price(events, budget)
    except DpReleaseError:
        return  # a mechanism that can't be priced has been found above
    report.guarantee = found
    if found.to_json() != record["guarantee"] or not within(found, budget):
        report.found(
            "DP-VERIFY-008", found=repr(found.epsilon), recorded=record["guarantee"]["epsilon"]
        )
    report.checked.append("the events cost what the guarantee says, within the budget")
    if math.isfinite(found.epsilon) and within(found, budget):
        _ask_again(report, events, found)


def _ask_again(report: Report, events: list[Event], claimed: Guarantee) -> None:
    """Price the release from the masses of its integers, by code that the plan does not use."""
    from dprelease.release.second_opinion import second_opinion

    opinion = report.opinion = second_opinion(events, claimed)
    if opinion.contradicted:
        found = f"{opinion.at_least:.6g}"
        report.found("DP-VERIFY-011", found=found, claimed=f"{opinion.claimed:.6g}")
    report.checked.append(
        f"the integers alone cost at least {opinion.at_least:.6g} of the {opinion.claimed:.6g} "
        f"{opinion.counted} claimed"
    )
    report.checked += [f"certified: {ground}" for ground in opinion.certified]
    report.checked += [f"rests on floating point: {ground}" for ground in opinion.floating]
