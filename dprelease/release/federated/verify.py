"""Checks one party's messages from their folder alone: shapes, shares, and what holds for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dprelease.errors import DpReleaseError, Findings
from dprelease.mechanisms import registry
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.numerics.rounding import exact
from dprelease.privacy.event import Event
from dprelease.query.measure import Measure
from dprelease.query.resolve import Query
from dprelease.release.federated import manifest
from dprelease.release.federated.plan import (
    MOST_REFINED,
    ShareColumn,
    resolve_federated,
    trusts_of,
)
from dprelease.release.guarantee import within
from dprelease.release.manifest import UNPROTECTED, sha256
from dprelease.schema.load import Declaration, declaration_from_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dprelease.release.verify import Report


def check_federated(report: Report, record: dict[str, Any]) -> None:
    """Add to a report what is found about a party's messages whose digests have been checked.

    The declaration is resolved again; files have its keys and columns; every share is one of the
    declared noise for the sensitivity that follows; and what holds for how many honest parties is
    priced again, rounding included, within the budget.
    """
    found = _declaration(report, record)
    if found is None:
        return
    declaration, queries = found
    _check_files(report, record, queries)
    shares = _shares(report, record, queries)
    _check_words(report, record, queries)
    if shares is not None:
        _check_trust(report, record, declaration, shares)


def _declaration(
    report: Report, record: dict[str, Any]
) -> tuple[Declaration, tuple[Query, ...]] | None:
    held = record["declaration"]
    for name, text in held["texts"].items():
        if held["sha256"].get(name) != sha256(text.encode()):
            report.found("DP-VERIFY-002", problem="a declared text has another digest")
            return None
    try:
        declaration = declaration_from_texts(held["texts"], held["release"])
        if declaration.spec.federated is not None:
            return declaration, resolve_federated(declaration)
        report.found("DP-VERIFY-009", why="it declares no parties")
    except DpReleaseError as error:
        code = error.errors[0].code if isinstance(error, Findings) else error.code
        report.found("DP-VERIFY-009", why=code)
    except KeyError:
        report.found("DP-VERIFY-009", why="a file is missing")
    return None


def _check_files(report: Report, record: dict[str, Any], queries: Sequence[Query]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    recorded = {file["query"]: file for file in record["files"]}
    for query in queries:
        file = recorded.get(query.name, {"sha256": ""})
        same = file == manifest.file_record(query, file["sha256"])
        try:
            held = pq.ParquetFile(report.path / f"{query.name}.parquet")
            shape = [(column.name, str(column.type)) for column in held.schema_arrow]
            same = same and shape == manifest.messages_schema(query)
            same = same and held.metadata.num_rows == query.keys.size
        except (OSError, pa.ArrowException):
            same = False
        if not same:
            report.found("DP-VERIFY-006", name=f"{query.name}.parquet")
    if len(record["files"]) != len(queries):
        report.found("DP-VERIFY-006", name="files")
    report.checked.append("rows and columns of every table follow from the declaration")


def _shares(
    report: Report, record: dict[str, Any], queries: Sequence[Query]
) -> list[ShareColumn] | None:
    """Return the recorded shares; None if one does not follow from the declaration."""
    recorded = {(held["query"], held["column"]): held for held in record["measurements"]}
    wanted = [(query, measure) for query in queries for measure in query.measures]
    found = []
    for query, measure in wanted:
        held = recorded.pop((query.name, measure.name), None)
        share = None if held is None else _share(query, measure, held)
        if share is None or manifest.measurement(share, record["parties"]) != held:
            report.found("DP-VERIFY-007", what="noise", query=query.name, column=measure.name)
        else:
            found.append(share)
    for name, column in recorded:
        report.found("DP-VERIFY-007", what="noise", query=name, column=column)
    report.checked.append("sensitivities, shares and margins follow from the declaration")
    whole = len(found) == len(wanted) == len(record["measurements"])
    return found if whole else None


def _share(query: Query, measure: Measure, held: dict[str, Any]) -> ShareColumn | None:
    try:
        law = registry.law_of(Event.from_json(held))
    except DpReleaseError:
        return None
    refined = held["refined"]
    power = 0 < refined <= MOST_REFINED and refined & (refined - 1) == 0
    if not isinstance(law, SymmetricAlphaStable) or not power:
        return None
    declared = measure.mechanism.shape.get("alpha")
    if declared is not None and float(exact(declared)) != law.alpha:
        return None
    return ShareColumn(query, measure, law, refined, held["chosen_by"])


def _check_words(report: Report, record: dict[str, Any], queries: Sequence[Query]) -> None:
    fixed = {
        "trust_words": manifest.TRUST,
        "post_processing": manifest.POST_PROCESSING,
        "unprotected_quantities": UNPROTECTED,
        **manifest.described(queries),
    }
    for name, words in fixed.items():
        if record[name] != words:
            problem = f"{name} is not what follows from the declaration"
            report.found("DP-VERIFY-002", problem=problem)


def _check_trust(
    report: Report, record: dict[str, Any], declaration: Declaration, shares: Sequence[ShareColumn]
) -> None:
    spec, budget = declaration.spec.federated, declaration.spec.budget
    assert spec is not None  # looked at before
    recorded = record["trust"][0]["guarantee"]["epsilon"] if record["trust"] else "nothing"
    try:
        trusts = trusts_of(shares, spec, budget)
    except DpReleaseError:
        report.found("DP-VERIFY-008", found="too much for rounding", recorded=recorded)
        return
    counted = next(trust for trust in trusts if trust.honest == spec.least)
    report.guarantee = counted.guarantee
    same = record["trust"] == manifest.trust_records(trusts)
    same = same and (record["parties"], record["honest"]) == (spec.parties, spec.least)
    if not same or not within(counted.guarantee, budget):
        found = repr(counted.guarantee.epsilon)
        report.found("DP-VERIFY-008", found=found, recorded=recorded)
    report.checked.append(
        f"the sum costs what is said if {spec.least} of {spec.parties} parties are honest, "
        "within the budget"
    )
