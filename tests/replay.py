"""Bit sources for tests: fixed lists of words, and keyed streams that every run repeats.

They live here, not in the package: no public option seeds a release.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from dprelease.numerics.entropy import Entropy


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


class RepeatableEntropy:
    """Replaces the words of each `Entropy` by a keyed stream of the test that draws first from it.

    So a test has the same noise in each run. In a forked child, streams begin anew with other keys.
    """

    def __init__(self) -> None:
        self._system_words = Entropy.words
        self._streams: weakref.WeakKeyDictionary[Entropy, Keyed] = weakref.WeakKeyDictionary()
        self.begin("")
        os.register_at_fork(
            before=lambda: next(self._numbers),  # the children of a process differ
            after_in_child=lambda: self.begin(f"child {next(self._numbers)} of {self._test}"),
        )

    def begin(self, test: str) -> None:
        """Begin new streams, whose keys depend on a test and on their number in it."""
        self._test, self._numbers = test, itertools.count()
        self._streams.clear()

    def install(self) -> None:
        """Let all streams of this process draw repeatable words."""

        def words(entropy: Entropy, n: int) -> NDArray[np.uint64]:
            with entropy._lock:
                stream = self._streams.get(entropy)
                if stream is None:
                    stream = Keyed(f"{self._test} {next(self._numbers)}")
                    self._streams[entropy] = stream
                return stream.words(n)

        Entropy.words = words  # type: ignore[method-assign, assignment]

    @contextmanager
    def system_words(self) -> Iterator[None]:
        """Let streams draw from the operating system: for tests of `Entropy` itself."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(Entropy, "words", self._system_words)
            yield


repeatable = RepeatableEntropy()
