"""Keys of tests, and OpenSSH's own programs where they are installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from dprelease.signatures.keys import KeyInMemory, signing_key
from tests import processes

VECTORS = Path(__file__).parent / "vectors"
openssh = pytest.mark.skipif(which("ssh-keygen") is None, reason="OpenSSH is not installed")
PASSPHRASE = "a passphrase"


def copied(folder: Path, name: str = "id_ed25519", mode: int = 0o600) -> Path:
    """Return a key of the vectors, with the rights that keys have, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (name, f"{name}.pub"):
        shutil.copy(VECTORS / file, folder / file)
    (folder / name).chmod(mode)
    return folder / name


def held(folder: Path) -> KeyInMemory:
    found = signing_key(copied(folder))
    assert isinstance(found, KeyInMemory)
    return found


def other_key() -> KeyInMemory:
    """Return a key that nobody lists."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return KeyInMemory(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


def public(name: str = "id_ed25519") -> str:
    """Return type and key of a public file, without its comment."""
    return " ".join((VECTORS / f"{name}.pub").read_text().split()[:2])


def keygen(*words: Any, message: bytes = b"", **options: Any) -> Any:
    """Run ssh-keygen on a message."""
    return processes.run(["ssh-keygen", *words], input=message, capture_output=True, **options)


def openssh_takes(
    signers: Path, who: str, namespace: str, signature: Path, message: bytes, *options: str
) -> bool:
    """Return whether ssh-keygen verifies a signature."""
    words = ("-Y", "verify", "-f", signers, "-I", who, "-n", namespace, "-s", signature, *options)
    return bool(keygen(*words, message=message).returncode == 0)
