"""What is made piece by piece, the next pieces in threads while the one before is used."""

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
"""Threads that work on tasks: short calls of more would wait for the interpreter's lock."""


@contextmanager
def ahead(chunks: Iterator[Made], name: str, *, few: bool = False) -> Iterator[Iterator[Made]]:
    """Yield what is made chunk by chunk, the next one in a thread of that name meanwhile.

    All of it is made in that one thread, in its order, and none is left running. `few`: no thread
    is worth its start, and each is made when it is asked for.
    """
    if few:
        yield chunks
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, name) as worker:
        yield _one_ahead(chunks, worker)


def _one_ahead(chunks: Iterator[Made], worker: ThreadPoolExecutor) -> Iterator[Made]:
    """Yield chunks, the next one being made meanwhile."""
    coming = worker.submit(next, chunks, None)
    while (table := coming.result()) is not None:
        coming = worker.submit(next, chunks, None)
        yield table


class Spread(Protocol):
    """Who does some work on tasks: `map`, `in_threads`, or others; results in the tasks' order.

    The work depends on its task alone, and may be done more than once.
    """

    def __call__(self, work: Callable[[Task], Made], tasks: Iterable[Task], /) -> Iterator[Made]:
        """Return what the work makes of each task."""
        ...


def in_threads(work: Callable[[Task], Made], tasks: Iterable[Task]) -> Iterator[Made]:
    """Yield what some work makes of each task, in their order, the next ones in threads meanwhile.

    Tasks are made where their results are asked for, as many ahead as there are threads; none of
    these is left running.
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
