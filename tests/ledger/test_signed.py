"""Signed ledgers: forgeries without a key are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import LedgerError, SignatureError
from dprelease.ledger import periods
from dprelease.ledger.entries import Entry, canonical_json_text, entry_digest, signed_text
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.store import Store
from dprelease.release.accounts import check_recorded_costs, check_signers
from dprelease.signatures.keys import KeyInMemory, SigningKey, signing_key
from dprelease.signatures.sshsig import ENTRIES, MANIFESTS
from dprelease.verification.ledger_check import UNSIGNED
from tests.ledger.test_history import rewrite_entries
from tests.ledger.test_ledger import TABLE, account, charge, release_with_ledger, unguarded
from tests.ledger.test_periods import Clock
from tests.signatures.keys import PASSPHRASE, copied, held, other_key, public

ME, YOU = f"me {public()}\n", f"you {public('id_locked')}\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def yours(folder: Path) -> KeyInMemory:
    found = signing_key(copied(folder, "id_locked"), PASSPHRASE)
    assert isinstance(found, KeyInMemory)
    return found


def signed_ledger(folder: Path, text: str = ME) -> Ledger:
    ledger = Ledger(folder / "ledger.sqlite", held(folder))
    ledger.set_signers(text)
    ledger.open_account(account(epsilon=Fraction(1)))
    return ledger


def listed(folder: Path, text: str = ME) -> Path:
    path = folder / "allowed_signers"
    path.write_text(text)
    return path


def test_every_entry_is_signed(tmp_path: Path) -> None:
    ledger = signed_ledger(tmp_path)
    reservation = ledger.reserve([charge()], "r")
    ledger.read(reservation)
    ledger.publish(reservation)
    ledger.commit(reservation, "d" * 64)
    ledger.cancel(ledger.reserve([charge()], "given back"))
    for entry in ledger.history():
        assert entry.body["signature"].startswith("-----BEGIN SSH SIGNATURE")
    assert f"entry, {len(ledger.history())}" in check_signers(ledger.path, listed(tmp_path))
    check_recorded_costs(ledger.path)


@pytest.mark.parametrize("key", ["none", "foreign"])
def test_entries_without_a_listed_key_are_refused(tmp_path: Path, key: str) -> None:
    ledger = signed_ledger(tmp_path)
    reservation = ledger.reserve([charge()], "r")
    before = ledger.history()
    other: SigningKey | None = None if key == "none" else other_key()
    stranger = Ledger(ledger.path, other)
    code = "DP-LEDGER-015" if other is None else "DP-LEDGER-016"
    uses: list[Callable[[], object]] = [
        lambda: stranger.reserve([charge()], "r"),
        lambda: stranger.read(reservation),
        lambda: stranger.cancel(reservation),
        lambda: stranger.set_signers(YOU),
        lambda: stranger.open_account(other_account()),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(LedgerError, match=code):
            use()
    assert ledger.history() == before
    assert stranger.state().accounts  # anybody may look


def other_account() -> Any:
    from dataclasses import replace

    return replace(account(epsilon=Fraction(1)), table="office/others")


def test_signers_can_be_replaced_by_signers(tmp_path: Path) -> None:
    """A list is replaced by one of those before it; whoever left signs no more."""
    mine = signed_ledger(tmp_path)
    other = Ledger(mine.path, yours(tmp_path))
    with pytest.raises(LedgerError, match="DP-LEDGER-016"):
        other.set_signers(YOU)
    mine.set_signers(ME + YOU)
    other.reserve([charge()], "by you")
    other.set_signers(YOU)
    other.reserve([charge()], "by you")
    with pytest.raises(LedgerError, match="DP-LEDGER-016"):
        mine.reserve([charge()], "by me")
    assert mine.state().spent(TABLE) > 0
    check_signers(mine.path, listed(tmp_path, ME + YOU))
    for one in (ME, YOU):
        with pytest.raises(LedgerError, match="DP-LEDGER-018"):
            check_signers(mine.path, listed(tmp_path, one))
    nobody = f'me namespaces="git" {public()}'
    over = [f'me valid-before="{time}" {public()}' for time in ("20200101Z", "29990101")]
    for text in ("nobody", nobody, *over):
        # Nobody could write any more, or it would depend on the time zone of who reads.
        with pytest.raises(SignatureError, match="DP-SIGN-007"):
            other.set_signers(text)


def test_unsigned_ledger_gets_signers(tmp_path: Path) -> None:
    """The first signed entry vouches for all that came before it."""
    plain = Ledger(tmp_path / "ledger.sqlite")
    plain.open_account(account(epsilon=Fraction(1)))
    plain.reserve([charge()], "r")
    with pytest.raises(LedgerError, match=r"DP-LEDGER-018.*none of its entries"):
        check_signers(plain.path, listed(tmp_path))
    Ledger(plain.path, held(tmp_path)).reserve([charge()], "with a key that nobody asks for")
    Ledger(plain.path, held(tmp_path)).set_signers(ME)
    check_signers(plain.path, listed(tmp_path))
    with pytest.raises(LedgerError, match="DP-LEDGER-015"):
        plain.reserve([charge()], "r")


def forge_with(
    change: Callable[[list[dict[str, Any]]], object], key: SigningKey | None = None
) -> Any:
    """Return what changes a ledger and signs what it changed, with a key that one has."""

    def rewrite(path: Path) -> None:
        rewrite_entries(path, change)
        if key is None:
            return
        with unguarded(path) as connection:
            rows = connection.execute("SELECT number, body FROM entries ORDER BY number").fetchall()
            connection.execute("DELETE FROM entries")
            previous = "0" * 64
            for number, text in rows:
                entry = Entry(number, json.loads(text), previous, "")
                made = key.sign(signed_text(entry), ENTRIES).to_armor().decode()
                text = canonical_json_text({**entry.body, "signature": made})
                digest = entry_digest(number, text, previous)
                row = (number, text, previous, digest)
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
                previous = digest
            connection.execute("UPDATE head SET digest = ?", (previous,))

    return rewrite


def lower_cost(bodies: list[dict[str, Any]]) -> None:
    bodies[-1]["charges"][0]["price"] = "0.001"


def add_entry(bodies: list[dict[str, Any]]) -> None:
    cancel = {"kind": "cancel", "id": bodies[-1]["id"], "time": bodies[-1]["time"]}
    bodies.append({**cancel, "signature": bodies[-1]["signature"]})


def add_unsigned_entry(bodies: list[dict[str, Any]]) -> None:
    add_entry(bodies)
    bodies[-1].pop("signature")


def remove_signature(bodies: list[dict[str, Any]]) -> None:
    bodies[-1].pop("signature")


def exchange_signatures(bodies: list[dict[str, Any]]) -> None:
    bodies[-1]["signature"], bodies[1]["signature"] = (
        bodies[1]["signature"],
        bodies[-1]["signature"],
    )


def replace_signers(bodies: list[dict[str, Any]]) -> None:
    bodies[0]["signers"] = YOU


def write_invalid_signers(bodies: list[dict[str, Any]]) -> None:
    bodies[0]["signers"] = "nobody"


def delete_entry(bodies: list[dict[str, Any]]) -> None:
    del bodies[2]


FORGERIES = [
    lower_cost,
    add_entry,
    add_unsigned_entry,
    remove_signature,
    exchange_signatures,
    replace_signers,
    write_invalid_signers,
    delete_entry,
]


@pytest.mark.parametrize("change", FORGERIES)
def test_forged_entries_are_found(tmp_path: Path, change: Any) -> None:
    """With right digests throughout; by every way in."""
    ledger = signed_ledger(tmp_path)
    ledger.reserve([charge()], "r")
    ledger.reserve([charge()], "r")
    rewrite_entries(ledger.path, change)
    for use in (
        ledger.state,
        ledger.recover,
        lambda: ledger.reserve([charge()], "r"),
        lambda: check_recorded_costs(ledger.path),
    ):
        with pytest.raises(LedgerError, match="DP-LEDGER-002"):
            use()


def remove_all_signatures(bodies: list[dict[str, Any]]) -> None:
    """Rewrite the whole history with a lower cost and no signatures."""
    del bodies[0]
    for body in bodies:
        body.pop("signature")
    lower_cost(bodies)


def sign_by_others(bodies: list[dict[str, Any]]) -> None:
    """Rewrite the whole history with a lower cost and the signers of the forger."""
    bodies[0]["signers"] = YOU
    lower_cost(bodies)


@pytest.mark.parametrize("change", [remove_all_signatures, sign_by_others])
def test_forged_history_is_found_with_own_signers(tmp_path: Path, change: Any) -> None:
    """Only `ledger verify --signers` can find it."""
    ledger = signed_ledger(tmp_path)
    ledger.reserve([charge()], "r")
    check_signers(ledger.path, listed(tmp_path))
    forge_with(change, yours(tmp_path) if change is sign_by_others else None)(ledger.path)
    ledger.state()
    with pytest.raises(LedgerError, match="DP-LEDGER-018"):
        check_signers(ledger.path, listed(tmp_path))
    words = ["ledger", "verify", str(ledger.path), "--signers", str(listed(tmp_path))]
    assert "DP-LEDGER-018" in CliRunner().invoke(cli.app, words).output


def test_keys_must_be_valid_at_the_time_of_the_entry(tmp_path: Path, clock: Clock) -> None:
    """One that is out of date signs no more, whatever time it claims; what it signed stays."""
    text = f'me valid-before="20260601Z" {public()}\n' + YOU
    ledger = signed_ledger(tmp_path, text)
    ledger.reserve([charge()], "in time")
    clock.time = datetime(2026, 7, 1, tzinfo=UTC)
    with pytest.raises(LedgerError, match=r"DP-LEDGER-016.*before 2026-06-01"):
        ledger.reserve([charge()], "too late")
    Ledger(ledger.path, yours(tmp_path)).reserve([charge()], "by you")
    clock.time = datetime(2026, 5, 1, tzinfo=UTC)  # by a clock that is set back
    with pytest.raises(LedgerError, match="DP-LEDGER-016"):
        ledger.reserve([charge()], "too late")
    assert len(ledger.history()) == 4
    check_signers(ledger.path, listed(tmp_path, text))
    assert periods.now() == clock.time


def write_entry(ledger: Ledger, body: dict[str, Any], key: SigningKey) -> None:
    """Add an entry as somebody would who has a key, and leaves out every check."""
    with Store.open(ledger.path) as store, store.transaction():
        store.append(body, key)


def test_expired_key_can_not_backdate_entries(tmp_path: Path, clock: Clock) -> None:
    """An entry that follows later ones is not older than they are, whatever it claims."""
    text = f'me valid-before="20260601Z" {public()}\n' + YOU
    mine = signed_ledger(tmp_path, text)
    clock.time = datetime(2026, 7, 1, tzinfo=UTC)
    held_by_you = Ledger(mine.path, yours(tmp_path)).reserve([charge()], "by you")
    back = {"kind": "cancel", "id": held_by_you.id, "time": "2026-05-01T00:00:00+00:00"}
    write_entry(mine, back, held(tmp_path))
    with pytest.raises(LedgerError, match=r"DP-LEDGER-002.*before 2026-06-01"):
        mine.state()
    with pytest.raises(LedgerError, match=r"DP-LEDGER-018.*before 2026-06-01"):
        check_signers(mine.path, listed(tmp_path, text))


def test_signature_of_a_manifest_is_refused_for_entries(tmp_path: Path) -> None:
    ledger = signed_ledger(tmp_path)
    ledger.reserve([charge()], "r")
    key, last = held(tmp_path), ledger.history()[-1]

    def resigned(bodies: list[dict[str, Any]]) -> None:
        bodies[-1]["signature"] = key.sign(signed_text(last), MANIFESTS).to_armor().decode()

    rewrite_entries(ledger.path, resigned)
    with pytest.raises(LedgerError, match=r"DP-LEDGER-002.*its signature"):
        ledger.state()


def test_failing_signing_agent_charges_nothing(tmp_path: Path) -> None:
    """Nothing is charged that could not be signed, and no lock is left."""
    ledger = signed_ledger(tmp_path)

    class GivesUp(KeyInMemory):
        def sign(self, message: bytes, namespace: str) -> Any:
            raise SignatureError("DP-SIGN-006", name="k", problem="refused")

    key = GivesUp(held(tmp_path)._key)
    with pytest.raises(SignatureError, match="DP-SIGN-006"):
        Ledger(ledger.path, key).reserve([charge()], "r")
    assert ledger.state().spent(TABLE) == 0
    assert not list(tmp_path.glob(".*.lock"))


def signed_release(folder: Path) -> tuple[Path, Path]:
    path = release_with_ledger(folder)
    Ledger(folder / "ledger.sqlite", held(folder)).set_signers(ME)
    return path, copied(folder)


def test_releases_with_signed_ledger_are_signed(tmp_path: Path) -> None:
    path, key = signed_release(tmp_path)
    ledger = tmp_path / "ledger.sqlite"
    release = dprelease.read_release(path)
    with pytest.raises(LedgerError, match="DP-LEDGER-015") as caught:
        release.run()
    assert caught.value.state is dprelease.errors.State.NOTHING
    with pytest.raises(LedgerError, match="DP-LEDGER-016"):
        release.run(key=other_key())
    assert Ledger(ledger).state().spent(TABLE) == 0
    assert not (tmp_path / "out" / "people").exists()
    published = release.run(key=key)
    for signers in (None, listed(tmp_path)):
        report = dprelease.verify(published, ledger=ledger, signers=signers)
        assert report.ok, report.findings
        assert report.signature is not None
    other = dprelease.verify(published, ledger=ledger, signers=listed(tmp_path, YOU))
    assert {f.code for f in other.findings} == {"DP-VERIFY-017", "DP-VERIFY-010"}
    (published / "manifest.json.sig").unlink()
    assert dprelease.verify(published).ok
    report = dprelease.verify(published, ledger=ledger)  # which requires one
    assert [f.code for f in report.findings] == ["DP-VERIFY-014"]


def test_verify_notes_unsigned_ledger_of_signed_manifest(tmp_path: Path) -> None:
    """A ledger whose signers were left out with all that they signed looks as one without any."""
    path, ledger = release_with_ledger(tmp_path), tmp_path / "ledger.sqlite"
    folder = dprelease.read_release(path).run(key=held(tmp_path))
    report = dprelease.verify(folder, ledger=ledger, signers=listed(tmp_path))
    assert report.ok, report.findings
    assert UNSIGNED in report.notes
    assert UNSIGNED not in dprelease.verify(folder, ledger=ledger).notes
    path, key = signed_release(tmp_path / "signed")
    folder = dprelease.read_release(path).run(key=key)
    ledger = tmp_path / "signed/ledger.sqlite"
    assert UNSIGNED not in dprelease.verify(folder, ledger=ledger, signers=listed(tmp_path)).notes


def test_signers_at_the_time_of_the_charge_apply(tmp_path: Path) -> None:
    """Neither later signers, nor that there are any, change what holds for it."""
    path, ledger = release_with_ledger(tmp_path), tmp_path / "ledger.sqlite"
    release = dprelease.read_release(path)
    before = release.run(output=tmp_path / "before")
    Ledger(ledger, held(tmp_path)).set_signers(ME)
    mine = release.run(output=tmp_path / "mine", key=held(tmp_path))
    Ledger(ledger, held(tmp_path)).set_signers(YOU)
    other = release.run(output=tmp_path / "other", key=yours(tmp_path))
    for folder, who in ((before, None), (mine, "me"), (other, "you")):
        report = dprelease.verify(folder, ledger=ledger)
        assert report.ok, report.findings
        assert (report.signature or {}).get("principals") == who
    dprelease.sign(mine, yours(tmp_path), overwrite=True)  # who signs now could not sign then
    report = dprelease.verify(mine, ledger=ledger)
    assert [finding.code for finding in report.findings] == ["DP-VERIFY-017"]


def test_every_entry_point_takes_a_key(tmp_path: Path) -> None:
    _, key = signed_release(tmp_path)
    ledger, schema = tmp_path / "ledger.sqlite", tmp_path / "people.yaml"
    frame = pd.read_csv(tmp_path / "people.csv", dtype_backend="pyarrow")
    statement = "SELECT city, COUNT(*) AS n FROM people GROUP BY city"
    for given, code in ((None, "DP-LEDGER-015"), (key, None)):
        session = dprelease.Session(schema, epsilon=10, ledger=ledger, key=given)
        own = frame.copy()
        own.dp.use(session)
        asked: list[Callable[[], object]] = [
            lambda own=own: own.dp.count(by="city", epsilon="0.1", mechanism="laplace"),  # type: ignore[misc]
            lambda given=given: dprelease.sql(  # type: ignore[misc]
                statement, schema, epsilon="0.1", mechanism="laplace", ledger=ledger, key=given
            ),
        ]
        for ask in asked:
            if code is None:
                ask()
            else:
                with pytest.raises(LedgerError, match=code):
                    ask()
    assert float(Ledger(ledger).state().spent(TABLE)) == pytest.approx(0.2, rel=1e-3)
    check_signers(ledger, listed(tmp_path))


def test_signed_ledger_commands(tmp_path: Path) -> None:
    path, key = signed_release(tmp_path)
    ledger, signers = str(tmp_path / "ledger.sqlite"), str(listed(tmp_path))
    both = tmp_path / "both"
    both.write_text(ME + YOU)
    signing = ["--key", str(key)]
    new = ["--table", "t", "--owner", "o", "--rho", "1"]
    other, plain = str(tmp_path / "other.sqlite"), str(tmp_path / "plain.sqlite")
    for words, code, text in (
        (["run", str(path)], 2, "DP-LEDGER-015"),
        (["run", str(path), *signing], 0, "manifest.json.sig"),
        (["verify", str(tmp_path / "out/people"), "--ledger", ledger], 0, "signed by me"),
        (["ledger", "verify", ledger, str(tmp_path / "out/people"), "--signers", signers], 0, "signed by a signer"),
        (["ledger", "show", ledger], 0, "signed by me"),
        (["ledger", "history", ledger], 0, "signers"),
        (["ledger", "signers", ledger, str(both)], 2, "DP-LEDGER-015"),
        (["ledger", "signers", ledger, str(both), *signing], 0, "me, you may sign"),
        (["ledger", "signers", str(tmp_path / "none.sqlite"), str(both), *signing], 2, "DP-LEDGER-001"),
        (["ledger", "recover", ledger, *signing], 0, "Nothing to recover"),
        (["ledger", "init", ledger, *new], 2, "DP-LEDGER-015"),
        (["ledger", "init", ledger, *new, "--signers", signers, *signing], 2, "DP-LEDGER-019"),
        (["ledger", "init", ledger, *new, *signing], 0, "1 rho"),
        (["ledger", "init", other, *new, "--signers", signers], 2, "DP-LEDGER-015"),
        (["ledger", "init", other, *new, "--signers", str(key), *signing], 2, "DP-SIGN-007"),
        (["ledger", "init", other, *new, "--signers", signers, *signing], 0, "1 rho"),
        (["ledger", "check", other, "--signers", signers], 0, "signed by a signer"),
        (["ledger", "init", plain, *new], 0, "1 rho"),
        (["ledger", "init", plain, *new, "--signers", signers, *signing], 2, "DP-LEDGER-007"),
        (["ledger", "check", plain], 0, "1 entry follows"),
    ):  # fmt: skip
        done = CliRunner().invoke(cli.app, words)
        found = " ".join(done.output.split())
        assert (done.exit_code, text in found) == (code, True), (words, done.output)
