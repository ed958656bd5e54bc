"""Keys that sign, and files that hold none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dprelease.errors import SignatureError
from dprelease.signatures import keys as module
from dprelease.signatures.keys import passphrase_from_file, read_key, signing_key
from dprelease.signatures.sshsig import ENTRIES, MANIFESTS
from tests import processes
from tests.signatures.keys import PASSPHRASE, VECTORS, copied, held, openssh


def text(folder: Path, content: bytes) -> Path:
    path = folder / "id"
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def folder(folder: Path) -> Path:
    return folder


def absent(folder: Path) -> Path:
    return folder / "none"


PRIVATE = (VECTORS / "id_ed25519").read_bytes()
BAD: list[tuple[str, str, Callable[[Path], Path]]] = [
    ("none", "DP-SIGN-001", absent),
    ("a folder", "DP-SIGN-001", folder),
    ("too large", "DP-SIGN-001", lambda f: text(f, b"-" * (1 << 17))),
    ("empty", "DP-SIGN-002", lambda f: text(f, b"")),
    ("a text", "DP-SIGN-002", lambda f: text(f, b"no key\n")),
    ("a certificate of the web", "DP-SIGN-002", lambda f: text(f, b"-----BEGIN CERTIFICATE-----")),
    ("cut off", "DP-SIGN-002", lambda f: text(f, PRIVATE[:200])),
    ("broken", "DP-SIGN-002", lambda f: text(f, PRIVATE.replace(b"AAAA", b"AAAB"))),
    ("a private key of another type", "DP-SIGN-003", lambda f: copied(f, "id_ecdsa")),
    ("a public key of another type", "DP-SIGN-003", lambda f: copied(f, "id_ecdsa").with_suffix(".pub")),
    ("no public key", "DP-SIGN-003", lambda f: text(f, b"ssh-ed25519 AAAA me\n")),
    ("readable by the group", "DP-SIGN-004", lambda f: copied(f, mode=0o640)),
    ("readable by all", "DP-SIGN-004", lambda f: copied(f, mode=0o604)),
    ("locked", "DP-SIGN-005", lambda f: copied(f, "id_locked")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "made"), [pytest.param(*b[1:], id=b[0]) for b in BAD])
def test_files_without_a_key_are_refused(
    code: str, made: Callable[[Path], Path], tmp_path: Path
) -> None:
    with pytest.raises(SignatureError) as caught:
        signing_key(made(tmp_path))
    assert caught.value.code == code, str(caught.value)
    assert caught.value.exit_code == 2


def test_passphrases(tmp_path: Path) -> None:
    path = copied(tmp_path, "id_locked")
    key = signing_key(path, PASSPHRASE)
    assert key.sign(b"m", MANIFESTS).holds(b"m")
    for wrong in ("", "a passphrase ", "A passphrase"):
        with pytest.raises(SignatureError, match="DP-SIGN-005"):
            signing_key(path, wrong)
    told = tmp_path / "passphrase"
    told.write_text(f"{PASSPHRASE}\n")
    told.chmod(0o600)
    assert read_key(path, passphrase_from_file(told)).public == key.public
    told.chmod(0o644)
    with pytest.raises(SignatureError, match="DP-SIGN-004"):
        passphrase_from_file(told)
    with pytest.raises(SignatureError, match="DP-SIGN-001"):
        passphrase_from_file(tmp_path / "none")
    # Nobody is asked for the passphrase of a key that has none.
    assert read_key(copied(tmp_path), lambda _: pytest.fail("asked")).sign(b"m", "n").holds(b"m")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    assert repr(held(tmp_path)) == "<an Ed25519 key>"
    with pytest.raises(SignatureError) as caught:
        signing_key(copied(tmp_path, "id_locked"), "hunter2")
    assert "hunter2" not in str(caught.value) + repr(caught.value.__dict__)


def test_locked_key_without_bcrypt_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import ssh

    def missing(*_: object, **__: object) -> None:
        raise UnsupportedAlgorithm("Need bcrypt module")

    monkeypatch.setattr(ssh, "_bcrypt_kdf", missing)
    with pytest.raises(SignatureError, match="DP-SIGN-009"):
        signing_key(copied(tmp_path, "id_locked"), PASSPHRASE)


@openssh
def test_keys_held_by_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, alone = copied(tmp_path), tmp_path / "alone"
    alone.mkdir()
    shutil.copy(path.with_suffix(".pub"), alone / "id.pub")
    # A path of a socket may have no more than a hundred characters or so.
    socket = Path(os.path.relpath(tmp_path / "agent"))
    socket = socket if len(str(socket)) < 100 else tmp_path / "agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    with pytest.raises(SignatureError, match="DP-SIGN-006"):
        signing_key(alone / "id.pub").sign(b"m", MANIFESTS)
    command = ["ssh-agent", "-D", "-a", str(tmp_path / "agent")]
    with processes.started(command, stdout=-1, text=True) as agent:
        processes.first_line(agent)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        added = processes.run(["ssh-add", str(path)], capture_output=True)
        assert added.returncode == 0, added.stderr
        key = signing_key(alone / "id.pub")
        assert key.public == held(tmp_path).public
        for namespace in (MANIFESTS, ENTRIES):
            assert key.sign(b"m", namespace) == held(tmp_path).sign(b"m", namespace)
        other = copied(tmp_path / "other", "id_locked").with_suffix(".pub")
        shutil.copy(other, alone / "other.pub")
        with pytest.raises(SignatureError, match="DP-SIGN-006"):
            signing_key(alone / "other.pub").sign(b"m", MANIFESTS)


ANSWERS = {
    "nothing": "exit 0",
    "a failure": "echo no agent >&2; exit 1",
    "a text": "echo no signature",
    "a signature of another message": f"cat {VECTORS / 'message.txt.sig'}",
}


@pytest.mark.parametrize("answer", [*ANSWERS, "none"])
def test_answers_of_ssh_keygen_are_checked(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says is checked before anybody relies on it."""
    public = copied(tmp_path).with_suffix(".pub")
    if answer != "none":
        program = tmp_path / "ssh-keygen"
        program.write_text(f"#!/bin/sh\ncat > /dev/null\n{ANSWERS[answer]}\n")
        program.chmod(0o755)
    found = None if answer == "none" else str(tmp_path / "ssh-keygen")
    monkeypatch.setattr(module, "which", lambda _name: found)
    with pytest.raises(SignatureError, match="DP-SIGN-006"):
        signing_key(public)  # before anything is read for a release that it could not sign
