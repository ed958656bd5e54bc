"""The steps of an audit: exact integers, whole runs, canaries, and answers by the million."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dprelease.auditing.neighbours.counting_rows import Group
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import Replayed
from dprelease.auditing.sensitivities import Named, Tried, Worst, asked_queries, groups_of, tried
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
    sealed,
)
from dprelease.errors import DpReleaseError, QueryError, VerificationError
from dprelease.schema.load import Declaration
from dprelease.schema.mistakes.nearest import nearest

TIME_LIMIT = 240.0
"""Seconds that an audit takes at most, but for what it has begun."""

EXACT, WHOLE = 0.35, 0.6
"""The parts of that time by which exact integers, and whole runs, are done."""


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


def audited(
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
    bits = Replayed(digest_of_declaration(declaration))
    progress("sensitivities")
    done = list(_tried(stage, names, bits, start + EXACT * time_limit))
    worst = {name: held for one in done for name, held in one.worst.items()}
    broken = [(held, name) for name, held in worst.items() if not held.near.holds]
    findings = [_breach(held, name) for held, name in broken]
    outcome: dict[str, object] = {"twins": None, "canaries": None, "black_box": None}
    complete = all(one.complete for one in done)
    groups = [one.group for one in done]
    with room() as made:
        progress("twins")
        told, more, all_run = twins(stage, groups, _most(done), made, start + WHOLE * time_limit)
        outcome["twins"], complete = told, complete and all_run
        findings += more
        progress("canaries")
        if time.monotonic() > start + time_limit:
            complete = False
        else:
            outcome["canaries"], leaks = canaries(stage, groups, made / "canaries")
            findings += leaks
    pairs = {name: pair for one in done for name in one.worst if (pair := one.pair(name))}
    progress("black box")
    bounds, left = _black_box(stage, pairs, start + time_limit, progress) if draws else (None, [])
    outcome |= {"black_box": bounds, "not_tried": left}
    findings += [_exceeded(one) for one in bounds or () if not one.holds]
    audit = sealed(
        declaration,
        {
            "engine": stage.declaration.spec.engine,
            "queries": sorted({name for name, _ in worst}),
            "whole": {name for name, _ in worst} >= _every(stage),
            "complete": complete,
            "holds": not findings,
            "sensitivities": [
                _told(held, name)
                for name, held in worst.items()
                if held.measurement.exact != "declared"
            ],
            **outcome,
            "findings": findings,
        },
    )
    shown = [(_breach(held, name), pairs[name]) for held, name in broken if name in pairs]
    return Outcome(audit, declaration, shown)


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


def _tried(
    stage: Stage, names: Sequence[str], bits: Replayed, until: float
) -> Iterator[Tried | TriedRecords]:
    if stage.records:
        for part in stage.records:
            if not names or part.name in names:
                yield tried_records(stage, part, bits)
        return
    for group in groups_of(stage, asked_queries(stage.queries, names, _asked_by(stage)), bits):
        yield tried(group, until)


def _most(done: Sequence[Tried | TriedRecords]) -> list[tuple[Group, Situation]]:
    """Return the situations that move most, of all measurements by turns."""
    held = [
        (one.group, worst.situation, worst.near.ratio)
        for one in done
        for worst in one.worst.values()
        if worst.situation is not None
    ]
    held.sort(key=lambda one: -one[2])
    return [(group, situation) for group, situation, _ in held]


def _breach(held: Worst, name: Named) -> Found:
    return Found(
        check="sensitivity",
        query=name[0],
        column=name[1],
        claimed=str(held.measurement.sensitivity),
        seen=f"{held.near.ratio:.6g} times as much in {held.near.by}",
        pair=held.words,
    )


def _told(held: Worst, name: Named) -> Compared:
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
    stage: Stage, pairs: Mapping[Named, Pair], until: float, progress: Callable[[str], None]
) -> tuple[list[Bounded], list[Untried]]:
    from dprelease.auditing.black_box import lower_bounds

    return lower_bounds(stage, pairs, until, progress)


def _exceeded(one: Bounded) -> Found:
    return Found(
        check="black box",
        query=one.query,
        column=one.column,
        claimed=f"epsilon {one.claimed:.6g} at delta {one.delta:.3g}",
        seen=f"at least {one.bound:.6g}, told by the {one.statistic}",
        pair="",
    )
