"""Find synthetic rows on which an engine fails, and continue the audit without these rows.

An engine that fails at a value reveals that value by failing. So a failure is a finding, and must
not end the audit: all other rows are still compared.
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
"""The maximum number of failing pairs in a stack that are found one by one. A stack with more
failing pairs is left out."""

STRIDE = 4
"""Among many similar other units of a situation, every STRIDE-th unit is tested alone."""

NOWHERE = Situation("", NOBODY)
"""The situation that replaces a pair that is left out, so that other pairs keep their numbers."""

Answer = TypeVar("Answer")
Ask = Callable[[Sequence[Situation]], Answer]


def answer_without_failures(
    ask: Ask[Answer], situations: Sequence[Situation]
) -> tuple[Answer | None, list[int]]:
    """Return the answer about situations, and the numbers of those on which the engine fails.

    The answer is about all other situations, with unchanged numbers; it is None if the engine fails
    on too many situations.
    """
    failing: list[int] = []
    while True:
        try:
            return ask(_without_left_out(situations, failing)), failing
        except EngineFailure:
            if len(failing) == MOST_FAILING:
                return None, failing
            if error_code_of(ask, [NOWHERE] * len(situations)):
                return None, [0]
        failing.append(_failing_index(ask, _without_left_out(situations, failing)))


def _without_left_out(situations: Sequence[Situation], left_out: Sequence[int]) -> list[Situation]:
    return [NOWHERE if i in left_out else one for i, one in enumerate(situations)]


def _failing_index(ask: Ask[object], situations: Sequence[Situation]) -> int:
    """Return the number of a situation on which the engine fails, by bisection."""
    low, high = 0, len(situations)
    while high - low > 1:
        middle = (low + high) // 2
        half = [one if low <= i < middle else NOWHERE for i, one in enumerate(situations)]
        low, high = (low, middle) if error_code_of(ask, half) else (middle, high)
    return low


def error_code_of(ask: Ask[object], situations: Sequence[Situation]) -> str:
    """Return the code of the error with which the engine fails; empty if it answers."""
    try:
        ask(situations)
    except EngineFailure as failure:
        return failure.code
    return ""


def smallest_failure(
    sides: Sequence[Ask[object]], situation: Situation
) -> tuple[Situation, tuple[str, str]]:
    """Return a small situation on whose two sides the engine fails differently, with the errors.

    The result is a single unit of the situation, if its failure depends on the side, or else the
    situation itself.
    """
    units = [situation.one, *situation.crowd[::STRIDE], *situation.crowd[-1:]]
    alone = [Situation(f"{situation.description}, alone", unit) for unit in units]
    for tried in (situation, *alone):
        codes = error_code_of(sides[0], [tried]), error_code_of(sides[1], [tried])
        if codes[0] != codes[1]:
            return tried, codes
    return situation, (error_code_of(sides[0], [situation]), error_code_of(sides[1], [situation]))


def type_error_code(ask: Ask[object], situations: Sequence[Situation]) -> str:
    """Return the code of an error that also occurs for a table without rows; empty if none does.

    Such an error depends only on declared types. The result is empty if the engine answers, or if
    it fails because of the rows.
    """
    nobody = [NOWHERE] * len(situations)
    codes = [error_code_of(ask, some) for some in (situations, nobody)]
    return codes[0] if codes[0] == codes[1] else ""


@dataclass(frozen=True)
class Failure:
    """A pair on which the engine fails, how its values were stored, and the error on each side."""

    description: str
    stored: str
    codes: tuple[str, str]
    pair: Pair | None

    @property
    def finding(self) -> AuditFinding:
        """Return the failure as a finding."""
        codes = " and ".join(sorted({code for code in self.codes if code})) or "a failure"
        one_alone = self.codes[0] != self.codes[1]
        return AuditFinding(
            check="engine errors",
            query="",
            column="",
            claimed="the same on neighbours" if one_alone else "an answer, whatever rows say",
            seen=f"{codes} on {'one of them alone' if one_alone else 'both'}",
            pair=f"{self.description}, stored {self.stored}",
        )


@dataclass
class GroupReport:
    """For one group of queries: what was tried, what was left out, and failures of the engine."""

    tried: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failures: dict[tuple[str, tuple[str, str]], Failure] = field(default_factory=dict)

    def add_failure(self, failure: Failure) -> None:
        """Record a failure; only one is kept for each way of storing and pair of errors."""
        self.failures.setdefault((failure.stored, failure.codes), failure)
