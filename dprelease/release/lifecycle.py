"""The one order of a run, whatever it publishes.

Claim the target, charge, note that rows are read, read and draw, store, note that the release is
published, publish, note that it is. Each note is on the disk before what it tells of happens, and
nothing is charged before the target is this run's alone. What a kill leaves behind is told by the
notes: without the first there is nothing that depends on a row, with it the run is charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.errors import RunState
from dprelease.query.resolve import Query
from dprelease.release.charging import Charged, charging
from dprelease.release.folder import Claim, claimed
from dprelease.release.manifest import canonical
from dprelease.release.own_source import refuse_own_source
from dprelease.release.plan import Plan
from dprelease.release.replaceable import MANIFEST
from dprelease.schema.load import Declaration


@dataclass(frozen=True, slots=True)
class Publication:
    """A release under way: its private folder, its price, and its last steps."""

    claim: Claim
    charged: Charged
    state: RunState

    @property
    def folder(self) -> Path:
        """Return the private folder that is filled."""
        return self.claim.folder

    def read(self) -> None:
        """Note that rows are about to be read; nothing about people may be read before."""
        self.charged.read()

    def publish(self, record: dict[str, Any]) -> None:
        """Add a manifest, and make all of it readable in one step.

        Raises
        ------
        LedgerError, OSError
            If the system refuses; the state tells whether the release is readable all the same.
        """
        (self.folder / MANIFEST).write_bytes(canonical(record))
        self.claim.store()
        self.charged.publish()
        try:
            self.claim.publish(self.state)
        finally:
            if self.state.released:
                self.charged.commit(record["digest"])


@contextmanager
def publishing(
    declaration: Declaration,
    queries: Sequence[Query],
    plan: Plan,
    *,
    output: Path | None,
    overwrite: bool,
    state: RunState | None,
) -> Iterator[Publication]:
    """Yield the release that a declaration is about to publish, claimed and charged.

    `output` stands in for the declared folder. `state` is advanced, and told by what the block
    raises. Afterwards nothing is left but what was published.

    Raises
    ------
    OutputError
        DP-OUTPUT-012, as `refuse_own_source`; 001 to 003, 006 and 008 to 010, as `claimed`.
    DeclarationError, BudgetError, LedgerError
        As `charging`.
    """
    state = RunState() if state is None else state
    refuse_own_source(declaration, queries, output)
    target = output or declaration.folder / declaration.spec.output
    with (
        state.told_by_failures(),
        claimed(target, overwrite, state) as claim,
        charging(declaration, queries, plan, state, claim.target) as charged,
    ):
        yield Publication(claim, charged, state)


@contextmanager
def answering(
    declaration: Declaration, queries: Sequence[Query], plan: Plan, state: RunState | None
) -> Iterator[Charged]:
    """Yield the price of an answer that stays in memory; raises as `charging`.

    Whoever asks shares a process with the noise, and could end it after a look.
    """
    state = RunState() if state is None else state
    with state.told_by_failures(), charging(declaration, queries, plan, state) as charged:
        yield charged
