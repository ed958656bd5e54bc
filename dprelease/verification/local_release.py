"""Check a local release: rebuild its manifest, and check values and privacy cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dprelease.documents import local_manifest as manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.exports.writer import record_metadata
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.planning.guarantees import budget_of
from dprelease.planning.kinds import LOCAL
from dprelease.planning.local_plan import LocalColumn, LocalPlan
from dprelease.query.local_records import RecordColumn, Records
from dprelease.tables import formats
from dprelease.verification.central import add_second_opinion
from dprelease.verification.export_checks import check_exports, check_formats
from dprelease.verification.manifest_comparison import (
    check_rebuilt,
    ledger_record,
    match_measurements,
    recompute_guarantee,
)
from dprelease.verification.recorded_noise import (
    certify_claims,
    is_declared_noise,
    is_recorded_choice,
    recorded_mechanism,
)
from dprelease.verification.report import Report, is_published_table, resolve_declaration


def check_local(report: Report, record: manifest.LocalManifest) -> LocalPlan | None:
    """Add findings on a local release, whose digests have been checked, to a report.

    The manifest is rebuilt from the declaration and the recorded noise, which must be declared. The
    files must have the declared columns and types, the recorded number of records, and only values
    that can be published. The events must cost what the guarantee states, within the budget.
    Returns the plan; None, and a finding in the report, if the plan can't be rebuilt.
    """
    resolved = resolve_declaration(report, record, LOCAL)
    if resolved is None:
        return None
    declaration, parts = resolved
    recorded = {file.query: FileDigest(file.sha256, file.rows) for file in record.files}
    written = {part.name: recorded.get(part.name, FileDigest("", 0)) for part in parts}
    is_whole = _check_files(report, ReleaseMetadata(declaration.spec), parts, written)
    columns = _recorded_columns(report, record.measurements, parts)
    if columns is None or not is_whole:
        return None
    budget = declaration.spec.budget
    guarantee = recompute_guarantee(report, record.guarantee.epsilon, columns, budget)
    if guarantee is None:
        return None
    report.checked.append(
        "the claimed privacy cost of one record is computed again from the recorded noise, and is "
        "within the budget"
    )
    plan = LocalPlan(columns, guarantee, budget_of(budget), (), parts)
    paid = None if report.rehearsal else ledger_record(declaration, record.ledger)
    check_formats(report, declaration, record.exports)
    again = manifest.build(declaration, plan, written, paid)
    check_rebuilt(report, record.without_exports(), again)
    if report.ok:  # the exports of a rejected release are not checked
        check_exports(report, record_metadata(declaration), record)
        add_second_opinion(report, [column.event for column in columns], guarantee)
    if report.certify:
        certify_claims(report, record.guarantee, [column.event for column in columns])
    return plan


def _check_files(
    report: Report,
    described: ReleaseMetadata,
    parts: Sequence[Records],
    written: Mapping[str, FileDigest],
) -> bool:
    """Return whether all files exist, with values that can be published."""
    wrong = [
        part
        for part in parts
        if not holds_records(
            report.path,
            part,
            described.records(part),
            written[part.name].rows,
            rehearsal=report.rehearsal,
        )
    ]
    for part in wrong:
        report.add_finding("DP-VERIFY-006", name=formats.table_file_name(part.name))
    report.checked.append("columns, values and numbers of records follow from the declaration")
    return not wrong


def holds_records(
    folder: Path,
    part: Records,
    table_metadata: TableMetadata,
    rows: int,
    *,
    rehearsal: bool = False,
) -> bool:
    """Return whether a file has the declared columns, the recorded rows, and declared values."""
    import pyarrow as pa

    from dprelease.tables.record_table import are_publishable_values

    if not is_published_table(folder, table_metadata, rows, rehearsal=rehearsal):
        return False
    try:
        table = formats.PUBLISHED_FORMAT.read(folder / formats.table_file_name(part.name))
    except (OSError, pa.ArrowException):
        return False
    return all(are_publishable_values(table.column(column.name), column) for column in part.columns)


def _recorded_columns(
    report: Report,
    measurements: Sequence[manifest.LocalMeasurementRecord],
    parts: Sequence[Records],
) -> tuple[LocalColumn, ...] | None:
    """Return the declared columns with the recorded noise; None if a column may not have it."""
    wanted = [(part, column) for part in parts for column in part.columns]
    columns = []
    for (part, column), held in zip(
        wanted,
        match_measurements(report, measurements, [(p.name, c.name) for p, c in wanted]),
        strict=True,
    ):
        mechanism = (
            None if held is None else recorded_mechanism(held, registry.record_mechanism_of_event)
        )
        name = {"query": part.name, "column": column.name}
        if held is None or mechanism is None or not _is_declared(mechanism, column):
            report.add_finding("DP-VERIFY-007", "measurements", what="mechanism", **name)
            continue
        if not _is_recorded_choice(held.chosen_by, mechanism, column):
            report.add_finding("DP-VERIFY-007", "measurements", what="choice", **name)
        columns.append(
            LocalColumn(part.query, column.measurement, mechanism, held.chosen_by, column)
        )
    return tuple(columns) if len(columns) == len(wanted) else None


def _is_declared(mechanism: Mechanism, column: RecordColumn) -> bool:
    """Return whether noise has the declared mechanism, and its shape or number of values."""
    if isinstance(mechanism, RandomizedResponse) or column.is_response:
        is_response = isinstance(mechanism, RandomizedResponse) and column.is_response
        return is_response and getattr(mechanism, "values", 0) == column.value_count
    return is_declared_noise(mechanism, column.measurement)


def _is_recorded_choice(words: str, mechanism: Mechanism, column: RecordColumn) -> bool:
    """Return whether `chosen_by` is consistent with the declaration."""
    if column.is_response:  # the declaration leaves no choice for randomized response
        return words == "declared"
    return is_recorded_choice(words, mechanism, column.measurement)
