"""What is made piece by piece, the next piece in a thread while the one before is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Made = TypeVar("Made")


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
