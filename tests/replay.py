"""Bit sources for tests: a fixed list of words, and a keyed stream that every run repeats.

They live here, not in the package: no public option seeds a release.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray


class OutOfBits(Exception):
    """A replayed list of words was used up."""


MOST_FILL = 2**16
"""Words after which a constant is no stream of bits any more: who rejects it always will."""


class Replay:
    """The words that it was given, once each; then `OutOfBits`, or `fill` so many times."""

    def __init__(self, words: list[int], fill: int | None = None) -> None:
        self._words, self._fill = list(words), fill
        self.drawn = self._filled = 0

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next n words."""
        self.drawn += n
        missing = n - len(self._words)
        if missing > 0:
            self._filled += missing
            if self._fill is None or self._filled > MOST_FILL:
                raise OutOfBits
            self._words += [self._fill] * missing
        taken, self._words = self._words[:n], self._words[n:]
        return np.array(taken, dtype=np.uint64)


class Keyed:
    """A stream that depends on a text alone; counts what it gives."""

    def __init__(self, key: str) -> None:
        digest = hashlib.sha256(key.encode()).digest()
        self._stream = Cipher(AES256(digest), CTR(bytes(16))).encryptor()
        self.drawn = 0

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next n words."""
        self.drawn += n
        return np.frombuffer(self._stream.update(bytes(8 * n)), dtype=np.uint64)


class Led(Replay):
    """Some words, and those of a key afterwards."""

    def __init__(self, words: list[int], key: str) -> None:
        super().__init__(words)
        self._then = Keyed(key)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next n words."""
        return super().words(n) if self._words else self._then.words(n)
