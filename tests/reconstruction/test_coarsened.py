"""What coarsened tables show and tell, value by value."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.reconstruction.attack import (
    round_counts,
    round_randomly,
    suppress_small_counts,
    suppress_twice,
)
from dprelease.rehearsal.column_values import Draws
from tests.replay import Keyed, Replay

COUNTS = np.arange(31)


def test_count_is_within_published_interval() -> None:
    keys = KeySpace((Key("a", "integer", range(31)),))
    forms = [
        round_counts(COUNTS),
        round_randomly(COUNTS, Draws(Keyed("rounded"))),
        suppress_small_counts(COUNTS),
        suppress_twice(COUNTS, keys),
    ]
    for told in forms:
        assert (told.lower >= 0).all()
        assert (told.lower <= COUNTS).all()
        assert (told.upper >= COUNTS).all()
    assert dict(zip(COUNTS[:9], forms[0].middle[:9], strict=True)) == {
        0: 0, 1: 0, 2: 0, 3: 5, 4: 5, 5: 5, 6: 5, 7: 5, 8: 10,
    }  # fmt: skip
    assert np.flatnonzero(np.isnan(forms[2].middle)).tolist() == list(range(1, 10))


@pytest.mark.parametrize("rest", range(5))
def test_random_rounding_is_unbiased(rest: int) -> None:
    """Which uniform numbers round up is seen at both sides of rest / 5."""
    edge = (rest << 64) // 5
    for word, up in ((edge - 2**20, True), (edge + 2**20, False)):
        if 0 <= word < 2**64:
            told = round_randomly(np.array([20 + rest]), Draws(Replay([word])))
            assert told.middle.tolist() == [25.0 if up else 20.0]


def test_no_line_has_a_single_suppressed_count() -> None:
    """By trying lines one after the other; and without need nothing more is withheld."""
    stream = np.random.default_rng(3)
    for _ in range(50):
        true = stream.integers(0, 40, (3, 4, 2))
        keys = KeySpace(
            tuple(Key(name, "integer", range(n)) for name, n in zip("abc", true.shape, strict=True))
        )
        told = suppress_twice(true.reshape(-1), keys)
        hidden = np.isnan(told.middle).reshape(true.shape)
        assert hidden[(true > 0) & (true < 10)].all()
        assert not hidden[true == 0].any()
        for axis in range(3):
            lines = np.moveaxis(hidden, axis, -1).reshape(-1, true.shape[axis])
            counts = np.moveaxis(true, axis, -1).reshape(-1, true.shape[axis])
            for line, held in zip(lines, counts, strict=True):
                assert line.sum() != 1 or (held > 0).sum() == 1
    large = np.array([[50, 60], [70, 80]])
    keys = KeySpace(tuple(Key(name, "integer", range(2)) for name in "ab"))
    assert not np.isnan(suppress_twice(large.reshape(-1), keys).middle).any()
