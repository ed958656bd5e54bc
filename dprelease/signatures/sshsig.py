"""Read and write an SSH signature as `ssh-keygen -Y sign` does (PROTOCOL.sshsig of OpenSSH).

The key signs the digest of the message together with a namespace, so that a signature made for one
purpose is not valid for another purpose. Only Ed25519 (RFC 8709) is supported.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import Self

# Read and write the binary form of SSH: each string follows its length (RFC 4251, section 5).


def to_ssh_string(data: bytes) -> bytes:
    """Return bytes as an SSH string: their length, and then the bytes."""
    return struct.pack(">I", len(data)) + data


class SshReader:
    """Reads fields of SSH's binary form one after the other from untrusted bytes."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes; raise ValueError if fewer are left."""
        if size > len(self._rest):
            raise ValueError("it is cut off")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def number(self) -> int:
        """Return the next 32-bit number; raise ValueError if fewer bytes are left."""
        return int(struct.unpack(">I", self.take(4))[0])

    def string(self) -> bytes:
        """Return the bytes of the next string; raise ValueError if it is truncated."""
        return self.take(self.number())

    def end(self) -> None:
        """Raise ValueError if any bytes are left."""
        if self._rest:
            raise ValueError("more data follows its end")


def parse_base64(text: bytes) -> bytes:
    """Return the bytes of a Base64 text, ignoring blanks.

    Raises ValueError if the text is not the canonical Base64 encoding of the bytes.
    """
    compact = b"".join(text.split())
    data = base64.b64decode(compact, validate=True)
    # Unused bits of the last letter could otherwise differ: one signature would have several texts.
    if base64.b64encode(data) != compact:
        raise ValueError("it is no Base64")
    return data


MANIFESTS = "dprelease-manifest"
ENTRIES = "dprelease-ledger"
AUDITS = "dprelease-audit"
"""Namespaces of signatures of manifests, of ledger entries, and of audit outcomes."""

ED25519 = b"ssh-ed25519"
MAGIC, VERSION = b"SSHSIG", 1
BEGIN, END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
LINE_WIDTH = 70
MOST_SIGNATURE_BYTES = 1 << 16
"""The maximum bytes of a signature file; a signature by an Ed25519 key has about 300 bytes."""


def public_blob(raw: bytes) -> bytes:
    """Return the binary form of SSH of a public key with these 32 bytes."""
    return to_ssh_string(ED25519) + to_ssh_string(raw)


def fingerprint(public: bytes) -> str:
    """Return the short name of a public key, as `ssh-keygen -l` prints it."""
    digest = base64.b64encode(hashlib.sha256(public).digest())
    return f"SHA256:{digest.decode().rstrip('=')}"


def signed_data(message: bytes, namespace: str, algorithm: str = "sha512") -> bytes:
    """Return the data that the key signs for a message."""
    digest = hashlib.new(algorithm, message).digest()
    named = (
        to_ssh_string(namespace.encode()) + to_ssh_string(b"") + to_ssh_string(algorithm.encode())
    )
    return MAGIC + named + to_ssh_string(digest)


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature: the public key in SSH's binary form, the namespace, and 64 bytes (`raw`)."""

    public: bytes
    namespace: str
    raw: bytes
    algorithm: str = "sha512"

    def to_armor(self) -> bytes:
        """Return the text of a signature file."""
        blob = (
            MAGIC
            + VERSION.to_bytes(4, "big")
            + to_ssh_string(self.public)
            + to_ssh_string(self.namespace.encode())
            + to_ssh_string(b"")
            + to_ssh_string(self.algorithm.encode())
            + to_ssh_string(to_ssh_string(ED25519) + to_ssh_string(self.raw))
        )
        text = base64.b64encode(blob)
        lines = [text[i : i + LINE_WIDTH] for i in range(0, len(text), LINE_WIDTH)]
        return b"\n".join([BEGIN, *lines, END, b""])

    @classmethod
    def from_armor(cls, text: bytes) -> Self:
        """Return the signature in the text of a file; raise ValueError for an invalid text."""
        # As in OpenSSH 9.2, no text is allowed before the first line or at its end (only later
        # versions allow a carriage return). White space is allowed in Base64, and any text after
        # the last line.
        head = BEGIN + b"\n"
        body, foot, _ = text.removeprefix(head).partition(b"\n" + END)
        if not text.startswith(head) or not foot:
            raise ValueError("it is not an SSH signature")
        try:
            blob = parse_base64(body)
        except ValueError:
            raise ValueError("its Base64 is broken") from None
        return cls._from_bytes(SshReader(blob))

    @classmethod
    def _from_bytes(cls, blob: SshReader) -> Self:
        """Return the signature in its binary form; raise ValueError for any other bytes."""
        if blob.take(len(MAGIC)) != MAGIC:
            raise ValueError("it is not an SSH signature")
        if blob.number() != VERSION:
            raise ValueError("it is of another version of SSH signatures")
        public, namespace, reserved = blob.string(), blob.string(), blob.string()
        algorithm, signature = blob.string(), SshReader(blob.string())
        blob.end()
        if _key_type(public) != ED25519 or signature.string() != ED25519:
            raise ValueError("its key is not of the type ssh-ed25519, the only supported one")
        raw = signature.string()
        signature.end()
        # As in OpenSSH, no other digest is accepted, however strong the key.
        if reserved or algorithm not in (b"sha256", b"sha512") or len(raw) != 64:
            raise ValueError("it has parts that no Ed25519 signature has")
        raw_public_key(public)
        try:
            return cls(public, namespace.decode(), raw, algorithm.decode())
        except UnicodeDecodeError:
            raise ValueError("its namespace is not UTF-8") from None

    def holds(self, message: bytes) -> bool:
        """Return whether the key has signed this message for this namespace."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        data = signed_data(message, self.namespace, self.algorithm)
        try:
            Ed25519PublicKey.from_public_bytes(raw_public_key(self.public)).verify(self.raw, data)
        except (InvalidSignature, ValueError):
            return False
        return True


def _key_type(public: bytes) -> bytes:
    return SshReader(public).string()


def raw_public_key(public: bytes) -> bytes:
    """Return the 32 bytes of an Ed25519 key in SSH's binary form.

    Raises ValueError for other keys.
    """
    reader = SshReader(public)
    if reader.string() != ED25519:
        raise ValueError("its key is of another type")
    raw = reader.string()
    reader.end()
    if len(raw) != 32:
        raise ValueError("its key is not of the length of Ed25519 keys")
    return raw
