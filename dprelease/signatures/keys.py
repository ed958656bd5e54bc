"""Sign with an Ed25519 key from a file, or with a key that an SSH agent holds.

Callers ask for the passphrase of a key on the terminal, or read it from a file that only its owner
can read, because other users can see command lines and environments. A key that an agent holds
never enters this process: `ssh-keygen` requests the signature from the agent.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Protocol

from dprelease.errors import SignatureError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.signatures.sshsig import Signature, public_blob, signed_data
from dprelease.system.files import read_file, reason_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MOST_BYTES = 1 << 16
AGENT_SECONDS = 120.0
"""The number of seconds to wait for an agent, which may ask a person for permission."""

PRIVATE_KEY_HEADER, PUBLIC_KEY_PREFIX = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"ssh-"
TRIAL_NAMESPACE = "dprelease-trial"
"""The namespace of trial signatures by an agent, which have no other purpose."""

Passphrase = Callable[[str], bytes]
"""A function that returns the passphrase of the key with a certain file name."""


class SigningKey(Protocol):
    """A key that signs messages; `public` is the public key in the binary form of SSH."""

    @property
    def public(self) -> bytes:
        """Return the public part."""
        ...

    def sign(self, message: bytes, namespace: str) -> Signature:
        """Return the signature of a message for a namespace."""
        ...


class KeyInMemory:
    """A key in the memory of this process."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public(self) -> bytes:
        """Return the public part."""
        return public_blob(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes, namespace: str) -> Signature:
        """Return the signature of a message for a namespace."""
        return Signature(self.public, namespace, self._key.sign(signed_data(message, namespace)))

    def __repr__(self) -> str:
        return "<an Ed25519 key>"


class AgentKey:
    """A key that an SSH agent holds, whose public part is in a file."""

    def __init__(self, path: Path, public: bytes) -> None:
        self._path, self._public = path, public

    @property
    def public(self) -> bytes:
        """Return the public part."""
        return self._public

    def sign(self, message: bytes, namespace: str) -> Signature:
        """Return the signature that ssh-keygen gets from the agent.

        Raises
        ------
        SignatureError
            DP-SIGN-006 if ssh-keygen is not installed, or gets no signature by this key.
        """
        program, problem, answer = which("ssh-keygen"), "", b""
        if program is None:
            problem = "ssh-keygen is not installed"
        else:
            try:
                answer, problem = _run_ssh_keygen(program, self._path, message, namespace)
            except (OSError, subprocess.TimeoutExpired):
                problem = "ssh-keygen did not respond"
        if not problem:
            try:
                signature = Signature.from_armor(answer)
            except ValueError as refused:
                problem = str(refused)
            else:
                known = signature.public == self._public and signature.namespace == namespace
                # The answer comes from another program, so it is checked like any other signature.
                if known and signature.holds(message):
                    return signature
                problem = "ssh-keygen returned a signature of something else"
        raise SignatureError("DP-SIGN-006", name=self._path.name, problem=problem)


def _run_ssh_keygen(program: str, key: Path, message: bytes, namespace: str) -> tuple[bytes, str]:
    """Return the output of ssh-keygen, and why it did not sign, which is empty if it signed."""
    command = [program, "-q", "-Y", "sign", "-n", namespace, "-f", os.fspath(key.absolute())]
    completed = subprocess.run(
        command, input=message, capture_output=True, timeout=AGENT_SECONDS, check=False
    )
    lines = completed.stderr.decode("utf-8", "replace").strip().splitlines() or [
        "it gave no reason"
    ]
    return completed.stdout, "" if completed.returncode == 0 else lines[-1].rstrip(".")


def read_key(path: Path, passphrase: Passphrase | None = None) -> SigningKey:
    """Return the key in a file: a private key, or a public key whose private key an agent holds.

    `passphrase` is called if the private key in the file is encrypted.

    Raises
    ------
    SignatureError
        DP-SIGN-001 if the file can't be read, 002 if it has no OpenSSH key, 003 for a key of
        another type, 004 if other users may read a private key, 005 if the passphrase is wrong or
        missing, 006 if no agent signs with the private key of a public key, 009 if the package that
        decrypts private keys is not installed.
    """
    data = _read_small_file(path)
    if PRIVATE_KEY_HEADER in data[:200]:
        refuse_readable_by_others(path)
        return KeyInMemory(_open_key(data, path, passphrase))
    if not data.startswith((PUBLIC_KEY_PREFIX, b"ecdsa-", b"sk-")):
        raise SignatureError("DP-SIGN-002", name=path.name)
    public = _ed25519_public_key(data)
    if public is None:
        kind = data.split(None, 1)[0][:40].decode("ascii", "replace")
        raise SignatureError("DP-SIGN-003", name=path.name, found=kind)
    agent_key = AgentKey(path, public)
    # If the agent does not sign, the trial signature fails before any row is read or charged.
    agent_key.sign(b"", TRIAL_NAMESPACE)
    return agent_key


@checked_arguments
def signing_key(path: str | Path, passphrase: str | None = None) -> SigningKey:
    """Return an Ed25519 key of OpenSSH that signs releases and ledger entries.

    `path` is the file of a private key, or the .pub file of a key that an agent holds.

    Raises
    ------
    SignatureError
        The errors of `read_key`.
    """
    check_paths(path)
    password = None if passphrase is None else passphrase.encode("utf-8", "surrogatepass")
    return read_key(Path(path), None if password is None else lambda _name: password)


def _read_small_file(path: Path) -> bytes:
    """Return the bytes of a file; raise DP-SIGN-001 if it can't be read."""
    problem = ""
    try:
        return read_file(path, MOST_BYTES)
    except OSError as refused:
        problem = reason_of(refused)
    raise SignatureError("DP-SIGN-001", name=path.name, problem=problem)


def refuse_readable_by_others(path: Path) -> None:
    """Raise SignatureError DP-SIGN-004 if other users may read a secret file, as SSH does."""
    status = path.stat()
    # As in OpenSSH, which does not check files of other owners.
    if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) & 0o077:
        raise SignatureError("DP-SIGN-004", name=path.name)


def passphrase_from_file(path: Path) -> Passphrase:
    """Return a function that returns the passphrase in the first line of a file.

    Raises
    ------
    SignatureError
        DP-SIGN-001 if the file can't be read, 004 if other users may read it.
    """
    data = _read_small_file(path)
    refuse_readable_by_others(path)
    lines = data.splitlines()
    return lambda _name: lines[0] if lines else b""


def _ed25519_public_key(data: bytes) -> bytes | None:
    """Return the Ed25519 key in the content of a public key file; None for any other content."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        key = load_ssh_public_key(data.strip())
    except (ValueError, UnsupportedAlgorithm):
        return None
    return public_blob(key.public_bytes_raw()) if isinstance(key, Ed25519PublicKey) else None


def _open_key(data: bytes, path: Path, passphrase: Passphrase | None) -> Ed25519PrivateKey:
    """Return the private key in a file, decrypted by its passphrase if it is encrypted."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = _load_key(data, path, None)
    if key is None:
        if passphrase is None:
            raise SignatureError(
                "DP-SIGN-005", name=path.name, problem="no passphrase was provided"
            )
        key = _load_key(data, path, passphrase(path.name))
    if not isinstance(key, Ed25519PrivateKey):
        kind = type(key).__name__.removesuffix("PrivateKey").lstrip("_")
        raise SignatureError("DP-SIGN-003", name=path.name, found=kind)
    return key


def _load_key(data: bytes, path: Path, passphrase: bytes | None) -> object:
    """Return the private key in a file; None if it is encrypted and there is no passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    code = "DP-SIGN-002" if passphrase is None else "DP-SIGN-005"
    try:
        return load_ssh_private_key(data, passphrase)
    except TypeError:  # raised for an encrypted key without a passphrase, or with an empty one
        if passphrase is None:
            return None
    except ValueError:
        pass  # raised for a corrupt file, and for a wrong passphrase
    except UnsupportedAlgorithm:
        code = "DP-SIGN-009"
    raise SignatureError(code, name=path.name, problem="the passphrase is wrong")
