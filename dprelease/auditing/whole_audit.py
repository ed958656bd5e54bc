"""Run the steps of an audit: exact integers, whole runs, canaries, and millions of answers.

This module also checks the claim about all measurements together. Neighbouring tables show the
change of each measurement, but not the joint privacy cost. Code that the planner does not use
computes that cost from the noise in the plan: a lower bound from the probabilities of the integers,
and an upper bound in ball arithmetic and integers. So a claim is found to be false even if it is
only slightly too small.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dprelease.auditing.failures import GroupReport
from dprelease.auditing.neighbours.counting_rows import Group
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import ReplayedWords
from dprelease.auditing.sensitivities import (
    Named,
    TriedGroup,
    Worst,
    compare_pairs,
    groups_of,
    queries_by_name,
)
from dprelease.auditing.single_records import TriedRecords, tried_records
from dprelease.auditing.stage import Stage
from dprelease.auditing.whole_runs.canaries import canaries
from dprelease.auditing.whole_runs.replayed_run import temporary_room
from dprelease.auditing.whole_runs.twin_runs import twins
from dprelease.documents.audits.audit_record import (
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
from dprelease.planning.federated_plan import FederatedPlan
from dprelease.planning.local_plan import LocalPlan
from dprelease.schema.load import Declaration
from dprelease.schema.mistakes.suggestions import nearest

if TYPE_CHECKING:
    from dprelease.privacy.event import Event
    from dprelease.privacy.guarantee import Guarantee
    from dprelease.verification.certificate.verdicts import CertifiedClaim


TOGETHER = " of all measurements together"
SUMS = "a proof of what sums of several parties' messages cost"

MOST_SLOTS = 1000
"""The maximum number of parts of a change, in all measurements, for a proof within seconds."""


def composed_claims(
    stage: Stage, until: float, report: GroupReport
) -> tuple[list[AuditFinding], list[UntestedPart]]:
    """Return findings on false claims of the plan, and the claims without a proof.

    `until` is the deadline, by `time.monotonic()`, after which nothing new starts.
    """
    from dprelease.verification.certificate.verdicts import Verdict
    from dprelease.verification.second_opinion import second_opinion

    if time.monotonic() > until:
        report.left_out.append("what all measurements cost together")
        return [], []
    events, guarantee = _events_and_guarantee(stage)
    findings = list[AuditFinding]()
    opinion = second_opinion(events, guarantee)
    if opinion.contradicted:
        claimed, seen = f"{opinion.counted} {opinion.claimed:.9g}", f"{opinion.at_least:.9g}"
        findings.append(_make_finding(claimed, f"at least {seen}, by the masses of the noise"))
    if sum(event.sensitivity.slots for event in events) > MOST_SLOTS:
        report.left_out.append("a proof of what so many measurements cost together")
        return findings, []
    verdicts = _verdicts(events, guarantee)
    report.tried += [f"{one.claim.words}{TOGETHER}: {one.verdict.value}" for one in verdicts]
    findings += [
        _make_finding(f"{one.claim.words} is {float(one.claim.claimed):.9g}", _proof_text(one))
        for one in verdicts
        if one.verdict is Verdict.REFUSED
    ]
    untested = [f"a proof of {one.claim.words}" for one in verdicts if one.verdict is Verdict.OPEN]
    untested += [SUMS] * isinstance(stage.plan, FederatedPlan)
    return findings, [UntestedPart(query="", column="", mechanism=what) for what in untested]


def _events_and_guarantee(stage: Stage) -> tuple[list[Event], Guarantee]:
    """Return the events of all noise in the plan, and the guarantee of the plan for them."""
    plan = stage.plan
    if isinstance(plan, FederatedPlan):  # as in `verify`, the claim about one party's messages
        alone = next(trust.guarantee for trust in plan.trusts if trust.honest == 1)
        return [share.fine_event for share in plan.shares], alone
    columns = plan.columns if isinstance(plan, LocalPlan) else plan.noisy_columns
    return [column.event for column in columns], plan.guarantee


def _verdicts(events: Sequence[Event], guarantee: Guarantee) -> Sequence[CertifiedClaim]:
    from dprelease.verification.certificate.certify import certify, claims_of

    return certify(events, claims_of(GuaranteeRecord.of(guarantee))).claims


def _proof_text(one: CertifiedClaim) -> str:
    return (
        "nothing is proved" if one.at_most is None else f"no more than {one.at_most:.9g} is proved"
    )


def _make_finding(claimed: str, seen: str) -> AuditFinding:
    return AuditFinding(
        check="composition", query="", column="", claimed=claimed, seen=seen, pair=""
    )


TIME_LIMIT = 240.0
"""The default number of seconds after which an audit starts nothing new."""

PARTS = {True: (0.35, 0.55, 0.6), False: (0.6, 0.9, 1.0)}
"""The shares of that time by which exact integers, twin runs and proofs must have started: for an
audit with drawn answers, which come last, and for an audit without."""


@dataclass
class Outcome:
    """The outcome of an audit, and the pairs of tables that reproduce its findings."""

    audit: Audit
    declaration: Declaration
    pairs: list[tuple[AuditFinding, Pair]] = field(default_factory=list)

    @property
    def errors(self) -> list[DpReleaseError]:
        """Return the failed claims as findings of a verification."""
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
    """Audit a release, without opening a declared source, and return the outcome.

    `names` are the names of the queries to audit; all by default. `engine` replaces the declared
    engine. `draws` is whether to draw millions of answers as well, which takes most of the time.

    Raises
    ------
    QueryError
        DP-AUDIT-001 for an unknown query.
    OutputError
        DP-AUDIT-008 if there is no temporary folder for whole runs, or no run finishes.
    DpReleaseError
        The errors of `prepare`, because a release that can't run is not audited; the error of the
        engine if it is unavailable.
    """
    start = time.monotonic()
    stage = Stage.of(declaration, engine or declaration.spec.engine)
    _refuse_unknown(stage, names)
    with stage.keep_engine():
        return _run_steps(stage, declaration, names, start, time_limit, draws, progress)


def _run_steps(
    stage: Stage,
    declaration: Declaration,
    names: Sequence[str],
    start: float,
    time_limit: float,
    draws: bool,
    progress: Callable[[str], None],
) -> Outcome:
    bits = ReplayedWords(digest_of_declaration(declaration))
    parts = PARTS[draws]
    progress("sensitivities")
    done = list(_compare_all(stage, names, bits, start + parts[0] * time_limit))
    worst = {name: case for one in done for name, case in one.worst.items()}
    broken = [(case, name) for name, case in worst.items() if not case.near.holds]
    failures = [failure for one in done for failure in one.report.failures.values()]
    findings = [_breach_finding(case, name) for case, name in broken]
    findings += [failure.finding for failure in failures]
    tried_words = [description for one in done for description in one.report.tried]
    left_out = [description for one in done for description in one.report.left_out]
    outcome: dict[str, object] = {"twins": None, "canaries": None, "black_box": None}
    groups = [one.group for one in done]
    with temporary_room() as scratch_folder:
        progress("twins")
        until = start + parts[1] * time_limit
        outcome["twins"], more, unrun = twins(
            stage, groups, _largest_situations(done), scratch_folder, until
        )
        progress("canaries")
        left_out += unrun
        if time.monotonic() > start + time_limit:
            left_out.append("values that stand nowhere else")
        else:
            outcome["canaries"], leaks, unsaid = canaries(
                stage, groups, scratch_folder / "canaries"
            )
            findings += leaks
            left_out += unsaid
    findings += more
    composed = GroupReport(tried_words, left_out)
    false, unproved = composed_claims(stage, start + parts[2] * time_limit, composed)
    findings += false
    outcome["not_tried"] = unproved
    pairs = {name: pair for one in done for name in one.worst if (pair := one.pair(name))}
    alone = {name: one.pairs_alone(name) for one in done for name in one.worst}
    progress("black box")
    if draws:
        at_once = [pair for one in done if isinstance(one, TriedGroup) for pair in one.joint_pairs]
        bounds, untried, failed = _black_box(
            stage, pairs, at_once, alone, start + time_limit, progress
        )
        findings += [_bound_finding(one) for one in bounds if not one.holds]
        outcome |= {"black_box": bounds, "not_tried": [*unproved, *untried]}
        left_out += failed
    report = GroupReport(tried_words, left_out)
    audit = _audit_record(stage, declaration, worst, report, outcome, findings)
    shown = [(_breach_finding(case, name), pairs[name]) for case, name in broken if name in pairs]
    shown += [(one.finding, one.pair) for one in failures if one.pair is not None]
    return Outcome(audit, declaration, shown)


def _audit_record(
    stage: Stage,
    declaration: Declaration,
    worst: Mapping[Named, Worst],
    report: GroupReport,
    outcome: Mapping[str, object],
    findings: Sequence[AuditFinding],
) -> Audit:
    return seal_audit(
        declaration,
        {
            "engine": stage.declaration.spec.engine,
            "queries": sorted({name for name, _ in worst}),
            "whole": {name for name, _ in worst} >= _all_names(stage),
            "complete": not report.left_out,
            "tried": report.tried,
            "left_out": report.left_out,
            "holds": not findings,
            "sensitivities": [
                _comparison_record(case, name)
                for name, case in worst.items()
                if case.measurement.exact != "declared"
            ],
            **outcome,
            "findings": findings,
        },
    )


def _refuse_unknown(stage: Stage, names: Sequence[str]) -> None:
    asked_by = _queries_of(stage)
    known = {**asked_by, **dict.fromkeys(asked_by.values(), "")}
    for name in names:
        if name not in known:
            close = nearest(name, known)
            raise QueryError("DP-AUDIT-001", name=name, nearest=close, known=", ".join(known))


def _queries_of(stage: Stage) -> Mapping[str, str]:
    if stage.records:
        return {part.name: part.name for part in stage.records}
    return stage.declaration.spec.query_of_table


def _all_names(stage: Stage) -> set[str]:
    """Return the names of all queries, or of all records."""
    return {part.name for part in (stage.records or stage.queries)}


def _compare_all(
    stage: Stage, names: Sequence[str], bits: ReplayedWords, until: float
) -> Iterator[TriedGroup | TriedRecords]:
    if stage.records:
        for part in stage.records:
            if not names or part.name in names:
                yield tried_records(stage, part, bits)
        return
    for group in groups_of(stage, queries_by_name(stage.queries, names, _queries_of(stage)), bits):
        yield compare_pairs(group, until)


def _largest_situations(done: Sequence[TriedGroup | TriedRecords]) -> list[tuple[Group, Situation]]:
    """Return the situations with the largest changes, one for each measurement in turn."""
    at_once = [
        (one.group, one.most.situation)
        for one in done
        if isinstance(one, TriedGroup) and one.most.situation is not None
    ]
    largest = [
        (one.group, worst.situation, worst.near.ratio)
        for one in done
        for worst in one.worst.values()
        if worst.situation is not None
    ]
    largest.sort(key=lambda one: -one[2])
    return [*at_once[:1], *((group, situation) for group, situation, _ in largest)]


def _breach_finding(case: Worst, name: Named) -> AuditFinding:
    return AuditFinding(
        check="sensitivity",
        query=name[0],
        column=name[1],
        claimed=str(case.measurement.sensitivity),
        seen=f"{case.near.ratio:.6g} times as much in {case.near.by}",
        pair=case.description,
    )


def _comparison_record(case: Worst, name: Named) -> SensitivityCheck:
    return SensitivityCheck(
        query=name[0],
        column=name[1],
        claimed=str(case.measurement.sensitivity),
        pairs=case.pairs,
        ratio=min(case.near.ratio, 1e300),
        worst=case.description,
        holds=case.near.holds,
    )


def _black_box(
    stage: Stage,
    pairs: Mapping[Named, Pair],
    at_once: Sequence[Pair],
    alone: Mapping[Named, Sequence[Pair]],
    until: float,
    progress: Callable[[str], None],
) -> tuple[list[EpsilonBound], list[UntestedPart], list[str]]:
    from dprelease.auditing.black_box import lower_bounds

    return lower_bounds(stage, pairs, until, progress, at_once=at_once, alone=alone)


def _bound_finding(one: EpsilonBound) -> AuditFinding:
    return AuditFinding(
        check="black box",
        query=one.query,
        column=one.column,
        claimed=f"epsilon {one.claimed:.6g} at delta {one.delta:.3g}",
        seen=f"at least {one.bound:.6g}, told by the {one.statistic}",
        pair="",
    )
