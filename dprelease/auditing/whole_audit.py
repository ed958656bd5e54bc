"""Run the steps of an audit: exact integers, whole runs, canaries, and millions of answers.

This module also checks the claim about all measurements together. Neighbouring tables show the
change of each measurement, but not the joint privacy cost. Code that the planner does not use
computes this cost from the noise in the plan: a lower bound from the probabilities of the noisy
integers, and an upper bound in ball arithmetic and integers. So even a claim that is only slightly
too small is found to be false.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dprelease.auditing.claims import LargestChange, MeasurementName
from dprelease.auditing.failures import GroupReport
from dprelease.auditing.neighbours.counting_rows import QueryGroup
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.sensitivities import (
    GroupResult,
    compare_pairs,
    query_groups,
    select_queries,
)
from dprelease.auditing.single_records import RecordsResult, compare_record_pairs
from dprelease.auditing.stage import AuditedRelease
from dprelease.auditing.whole_runs.canaries import run_canaries
from dprelease.auditing.whole_runs.replayed_run import folder_for_runs
from dprelease.auditing.whole_runs.twin_runs import run_twins
from dprelease.documents.audit_record import (
    Audit,
    AuditFinding,
    EpsilonBound,
    SensitivityCheck,
    UntestedPart,
    digest_of_declaration,
    seal_audit,
)
from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.errors import DpReleaseError, QueryError, VerificationError
from dprelease.errors.suggestions import nearest
from dprelease.planning.federated_plan import FederatedPlan
from dprelease.planning.local_plan import LocalPlan
from dprelease.schema.load import Declaration

if TYPE_CHECKING:
    from dprelease.privacy.guarantee import Event, Guarantee
    from dprelease.verification.certificate.verdicts import CertifiedClaim


TOGETHER_SUFFIX = " of all measurements together"
UNPROVEN_SUMS = "a proof of what sums of several parties' messages cost"

MOST_SLOTS = 1000
"""The maximum number of parts of a change, over all measurements, for a proof within seconds."""


def check_composed_claims(
    audited: AuditedRelease, until: float, report: GroupReport
) -> tuple[list[AuditFinding], list[UntestedPart]]:
    """Return findings on false claims about all measurements together, and the unproven claims.

    `until` is the deadline, by `time.monotonic()`, after which no check starts. The texts of
    `report` are extended by what was tried and left out.
    """
    from dprelease.verification.certificate.verdicts import Verdict
    from dprelease.verification.second_opinion import second_opinion

    if time.monotonic() > until:
        report.left_out.append("what all measurements cost together")
        return [], []
    events, guarantee = _events_and_guarantee(audited)
    findings = list[AuditFinding]()
    opinion = second_opinion(events, guarantee)
    if opinion.contradicted:
        claimed, seen = f"{opinion.counted} {opinion.claimed:.9g}", f"{opinion.at_least:.9g}"
        findings.append(
            _composition_finding(claimed, f"at least {seen}, by the masses of the noise")
        )
    if sum(event.sensitivity.slots for event in events) > MOST_SLOTS:
        report.left_out.append("a proof of what so many measurements cost together")
        return findings, []
    verdicts = _verdicts(events, guarantee)
    report.tried += [f"{one.claim.words}{TOGETHER_SUFFIX}: {one.verdict.value}" for one in verdicts]
    findings += [
        _composition_finding(
            f"{one.claim.words} is {float(one.claim.claimed):.9g}", _proof_text(one)
        )
        for one in verdicts
        if one.verdict is Verdict.REFUSED
    ]
    untested = [f"a proof of {one.claim.words}" for one in verdicts if one.verdict is Verdict.OPEN]
    untested += [UNPROVEN_SUMS] * isinstance(audited.plan, FederatedPlan)
    return findings, [UntestedPart(query="", column="", mechanism=what) for what in untested]


def _events_and_guarantee(audited: AuditedRelease) -> tuple[list[Event], Guarantee]:
    """Return the events of all noise in the plan, and the guarantee that the plan claims."""
    plan = audited.plan
    if isinstance(plan, FederatedPlan):  # as in `verify`, the claim about one party's messages
        alone = next(trust.guarantee for trust in plan.trusts if trust.honest == 1)
        return [share.fine_event for share in plan.shares], alone
    columns = plan.columns if isinstance(plan, LocalPlan) else plan.noisy_columns
    return [column.event for column in columns], plan.guarantee


def _verdicts(events: Sequence[Event], guarantee: Guarantee) -> Sequence[CertifiedClaim]:
    """Return each claim of a guarantee with the bound that is proved for some noise."""
    from dprelease.verification.certificate.certify import certify, claims_of

    return certify(events, claims_of(GuaranteeRecord.of(guarantee))).claims


def _proof_text(one: CertifiedClaim) -> str:
    return (
        "nothing is proved" if one.at_most is None else f"no more than {one.at_most:.9g} is proved"
    )


def _composition_finding(claimed: str, seen: str) -> AuditFinding:
    """Return the finding that a claim about the composed loss is wrong."""
    return AuditFinding(
        check="composition", query="", column="", claimed=claimed, seen=seen, pair=""
    )


TIME_LIMIT = 240.0
"""The default number of seconds after which an audit starts no further check."""

TIME_SHARES = {True: (0.35, 0.55, 0.6), False: (0.6, 0.9, 1.0)}
"""The shares of the time limit at which the checks of exact integers, the twin runs and the proofs
end, for an audit with drawn answers (True), which come last, and for an audit without (False)."""


@dataclass
class Outcome:
    """The outcome of an audit, and the pairs of tables that reproduce its findings."""

    audit: Audit
    declaration: Declaration
    pairs: list[tuple[AuditFinding, Pair]] = field(default_factory=list)

    @property
    def errors(self) -> list[DpReleaseError]:
        """Return the findings of the audit as errors."""
        return [
            VerificationError(
                "DP-AUDIT-006",
                check=found.check,
                what=".".join(filter(None, (found.query, found.column))) or "the release",
                claimed=found.claimed,
                seen=found.seen,
                pair=f", for {found.pair}" if found.pair else "",
            )
            for found in self.audit.findings
        ]


def run_audit(
    declaration: Declaration,
    *,
    engine: str | None = None,
    names: Sequence[str] = (),
    time_limit: float = TIME_LIMIT,
    draws: bool = True,
    progress: Callable[[str], None] = lambda _step: None,
) -> Outcome:
    """Audit a release without opening a declared source, and return the outcome.

    `names` are the names of the queries to audit; by default, all queries are audited. `engine`
    replaces the declared engine. `time_limit` is the number of seconds after which no further check
    starts. `draws` says whether the audit also draws millions of answers, which takes most of the
    time. `progress` is called with the name of each step.

    Raises QueryError: DP-AUDIT-001 for an unknown query. Raises OutputError: DP-AUDIT-008 if there
    is no temporary folder for whole runs, or if no run finishes. Raises DpReleaseError: the errors
    of `prepare`, because a release that can't run can't be audited; also the error of an engine
    that is unavailable.
    """
    start = time.monotonic()
    audited = AuditedRelease.of(declaration, engine or declaration.spec.engine)
    _refuse_unknown_queries(audited, names)
    with audited.keep_engine():
        return _run_steps(audited, declaration, names, start, time_limit, draws, progress)


def _run_steps(
    audited: AuditedRelease,
    declaration: Declaration,
    names: Sequence[str],
    start: float,
    time_limit: float,
    draws: bool,
    progress: Callable[[str], None],
) -> Outcome:
    bits = ReplayedBits(digest_of_declaration(declaration))
    time_shares = TIME_SHARES[draws]
    progress("sensitivities")
    results = list(_compare_all(audited, names, bits, start + time_shares[0] * time_limit))
    worst = {name: largest for one in results for name, largest in one.worst.items()}
    broken = [(largest, name) for name, largest in worst.items() if not largest.share.holds]
    failures = [failure for one in results for failure in one.report.failures.values()]
    findings = [_breach_finding(largest, name) for largest, name in broken]
    findings += [failure.finding for failure in failures]
    tried_words = [description for one in results for description in one.report.tried]
    left_out = [description for one in results for description in one.report.left_out]
    outcome: dict[str, object] = {"twins": None, "canaries": None, "black_box": None}
    groups = [one.group for one in results]
    with folder_for_runs() as scratch_folder:
        progress("twins")
        until = start + time_shares[1] * time_limit
        outcome["twins"], more, unrun = run_twins(
            audited, groups, _largest_situations(results), scratch_folder, until
        )
        progress("canaries")
        left_out += unrun
        if time.monotonic() > start + time_limit:
            left_out.append("values that stand nowhere else")
        else:
            folder = scratch_folder / "canaries"
            outcome["canaries"], leaks, unsaid = run_canaries(audited, groups, folder)
            findings += leaks
            left_out += unsaid
    findings += more
    composed = GroupReport(tried_words, left_out)
    false, unproved = check_composed_claims(audited, start + time_shares[2] * time_limit, composed)
    findings += false
    outcome["not_tried"] = unproved
    pairs = {name: pair for one in results for name in one.worst if (pair := one.pair(name))}
    alone = {name: one.pairs_alone(name) for one in results for name in one.worst}
    progress("black box")
    if draws:
        tables = [one for one in results if isinstance(one, GroupResult)]
        joint_pairs = [pair for one in tables for pair in one.joint_pairs]
        bounds, untried, failed = _drawn_bounds(
            audited, pairs, joint_pairs, alone, start + time_limit, progress
        )
        findings += [_bound_finding(one) for one in bounds if not one.holds]
        outcome |= {"black_box": bounds, "not_tried": [*unproved, *untried]}
        left_out += failed
    report = GroupReport(tried_words, left_out)
    audit = _audit_record(audited, declaration, worst, report, outcome, findings)
    shown = [(_breach_finding(one, name), pairs[name]) for one, name in broken if name in pairs]
    shown += [(one.finding, one.pair) for one in failures if one.pair is not None]
    return Outcome(audit, declaration, shown)


def _audit_record(
    audited: AuditedRelease,
    declaration: Declaration,
    worst: Mapping[MeasurementName, LargestChange],
    report: GroupReport,
    outcome: Mapping[str, object],
    findings: Sequence[AuditFinding],
) -> Audit:
    return seal_audit(
        declaration,
        {
            "engine": audited.declaration.spec.engine,
            "queries": sorted({name for name, _ in worst}),
            "whole": {name for name, _ in worst} >= _all_query_names(audited),
            "complete": not report.left_out,
            "tried": report.tried,
            "left_out": report.left_out,
            "holds": not findings,
            "sensitivities": [
                _comparison_record(largest, name)
                for name, largest in worst.items()
                if largest.measurement.exact != "declared"
            ],
            **outcome,
            "findings": findings,
        },
    )


def _refuse_unknown_queries(audited: AuditedRelease, names: Sequence[str]) -> None:
    """Raise DP-AUDIT-001 for a name that no query, table or records of the release have."""
    query_of_table = _queries_by_table(audited)
    known = {**query_of_table, **dict.fromkeys(query_of_table.values(), "")}
    for name in names:
        if name not in known:
            close = nearest(name, known)
            raise QueryError("DP-AUDIT-001", name=name, nearest=close, known=", ".join(known))


def _queries_by_table(audited: AuditedRelease) -> Mapping[str, str]:
    """Return the name of the query of each table; of records, their own name."""
    if audited.records:
        return {part.name: part.name for part in audited.records}
    return audited.declaration.spec.query_of_table


def _all_query_names(audited: AuditedRelease) -> set[str]:
    """Return the names of all queries, or of all records."""
    return {part.name for part in (audited.records or audited.queries)}


def _compare_all(
    audited: AuditedRelease, names: Sequence[str], bits: ReplayedBits, until: float
) -> Iterator[GroupResult | RecordsResult]:
    """Yield the comparisons of pairs for each group of queries, or for all records."""
    if audited.records:
        for part in audited.records:
            if not names or part.name in names:
                yield compare_record_pairs(audited, part, bits)
        return
    for group in query_groups(
        audited, select_queries(audited.queries, names, _queries_by_table(audited)), bits
    ):
        yield compare_pairs(group, until)


def _largest_situations(
    results: Sequence[GroupResult | RecordsResult],
) -> list[tuple[QueryGroup, Situation]]:
    """Return the situations with the largest changes, in descending order, with their groups.

    The first situation is that with the largest joint change, if there is one.
    """
    joint_pairs = [
        (one.group, one.most.situation)
        for one in results
        if isinstance(one, GroupResult) and one.most.situation is not None
    ]
    largest = [
        (one.group, worst.situation, worst.share.ratio)
        for one in results
        for worst in one.worst.values()
        if worst.situation is not None
    ]
    largest.sort(key=lambda one: -one[2])
    return [*joint_pairs[:1], *((group, situation) for group, situation, _ in largest)]


def _breach_finding(largest: LargestChange, name: MeasurementName) -> AuditFinding:
    """Return the finding that a measurement changes by more than its claimed sensitivity."""
    return AuditFinding(
        check="sensitivity",
        query=name[0],
        column=name[1],
        claimed=str(largest.measurement.sensitivity),
        seen=f"{largest.share.ratio:.6g} times as much in {largest.share.by}",
        pair=largest.description,
    )


def _comparison_record(largest: LargestChange, name: MeasurementName) -> SensitivityCheck:
    """Return the record of the largest change of a measurement, next to its claim."""
    return SensitivityCheck(
        query=name[0],
        column=name[1],
        claimed=str(largest.measurement.sensitivity),
        pairs=largest.pairs,
        ratio=min(largest.share.ratio, 1e300),
        worst=largest.description,
        holds=largest.share.holds,
    )


def _drawn_bounds(
    audited: AuditedRelease,
    pairs: Mapping[MeasurementName, Pair],
    joint_pairs: Sequence[Pair],
    alone: Mapping[MeasurementName, Sequence[Pair]],
    until: float,
    progress: Callable[[str], None],
) -> tuple[list[EpsilonBound], list[UntestedPart], list[str]]:
    """Return lower bounds of epsilon from drawn answers, untested parts, and texts on failures."""
    from dprelease.auditing.black_box import lower_bounds

    return lower_bounds(audited, pairs, until, progress, joint_pairs=joint_pairs, alone=alone)


def _bound_finding(one: EpsilonBound) -> AuditFinding:
    """Return the finding that a lower bound of epsilon exceeds the claimed epsilon."""
    return AuditFinding(
        check="black box",
        query=one.query,
        column=one.column,
        claimed=f"epsilon {one.claimed:.6g} at delta {one.delta:.3g}",
        seen=f"at least {one.bound:.6g}, told by the {one.statistic}",
        pair="",
    )
