"""Check the messages of one party, and sum the messages of all parties of a federated release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dprelease.documents import party_manifest as manifest
from dprelease.documents.encoding import NAME, sha256_of
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.party_manifest import FederatedManifest
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.errors import BudgetError, DpReleaseError, Place, VerificationError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.mechanisms import registry
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import exact
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
from dprelease.tables.summed_messages import (
    are_exact_sums,
    margin_names,
    sum_messages,
    sums_in_unit,
)
from dprelease.verification.central import add_second_opinion
from dprelease.verification.manifest_comparison import (
    check_rebuilt,
    differences,
    match_measurements,
    read_manifest_as,
)
from dprelease.verification.published_keys import has_keys, has_nulls
from dprelease.verification.recorded_noise import (
    certify_claims,
    is_declared_noise,
    is_recorded_choice,
    recorded_mechanism,
)
from dprelease.verification.report import (
    Report,
    is_published_table,
    rebuild_declaration,
    resolve_declaration,
)
from dprelease.verification.verify import verify

if TYPE_CHECKING:
    import pandas as pd
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
            certify_claims(report, trust.guarantee, alone, not_covered=(SUMS,))


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
    mechanism, refined = recorded_mechanism(held, registry.mechanism_of_event), held.refined
    power = 0 < refined <= MOST_REFINED and refined & (refined - 1) == 0
    if not isinstance(mechanism, SymmetricAlphaStable) or not power:
        return None
    if not is_declared_noise(mechanism, measurement) or not is_recorded_choice(
        held.chosen_by, mechanism, measurement
    ):
        return None
    return ShareColumn(query, measurement, mechanism, refined, held.chosen_by)


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


FEW = 4
"""With at least this number of messages, two parties never have identical messages by chance."""


@checked_arguments
def federated_sum(folders: Sequence[str | Path], query: str | None = None) -> pd.DataFrame:
    """Return the sums of the messages of all parties, with keys and margins of error.

    The margins are those at 95 %, in the columns `<column>_moe` (with more underscores if such a
    column exists already). `attrs["dprelease"]` of the frame has the guarantees.

    The caller sees the messages of every party, so only the guarantee of a single share protects
    against the caller. This function is for parties that trust the caller. It also serves as a
    model of secure aggregation, because it computes sums modulo 2^64, cell by cell.

    One folder is verified. The manifests in the other folders must be equal to the verified one,
    except for the number of the party and the digests of files. The files must have the same keys
    in the same order, and whole numbers.

    Parameters
    ----------
    folders
        The folders of messages, one for each party, in any order.
    query
        The name of the query, if the release has several queries.

    Raises
    ------
    BudgetError
        DP-FED-003 unless there is one complete folder for every party, all folders are of the same
        release and version, and all sums fit into 64 bits.
    """
    check_paths(folders)
    paths = [Path(folder) for folder in folders]
    if not paths:
        _raise_sum_error("no folder is named")
    records = [_read_party_manifest(path) for path in paths]
    report = verify(paths[0])
    if not report.ok:
        _raise_sum_error(f"{paths[0].name} does not verify ({report.findings[0].code})")
    _compare_manifests(paths, records)
    _check_parties(records)
    declared = {
        each.name: (each, table_metadata)
        for each, table_metadata in declared_queries(paths[0], records[0])
    }
    chosen = query or (next(iter(declared)) if len(declared) == 1 else "")
    if chosen not in declared:
        _raise_sum_error(f"name one of the queries {', '.join(declared)}")
    return _sum_table(paths, records, *declared[chosen])


def _raise_sum_error(problem: str) -> NoReturn:
    """Raise BudgetError DP-FED-003 with the problem of the messages."""
    raise BudgetError("DP-FED-003", place=Place(NAME), problem=problem)


def _read_party_manifest(path: Path) -> FederatedManifest:
    """Return the manifest of a party's messages; raise DP-FED-003 if invalid."""
    try:
        return read_manifest_as(path, FederatedManifest)
    except VerificationError as error:
        code = error.code
    _raise_sum_error(f"{path.name} contains no messages, or changed ones ({code})")


def _common_manifest(record: FederatedManifest) -> FederatedManifest:
    """Return a party's manifest with the same value for every key that differs between parties."""
    files = [file.model_copy(update={"sha256": ""}) for file in record.files]
    tool = record.tool.model_copy(update={"dependencies": {}})
    declared = record.declaration.model_copy(update={"replaced_sources": [], "table_versions": {}})
    own = {"files": files, "tool": tool, "declaration": declared, "party": 0, "digest": ""}
    return record.model_copy(update=own)


def _compare_manifests(paths: Sequence[Path], records: Sequence[FederatedManifest]) -> None:
    """Raise DP-FED-003 if the manifests of two parties are of different releases."""
    first = _common_manifest(records[0]).to_json()
    for path, record in zip(paths, records, strict=True):
        for difference in differences(_common_manifest(record).to_json(), first, "manifest"):
            _raise_sum_error(
                f"{path.name} and {paths[0].name} differ at {difference.partition('.')[2]}"
            )


def _check_parties(records: Sequence[FederatedManifest]) -> None:
    """Raise DP-FED-003 unless there is exactly one folder for each declared party."""
    wanted, given = range(1, records[0].parties + 1), Counter(r.party for r in records)
    for party, times in given.items():
        if times > 1 or party not in wanted:
            _raise_sum_error(
                f"party {party} is listed twice" if times > 1 else f"there is no party {party}"
            )
    for party in wanted:
        if party not in given:
            _raise_sum_error(
                f"party {party} is missing: {len(records)} were named of {len(wanted)}"
            )
    sent = [tuple(file.sha256 for file in record.files) for record in records]
    values = sum(f.rows for f in records[0].files) * len(records[0].measurements)
    if values >= FEW and len(set(sent)) != len(sent):
        _raise_sum_error("two parties have identical messages")


def _sum_table(
    paths: Sequence[Path],
    records: Sequence[FederatedManifest],
    query: Query,
    table_metadata: TableMetadata,
) -> pd.DataFrame:
    """Return the sums of one query over the messages of all parties, with margins."""
    columns = {m.column: m for m in records[0].measurements if m.query == query.name}
    shown: pd.DataFrame | None = None
    totals: dict[str, Integers] = {}
    for path, record in zip(paths, records, strict=True):
        table = checked_messages(path, record, query, table_metadata)
        if table is None:
            _raise_sum_error(f"a file of {path.name} is missing, or another one than was written")
        if shown is None:
            keys = [name for name in table.column_names if name not in columns]
            shown = table.select(keys).to_pandas()
        for name in columns:
            sent = [table.column(name).to_numpy()]
            totals[name] = sum_messages([totals[name], *sent] if name in totals else sent)
    assert shown is not None  # a release has at least two parties
    margins = margin_names(query)
    for name, held in columns.items():
        if not are_exact_sums(totals[name]):
            _raise_sum_error(f"the sums of {name} do not fit 64 bits")
        shown[name] = sums_in_unit(totals[name], exact(held.step) / held.refined)
        shown[margins[name]] = float(exact(held.sum_margin_95))
    shown.attrs["dprelease"] = {
        "trust": [trust.to_json() for trust in records[0].trust],
        "words": records[0].trust_words,
    }
    return shown
