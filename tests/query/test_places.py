"""Places of values: the same sequence however it is held, and short where it rises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.query.grouping.group_keys import Places
from tests.covering import examples

SOME = st.lists(st.integers(0, 5), max_size=40)


@examples(60)
@given(numbers=st.one_of(SOME, SOME.map(sorted)), limit=st.integers(0, 6))
def test_places_equal_their_numbers(numbers: list[int], limit: int) -> None:
    places = Places(numbers)
    size = len(numbers)
    assert list(places) == numbers == places.numbers.tolist()
    assert len(places) == size
    assert [places[i] for i in range(-size, size)] == [*numbers, *numbers]
    assert list(places[1:-1]) == numbers[1:-1]
    assert places == Places(np.array(numbers, np.int64)) != Places([*numbers, 7])
    assert hash(places) == hash(Places(iter(numbers)))
    assert places.most_occurrences == max((numbers.count(n) for n in numbers), default=0)
    if all(one <= other for one, other in pairwise(numbers)):
        assert places.counts_below([limit]).tolist() == [sum(n < limit for n in numbers)]
    with pytest.raises(IndexError):
        places[size]


def test_rising_places_are_stored_as_runs() -> None:
    """A million leaves in a thousand areas: a few numbers for each area."""
    places = Places(np.repeat(np.arange(1000), 1000))
    held = sum(part.nbytes for part in vars(places).values() if isinstance(part, np.ndarray))
    assert held == 16_000
    assert places.most_occurrences == 1000
    assert not places.numbers.flags.writeable
