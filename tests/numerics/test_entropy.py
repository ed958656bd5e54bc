"""The stream is never seeded, never copied and never repeated by a child (V39, V40)."""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from scipy import stats

from dprelease.numerics import entropy
from dprelease.numerics.entropy import Entropy, random_order
from tests import processes
from tests.replay import OutOfBits, Replay, repeatable


@pytest.fixture(autouse=True)
def _system_words() -> Iterator[None]:
    with repeatable.system_words():
        yield


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams have no words of the system's own before those of their key."""
    monkeypatch.setattr(entropy, "SYSTEM_BYTES", 0)


@pytest.mark.parametrize("own", [0, entropy.SYSTEM_BYTES])
def test_streams_differ_despite_seeds(own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "SYSTEM_BYTES", own)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    np.random.seed(0)
    first = Entropy().words(4)
    np.random.seed(0)
    assert not np.array_equal(first, Entropy().words(4))


def begun(number: int) -> list[Entropy]:
    """Return streams that have drawn words of their keys."""
    streams = [Entropy() for _ in range(number)]
    for stream in streams:
        stream.words(1)
    return streams


@pytest.mark.usefixtures("keyed")
def test_cloned_streams_diverge_after_new_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines resumed from one snapshot share the key until `fresh` mixes in new bytes."""
    twins = begun(2)
    twins[1]._key = twins[0]._key
    for twin in twins:
        twin.mix_in_system_bytes()
    assert not np.array_equal(twins[0].words(4), twins[1].words(4))
    known = begun(2)
    monkeypatch.setattr(entropy.os, "urandom", lambda n: bytes(n))
    known[0]._key, known[1]._key = b"a" * 32, b"b" * 32
    for stream in known:
        stream.mix_in_system_bytes()  # a broken system source can't undo what the old key held
    assert not np.array_equal(known[0].words(4), known[1].words(4))


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_streams_refuse_copies(copier: object) -> None:
    with pytest.raises(TypeError):
        copier(Entropy())  # type: ignore[operator]


def by_fork(work: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    processes.ended(child)


def by_multiprocessing(work: Callable[[], None]) -> None:
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    assert child.exitcode == 0


def by_a_grandchild(work: Callable[[], None]) -> None:
    by_fork(lambda: by_fork(work))


def by_a_thread(work: Callable[[], None]) -> None:
    worker = threading.Thread(target=by_fork, args=(work,))
    worker.start()
    worker.join(60)


def unknown_to_python(work: Callable[[], None]) -> None:
    """A library may call fork(2) itself: no function that is registered with Python is called."""
    import ctypes

    child = ctypes.PyDLL(None).fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    processes.ended(child)


FORKS = (by_fork, by_multiprocessing, by_a_grandchild, by_a_thread, unknown_to_python)
SITUATIONS = ("fresh", "used", "of the same number", "locked by a thread", "rekeyed in between")


@pytest.mark.share(0.25)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("forked", FORKS)
@pytest.mark.parametrize("own", [0, entropy.SYSTEM_BYTES], ids=["keyed", "own"])
def test_forked_child_draws_its_own_words(
    own: int,
    forked: Callable[[Callable[[], None]], None],
    situation: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No word of a child is one of its parent, or of a child of the same parent."""
    monkeypatch.setattr(entropy, "SYSTEM_BYTES", own)
    if forked is unknown_to_python and situation in ("of the same number", "locked by a thread"):
        return  # the kernel's number is all that tells then, and a lock stays locked
    stream = Entropy()
    stream.words(0 if situation == "fresh" else 8)
    if (
        situation == "of the same number"
    ):  # the first of a container is number 1, as its maker may be
        monkeypatch.setattr(os, "getpid", lambda: 1)
        stream.mix_in_system_bytes()
    if situation == "locked by a thread":
        locked = threading.Thread(target=stream._lock.acquire)
        locked.start()
        locked.join()
    read, write = os.pipe()

    def work() -> None:
        signal.alarm(20)
        os.write(write, stream.words(4).tobytes())

    drawn = []
    for _ in range(2):
        forked(work)
        os.set_blocking(read, False)
        drawn.append(np.frombuffer(os.read(read, 32), dtype=np.uint64))
        if situation == "rekeyed in between":
            stream.mix_in_system_bytes()
    if situation == "locked by a thread":
        stream._lock.release()
    drawn.append(stream.words(1000))
    os.close(read)
    os.close(write)
    assert len(np.unique(np.concatenate(drawn))) == 1008


@pytest.mark.parametrize("number", [1_000, 20_000])
def test_threads_share_no_words(number: int) -> None:
    stream = Entropy()
    found: list[np.ndarray] = []
    processes.in_threads([lambda: found.append(stream.words(number))] * 8)
    assert len(np.unique(np.concatenate(found))) == 8 * number


@pytest.mark.usefixtures("keyed")
def test_long_streams_are_rekeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "REKEY_AFTER", 100)
    [stream] = begun(1)
    key = stream._key
    for _ in range(10):
        stream.words(8)
    assert stream._key != key


def test_requests_larger_than_the_buffer() -> None:
    assert len(np.unique(Entropy().words(1 << 18))) == 1 << 18


@pytest.mark.usefixtures("keyed")
def test_keys_use_all_system_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 bytes, each of which counts: fewer would be a key that can be tried out."""
    asked: list[int] = []

    def given(marked: int) -> bytes:
        asked.clear()

        def urandom(n: int) -> bytes:
            asked.append(n)
            return bytes(int(i == marked) for i in range(n))

        monkeypatch.setattr(entropy.os, "urandom", urandom)
        [stream] = begun(1)
        keys = [stream._key]
        stream.mix_in_system_bytes()
        return b"".join([*keys, stream._key])

    plain = given(-1)
    assert asked == [64, 64]
    assert len({plain, *(given(i) for i in range(64))}) == 65


def test_first_words_are_system_bytes_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every byte that it gives is in one word; the key stream begins where no more are taken."""
    given: list[bytes] = []

    def urandom(n: int) -> bytes:
        given.append(bytes((len(given) + i) % 251 for i in range(n)))
        return given[-1]

    monkeypatch.setattr(entropy.os, "urandom", urandom)
    stream, sizes = Entropy(), (1, 0, 7, 40, 3)
    assert np.concatenate([stream.words(n) for n in sizes]).tobytes() == b"".join(given)
    assert [len(some) for some in given] == [8 * n for n in sizes]
    stream.words((entropy.SYSTEM_BYTES // 8) - sum(sizes))
    assert (len(given), stream._key) == (6, b"")
    stream.words(1)
    assert (len(given), len(given[-1]), len(stream._key)) == (7, 64, 32)


def test_few_words_load_no_cipher() -> None:
    code = (
        "import sys; from dprelease.numerics import entropy as e; s = e.Entropy()\n"
        "s.words(e.SYSTEM_BYTES // 8); s.mix_in_system_bytes(); print('cryptography' in sys.modules)\n"
        "s.words(1); print('cryptography' in sys.modules)"
    )
    run = processes.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


@pytest.mark.usefixtures("keyed")
def test_words_are_the_keystream_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No word is given twice, left out, or taken from elsewhere, whatever sizes are asked for."""
    monkeypatch.setattr(entropy, "REKEY_WORDS", 2**60)  # one key for all of them
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    stream = Entropy()
    sizes = (1, 1, 7, 2**13 + 1, 1, 0, 40_000, 3)
    found = np.concatenate([stream.words(n) for n in sizes])
    expected = Cipher(AES256(stream._key), CTR(bytes(16))).encryptor().update(bytes(8 * sum(sizes)))
    assert found.tobytes() == expected


@pytest.mark.usefixtures("keyed")
def test_many_words_begin_with_new_bytes() -> None:
    """Twins that were resumed from one snapshot draw other noise, without being told."""
    twins = begun(2)
    twins[1]._key, twins[1]._stream = twins[0]._key, twins[0]._stream
    drawn = [twin.words(entropy.REKEY_WORDS) for twin in twins]
    assert not np.intersect1d(*drawn).size
    assert twins[0]._key != twins[1]._key


WORDS = (0, 1, 2**63 - 1, 2**63, 2**64 - 1)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_all_orders_are_equally_likely(n: int) -> None:
    """All words of n places: those without a tie give each order equally often, others none."""
    orders: Counter[tuple[int, ...]] = Counter()
    for words in itertools.product(WORDS, repeat=n):
        try:
            orders[tuple(random_order(n, Replay(list(words))).tolist())] += 1
        except OutOfBits:  # there was a tie, and other words are asked for
            assert len({*words}) < n
    assert {*orders} == {*itertools.permutations(range(n))}
    assert len({*orders.values()}) == 1


def test_words_with_a_tie_are_all_drawn_again() -> None:
    for at in range(8):
        words = [*range(100, 1100)]
        words[at * 100] = words[500 + at]
        bits = Replay([*words, *reversed(range(1000))])
        assert random_order(1000, bits).tolist() == [*reversed(range(1000))]
        assert bits.drawn == 2000


def test_orders_of_the_system_are_uniform() -> None:
    """Two arms: fresh orders pass, and orders of which ties keep the first one first are found."""
    bits, times = Entropy(), 24_000

    def p_value(orders: Iterable[np.ndarray]) -> float:
        found = Counter(tuple(order.tolist()) for order in orders)
        counts = [found[one] for one in itertools.permutations(range(4))]
        return float(stats.chisquare(counts).pvalue)

    assert p_value(random_order(4, bits) for _ in range(times)) > 1e-10
    tied = (np.argsort(bits.words(4) >> np.uint64(60), kind="stable") for _ in range(times))
    assert p_value(tied) < 1e-10
