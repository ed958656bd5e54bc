"""What a run has done to the world: one object, advanced by the run and read by every message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from dprelease.system.answered import answered
from dprelease.system.late_dataclasses import dataclass


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


class Charge(Enum):
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
    charge: Charge = Charge.NONE
    released: bool | None = False
    """Whether the release is readable; None where the system did not say."""

    @property
    def told(self) -> State:
        """Return what a message says of it."""
        if self.released is None:
            return State.UNKNOWN
        if self.released:
            return State.RELEASED
        if self.rows:
            return State.READ if self.charge is Charge.NONE else State.CHARGED
        unread = {Charge.NONE: State.NOTHING, Charge.HELD: State.HELD, Charge.SPENT: State.SPENT}
        return unread[self.charge]

    @contextmanager
    def told_by_failures(self) -> Iterator[None]:
        """Let whatever the block raises say what the run had done when it gave up.

        Where a signal ended it, that is what is raised, whatever a library made of it.
        """
        try:
            with answered():
                yield
        except BaseException as problem:  # an interrupt as well
            tell = getattr(problem, "tell", None)
            note = f"State  {self.told.value}."
            if tell is not None:
                tell(self.told)
            elif note not in getattr(problem, "__notes__", ()):  # blocks may be nested
                problem.add_note(note)
            raise
