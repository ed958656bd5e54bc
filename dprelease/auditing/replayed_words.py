"""Generate the random words of an audit: the same for the same declaration.

They determine synthetic rows, and the noise of runs about these. No release is drawn from them:
only `Stage.publish` takes such a stream, and it has no declared source.
"""

from __future__ import annotations

import hashlib

import numpy as np

from dprelease.numerics.entropy import Words

BLOCK = 1 << 13
"""Words that are generated at a time."""


class ReplayedWords:
    """A stream of words derived from a text; it counts the words it gives."""

    def __init__(self, text: str) -> None:
        self._text, self._block = text, 0
        self._held: Words = np.empty(0, dtype=np.uint64)
        self.drawn = 0

    def words(self, n: int) -> Words:
        """Return (n,) words, the next ones of the stream."""
        self.drawn += n
        parts, missing = [self._held[:n]], n - len(self._held)
        self._held = self._held[n:]
        while missing > 0:
            block = self._next_block()
            parts.append(block[:missing])
            self._held = block[missing:]
            missing -= len(block)
        return np.concatenate(parts)

    def _next_block(self) -> Words:
        self._block += 1
        named = f"{self._block} {self._text}".encode()
        raw = hashlib.shake_128(named).digest(8 * BLOCK)
        return np.frombuffer(raw, dtype=np.uint64)
