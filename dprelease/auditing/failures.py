"""Invented rows that an engine fails on: which they are, on which side, and what was left out.

An engine that stops at a value tells of it by stopping. So a failure is something to be told, and
nothing that an audit may end with: what can still be compared is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dprelease.auditing.neighbours.situations import NOBODY, Situation
from dprelease.auditing.pairs import Pair
from dprelease.auditing.stage import EngineFailure
from dprelease.documents.audits.audit_record import AuditFinding

MOST_FAILING = 3
"""Pairs of a stack that are looked for one by one; of more, the stack is left out."""

STRIDE = 4
"""Of a crowd, in which many units are alike, every so manieth is looked at alone."""

NOWHERE = Situation("", NOBODY)
"""Stands in the place of a pair that is left out, so that all others keep their numbers."""

Answer = TypeVar("Answer")
Ask = Callable[[Sequence[Situation]], Answer]


def answer_without_failures(
    ask: Ask[Answer], situations: Sequence[Situation]
) -> tuple[Answer | None, list[int]]:
    """Return the answer about situations, and the numbers of those on which the engine fails.

    The answer is about all others, each with its own number; None where too many fail.
    """
    failing: list[int] = []
    while True:
        try:
            return ask(_without(situations, failing)), failing
        except EngineFailure:
            if len(failing) == MOST_FAILING:
                return None, failing
            if code_of(ask, [NOWHERE] * len(situations)):
                return None, [0]
        failing.append(_failing(ask, _without(situations, failing)))


def _without(situations: Sequence[Situation], left_out: Sequence[int]) -> list[Situation]:
    return [NOWHERE if i in left_out else one for i, one in enumerate(situations)]


def _failing(ask: Ask[object], situations: Sequence[Situation]) -> int:
    """Return the number of a situation that the engine fails on, by halves."""
    low, high = 0, len(situations)
    while high - low > 1:
        middle = (low + high) // 2
        half = [one if low <= i < middle else NOWHERE for i, one in enumerate(situations)]
        low, high = (low, middle) if code_of(ask, half) else (middle, high)
    return low


def code_of(ask: Ask[object], situations: Sequence[Situation]) -> str:
    """Return by which error the engine fails on situations; nothing if it answers."""
    try:
        ask(situations)
    except EngineFailure as failure:
        return failure.code
    return ""


def told_apart(
    sides: Sequence[Ask[object]], situation: Situation
) -> tuple[Situation, tuple[str, str]]:
    """Return a situation that an engine fails on one side of, and by which errors on either.

    That is the given one, or one unit of it alone; the given one where none fails on one side only.
    """
    units = [situation.one, *situation.crowd[::STRIDE], *situation.crowd[-1:]]
    alone = [Situation(f"{situation.words}, alone", unit) for unit in units]
    for tried in (situation, *alone):
        codes = code_of(sides[0], [tried]), code_of(sides[1], [tried])
        if codes[0] != codes[1]:
            return tried, codes
    return situation, (code_of(sides[0], [situation]), code_of(sides[1], [situation]))


def refusal_of(ask: Ask[object], situations: Sequence[Situation]) -> str:
    """Return by which error an engine refuses situations, and just so a table without any row.

    That is by declared types alone; nothing if it answers, or fails at what rows say.
    """
    nobody = [NOWHERE] * len(situations)
    codes = [code_of(ask, some) for some in (situations, nobody)]
    return codes[0] if codes[0] == codes[1] else ""


@dataclass(frozen=True)
class Failure:
    """A pair that the engine fails on: stored how, and by which errors on either side."""

    words: str
    stored: str
    codes: tuple[str, str]
    pair: Pair | None

    @property
    def finding(self) -> AuditFinding:
        """Return it as what did not hold."""
        codes = " and ".join(sorted({code for code in self.codes if code})) or "a failure"
        one_alone = self.codes[0] != self.codes[1]
        return AuditFinding(
            check="engine errors",
            query="",
            column="",
            claimed="the same on neighbours" if one_alone else "an answer, whatever rows say",
            seen=f"{codes} on {'one of them alone' if one_alone else 'both'}",
            pair=f"{self.words}, stored {self.stored}",
        )


@dataclass
class GroupReport:
    """What was tried of one group of queries, what was left out, and what the engine fails on."""

    tried: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failures: dict[tuple[str, tuple[str, str]], Failure] = field(default_factory=dict)

    def fails(self, failure: Failure) -> None:
        """Note a failure; one for each way of storing, and for what it looks like."""
        self.failures.setdefault((failure.stored, failure.codes), failure)
