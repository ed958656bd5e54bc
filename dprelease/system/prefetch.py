"""Compute the next results in threads while the current result is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Result = TypeVar("Result")
Task = TypeVar("Task")

THREADS = 2
"""The number of threads; with more threads, short calls would wait for the interpreter's lock."""


@contextmanager
def prefetch_chunks(
    chunks: Iterator[Result], name: str, *, few: bool = False
) -> Iterator[Iterator[Result]]:
    """Yield an iterator over chunks, which computes a chunk while the previous chunk is used.

    One thread with the name `name` computes all chunks in order, and ends with the `with` block.
    With `few`, there are too few chunks for a thread, and each is computed when it is requested.
    """
    if few:
        yield chunks
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, name) as worker:
        yield _prefetch_one(chunks, worker)


def _prefetch_one(chunks: Iterator[Result], worker: ThreadPoolExecutor) -> Iterator[Result]:
    """Yield chunks while the worker computes the next chunk."""
    pending = worker.submit(next, chunks, None)
    while (table := pending.result()) is not None:
        pending = worker.submit(next, chunks, None)
        yield table


class Spread(Protocol):
    """A function like `map` that applies a function to tasks, such as `in_threads`.

    The results are in the order of the tasks. Each result must depend on its task alone, because a
    task may be run more than once.
    """

    def __call__(
        self, work: Callable[[Task], Result], tasks: Iterable[Task], /
    ) -> Iterator[Result]: ...


def in_threads(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield the results of tasks in order, and compute the next results in threads.

    Tasks are started when results are requested: as many tasks in advance as there are threads. All
    threads end with the iterator.
    """
    from concurrent.futures import ThreadPoolExecutor

    left = iter(tasks)
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(THREADS, "dprelease-work") as workers:
        pending.extend(workers.submit(work, task) for task in islice(left, THREADS))
        while pending:
            result = pending.popleft().result()
            pending.extend(workers.submit(work, task) for task in islice(left, 1))
            yield result
