"""Find synthetic rows on which an engine fails, and continue the audit without these rows.

An engine that fails because of a value reveals the value by its failure. So a failure of the engine
is a finding, and does not end the audit: all other rows are still compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dprelease.auditing.neighbours.situations import NO_ROWS, Situation
from dprelease.auditing.pairs import Pair
from dprelease.auditing.stage import EngineFailure
from dprelease.documents.audit_record import AuditFinding

MOST_FAILING = 3
"""The maximum number of failing pairs that are searched for in a stack.

A stack with more failing pairs is left out.
"""

STRIDE = 4
"""The stride by which other units of a situation, many of which are similar, are tested alone."""

EMPTY_SITUATION = Situation("", NO_ROWS)
"""The situation that replaces a left-out situation, so that the others keep their numbers."""

Answer = TypeVar("Answer")
AskEngine = Callable[[Sequence[Situation]], Answer]


def answer_without_failures(
    ask: AskEngine[Answer], situations: Sequence[Situation]
) -> tuple[Answer | None, list[int]]:
    """Return an answer about situations, and the numbers of situations on which the engine fails.

    The answer is about the situations on which the engine does not fail, under their original
    numbers. It is None if the engine fails on too many situations.
    """
    failing: list[int] = []
    while True:
        try:
            return ask(_without_left_out(situations, failing)), failing
        except EngineFailure:
            if len(failing) == MOST_FAILING:
                return None, failing
            if error_code_of(ask, [EMPTY_SITUATION] * len(situations)):
                return None, [0]
        failing.append(_failing_index(ask, _without_left_out(situations, failing)))


def _without_left_out(situations: Sequence[Situation], left_out: Sequence[int]) -> list[Situation]:
    """Return the situations, with empty situations in place of the left-out ones."""
    return [EMPTY_SITUATION if i in left_out else one for i, one in enumerate(situations)]


def _failing_index(ask: AskEngine[object], situations: Sequence[Situation]) -> int:
    """Return the number of a situation on which the engine fails, by bisection."""
    low, high = 0, len(situations)
    while high - low > 1:
        middle = (low + high) // 2
        half = [one if low <= i < middle else EMPTY_SITUATION for i, one in enumerate(situations)]
        low, high = (low, middle) if error_code_of(ask, half) else (middle, high)
    return low


def error_code_of(ask: AskEngine[object], situations: Sequence[Situation]) -> str:
    """Return the code of the error with which the engine fails; empty if the engine answers."""
    try:
        ask(situations)
    except EngineFailure as failure:
        return failure.code
    return ""


def smallest_failure(
    sides: Sequence[AskEngine[object]], situation: Situation
) -> tuple[Situation, tuple[str, str]]:
    """Return a small situation on which the engine fails, and the error codes of its two sides.

    If the engine fails differently on the two sides, the result is a situation with a single unit
    that also causes this difference, if there is one. Otherwise it is the situation itself.
    """
    units = [situation.one, *situation.other_units[::STRIDE], *situation.other_units[-1:]]
    alone = [Situation(f"{situation.description}, alone", unit) for unit in units]
    for tried in (situation, *alone):
        codes = error_code_of(sides[0], [tried]), error_code_of(sides[1], [tried])
        if codes[0] != codes[1]:
            return tried, codes
    return situation, (error_code_of(sides[0], [situation]), error_code_of(sides[1], [situation]))


def data_independent_code(ask: AskEngine[object], situations: Sequence[Situation]) -> str:
    """Return the code of an error that the engine raises even for a table without rows.

    Such an error depends only on declared types, and not on the data. The result is empty if the
    engine answers, or if the engine fails because of the rows.
    """
    nobody = [EMPTY_SITUATION] * len(situations)
    codes = [error_code_of(ask, some) for some in (situations, nobody)]
    return codes[0] if codes[0] == codes[1] else ""


@dataclass(frozen=True)
class Failure:
    """A failure of the engine on a pair.

    `stored` describes the physical types of the columns, and `codes` has the code of the error on
    each side, empty for a side on which the engine answers.
    """

    description: str
    stored: str
    codes: tuple[str, str]
    pair: Pair | None

    @property
    def finding(self) -> AuditFinding:
        """Return the failure as a finding of the audit."""
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
    """The report on one group of queries: texts on tried and left-out checks, and failures."""

    tried: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failures: dict[tuple[str, tuple[str, str]], Failure] = field(default_factory=dict)

    def add_failure(self, failure: Failure) -> None:
        """Add a failure, unless there is one with the same storage and the same error codes."""
        self.failures.setdefault((failure.stored, failure.codes), failure)
