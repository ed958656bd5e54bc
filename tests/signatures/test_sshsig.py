"""Signatures as OpenSSH makes them, to the byte, and nothing that differs from one by a bit."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from dprelease.signatures.sshsig import BEGIN, END, MANIFESTS, Signature, fingerprint
from tests.signatures.keys import VECTORS, held, keygen, openssh, openssh_takes, other_key, public

MESSAGE = (VECTORS / "message.txt").read_bytes()
SIGNED = (VECTORS / "message.txt.sig").read_bytes()


def blob_of(text: bytes) -> bytes:
    return base64.b64decode(b"".join(text.splitlines()[1:-1]))


def armored(blob: bytes) -> bytes:
    return b"\n".join([BEGIN, base64.b64encode(blob), END, b""])


def is_one(text: bytes) -> bool:
    """Return whether a text is a signature of the message for manifests."""
    try:
        found = Signature.from_armor(text)
    except ValueError:
        return False
    return found.namespace == MANIFESTS and found.holds(MESSAGE)


def test_signatures_equal_openssh(tmp_path: Path) -> None:
    key = held(tmp_path)
    assert key.sign(MESSAGE, MANIFESTS).to_armor() == SIGNED
    assert key.sign(MESSAGE, "file").to_armor() == (VECTORS / "message.txt.file.sig").read_bytes()
    for text in (SIGNED, (VECTORS / "message.txt.sha256.sig").read_bytes()):
        assert Signature.from_armor(text).to_armor() == text
        assert is_one(text)
    assert fingerprint(key.public).startswith("SHA256:")


def test_any_changed_bit_invalidates_the_signature() -> None:
    """Of all that is signed, and of the frame; but for the name of the digest, it is one of two."""
    blob = blob_of(SIGNED)
    for at in range(8 * len(blob)):
        changed = bytearray(blob)
        changed[at // 8] ^= 1 << at % 8
        assert not is_one(armored(bytes(changed))), at
    assert is_one(armored(blob))
    for length in range(len(blob)):
        assert not is_one(armored(blob[:length]))
    assert not is_one(armored(blob + b"\0"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "not an SSH signature"),
        (b"\0" * 400, "not an SSH signature"),
        (SIGNED.replace(b"SSH SIGNATURE", b"PGP SIGNATURE"), "not an SSH signature"),
        (SIGNED[:-2], "not an SSH signature"),
        (SIGNED.replace(b"U1NI", b"U1N!"), "Base64"),
        (armored(b"SSHSIX" + blob_of(SIGNED)[6:]), "not an SSH signature"),
        (armored(b"SSHSIG\0\0\0\2" + blob_of(SIGNED)[10:]), "another version"),
        ((VECTORS / "message.txt.ecdsa.sig").read_bytes(), "ssh-ed25519"),
    ],
)
def test_invalid_signatures_are_refused(text: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Signature.from_armor(text)


FORMS = {
    "line feeds": (SIGNED, True),
    "carriage returns": (SIGNED.replace(b"\n", b"\r\n"), False),
    "one carriage return": (SIGNED.replace(b"\n", b"\r\n", 1), False),
    "carriage returns behind the first line": (
        SIGNED.replace(b"\n", b"\r\n").replace(b"\r\n", b"\n", 1),
        True,
    ),
    "nothing else": (SIGNED.replace(b"\n", b"\r"), False),
    "before it": (b"\n" + SIGNED, False),
    "a blank before it": (b" " + SIGNED, False),
    "after it": (SIGNED + b"more\n", True),
    "on its last line": (SIGNED.rstrip(b"\n") + b"more", True),
    "blanks": (SIGNED.replace(b"\nU1NI", b"\n\n U1\tNI"), True),
    "a blank behind its first line": (SIGNED.replace(b"-\nU1NI", b"- \nU1NI"), False),
    "a blank before its last line": (SIGNED.replace(b"\n-----END", b"\n -----END"), False),
    "no end of a line": (SIGNED.replace(b"\n-----END", b"-----END"), False),
    "no body": (BEGIN + b"\n" + END + b"\n", False),
}


@pytest.mark.parametrize("form", FORMS)
def test_accepted_file_layouts(form: str) -> None:
    text, wanted = FORMS[form]
    assert is_one(text) is wanted


@openssh
def test_openssh_accepts_the_same_layouts(tmp_path: Path) -> None:
    """Versions after 9.2 may take a carriage return on the first line too."""
    signers, path = tmp_path / "allowed_signers", tmp_path / "m.sig"
    signers.write_text(f"me {public()}\n")
    for form, (text, wanted) in FORMS.items():
        path.write_bytes(text)
        found = openssh_takes(signers, "me", MANIFESTS, path, MESSAGE)
        assert found is wanted or (found and "carriage" in form), form


def test_base64_padding_bits_must_be_zero(tmp_path: Path) -> None:
    """Bits that stand for nothing are zero, as OpenSSH wants them."""
    body = base64.b64encode(blob_of(SIGNED))
    assert body.endswith(b"=")
    stem = body.rstrip(b"=")
    other = bytes([stem[-1] + 1])
    assert base64.b64decode(stem[:-1] + other + body[len(stem) :]) == blob_of(SIGNED)
    with pytest.raises(ValueError, match="Base64"):
        Signature.from_armor(b"\n".join([BEGIN, stem[:-1] + other + body[len(stem) :], END, b""]))


@pytest.mark.parametrize("other", [b"another message\n", b"", MESSAGE + b"\n", MESSAGE[:-1]])
def test_signature_of_another_message_fails(other: bytes) -> None:
    assert not Signature.from_armor(SIGNED).holds(other)


def test_signature_is_bound_to_its_namespace(tmp_path: Path) -> None:
    """The namespace is signed: to write another one into the file changes what holds."""
    made = Signature.from_armor((VECTORS / "message.txt.file.sig").read_bytes())
    assert made.holds(MESSAGE)
    assert not Signature(made.public, MANIFESTS, made.raw).holds(MESSAGE)
    assert not Signature(other_key().public, "file", made.raw).holds(MESSAGE)


@openssh
def test_signatures_interoperate_with_openssh(tmp_path: Path) -> None:
    signers, path = tmp_path / "allowed_signers", tmp_path / "m.sig"
    for name, passphrase in (("a", ""), ("b", "other")):
        made = keygen("-q", "-t", "ed25519", "-N", passphrase, "-f", tmp_path / name)
        assert made.returncode == 0
        from dprelease.signatures.keys import signing_key

        key = signing_key(tmp_path / name, passphrase or None)
        signers.write_text(f"me {(tmp_path / name).with_suffix('.pub').read_text()}")
        path.write_bytes(key.sign(MESSAGE, MANIFESTS).to_armor())
        assert openssh_takes(signers, "me", MANIFESTS, path, MESSAGE)
        assert not openssh_takes(signers, "me", "file", path, MESSAGE)
        assert not openssh_takes(signers, "me", MANIFESTS, path, MESSAGE + b" ")
    signers.write_text(f"me {public()}\n")
    path.write_bytes(SIGNED)
    assert openssh_takes(signers, "me", MANIFESTS, path, MESSAGE)
