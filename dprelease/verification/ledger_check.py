"""Check that a ledger was charged for a release, with its noise and its manifest."""

from __future__ import annotations

from pathlib import Path

from dprelease.documents.file_records import LedgerRecord
from dprelease.documents.release_manifest import GuaranteedManifest, ReleaseManifest
from dprelease.ledger.account import recorded_events
from dprelease.ledger.entries import PUBLISH, RESERVE, Entry, problem_with_signers
from dprelease.ledger.ledger import Ledger
from dprelease.release.charging import recorded_digests, renewals_of, reservation_problem
from dprelease.signatures.signers import Signers

BOUND = "the ledger contains the charge for this release, with this noise and this manifest"
UNBOUND = (
    "the ledger holds the reservation that paid for the release and for this noise, but no digest "
    "of its manifest: the run was cut off as it published, so that its tables may be others"
)


def check_charge(path: Path, record: ReleaseManifest) -> tuple[str | None, str]:
    """Return why a ledger was not charged for a manifest, or None; and a text on its entries.

    Raises LedgerError for a file that is not a ledger, or whose chain is broken.
    """
    held = record.ledger_entry
    if held is None:
        Ledger(path).state()  # report a mistyped path differently from another ledger
    problem = reservation_problem(path, held)
    if held is None or problem is not None:
        return problem, ""
    steps = [e for e in Ledger(path).history() if e.body.get("id") == held.reservation]
    problem = _noise_problem(steps, record) or _manifest_problem(steps, record)
    return problem or _period_problem(path, steps, held), _charge_text(steps)


def _period_problem(path: Path, steps: list[Entry], held: LedgerRecord) -> str | None:
    """Return why the periods in a manifest differ from those of its charges; None if equal."""
    expected_renewals = renewals_of(Ledger(path).state().accounts, steps[0])
    same = expected_renewals == held.renewals
    return None if same else "it was charged in another period than its manifest states"


UNSIGNED = (
    "no entry of the ledger is signed: anybody who can write the file "
    "may have written all entries, and these signers vouch only for the manifest"
)


def is_unsigned(path: Path) -> bool:
    """Return whether a ledger has no signers.

    Such a ledger never had signers, or lost all signed entries.
    """
    return Ledger(path).state().signers is None


def signers_problem(path: Path, signers: Signers) -> str | None:
    """Return why the entries of a ledger are not signed by these signers; None if they are signed.

    A ledger without signers is accepted.
    """
    return None if is_unsigned(path) else problem_with_signers(Ledger(path).history(), signers)


def _noise_problem(steps: list[Entry], record: ReleaseManifest) -> str | None:
    """Return why the noise in the reservation differs from that in the manifest, or None."""
    charged = {
        repr(event)
        for entry in steps
        if entry.kind == RESERVE
        for charge in entry.body["charges"]
        for event in recorded_events(charge)
    }
    recorded = {repr(held.event) for held in record.measurements}
    if recorded != charged:
        return "its charge is for other noise"
    allowed = {
        name
        for entry in steps
        if entry.kind == RESERVE
        for charge in entry.body["charges"]
        for name in charge.get("invariants") or ()
    }
    exactly = {*record.guarantee.invariants} if isinstance(record, GuaranteedManifest) else set()
    return None if exactly == allowed else "its charge is for other invariants"


def _manifest_problem(steps: list[Entry], record: ReleaseManifest) -> str | None:
    """Return why the charged manifest is not this manifest; None if it is."""
    known = recorded_digests(steps)
    if known:
        same = known == [record.digest]
        return None if same else "the charged manifest has another digest"
    if not _is_published(steps):  # `publish` is written before anything becomes readable
        return "the charged run released nothing"
    return None


def _is_published(steps: list[Entry]) -> bool:
    """Return whether a step of the charge announces a publication."""
    return any(entry.kind == PUBLISH for entry in steps)


def _charge_text(steps: list[Entry]) -> str:
    """Return a sentence on what the entries of a charge show."""
    return BOUND if recorded_digests(steps) else UNBOUND
