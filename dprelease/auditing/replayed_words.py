"""Generate the random bits of an audit, which are the same for the same declaration.

These bits determine synthetic rows, and the noise of runs on synthetic rows. They never determine
the noise of a real release: only `AuditedRelease.publish` accepts such a stream of bits, and an
audited release has no declared source.
"""

from __future__ import annotations

import hashlib

import numpy as np

from dprelease.numerics.entropy import Words

WORDS_AT_ONCE = 1 << 13
"""The number of 64-bit words that are generated at a time."""


class ReplayedBits:
    """A stream of random 64-bit words that is derived from a text.

    `drawn_words` is the number of words that it has returned.
    """

    def __init__(self, text: str) -> None:
        self._text, self._batch = text, 0
        self._unused: Words = np.empty(0, dtype=np.uint64)
        self.drawn_words = 0

    def words(self, n: int) -> Words:
        """Return the next (n,) words of the stream."""
        self.drawn_words += n
        parts, missing = [self._unused[:n]], n - len(self._unused)
        self._unused = self._unused[n:]
        while missing > 0:
            batch = self._next_words()
            parts.append(batch[:missing])
            self._unused = batch[missing:]
            missing -= len(batch)
        return np.concatenate(parts)

    def _next_words(self) -> Words:
        """Return the next batch of words: a digest of the text and the number of the batch."""
        self._batch += 1
        named = f"{self._batch} {self._text}".encode()
        raw = hashlib.shake_128(named).digest(8 * WORDS_AT_ONCE)
        return np.frombuffer(raw, dtype=np.uint64)
