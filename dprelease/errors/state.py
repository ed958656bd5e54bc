"""What a run has done to the world: one object, advanced by the run and read by every message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from dprelease.system.signal_propagation import reraise_handler_errors


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
    RELEASED = "the release had been written"
    PAID = "the release had been written, the budget counts as spent"

    def way_on(self, fix: str) -> str:
        """Return what to do about a failure that came then, of what to do about it anywhere else.

        To run again what is released takes new noise about the same people, and is charged again.
        """
        if self in THERE:
            return THERE[self]
        if self is State.UNKNOWN and not fix.startswith(MAYBE_THERE):
            return f"{MAYBE_THERE}{fix}"
        return fix


THERE = {
    State.RELEASED: "don't run it again, for the release is there: put in order what the cause "
    "names, and check the release with `dprelease verify`.",
    State.PAID: "don't run it again, which would be charged again: the release is there. Put in "
    "order what the cause names, check the release with `dprelease verify`, and let `dprelease "
    "ledger recover` settle its ledger.",
}
MAYBE_THERE = "look first whether the answer is there, which would be charged again; only then "


class ChargeState(Enum):
    """What has become of the price of a run."""

    NONE = "nothing is charged"
    HELD = "it is charged, and can be given back"
    SPENT = "it is charged for good"


@dataclass(slots=True)
class RunState:
    """What one run has done so far.

    Each attribute is set before the step that it tells of where a failure of that step may come
    too late to stop it, and else after it.
    """

    rows: bool = False
    """Whether rows about people may have been read."""
    charge: ChargeState = ChargeState.NONE
    released: bool | None = False
    """Whether the release is readable; None where the system did not say."""

    @property
    def message_state(self) -> State:
        """Return what a message says of it."""
        if self.released is None:
            return State.UNKNOWN
        if self.released:
            return State.PAID if self.charge is ChargeState.SPENT else State.RELEASED
        if self.rows:
            return State.READ if self.charge is ChargeState.NONE else State.CHARGED
        unread = {
            ChargeState.NONE: State.NOTHING,
            ChargeState.HELD: State.HELD,
            ChargeState.SPENT: State.SPENT,
        }
        return unread[self.charge]

    @contextmanager
    def add_state_to_errors(self) -> Iterator[None]:
        """Let whatever the block raises say what the run had done when it gave up.

        Where a signal ended it, that is what is raised, whatever a library made of it.
        """
        try:
            with reraise_handler_errors():
                yield
        except BaseException as problem:  # an interrupt as well
            tell = getattr(problem, "tell", None)
            if tell is not None:
                tell(self.message_state)
            else:
                _note(problem, self.message_state)
            raise


def _note(problem: BaseException, state: State) -> None:
    fixes = [f"Fix    {THERE[state]}"] if state in THERE else []
    for note in [*fixes, f"State  {state.value}."]:
        if note not in getattr(problem, "__notes__", ()):  # blocks may be nested
            problem.add_note(note)
