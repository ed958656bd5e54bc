"""The ledger check of `verify`: charged, for this noise, and for this manifest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dprelease.errors import LedgerError
from dprelease.ledger.account import Charge, recorded_events
from dprelease.ledger.history import Reservation
from dprelease.ledger.ledger import Ledger
from dprelease.privacy.guarantee import Event
from dprelease.verification.verify import verify
from tests.verification.forging import publish, read, seal


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("paid"), "paid")


def bound_to(folder: Path, ledger: Ledger, reservation: Reservation) -> None:
    """Bind a release to another reservation, and seal it again."""
    entry = reservation.entry
    record = read(folder)
    record["ledger"] |= {
        "reservation": reservation.id,
        "entry": entry.number,
        "digest": entry.digest,
    }
    seal(folder, record)


def publish_only(ledger: Ledger, made: Reservation) -> None:
    ledger.publish(made)


def publish_and_fail(ledger: Ledger, made: Reservation) -> None:
    ledger.publish(made)
    ledger.fail(made)


def commit_other_digest(ledger: Ledger, made: Reservation) -> None:
    ledger.publish(made)
    ledger.commit(made, "0" * 64)


ENDS: dict[str, tuple[Callable[[Ledger, Reservation], None], str | None]] = {
    "cut off as it published": (publish_only, None),
    "settled afterwards": (publish_and_fail, None),
    "failed before it published": (lambda ledger, made: ledger.fail(made), "released nothing"),
    "given back": (lambda ledger, made: ledger.cancel(made), "charge was returned"),
    "killed as it read": (lambda ledger, made: ledger.read(made), "released nothing"),
    "another manifest": (commit_other_digest, "another digest"),
}


@pytest.mark.parametrize("end", ENDS)
def test_verify_states_how_the_run_ended(end: str, published: Path, tmp_path: Path) -> None:
    """For an interrupted run, the ledger confirms the noise, but not the tables."""
    folder = Path(shutil.copytree(published, tmp_path / "copy"))
    path = Path(shutil.copy(published.parent / "ledger.sqlite", tmp_path))
    ledger = Ledger(path)
    (first,) = ledger.state().reservations.values()
    charges = [
        Charge(c["table"], "add_remove", "person", tuple(recorded_events(c)))
        for c in first.entry.body["charges"]
    ]
    made = ledger.reserve(charges, "again")
    close, wanted = ENDS[end]
    close(ledger, made)
    bound_to(folder, ledger, made)
    report = verify(folder, ledger=path)
    assert report.ok is (wanted is None)
    if wanted is None:
        assert "but no digest of its manifest" in report.checked[-1]
    else:
        (finding,) = report.findings
        assert (finding.code, wanted in finding.cause) == ("DP-VERIFY-010", True)


@pytest.mark.parametrize("other", ["less noise", "more noise", "another column", "nothing"])
def test_charge_for_other_noise_is_found(other: str, published: Path, tmp_path: Path) -> None:
    """Also where the ledger holds no digest: it holds the noise that was charged."""
    folder = Path(shutil.copytree(published, tmp_path / "copy"))
    path = Path(shutil.copy(published.parent / "ledger.sqlite", tmp_path))
    ledger = Ledger(path)
    (held,) = read(folder)["measurements"]
    factor = {"less noise": 0.5, "more noise": 2.0}.get(other, 1.0)
    held["parameters"]["scale"] = repr(float(held["parameters"]["scale"]) * factor)
    if other == "another column":
        held["column"] = "cells"
    events = () if other == "nothing" else (Event.from_json(held),)
    made = ledger.reserve([Charge("office/people", "add_remove", "person", events)], "another")
    ledger.publish(made)
    bound_to(folder, ledger, made)
    assert verify(folder).ok
    (finding,) = verify(folder, ledger=path).findings
    assert "for other noise" in finding.cause


def test_release_without_ledger_was_not_charged(published: Path, tmp_path: Path) -> None:
    folder = publish(tmp_path, "party")
    (finding,) = verify(folder, ledger=published.parent / "ledger.sqlite").findings
    assert "names no ledger" in finding.cause


def test_missing_ledger_raises_an_error(published: Path) -> None:
    """This is no finding about the release."""
    with pytest.raises(LedgerError, match="DP-LEDGER-013"):
        verify(published, ledger=published.parent / "mistyped.sqlite")
