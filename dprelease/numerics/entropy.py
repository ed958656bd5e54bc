"""The only source of randomness: an AES-256-CTR keystream keyed by the operating system.

The stream has no seed and no public way to get one. It can't be copied or pickled, a forked child
draws a key of its own, whatever its number is, and new bytes of the operating system are mixed into
the key before many words, so that a machine that was cloned or restored does not repeat the noise
of its twin.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from dprelease.system.forks import Maker

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Words = NDArray[np.uint64]

REKEY_AFTER = 2**36
"""Bytes drawn from one key: 2**32 AES blocks, far below where a counter stream shows its period."""


MANY = 1024
"""Words drawn at once that are worth new bytes: a vector of noise begins with them."""


class BitSource(Protocol):
    """Anything that gives independent uniform 64-bit words."""

    def words(self, n: int) -> Words:
        """Return (n,) independent uniform words."""
        ...


class Entropy:
    """Uniform words from the operating system's entropy, stretched by AES-256 in counter mode."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zeros = bytes(2**16)
        self._rekey(b"")
        _STREAMS.add(self)

    def fresh(self) -> None:
        """Mix new bytes of the operating system into the key; `words` does where many are drawn."""
        with self._lock:
            self._rekey(self._key)

    def words(self, n: int) -> Words:
        """Return (n,) independent uniform words; safe from several threads and after a fork."""
        with self._lock:
            if not self._maker.is_here or self._drawn > REKEY_AFTER or n >= MANY:
                self._rekey(self._key)
            self._drawn += 8 * n
            if len(self._zeros) < 8 * n:
                self._zeros = bytes(8 * n)
            return np.frombuffer(
                self._stream.update(memoryview(self._zeros)[: 8 * n]), dtype=np.uint64
            )

    def _rekey(self, old_key: bytes) -> None:
        # Plans load this module, and draw nothing.
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        # Hashing the old key in can only add entropy: if either part is unknown, the key is.
        self._key = hashlib.sha256(old_key + os.urandom(64)).digest()
        self._stream: CipherContext = Cipher(AES256(self._key), CTR(bytes(16))).encryptor()
        self._maker = Maker()
        self._drawn = 0

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def __copy__(self) -> NoReturn:
        raise TypeError("a stream of randomness can't be copied: two copies draw the same noise")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream of randomness can't be pickled: two copies draw the same noise")


_STREAMS: weakref.WeakSet[Entropy] = weakref.WeakSet()


def _unlock_all() -> None:
    """Free what threads of the parent had locked: a child has none of them, and would wait."""
    for stream in _STREAMS:
        stream._unlock()


os.register_at_fork(after_in_child=_unlock_all)
