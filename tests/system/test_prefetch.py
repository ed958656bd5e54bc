"""Prefetched pieces are in order, with their errors, and leave no thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from dprelease.system.prefetch import prefetch_chunks

NAME = "made-ahead-in-a-test"


def numbers(made_by: list[str], broken: bool = False) -> Iterator[int]:
    for number in range(5):
        made_by.append(threading.current_thread().name)
        if broken and number == 3:
            raise ValueError("the fourth can't be made")
        yield number


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith(NAME)]


@pytest.mark.parametrize("few", [True, False])
def test_prefetched_chunks_keep_order_and_errors(few: bool) -> None:
    made_by: list[str] = []
    with prefetch_chunks(numbers(made_by), NAME, few=few) as coming:
        assert list(coming) == [0, 1, 2, 3, 4]
    assert len(set(made_by)) == 1
    assert made_by[0].startswith(NAME) is not few
    found = []
    with (
        pytest.raises(ValueError, match="the fourth"),
        prefetch_chunks(numbers([], broken=True), NAME, few=few) as coming,
    ):
        found.extend(coming)
    with prefetch_chunks(numbers([], broken=True), NAME, few=few) as coming:
        assert [next(coming), next(coming), next(coming)] == [0, 1, 2]
    assert threads() == []


def test_stopped_prefetch_leaves_no_thread() -> None:
    def some() -> Iterator[int]:
        with prefetch_chunks(numbers([]), NAME) as coming:
            yield from coming

    begun = some()
    assert next(begun) == 0
    assert threads()
    begun.close()  # type: ignore[attr-defined]
    assert threads() == []
