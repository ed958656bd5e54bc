"""Compute the next pieces in threads while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Made = TypeVar("Made")
Task = TypeVar("Task")

THREADS = 2
"""Number of threads: with more, short calls would wait for the interpreter's lock."""


@contextmanager
def ahead(chunks: Iterator[Made], name: str, *, few: bool = False) -> Iterator[Iterator[Made]]:
    """Yield an iterator over chunks, which computes the next chunk while the current one is used.

    One thread of this name computes all chunks, in order, and it ends with the block. `few`:
    whether there are too few chunks for a thread; then each is computed when it is requested.
    """
    if few:
        yield chunks
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, name) as worker:
        yield _one_ahead(chunks, worker)


def _one_ahead(chunks: Iterator[Made], worker: ThreadPoolExecutor) -> Iterator[Made]:
    """Yield chunks while the worker makes the next one."""
    coming = worker.submit(next, chunks, None)
    while (table := coming.result()) is not None:
        coming = worker.submit(next, chunks, None)
        yield table


class Spread(Protocol):
    """A function like `map` that applies work to tasks, such as `in_threads`.

    Results are in the order of the tasks. Each result must depend on its task alone, because a task
    may be run more than once.
    """

    def __call__(self, work: Callable[[Task], Made], tasks: Iterable[Task], /) -> Iterator[Made]:
        """Return the result of each task."""
        ...


def in_threads(work: Callable[[Task], Made], tasks: Iterable[Task]) -> Iterator[Made]:
    """Yield the results of tasks in order, computing the next ones in threads.

    Tasks are started when results are requested, as many ahead as there are threads. No thread is
    left running.
    """
    from concurrent.futures import ThreadPoolExecutor

    left = iter(tasks)
    coming: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(THREADS, "dprelease-work") as workers:
        coming.extend(workers.submit(work, task) for task in islice(left, THREADS))
        while coming:
            made = coming.popleft().result()
            coming.extend(workers.submit(work, task) for task in islice(left, 1))
            yield made
