"""The state of a run: one object, which the run updates and every message reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from dprelease.system.deferred_signals import reraise_handler_errors


class State(Enum):
    """What had already happened when the error was raised."""

    NOTHING = "no row was read, no budget was spent"
    HELD = (
        "no row was read, nothing was released; the ledger may still count it, until the next run "
        "or `dprelease ledger recover` settles it"
    )
    SPENT = "no row was read, nothing was released, the budget counts as spent"
    READ = "rows were read, nothing was released, no budget was spent"
    CHARGED = "rows were read, nothing was released, the budget counts as spent"
    UNKNOWN = "the release may have been written, the budget counts as spent"
    LIMITED = (
        "the contribution limits were chosen, published and charged, and the next run uses them; "
        "for the tables, no row was read and no budget was spent"
    )
    RELEASED = "the release had been written"
    PAID = "the release had been written, the budget counts as spent"

    def advice_after(self, fix: str) -> str:
        """Return the advice for a failure in this state, from the advice for one before any step.

        A second run of a published release would add new noise about the same people, and be
        charged again.
        """
        if self in ADVICE_IF_PUBLISHED:
            return ADVICE_IF_PUBLISHED[self]
        if self is State.UNKNOWN and not fix.startswith(CHECK_FIRST):
            return f"{CHECK_FIRST}{fix}"
        return fix


ADVICE_IF_PUBLISHED = {
    State.RELEASED: "don't run it again, for the release is there: put in order what the cause "
    "names, and check the release with `dprelease verify`.",
    State.PAID: "don't run it again, which would be charged again: the release is there. Put in "
    "order what the cause names, check the release with `dprelease verify`, and let `dprelease "
    "ledger recover` settle its ledger.",
}
CHECK_FIRST = "look first whether the answer is there, which would be charged again; only then "


class ChargeState(Enum):
    """What happened to the privacy cost of a run."""

    NONE = "nothing is charged"
    HELD = "it is charged, and can be given back"
    SPENT = "it is charged for good"


@dataclass(slots=True)
class RunState:
    """What one run has done so far.

    An attribute is set before its step if a failure during the step could come too late to undo the
    step; otherwise it is set after the step.
    """

    rows: bool = False
    """Whether rows about people may have been read."""
    charge: ChargeState = ChargeState.NONE
    released: bool | None = False
    """Whether the release is readable; None if the system did not confirm it."""
    limits: bool = False
    """Whether the run has chosen contribution limits, before the steps of the other attributes."""

    @property
    def message_state(self) -> State:
        """Return the state that a message reports."""
        if self.released is None:
            return State.UNKNOWN
        if self.released:
            return State.PAID if self.charge is ChargeState.SPENT else State.RELEASED
        if self.rows:
            return State.READ if self.charge is ChargeState.NONE else State.CHARGED
        unread = {
            ChargeState.NONE: State.LIMITED if self.limits else State.NOTHING,
            ChargeState.HELD: State.HELD,
            ChargeState.SPENT: State.SPENT,
        }
        return unread[self.charge]

    @contextmanager
    def add_state_to_errors(self) -> Iterator[None]:
        """Add the state of the run to every exception from the block.

        If a signal ended the block, the exception of the signal is raised, even if a library
        replaced it.
        """
        try:
            with reraise_handler_errors():
                yield
        # An interrupt needs the state most: the person must know whether to run again.
        except BaseException as problem:  # also catches an interrupt
            set_state = getattr(problem, "set_state", None)
            if set_state is not None:
                set_state(self.message_state)
            else:
                _add_state_notes(problem, self.message_state)
            raise


def _add_state_notes(problem: BaseException, state: State) -> None:
    """Add the state of a run, and advice for this state, to an exception of any class."""
    fixes = [f"Fix    {ADVICE_IF_PUBLISHED[state]}"] if state in ADVICE_IF_PUBLISHED else []
    for note in [*fixes, f"State  {state.value}."]:
        if note not in getattr(problem, "__notes__", ()):  # blocks may be nested
            problem.add_note(note)
