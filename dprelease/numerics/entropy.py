"""The only source of randomness: the operating system, with AES-256-CTR for large draws.

The first words of a stream come directly from the operating system, and all further words from a
keystream whose key comes from the operating system. The stream has no seed, and no public function
sets one. A stream can't be copied or pickled, and a forked child process draws a new key, even if
it has the process number of an earlier process. Before a stream draws many words, it mixes fresh
bytes of the operating system into the key, so that a cloned or restored virtual machine does not
repeat the noise of the original machine.
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
"""Maximum number of bytes from one key: 2**32 AES blocks, far below the number at which a stream in
counter mode differs from random bits."""


SYSTEM_BYTES = 2**18
"""Number of bytes of a stream that the operating system provides directly. They take 0.7 ms, while
loading the cipher takes 10 ms."""

REKEY_WORDS = 1024
"""Number of words in one draw from which on a stream mixes fresh bytes into its key first.

Each vector of noise starts with such a draw."""


class BitSource(Protocol):
    """A source of independent, uniformly distributed 64-bit words."""

    def words(self, n: int) -> Words:
        """Return an array (n,) of independent, uniformly distributed words."""
        ...


def random_order(n: int, bits: BitSource) -> NDArray[np.intp]:
    """Return an array (n,) of 0..n-1 in a random order; all n! orders are equally likely.

    The numbers are sorted by independent uniform words. If all words differ, every order is equally
    likely. If two words are equal, all words are drawn again, so no tie is ever resolved. This
    happens with a probability below n^2 2^-65, and depends on the words alone.
    """
    while True:
        words = bits.words(n)
        order = np.argsort(words)
        ascending = words[order]
        # A sort would leave equal words in an order that depends on the source, and so on the
        # values.
        if not (ascending[1:] == ascending[:-1]).any():
            return order


class Entropy:
    """Random words from the operating system, stretched by AES-256 in counter mode."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zeros = b""
        self._key = b""
        self._stream: CipherContext | None = None
        self._system_bytes_left = SYSTEM_BYTES
        _STREAMS.add(self)

    def mix_in_system_bytes(self) -> None:
        """Mix fresh bytes of the operating system into the key, as `words` does for large draws."""
        with self._lock:
            if self._stream is not None:
                self._rekey()

    def words(self, n: int) -> Words:
        """Return (n,) independent, uniformly distributed words.

        Several threads may call this method, and forked child processes draw other words.
        """
        size = 8 * n
        with self._lock:
            if size <= self._system_bytes_left:
                self._system_bytes_left -= size
                # Byte order does not matter: all words are uniform.
                return np.frombuffer(os.urandom(size), dtype=np.uint64)
            return np.frombuffer(self._keystream(size), dtype=np.uint64)

    def _keystream(self, size: int) -> bytes:
        """Return so many random bytes, from a new key if the old one is used up."""
        stream = self._stream
        if (
            stream is None
            # A forked child has the parent's key, and would draw the parent's noise.
            or not self._maker.is_here
            or self._drawn > REKEY_AFTER
            or size >= 8 * REKEY_WORDS
        ):
            stream = self._rekey()
        self._drawn += size
        if len(self._zeros) < size:
            # The keystream is the encryption of zeros, which are kept for later draws.
            self._zeros = bytes(max(size, 2**16))
        return stream.update(memoryview(self._zeros)[:size])

    def _rekey(self) -> CipherContext:
        """Return a new stream cipher, whose key depends on the old key and new random bytes."""
        # Imported here, because plans load this module without drawing random bits.
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES256
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        # The old key can only add entropy: if either part is unknown, the new key is unknown.
        self._key = hashlib.sha256(self._key + os.urandom(64)).digest()
        # A counter from 0 repeats no block, because every key is used for one stream only.
        self._stream = Cipher(AES256(self._key), CTR(bytes(16))).encryptor()
        self._maker = Maker()
        self._drawn = 0
        return self._stream

    def _unlock(self) -> None:
        """Replace the lock: after a fork, it may be held by a thread that does not exist."""
        self._lock = threading.Lock()

    def __copy__(self) -> NoReturn:
        raise TypeError("a stream of randomness can't be copied: two copies draw the same noise")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream of randomness can't be pickled: two copies draw the same noise")


_STREAMS: weakref.WeakSet[Entropy] = weakref.WeakSet()


def _unlock_all() -> None:
    """Replace locks that threads of the parent process held, which don't exist in the child."""
    for stream in _STREAMS:
        stream._unlock()


os.register_at_fork(after_in_child=_unlock_all)
