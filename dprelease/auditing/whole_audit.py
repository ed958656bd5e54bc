"""The steps of an audit: exact integers, whole runs, canaries, and answers by the million."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dprelease.auditing.composed_claims import composed_claims
from dprelease.auditing.failures import Told
from dprelease.auditing.neighbours.counting_rows import Group
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import Replayed
from dprelease.auditing.sensitivities import (
    Named,
    Tried,
    Worst,
    asked_queries,
    compare_pairs,
    groups_of,
)
from dprelease.auditing.single_records import TriedRecords, tried_records
from dprelease.auditing.stage import Stage
from dprelease.auditing.whole_runs.canaries import canaries
from dprelease.auditing.whole_runs.replayed_run import room
from dprelease.auditing.whole_runs.twin_runs import twins
from dprelease.documents.audits.audit_record import (
    Audit,
    Bounded,
    Compared,
    Found,
    Untried,
    digest_of_declaration,
    seal_audit,
)
from dprelease.errors import DpReleaseError, QueryError, VerificationError
from dprelease.schema.load import Declaration
from dprelease.schema.mistakes.nearest import nearest

TIME_LIMIT = 240.0
"""Seconds that an audit takes at most, but for what it has begun."""

PARTS = {True: (0.35, 0.55, 0.6), False: (0.6, 0.9, 1.0)}
"""The parts of that time by which exact integers, twin runs and proofs are begun at latest.

With drawn answers, which come last, and without.
"""


@dataclass
class Outcome:
    """An audit's outcome, and the pairs that reproduce what it found."""

    audit: Audit
    declaration: Declaration
    pairs: list[tuple[Found, Pair]] = field(default_factory=list)

    @property
    def errors(self) -> list[DpReleaseError]:
        """Return what did not hold as findings of a verification."""
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
    """Audit a release, and return what came of it; opens no declared source.

    `names`: of the queries that are audited; all by default. `engine`: in place of the declared
    one. `draws`: whether answers are drawn by the million as well, which takes most of the time.

    Raises
    ------
    QueryError
        DP-AUDIT-001 for a name of no query.
    OutputError
        DP-AUDIT-008 if there is no room for whole runs, or none comes to an end.
    DpReleaseError
        As `prepare`: what can't be run is not audited. As the engine, if it can't be had.
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
    bits = Replayed(digest_of_declaration(declaration))
    parts = PARTS[draws]
    progress("sensitivities")
    done = list(_compare_all(stage, names, bits, start + parts[0] * time_limit))
    worst = {name: held for one in done for name, held in one.worst.items()}
    broken = [(held, name) for name, held in worst.items() if not held.near.holds]
    failures = [failure for one in done for failure in one.told.failures.values()]
    findings = [_breach(held, name) for held, name in broken]
    findings += [failure.finding for failure in failures]
    tried_words = [words for one in done for words in one.told.tried]
    left_out = [words for one in done for words in one.told.left_out]
    outcome: dict[str, object] = {"twins": None, "canaries": None, "black_box": None}
    groups = [one.group for one in done]
    with room() as made:
        progress("twins")
        until = start + parts[1] * time_limit
        outcome["twins"], more, unrun = twins(stage, groups, _most(done), made, until)
        progress("canaries")
        left_out += unrun
        if time.monotonic() > start + time_limit:
            left_out.append("values that stand nowhere else")
        else:
            outcome["canaries"], leaks, unsaid = canaries(stage, groups, made / "canaries")
            findings += leaks
            left_out += unsaid
    findings += more
    composed = Told(tried_words, left_out)
    false, unproved = composed_claims(stage, start + parts[2] * time_limit, composed)
    findings += false
    outcome["not_tried"] = unproved
    pairs = {name: pair for one in done for name in one.worst if (pair := one.pair(name))}
    alone = {name: one.pairs_alone(name) for one in done for name in one.worst}
    progress("black box")
    if draws:
        at_once = [pair for one in done if isinstance(one, Tried) for pair in one.most_at_once]
        bounds, untried, failed = _black_box(
            stage, pairs, at_once, alone, start + time_limit, progress
        )
        findings += [_bound_finding(one) for one in bounds if not one.holds]
        outcome |= {"black_box": bounds, "not_tried": [*unproved, *untried]}
        left_out += failed
    told = Told(tried_words, left_out)
    audit = _audit_record(stage, declaration, worst, told, outcome, findings)
    shown = [(_breach(held, name), pairs[name]) for held, name in broken if name in pairs]
    shown += [(one.finding, one.pair) for one in failures if one.pair is not None]
    return Outcome(audit, declaration, shown)


def _audit_record(
    stage: Stage,
    declaration: Declaration,
    worst: Mapping[Named, Worst],
    told: Told,
    outcome: Mapping[str, object],
    findings: Sequence[Found],
) -> Audit:
    return seal_audit(
        declaration,
        {
            "engine": stage.declaration.spec.engine,
            "queries": sorted({name for name, _ in worst}),
            "whole": {name for name, _ in worst} >= _every(stage),
            "complete": not told.left_out,
            "tried": told.tried,
            "left_out": told.left_out,
            "holds": not findings,
            "sensitivities": [
                _comparison_record(held, name)
                for name, held in worst.items()
                if held.measurement.exact != "declared"
            ],
            **outcome,
            "findings": findings,
        },
    )


def _refuse_unknown(stage: Stage, names: Sequence[str]) -> None:
    asked_by = _asked_by(stage)
    known = {**asked_by, **dict.fromkeys(asked_by.values(), "")}
    for name in names:
        if name not in known:
            close = nearest(name, known)
            raise QueryError("DP-AUDIT-001", name=name, nearest=close, known=", ".join(known))


def _asked_by(stage: Stage) -> Mapping[str, str]:
    if stage.records:
        return {part.name: part.name for part in stage.records}
    return stage.declaration.spec.asked_by


def _every(stage: Stage) -> set[str]:
    """Return the names of all queries, or of all records."""
    return {part.name for part in (stage.records or stage.queries)}


def _compare_all(
    stage: Stage, names: Sequence[str], bits: Replayed, until: float
) -> Iterator[Tried | TriedRecords]:
    if stage.records:
        for part in stage.records:
            if not names or part.name in names:
                yield tried_records(stage, part, bits)
        return
    for group in groups_of(stage, asked_queries(stage.queries, names, _asked_by(stage)), bits):
        yield compare_pairs(group, until)


def _most(done: Sequence[Tried | TriedRecords]) -> list[tuple[Group, Situation]]:
    """Return the situations that move most, of all measurements by turns."""
    at_once = [
        (one.group, one.most.situation)
        for one in done
        if isinstance(one, Tried) and one.most.situation is not None
    ]
    held = [
        (one.group, worst.situation, worst.near.ratio)
        for one in done
        for worst in one.worst.values()
        if worst.situation is not None
    ]
    held.sort(key=lambda one: -one[2])
    return [*at_once[:1], *((group, situation) for group, situation, _ in held)]


def _breach(held: Worst, name: Named) -> Found:
    return Found(
        check="sensitivity",
        query=name[0],
        column=name[1],
        claimed=str(held.measurement.sensitivity),
        seen=f"{held.near.ratio:.6g} times as much in {held.near.by}",
        pair=held.words,
    )


def _comparison_record(held: Worst, name: Named) -> Compared:
    return Compared(
        query=name[0],
        column=name[1],
        claimed=str(held.measurement.sensitivity),
        pairs=held.pairs,
        ratio=min(held.near.ratio, 1e300),
        worst=held.words,
        holds=held.near.holds,
    )


def _black_box(
    stage: Stage,
    pairs: Mapping[Named, Pair],
    at_once: Sequence[Pair],
    alone: Mapping[Named, Sequence[Pair]],
    until: float,
    progress: Callable[[str], None],
) -> tuple[list[Bounded], list[Untried], list[str]]:
    from dprelease.auditing.black_box import lower_bounds

    return lower_bounds(stage, pairs, until, progress, at_once=at_once, alone=alone)


def _bound_finding(one: Bounded) -> Found:
    return Found(
        check="black box",
        query=one.query,
        column=one.column,
        claimed=f"epsilon {one.claimed:.6g} at delta {one.delta:.3g}",
        seen=f"at least {one.bound:.6g}, told by the {one.statistic}",
        pair="",
    )
