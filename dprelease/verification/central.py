"""Check a release of aggregates: rebuild its manifest, and check keys, values and privacy cost.

Published values must be possible under the declaration, for some noise; the stage `published`
checks them, batch by batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest, PartRecord, TableRecord
from dprelease.documents.metadata import Metadata
from dprelease.documents.release_metadata import metadata_of
from dprelease.errors import DpReleaseError
from dprelease.exports.writer import aggregate_metadata
from dprelease.mechanisms import registry
from dprelease.planning.declaration_findings import single_errors
from dprelease.planning.families.family_plan import refuse_families, tables_with_step
from dprelease.planning.guarantees import budget_of
from dprelease.planning.invariant_plans import (
    INVARIANT_MECHANISM,
    INVARIANT_ORIGIN,
    without_invariants,
)
from dprelease.planning.kinds import CENTRAL
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.planning.prepare import guarantee_with_limits
from dprelease.postprocess.families import Family, families_of
from dprelease.privacy.guarantee import Event, Guarantee
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.verification.export_checks import check_exports, check_formats
from dprelease.verification.family_checks import check_families
from dprelease.verification.manifest_comparison import (
    check_rebuilt,
    ledger_record,
    match_measurements,
    recompute_guarantee,
)
from dprelease.verification.published.published_cells import may_be_published
from dprelease.verification.published_keys import has_keys
from dprelease.verification.recorded_noise import (
    certify_claims,
    is_declared_noise,
    is_recorded_choice,
    recorded_mechanism,
)
from dprelease.verification.report import Report, Rows, is_published_table, resolve_declaration


@dataclass(frozen=True, slots=True)
class RebuiltRelease:
    """The inputs from which a manifest was rebuilt."""

    declaration: Declaration
    plan: Plan
    families: tuple[Family, ...]


def check_central(report: Report, record: manifest.Manifest) -> RebuiltRelease | None:
    """Add findings on a release, whose digests have been checked, to a report.

    Returns the inputs from which the manifest was rebuilt; None if it can't be rebuilt.
    """
    resolved = resolve_declaration(report, record, CENTRAL)
    if resolved is None:
        return None
    declaration, queries = resolved
    in_families = tables_with_step(declaration.spec)
    single = [query for query in queries if query.name not in in_families]
    written = _recorded_files(record, single)
    sound = _check_tables(report, metadata_of(declaration, single), single, written)
    columns = recorded_columns(report, record.measurements, queries)
    if columns is None:
        return None
    _check_values(report, sound, columns)
    families = recorded_families(report, declaration, columns)
    if families is None:
        return None
    written |= _files_of_families(record, families, check_families(report, declaration, families))
    alone = recompute_guarantee(report, record.guarantee.epsilon, columns, declaration.spec.budget)
    if alone is None:
        return None
    guarantee = report.guarantee = guarantee_with_limits(declaration, alone)
    report.checked.append(
        "the claimed privacy cost is computed again from the recorded noise, and is within the "
        "budget"
    )
    for name in guarantee.invariants:
        report.notes.append(f"outside the guarantee, published exactly: {name}")
    plan = Plan(columns, guarantee, budget_of(declaration.spec.budget), tables_alone=alone)
    # A rehearsal charges no ledger.
    paid = None if report.rehearsal else ledger_record(declaration, record.ledger)
    check_formats(report, declaration, record.exports)
    metadata = metadata_of(declaration, queries, families)
    again = manifest.build(declaration, plan, metadata, written, paid)
    check_rebuilt(report, record.without_exports(), again)
    if report.ok:  # the exports of a rejected release are not checked
        check_exports(report, aggregate_metadata(metadata, families, declaration.spec.wide), record)
        add_second_opinion(report, [column.event for column in without_invariants(columns)], alone)
    if report.certify:
        # The events are those of the tables alone. Limits that were chosen privately have a release
        # of their own.
        claimed = record.guarantee if record.limits is None else record.limits.tables
        certify_claims(report, claimed, [column.event for column in without_invariants(columns)])
    return RebuiltRelease(declaration, plan, families)


def recorded_families(
    report: Report, declaration: Declaration, columns: Sequence[PlannedColumn]
) -> tuple[Family, ...] | None:
    """Return the families of a declaration; add a finding and return None for an impossible
    family."""
    families = families_of(columns)
    try:
        refuse_families(declaration, families)
    except DpReleaseError as error:
        report.add_finding("DP-VERIFY-009", why=single_errors(error)[0].code)
        return None
    return families


def _recorded_files(record: manifest.Manifest, queries: Sequence[Query]) -> dict[str, FileDigest]:
    """Return digests and rows by file; tables with non-public keys have a noisy number of rows."""
    recorded = {file.query: FileDigest(file.sha256, file.rows) for file in record.files}
    by_query = {}
    for query in queries:
        file = recorded.get(query.name, FileDigest("", 0))
        rows = file.rows if query.cells is None else query.keys.size
        by_query[query.name] = FileDigest(file.digest, rows)
    return by_query


def _files_of_families(
    record: manifest.Manifest, families: Sequence[Family], rows: Mapping[str, Rows]
) -> dict[str, FileDigest]:
    """Return digests and rows of families with a step; the rows are computed again if possible."""
    recorded = {file.name: file for file in record.files}
    names = [name for family in families if family.step for name in family.published_names]
    return {
        name: _required_digest(recorded.get(formats.table_file_name(name)), rows.get(name))
        for name in names
    }


def _required_digest(file: TableRecord | None, rows: Rows | None) -> FileDigest:
    """Return the recorded digests of a table, and its number of rows.

    The number of rows is the required one; if none is required, it is the recorded one.
    """
    parts = {} if file is None else {part.name: part for part in file.parts}
    if rows is None and parts:
        rows = {name: part.rows for name, part in parts.items()}
    if rows is None or isinstance(rows, int):
        digest, recorded = ("", 0) if file is None else (file.sha256, file.rows)
        return FileDigest(digest, recorded if rows is None else rows)
    digests = {name: parts[name].sha256 if name in parts else "" for name in rows}
    return FileDigest.of(
        [PartRecord(name=name, rows=rows[name], sha256=digests[name]) for name in rows]
    )


def _check_tables(
    report: Report, metadata: Metadata, queries: Sequence[Query], written: dict[str, FileDigest]
) -> list[Query]:
    """Return the queries whose tables match the declaration; add findings for the others."""
    sound = []
    for table_metadata, query in zip(metadata.tables, queries, strict=True):
        rows = written[query.name].rows
        there = is_published_table(report.path, table_metadata, rows, rehearsal=report.rehearsal)
        if not there or not has_keys(report.path / formats.table_file_name(query.name), query):
            report.add_finding("DP-VERIFY-006", name=formats.table_file_name(query.name))
        else:
            sound.append(query)
    report.checked.append("rows, columns and keys of every table follow from the declaration")
    return sound


def _check_values(
    report: Report, queries: Sequence[Query], columns: Sequence[PlannedColumn]
) -> None:
    """Add findings for impossible values, and for wrong companion columns."""
    for query in queries:
        path = report.path / formats.table_file_name(query.name)
        mechanisms = {one.measurement.name: one.mechanism for one in columns if one.query == query}
        if not may_be_published(path, query, mechanisms):
            report.add_finding("DP-VERIFY-006", name=path.name)
    report.checked.append("every value is possible under the declaration")


def recorded_columns(
    report: Report, measurements: Sequence[manifest.MeasurementRecord], queries: Sequence[Query]
) -> tuple[PlannedColumn, ...] | None:
    """Return the declared vectors with the recorded noise; None if it allows no such noise.

    Sensitivities are computed from the declaration, and not read from the manifest.
    """
    wanted = [(query, measurement) for query in queries for measurement in query.measurements]
    noisy = [(query.name, one.name) for query, one in wanted if not one.exact]
    records = iter(match_measurements(report, measurements, noisy))
    columns = []
    for query, measurement in wanted:
        if measurement.exact:  # its record follows from the declaration
            columns.append(PlannedColumn(query, measurement, INVARIANT_MECHANISM, INVARIANT_ORIGIN))
            continue
        held = next(records)
        mechanism = None if held is None else recorded_mechanism(held, registry.mechanism_of_event)
        if held is None or mechanism is None or not is_declared_noise(mechanism, measurement):
            name = {"query": query.name, "column": measurement.name}
            report.add_finding("DP-VERIFY-007", "measurements", what="mechanism", **name)
            continue
        if not is_recorded_choice(held.chosen_by, mechanism, measurement):
            name = {"query": query.name, "column": measurement.name}
            report.add_finding("DP-VERIFY-007", "measurements", what="choice", **name)
        columns.append(PlannedColumn(query, measurement, mechanism, held.chosen_by))
    return tuple(columns) if len(columns) == len(wanted) else None


def add_second_opinion(report: Report, events: Sequence[Event], claimed: Guarantee) -> None:
    """Add the second opinion to a report: the cost from probabilities, by independent code."""
    from dprelease.verification.second_opinion import second_opinion

    opinion = report.opinion = second_opinion(events, claimed)
    if opinion.contradicted:
        at_least = f"{opinion.at_least:.6g}"
        report.add_finding("DP-VERIFY-011", found=at_least, claimed=f"{opinion.claimed:.6g}")
    report.checked.append(
        f"the published integers cost at least {opinion.at_least:.6g} of the {opinion.claimed:.6g} "
        f"{opinion.counted} claimed"
    )
    report.checked += [
        f"computed exactly for this lower bound: {ground}" for ground in opinion.exact
    ]
    report.checked += [
        f"computed in floats for this lower bound: {ground}" for ground in opinion.floating
    ]
