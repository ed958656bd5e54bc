"""Generate the random 64-bit words of an audit, the same ones for the same declaration.

The words determine synthetic rows, and the noise of runs on such rows. No real release is drawn
from them: only `Stage.publish` accepts such a stream, and a stage has no declared source.
"""

from __future__ import annotations

import hashlib

import numpy as np

from dprelease.numerics.entropy import Words

BLOCK = 1 << 13
"""The number of words that are generated at a time."""


class ReplayedWords:
    """A stream of random words derived from a text; it counts the words that it returns."""

    def __init__(self, text: str) -> None:
        self._text, self._block = text, 0
        self._held: Words = np.empty(0, dtype=np.uint64)
        self.drawn = 0

    def words(self, n: int) -> Words:
        """Return the next (n,) words of the stream."""
        self.drawn += n
        parts, missing = [self._held[:n]], n - len(self._held)
        self._held = self._held[n:]
        while missing > 0:
            block = self._next_words()
            parts.append(block[:missing])
            self._held = block[missing:]
            missing -= len(block)
        return np.concatenate(parts)

    def _next_words(self) -> Words:
        self._block += 1
        named = f"{self._block} {self._text}".encode()
        raw = hashlib.shake_128(named).digest(8 * BLOCK)
        return np.frombuffer(raw, dtype=np.uint64)
