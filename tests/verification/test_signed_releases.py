"""Signatures of releases: who signed a manifest, and findings about missing or bad signatures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import SIGNATURE, canonical
from dprelease.errors import DpReleaseError, OutputError, SignatureError
from dprelease.release.api import read_release
from dprelease.signatures.sshsig import ENTRIES, MANIFESTS, Signature
from dprelease.verification.after_publication import signing
from dprelease.verification.report import Report
from tests.manifest_files import with_digest
from tests.release.build import publish, write
from tests.signatures.keys import (
    PASSPHRASE,
    VECTORS,
    copied,
    held,
    openssh,
    openssh_takes,
    other_key,
    public,
)  # fmt: skip

WHO = "steward@office"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("signed"))[0]


@pytest.fixture
def release(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "out"))


def listed(folder: Path, line: str = f"{WHO} {public()}") -> Path:
    path = folder / "allowed_signers"
    path.write_text(f"{line}\n")
    return path


def codes(release: Path, signers: Path | None) -> list[str]:
    return [finding.code for finding in dprelease.verify(release, signers=signers).findings]


def test_signed_release_verifies(release: Path, tmp_path: Path) -> None:
    before = dprelease.verify(release)
    assert before.ok
    assert before.notes == []
    dprelease.sign(release, held(tmp_path))
    assert sorted(path.name for path in release.iterdir() if path.name.startswith(".")) == []
    alone = dprelease.verify(release)
    assert alone.ok
    assert alone.signature is None
    assert "--signers" in " ".join(alone.notes)
    report = dprelease.verify(release, signers=listed(tmp_path))
    assert report.ok, report.findings
    assert report.notes == []
    assert report.to_json()["signature"]["principals"] == WHO
    assert any(WHO in line for line in report.checked)
    with pytest.raises(SignatureError, match="DP-SIGN-010"):
        dprelease.sign(release, other_key())
    dprelease.sign(release, other_key(), overwrite=True)
    assert codes(release, listed(tmp_path)) == ["DP-VERIFY-017"]


def test_signature_is_for_the_verified_manifest(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the manifest changes during `sign`, the unchecked manifest is not signed."""
    path = release / "manifest.json"
    checked = path.read_bytes()

    def slow(folder: Path) -> Report:
        report = dprelease.verify(folder)
        record = json.loads(checked)
        record["title"] = "another"
        path.write_bytes(canonical(with_digest({k: v for k, v in record.items() if k != "digest"})))
        return report

    monkeypatch.setattr(signing, "verify", slow)
    dprelease.sign(release, held(tmp_path))
    assert "DP-VERIFY-016" in codes(release, listed(tmp_path))
    path.write_bytes(checked)
    assert codes(release, listed(tmp_path)) == []


@openssh
def test_openssh_verifies_a_release(release: Path, tmp_path: Path) -> None:
    dprelease.sign(release, held(tmp_path))
    manifest, signature = (release / "manifest.json").read_bytes(), release / SIGNATURE
    signers = listed(tmp_path, f'{WHO} namespaces="dprelease-*" {public()}')
    assert openssh_takes(signers, WHO, MANIFESTS, signature, manifest)
    assert not openssh_takes(signers, WHO, MANIFESTS, signature, manifest + b" ")


def remove_signature(release: Path, folder: Path) -> None:
    (release / SIGNATURE).unlink()


def truncate_signature(release: Path, folder: Path) -> None:
    path = release / SIGNATURE
    path.write_bytes(path.read_bytes()[:100])


def sign_other_manifest(release: Path, folder: Path) -> None:
    made = held(folder).sign(b"another manifest", MANIFESTS)
    (release / SIGNATURE).write_bytes(made.to_armor())


def sign_with_other_namespace(release: Path, folder: Path) -> None:
    made = held(folder).sign((release / "manifest.json").read_bytes(), ENTRIES)
    (release / SIGNATURE).write_bytes(made.to_armor())


def forge_namespace(release: Path, folder: Path) -> None:
    """The signature of another purpose, with the namespace of this one written into it."""
    made = held(folder).sign((release / "manifest.json").read_bytes(), ENTRIES)
    forged = Signature(made.public, MANIFESTS, made.raw)
    (release / SIGNATURE).write_bytes(forged.to_armor())


def sign_with_other_key(release: Path, folder: Path) -> None:
    dprelease.sign(release, other_key(), overwrite=True)


def write_huge_signature(release: Path, folder: Path) -> None:
    (release / SIGNATURE).write_bytes(b"-" * (1 << 20))


def write_ecdsa_signature(release: Path, folder: Path) -> None:
    shutil.copy(VECTORS / "message.txt.ecdsa.sig", release / SIGNATURE)


def change_nothing(release: Path, folder: Path) -> None:
    pass


BAD: list[tuple[str, Callable[[Path, Path], None], str]] = [
    ("DP-VERIFY-014", remove_signature, ""),
    ("DP-VERIFY-015", truncate_signature, ""),
    ("DP-VERIFY-015", write_huge_signature, ""),
    ("DP-VERIFY-015", write_ecdsa_signature, ""),
    ("DP-VERIFY-016", sign_other_manifest, ""),
    ("DP-VERIFY-016", forge_namespace, ""),
    ("DP-VERIFY-017", sign_with_other_key, ""),
    ("DP-VERIFY-018", sign_with_other_namespace, ""),
    ("DP-VERIFY-018", change_nothing, 'valid-before="20200101" '),
    ("DP-VERIFY-018", change_nothing, 'valid-after="29991231" '),
    ("DP-VERIFY-018", change_nothing, 'namespaces="git" '),
]


@pytest.mark.parametrize(
    ("code", "change", "options"),
    [pytest.param(*bad, id=f"{bad[1].__name__}-{bad[2]}") for bad in BAD],
)
def test_bad_signatures_are_found(
    code: str, change: Callable[[Path, Path], None], options: str, release: Path, tmp_path: Path
) -> None:
    """They are no error of the release itself."""
    dprelease.sign(release, held(tmp_path))
    change(release, tmp_path)
    signers = listed(tmp_path, f"{WHO} {options}{public()}")
    report = dprelease.verify(release, signers=signers)
    assert [finding.code for finding in report.findings] == [code]
    assert report.signature is None
    assert report.findings[0].exit_code == 4
    assert dprelease.verify(release).ok


def test_signature_that_is_no_file_is_found(release: Path, tmp_path: Path) -> None:
    path, signers = release / SIGNATURE, listed(tmp_path)
    path.mkdir()
    assert codes(release, None) == ["DP-VERIFY-005"]
    assert codes(release, signers) == ["DP-VERIFY-005", "DP-VERIFY-014"]
    path.rmdir()
    path.symlink_to(release / "manifest.json")
    assert codes(release, None) == ["DP-VERIFY-005"]
    path.unlink()
    os.mkfifo(path)
    assert codes(release, None) == ["DP-VERIFY-005"]
    path.unlink()
    (release / f"{SIGNATURE}2").write_text("")
    assert codes(release, None) == ["DP-VERIFY-005"]


def test_only_verified_releases_are_signed(release: Path, tmp_path: Path) -> None:
    key = held(tmp_path)
    (release / "more").write_text("")
    with pytest.raises(DpReleaseError, match="DP-VERIFY-005"):
        dprelease.sign(release, key)
    (release / "more").unlink()
    table = next(release.glob("*.parquet"))
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(DpReleaseError, match="DP-VERIFY-004"):
        dprelease.sign(release, key)
    with pytest.raises(OutputError, match="DP-OUTPUT-011"):
        dprelease.sign(tmp_path / "none", key)
    assert not (release / SIGNATURE).exists()


def test_failed_writing_leaves_no_signature(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = held(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(release.iterdir())
    for name in ("os.replace", "os.fsync", "os.chmod"):
        with monkeypatch.context() as patch:
            patch.setattr(name, full)
            with pytest.raises(SignatureError, match="DP-SIGN-011"):
                dprelease.sign(release, key)
        assert sorted(release.iterdir()) == before


def test_overwrite_removes_the_old_signature(tmp_path: Path) -> None:
    """The old signature would not fit the new manifest."""
    path = write(tmp_path)
    folder = read_release(path).run()
    dprelease.sign(folder, held(tmp_path))
    read_release(path).run(overwrite=True)
    assert not (folder / SIGNATURE).exists()
    assert codes(folder, listed(tmp_path)) == ["DP-VERIFY-014"]


def test_sign_and_verify_commands(release: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    key, signers = copied(tmp_path), listed(tmp_path)
    locked = copied(tmp_path, "id_locked")
    told = tmp_path / "passphrase"
    told.write_text(PASSPHRASE)
    told.chmod(0o600)
    where, again = ["--signers", str(signers)], ["--overwrite", "--json"]
    for words, code, text in (
        (["verify", str(release), *where], 4, "DP-VERIFY-014"),
        (["sign", str(release)], 2, "--key"),
        (["sign", str(release), "--key", str(tmp_path / "none")], 2, "DP-SIGN-001"),
        (["sign", str(release), "--key", str(signers)], 2, "DP-SIGN-002"),
        (["sign", str(release), "--key", str(locked)], 2, "DP-SIGN-005"),
        (["sign", str(release), "--key", str(key)], 0, "Signed"),
        (["sign", str(release), "--key", str(key)], 2, "DP-SIGN-010"),
        (["verify", str(release)], 0, "Note: manifest.json.sig"),
        (["verify", str(release), *where], 0, f"signed by {WHO}"),
        (["verify", str(release), "--signers", str(tmp_path / "none")], 2, "DP-SIGN-008"),
        (["verify", str(release), "--signers", str(key)], 2, "DP-SIGN-007"),
        (
            ["sign", str(release), "--key", str(locked), "--passphrase-file", str(told), *again],
            0,
            '"namespace": "dprelease-manifest"',
        ),
        (["verify", str(release), *where], 4, "DP-VERIFY-017"),
    ):
        done = runner.invoke(cli.app, words)
        assert (done.exit_code, text in done.output) == (code, True), (words, done.output)


def test_passphrase_is_read_from_the_terminal(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answered(prompt: str) -> str:
        asked.append(prompt)
        return PASSPHRASE

    monkeypatch.setattr("dprelease.cli.signing._has_terminal", lambda: True)
    monkeypatch.setattr("getpass.getpass", answered)
    locked, key = copied(tmp_path, "id_locked"), copied(tmp_path)
    for path in (locked, key):
        words = ["sign", str(release), "--key", str(path), "--overwrite"]
        assert CliRunner().invoke(cli.app, words).exit_code == 0
    assert asked == ["Passphrase of id_locked: "]
