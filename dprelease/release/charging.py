"""Charge a release to its ledger, and record the charge in its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from dprelease.documents.encoding import NAME
from dprelease.documents.file_records import LedgerRecord, RenewalRecord
from dprelease.errors import ChargeState, LedgerError, RunState, raise_all
from dprelease.planning.declaration_findings import missing_owner_errors
from dprelease.planning.invariant_plans import definitions_of, without_invariants
from dprelease.planning.plan import Plan
from dprelease.schema.load import Declaration
from dprelease.system.files import read_file
from dprelease.system.json_text import MOST_BYTES, parse_json

if TYPE_CHECKING:  # a release without a ledger needs no SQLite
    from dprelease.ledger.account import Account, Charge
    from dprelease.ledger.entries import Entry
    from dprelease.ledger.history import Reservation
    from dprelease.ledger.ledger import Ledger

ROWS = "each row"


@dataclass(slots=True)
class ChargedRelease:
    """The reservation of a release in its ledger, and the state of its run.

    Without a ledger there is no reservation, and nothing is recorded.
    """

    state: RunState
    ledger: Ledger | None = None
    reservation: Reservation | None = None

    def record(self) -> LedgerRecord | None:
        """Return the manifest's reference to the ledger entry that paid for the release."""
        if self.ledger is None or self.reservation is None:
            return None
        entry = self.reservation.entry
        return LedgerRecord(
            file=self.ledger.path.name,
            reservation=self.reservation.id,
            entry=entry.number,
            digest=entry.digest,
            renewals=renewals_of(self.reservation.accounts, entry),
        )

    def record_reading(self) -> None:
        """Record in the ledger that rows are about to be read; from then on nothing is refunded."""
        if self.ledger is not None and self.reservation is not None:
            # The entry comes first, and `rows` last: as long as the entry is not on the disk, no
            # row has been read, and a failed run gets its charge back.
            self.ledger.read(self.reservation)
            self.state.charge = ChargeState.SPENT
        self.state.rows = True

    def record_publication(self) -> None:
        """Record in the ledger that the next step makes the release readable."""
        if self.ledger is not None and self.reservation is not None:
            self.ledger.publish(self.reservation)

    def record_result(self, manifest: str) -> None:
        """Record in the ledger that the release is readable, or that an answer was returned.

        `manifest`: the digest of the manifest; an answer has none.
        """
        if self.ledger is not None and self.reservation is not None:
            self.ledger.commit(self.reservation, manifest)


def refuse_missing_ledger(declaration: Declaration, plan: Plan) -> None:
    """Raise the errors of `charge_release` for a missing ledger, before any folder is created.

    These are DP-LEDGER-001 and 005, and before them DP-RELEASE-011 for a table without a name for
    ledgers.
    """
    if declaration.spec.ledger is not None:
        from dprelease.ledger.store import refuse_missing

        raise_all(missing_owner_errors(declaration, plan.queries))
        refuse_missing(declaration.folder / declaration.spec.ledger)


@contextmanager
def charge_release(
    declaration: Declaration, plan: Plan, state: RunState, target: Path | None = None
) -> Iterator[ChargedRelease]:
    """Reserve the cost of a release before any row is read, and yield the reservation.

    If a release already exists at `target`, this ledger must have paid for it. If the block ends
    before the first row is read, the charge is refunded.

    Raises DeclarationError, BudgetError or LedgerError: nothing is charged if one of these is
    raised.
    """
    if declaration.spec.ledger is None:
        yield ChargedRelease(state)
        return
    from dprelease.ledger.ledger import Ledger

    ledger = Ledger(declaration.folder / declaration.spec.ledger, declaration.key)
    raise_all(missing_owner_errors(declaration, plan.queries))
    if target is not None:
        # An old copy of a ledger has more budget left. It lacks the entry of the release that it
        # paid for.
        _refuse_rollback(ledger.path, target)
    with ledger.reserve_for_block(charges_of(plan), declaration.spec.title, state) as reservation:
        yield ChargedRelease(state, ledger, reservation)


def renewals_of(accounts: Mapping[str, Account], entry: Entry) -> list[RenewalRecord]:
    """Return the manifest's records of charged budgets that renew.

    The records describe the budgets at the time of the charge, so that anyone with the ledger can
    compute them again at any time.
    """
    from dprelease.ledger.lifetime import Lifetime

    renewed = [
        {"table": charge["table"]} | Lifetime(accounts[charge["table"]], charge["period"]).record()
        for charge in entry.body["charges"]
        if charge.get("period") is not None
    ]
    return [RenewalRecord.model_validate(renewal) for renewal in renewed]


def _refuse_rollback(path: Path, target: Path) -> None:
    """Raise LedgerError DP-LEDGER-011 if this ledger did not pay for the release at the target."""
    try:
        record = parse_json(read_file(target / NAME, MOST_BYTES))["ledger"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # no release, or a release without a ledger, which `run` checks
    if not isinstance(record, dict) or record.get("file") != path.name:
        return
    try:
        problem = reservation_problem(path, LedgerRecord.model_validate(record))
    except ValidationError:
        problem = "its manifest has an invalid record of the ledger"
    if problem is not None:
        raise LedgerError("DP-LEDGER-011", name=path.name, output=target.name, problem=problem)


def charges_of(plan: Plan) -> list[Charge]:
    """Return the charges of a plan; a join of two tables about people is charged to both tables."""
    from dprelease.ledger.account import Charge

    by_table: dict[str, Charge] = {}
    for query in plan.queries:
        columns = plan.of_query(query.name)
        events = tuple(column.event for column in without_invariants(columns))
        exact = definitions_of(columns)
        for name in dict.fromkeys(table.identity for table in query.charged_tables):
            unit = query.unit.id or ROWS
            before = by_table.get(name, Charge(name, query.neighbours.value, unit, ()))
            by_table[name] = replace(
                before, events=before.events + events, exactly=(*before.exactly, *exact)
            )
    return list(by_table.values())


def reservation_problem(path: Path, record: LedgerRecord | None) -> str | None:
    """Return why a ledger does not contain a manifest's reservation; None if it contains it.

    Raises LedgerError for a file that is not a ledger, or for a ledger with a broken chain.
    """
    from dprelease.ledger.ledger import Ledger

    if record is None:
        return "its manifest names no ledger"
    state = Ledger(path).state()
    reservation = state.reservations.get(record.reservation)
    if reservation is None:
        return f"entry {record.entry} is not there"
    if (reservation.entry.number, reservation.entry.digest) != (record.entry, record.digest):
        return f"entry {record.entry} is another one"
    if not reservation.is_charged:
        return "its charge was returned"
    return None


def recorded_digests(steps: Sequence[Entry]) -> list[str]:
    """Return the digests of manifests in the entries of a charge; there is usually one."""
    return [entry.body["manifest"] for entry in steps if entry.body.get("manifest")]


def unpaid_problem(path: Path, record: LedgerRecord | None, digest: str) -> str | None:
    """Return why a ledger did not pay for the manifest with a digest; None if it did.

    If the run was cut off while it published, the ledger knows no digest. Raises the errors of
    `reservation_problem`.
    """
    from dprelease.ledger.ledger import Ledger

    problem = reservation_problem(path, record)
    if record is None or problem is not None:
        return problem
    steps = [one for one in Ledger(path).history() if one.body.get("id") == record.reservation]
    known = recorded_digests(steps)
    return "the charged manifest has another digest" if known and known != [digest] else None
