"""Files of tables, written by a thread while the tables behind them are noised."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dprelease.documents.file_records import Written
from dprelease.system.undisturbed import defer_signals

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Work = Callable[[], dict[str, Written]]
"""Writes tables that have been noised, and returns what their files are, by name."""

MOST_WAITING = 2
"""Tables that are held besides the one that is being noised."""


class TableWriters:
    """Who writes tables whose rows are all there: a thread, or whoever asks if there is none."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool
        self._coming: deque[Future[dict[str, Written]]] = deque()
        self._written: dict[str, Written] = {}

    def write(self, work: Work, *, at_once: bool = False) -> None:
        """Have some tables written, `at_once` or later; raises what writing earlier ones raised."""
        self._settle(0 if at_once else MOST_WAITING - 1)
        coming = None if at_once else self._submit(work)
        if coming is None:
            self._written |= work()
        else:
            self._coming.append(coming)

    def finish(self) -> dict[str, Written]:
        """Return all that was written, in the order in which it came; raises as `write`."""
        self._settle(0)
        return self._written

    def _settle(self, left: int) -> None:
        while len(self._coming) > left:
            self._written |= self._coming.popleft().result()

    def _submit(self, work: Work) -> Future[dict[str, Written]] | None:
        """Give work to the thread; None where there is none, or none is to be had."""
        if self._pool is None:
            return None
        try:
            with defer_signals():  # a thread that has started is one that the pool knows
                return self._pool.submit(work)
        except RuntimeError:  # the first work of all started no thread, so nobody else will do it
            self._pool = None
            return None


@contextmanager
def table_writers(tables: int) -> Iterator[TableWriters]:
    """Yield who writes so many tables of a release; no thread writes any more afterwards.

    Whatever signals come, the thread ends first: the folder that it writes into is removed next if
    the release fails. One table by itself is worth no thread.
    """
    if tables < 2:
        yield TableWriters(None)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, "dprelease-write")
    try:
        yield TableWriters(pool)
    finally:
        with defer_signals():
            pool.shutdown(cancel_futures=True)
