"""The stream is never seeded, never copied and never repeated by a child (V39, V40)."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import numpy as np
import pytest

from dprelease.numerics import entropy
from dprelease.numerics.entropy import Entropy


def test_two_streams_differ_whatever_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    np.random.seed(0)
    first = Entropy().words(4)
    np.random.seed(0)
    assert not np.array_equal(first, Entropy().words(4))


def test_fresh_changes_the_stream_and_a_clone_drifts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines resumed from one snapshot share the key until `fresh` mixes in new bytes."""
    twins = [Entropy(), Entropy()]
    twins[1]._key = twins[0]._key
    for twin in twins:
        twin.fresh()
    assert not np.array_equal(twins[0].words(4), twins[1].words(4))
    monkeypatch.setattr(entropy.os, "urandom", lambda n: bytes(n))
    known = [Entropy(), Entropy()]
    known[0]._key, known[1]._key = b"a" * 32, b"b" * 32
    for stream in known:
        stream.fresh()  # a broken system source can't undo what the old key held
    assert not np.array_equal(known[0].words(4), known[1].words(4))


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_refuses_copies(copier: object) -> None:
    with pytest.raises(TypeError):
        copier(Entropy())  # type: ignore[operator]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_draws_its_own() -> None:
    stream = Entropy()
    stream.words(8)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, stream.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 32), dtype=np.uint64)
    os.close(read)
    os.close(write)
    assert not np.array_equal(theirs, stream.words(4))


def test_threads_share_no_words() -> None:
    stream = Entropy()
    found: list[np.ndarray] = []
    workers = [
        threading.Thread(target=lambda: found.append(stream.words(20_000))) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(np.unique(np.concatenate(found))) == 160_000


def test_rekeys_before_the_stream_grows_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "REKEY_AFTER", 100)
    stream = Entropy()
    key = stream._key
    for _ in range(10):
        stream.words(8)
    assert stream._key != key


def test_requests_larger_than_the_buffer() -> None:
    assert len(np.unique(Entropy().words(1 << 18))) == 1 << 18


def test_every_key_holds_all_that_the_system_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 bytes, each of which counts: fewer would be a key that can be tried out."""
    asked: list[int] = []

    def given(marked: int) -> bytes:
        asked.clear()

        def urandom(n: int) -> bytes:
            asked.append(n)
            return bytes(int(i == marked) for i in range(n))

        monkeypatch.setattr(entropy.os, "urandom", urandom)
        stream = Entropy()
        keys = [stream._key]
        stream.fresh()
        return b"".join([*keys, stream._key])

    plain = given(-1)
    assert asked == [64, 64]
    assert len({plain, *(given(i) for i in range(64))}) == 65


def test_words_are_those_of_one_keystream_in_order_each_once() -> None:
    """No word is given twice, left out, or taken from elsewhere, whatever sizes are asked for."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    stream = Entropy()
    sizes = (1, 1, 7, 2**13 + 1, 1, 0, 40_000, 3)
    found = np.concatenate([stream.words(n) for n in sizes])
    expected = Cipher(AES256(stream._key), CTR(bytes(16))).encryptor().update(bytes(8 * sum(sizes)))
    assert found.tobytes() == expected
