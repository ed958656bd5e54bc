"""Statements and commands of `dprelease sql`, one after the other, from one total budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TextIO

from dprelease.errors import BudgetError, DpReleaseError, RunState, State
from dprelease.numerics.rounding import plain_text
from dprelease.schema.columns import Column
from dprelease.schema.table import Table

HELP = """\
SELECT ... ;          answer a statement, which ends with a semicolon
EXPLAIN SELECT ... ;  show its plan, which costs nothing
\\plan SELECT ... ;    the same
\\budget              show the budget that remains
\\tables              show the tables and their columns
\\q                   end"""

Answer = Callable[[str, RunState], bool | None]
"""A function that answers one statement, prints the answer, and returns whether it cost nothing."""


@dataclass
class Shell:
    """Answers statements until the total budget is spent; each costs the same.

    Budgets of answers add up, also if a statement depends on the answers before it.
    """

    tables: Mapping[str, Table]
    epsilon: Fraction
    delta: Fraction
    total: Fraction
    answer: Answer
    show: Callable[[str], None]
    spent: Fraction = Fraction(0)

    def run(self, text: str) -> bool:
        """Run a statement or a command; return whether the shell goes on.

        Raises BudgetError: DP-BUDGET-090 if the remaining budget does not cover a statement. Raises
        DpReleaseError: the errors of the statement.
        """
        text = text.strip().removesuffix(";").strip()
        command, _, rest = text.partition(" ")
        if command in ("\\q", "\\quit", "exit", "quit"):
            return False
        if command == "\\plan":
            text = f"EXPLAIN {rest}"
        elif command.startswith("\\"):
            known = {"\\budget": self.budget_text, "\\tables": self._tables_text}
            self.show(known.get(command, lambda: HELP)())
            return True
        if text:
            self._run_statement(text)
        return True

    def budget_text(self) -> str:
        """Return the budget that remains, and for how many statements it is enough."""
        left = self.total - self.spent
        count, spent = left // self.epsilon, self.spent / self.epsilon * self.delta
        deltas = f", delta {plain_text(spent)} spent" if self.delta else ""
        statements = f"{count:,} statement{'' if count == 1 else 's'}"
        return (
            f"epsilon {plain_text(left)} of {plain_text(self.total)} remains{deltas}: enough for "
            f"{statements} of epsilon {plain_text(self.epsilon)}."
        )

    def _run_statement(self, statement: str) -> None:
        """Answer a statement. It is charged first, unless it fails before anything is charged."""
        from dprelease.release.question import without_explain

        cost = Fraction(0) if without_explain(statement)[1] else self.epsilon
        left = self.total - self.spent
        if cost > left:
            price, left_text = (f"epsilon {plain_text(amount)}" for amount in (cost, left))
            raise BudgetError("DP-BUDGET-090", what="this statement", price=price, left=left_text)
        state = RunState()
        self.spent += cost
        try:
            is_free = self.answer(statement, state)
        except BaseException:
            if state.message_state is State.NOTHING:
                self.spent -= cost
            raise
        if is_free:
            self.spent -= cost
        self.show(self.budget_text())

    def _tables_text(self) -> str:
        return "\n".join(
            f"{name}: {', '.join(f'{column} ({label(one)})' for column, one in found.items())}"
            for name, found in ((name, table.columns) for name, table in self.tables.items())
        )


def label(column: Column) -> str:
    """Return the type of a column, and whether it has public values by which to group."""
    kind = getattr(column, "type", "cut")
    return f"{kind}, key" if kind in ("category", "boolean", "cut") else str(kind)


def statements_of(lines: TextIO) -> Iterator[tuple[int, str]]:
    """Yield the statements and commands of a file, each with the number of its first line.

    A statement ends at the end of a line with a semicolon.
    """
    parts: list[str] = []
    first = 1
    for number, line in enumerate(lines, 1):
        first = first if parts else number
        parts.append(line)
        if is_complete("".join(parts)):
            yield first, "".join(parts)
            parts = []
    if parts:
        yield first, "".join(parts)


def is_complete(text: str) -> bool:
    """Return whether a text is a whole statement or command."""
    text = text.strip()
    return not text or text.endswith(";") or (text.startswith("\\") and " " not in text)


def run_lines(shell: Shell, lines: TextIO) -> None:
    """Run the statements of a file up to the first error, and show where it stopped.

    The error's state is that of one statement, and earlier statements may have spent budget.
    """
    for first, text in statements_of(lines):
        try:
            if not shell.run(text):
                return
        except BaseException:  # also after Ctrl-C
            shell.show(f"Stopped at the statement from line {first} on. {shell.budget_text()}")
            raise


def run_in_terminal(
    shell: Shell, read: Callable[[], str], show_error: Callable[[DpReleaseError], None]
) -> None:
    """Run what a person enters until \\q or Ctrl-D; after an error or Ctrl-C, the shell goes on.

    Only errors of this package are shown: others end the shell.
    """
    shell.show(f"{shell.budget_text()} \\help shows the commands.")
    with suppress(EOFError):
        while True:
            try:
                if not shell.run(read()):
                    return
            except DpReleaseError as error:
                show_error(error)
            except KeyboardInterrupt:
                shell.show(f"Interrupted. {shell.budget_text()}")
