"""Encrypt files that executors write for the driver, so that a leftover file reveals nothing.

Two independent noise draws for the same cells can be averaged, which weakens the noise. A killed
driver, a lost executor or an attempt that Spark gave up may leave a file that nothing removes. So
all files are encrypted, with a key that exists only as long as the driver works.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dprelease.numerics.entropy import Entropy

NONCE_BYTES = 12
KEY_WORDS = 4


@dataclass(frozen=True)
class Seal:
    """The key of one run and one folder, for AES-256-GCM with random nonces from the system."""

    name: str
    """The public name of the key, which no other run has."""
    key: bytes = field(repr=False)

    @classmethod
    def fresh(cls) -> Self:
        """Return a seal with a new key."""
        bits = Entropy()
        name, key = bits.words(2).tobytes().hex(), bits.words(KEY_WORDS).tobytes()
        return cls(name, key)

    def encrypt_block(self, block: int, content: bytes) -> bytes:
        """Return the content of a block, encrypted with a new nonce at every call."""
        # A nonce that is used twice would break the encryption. One derived from the number of the
        # block would repeat with each attempt of a task, so it is random.
        nonce = Entropy().words(2).tobytes()[:NONCE_BYTES]
        return nonce + AESGCM(self.key).encrypt(nonce, content, self._associated_data(block))

    def decrypt_block(self, block: int, sealed: bytes) -> bytes:
        """Return the content of a block.

        Raises ValueError if it was encrypted in another run or for another block, or was changed.
        """
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return AESGCM(self.key).decrypt(nonce, rest, self._associated_data(block))
        except InvalidTag:
            raise ValueError("a block was not sealed in this run") from None

    def _associated_data(self, block: int) -> bytes:
        """Return the bytes that bind an encrypted block to its name and number."""
        return f"{self.name}:{block}".encode()
