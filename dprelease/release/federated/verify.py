"""Checks one party's messages from their folder alone: shapes, shares, and what holds for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dprelease.errors import DpReleaseError
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
from dprelease.release.manifest import UNPROTECTED, told
from dprelease.release.report import Report, check_words, is_written, resolved_again
from dprelease.schema.load import Declaration

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_federated(report: Report, record: dict[str, Any]) -> None:
    """Add to a report what is found about a party's messages whose digests have been checked.

    The declaration is resolved again; files have its keys and columns; every share is one of the
    declared noise for the sensitivity that follows; and what holds for how many honest parties is
    priced again, rounding included, within the budget.
    """
    found = resolved_again(
        report,
        record,
        declares=lambda declaration: declaration.spec.federated is not None,
        other="it declares no parties",
        resolve=resolve_federated,
    )
    if found is None:
        return
    declaration, queries = found
    _check_files(report, record, queries)
    shares = _shares(report, record, queries)
    words = {
        "trust_words": manifest.TRUST,
        "post_processing": manifest.POST_PROCESSING,
        "unprotected_quantities": UNPROTECTED,
        **told(queries),
    }
    check_words(report, record, words)
    if shares is not None:
        _check_trust(report, record, declaration, shares)


def _check_files(report: Report, record: dict[str, Any], queries: Sequence[Query]) -> None:
    recorded = {file["query"]: file for file in record["files"]}
    for query in queries:
        file = recorded.get(query.name, {"sha256": ""})
        same = file == manifest.file_record(query, file["sha256"])
        columns = manifest.messages_schema(query)
        if not same or not is_written(report, query.name, columns, query.keys.size):
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
