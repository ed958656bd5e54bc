"""Check the messages of one party: rebuild the manifest, and check the guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents import party_manifest as manifest
from dprelease.documents.encoding import sha256_of
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.errors import DpReleaseError
from dprelease.mechanisms import registry
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.planning.federated_plan import (
    MOST_REFINED,
    FederatedPlan,
    ShareColumn,
    resolve_federated,
    trusts_of,
)
from dprelease.planning.guarantees import budget_of, meets_budget
from dprelease.planning.kinds import FEDERATED
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.verification.central import add_second_opinion
from dprelease.verification.manifest_comparison import check_rebuilt, match_measurements
from dprelease.verification.published_keys import has_keys, has_nulls
from dprelease.verification.recorded_noise import (
    certify_claims,
    is_declared_noise,
    is_recorded_choice,
    recorded_law,
)
from dprelease.verification.report import (
    Report,
    is_published_table,
    rebuild_declaration,
    resolve_declaration,
)

if TYPE_CHECKING:
    import pyarrow as pa

SUMS = (
    "what holds of sums of several parties' messages: the largest loss of the sum of their shares, "
    "and a factor for every party's own rounding that is proved, but evaluated in floats"
)
"""Claims of a federated release that a certificate does not cover."""


def check_federated(report: Report, record: manifest.FederatedManifest) -> None:
    """Add findings on the messages of a party, whose digests have been checked, to a report.

    The manifest is rebuilt from the declaration and the recorded noise shares, which the
    declaration must allow. Files must have the declared keys and columns. The guarantee for each
    number of honest parties is computed again, including the effect of rounding, and must be within
    the budget.
    """
    resolved = resolve_declaration(report, record, FEDERATED)
    if resolved is None:
        return
    declaration, queries = resolved
    check_messages(report, ReleaseMetadata(declaration.spec), queries)
    plan = federated_plan(report, record, declaration, queries)
    if plan is None:
        return
    files = {file.query: file.sha256 for file in record.files}
    digests = {query.name: files.get(query.name, "") for query in queries}
    party = min(max(record.party, 1), plan.parties)  # only the party knows its number
    check_rebuilt(report, record, manifest.build(declaration, queries, plan, digests, party))
    check_trust(report, record, plan)


def federated_plan(
    report: Report,
    record: manifest.PartiesManifest,
    declaration: Declaration,
    queries: Sequence[Query],
) -> FederatedPlan | None:
    """Return the plan with the recorded noise shares; None, and a finding, if they are not
    allowed."""
    shares = _recorded_shares(report, record.measurements, queries)
    return None if shares is None else _recorded_plan(report, record, declaration, shares)


def check_trust(report: Report, record: manifest.PartiesManifest, plan: FederatedPlan) -> None:
    """Compute the cost of messages by another method, and certify it if requested."""
    if report.ok:  # the cost of a rejected release is not computed again
        _add_second_opinion(report, plan)
    if report.certify:
        _certify(report, record, plan)


def _add_second_opinion(report: Report, plan: FederatedPlan) -> None:
    """Add the second opinion on the cost of this party's messages alone."""
    alone = [share.fine_event for share in plan.shares]
    add_second_opinion(report, alone, next(t.guarantee for t in plan.trusts if t.honest == 1))


def _certify(report: Report, record: manifest.PartiesManifest, plan: FederatedPlan) -> None:
    """Certify the cost of a party's messages alone; the cost of sums of shares is not certified."""
    alone = [share.fine_event for share in plan.shares]
    for trust in record.trust:
        if trust.honest == 1:
            certify_claims(report, trust.guarantee, alone, beside=(SUMS,))


def check_messages(report: Report, described: ReleaseMetadata, queries: Sequence[Query]) -> None:
    """Compare rows, types and keys of a party's files with the declared ones."""
    for query in queries:
        if not is_message(report.path, query, described.messages(query)):
            report.add_finding("DP-VERIFY-006", name=formats.table_file_name(query.name))
    report.checked.append("rows, columns and keys of every table follow from the declaration")


def is_message(
    folder: Path, query: Query, table_metadata: TableMetadata, *, rehearsal: bool = False
) -> bool:
    """Return whether a party's file has the columns, keys and rows that messages have."""
    path = folder / table_metadata.file
    there = is_published_table(folder, table_metadata, query.keys.size, rehearsal=rehearsal)
    return there and has_keys(path, query) and not has_nulls(path)


def declared_queries(
    folder: Path, record: manifest.FederatedManifest
) -> tuple[tuple[Query, TableMetadata], ...]:
    """Return the queries of a verified manifest, and the metadata of their messages."""
    declaration = rebuild_declaration(record, folder)
    described = ReleaseMetadata(declaration.spec)
    return tuple((query, described.messages(query)) for query in resolve_federated(declaration))


def checked_messages(
    folder: Path, record: manifest.FederatedManifest, query: Query, table_metadata: TableMetadata
) -> pa.Table | None:
    """Return a party's messages for one query; None unless they match the manifest."""
    (file,) = (file for file in record.files if file.query == query.name)
    path = folder / table_metadata.file
    # Only the first folder is verified as a whole; those of all other parties are checked here.
    if not is_message(folder, query, table_metadata) or sha256_of(path) != file.sha256:
        return None
    return formats.PUBLISHED_FORMAT.read(path)


def _recorded_shares(
    report: Report, measurements: Sequence[manifest.ShareRecord], queries: Sequence[Query]
) -> tuple[ShareColumn, ...] | None:
    """Return the recorded noise shares; None if one is not possible under the declaration."""
    wanted = [(query, measurement) for query in queries for measurement in query.measurements]
    shares = []
    for (query, measurement), held in zip(
        wanted,
        match_measurements(report, measurements, [(q.name, m.name) for q, m in wanted]),
        strict=True,
    ):
        share = None if held is None else _recorded_share(query, measurement, held)
        if share is None:
            name = {"query": query.name, "column": measurement.name}
            report.add_finding("DP-VERIFY-007", "measurements", what="noise", **name)
        else:
            shares.append(share)
    return tuple(shares) if len(shares) == len(wanted) else None


def _recorded_share(
    query: Query, measurement: Measurement, held: manifest.ShareRecord
) -> ShareColumn | None:
    """Return a measurement with its recorded noise; None if the release declares other noise."""
    law, refined = recorded_law(held, registry.mechanism_of_event), held.refined
    power = 0 < refined <= MOST_REFINED and refined & (refined - 1) == 0
    if not isinstance(law, SymmetricAlphaStable) or not power:
        return None
    if not is_declared_noise(law, measurement) or not is_recorded_choice(
        held.chosen_by, law, measurement
    ):
        return None
    return ShareColumn(query, measurement, law, refined, held.chosen_by)


def _recorded_plan(
    report: Report,
    record: manifest.PartiesManifest,
    declaration: Declaration,
    shares: tuple[ShareColumn, ...],
) -> FederatedPlan | None:
    """Return the plan with its guarantees; None, and a finding, if it exceeds the budget."""
    spec, budget = declaration.spec.federated, declaration.spec.budget
    assert spec is not None  # a federated declaration has this part
    recorded = record.trust[0].guarantee.epsilon if record.trust else "nothing"
    try:
        trusts = trusts_of(shares, spec, budget)
    except (DpReleaseError, OverflowError):
        report.add_finding(
            "DP-VERIFY-008", "trust", found="too much for rounding", recorded=recorded
        )
        return None
    counted = next(trust for trust in trusts if trust.honest == spec.least)
    report.guarantee = counted.guarantee
    if not meets_budget(counted.guarantee, budget):
        epsilon = repr(counted.guarantee.epsilon)
        report.add_finding("DP-VERIFY-008", "trust", found=epsilon, recorded=recorded)
        return None
    report.checked.append(
        f"the sum costs what is said if {spec.least} of {spec.parties} parties are honest, "
        "within the budget"
    )
    return FederatedPlan((), counted.guarantee, budget_of(budget), (), shares, trusts, spec.parties)
