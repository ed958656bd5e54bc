"""The engine that answers the questions of a session: opened with the first one, and kept."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dprelease.exact.answering import Recording
from dprelease.exact.engines import open_engine
from dprelease.schema.load import Declared


class KeptEngine:
    """An engine over rows that never change, so what it has read of their types stays true.

    One question has it at a time; another thread's question meanwhile gets one of its own. It ends
    with the session, or where a question failed: what a failure leaves is nobody's.
    """

    def __init__(self, declared: Declared, frame: object) -> None:
        self._declared, self._frame = declared, frame
        self._lock = threading.Lock()
        self._opened: tuple[Recording, weakref.finalize[[], KeptEngine]] | None = None

    @contextmanager
    def lent(self) -> Iterator[Recording]:
        """Yield the engine for one question.

        Raises
        ------
        DataError
            If the rows can't be read as declared, or the engine can't be set up.
        """
        if not self._lock.acquire(blocking=False):
            with open_engine(self._declared, self._frame) as engine:
                yield engine
            return
        try:
            yield self._engine()
        except BaseException:
            self._close()
            raise
        finally:
            self._lock.release()

    def _engine(self) -> Recording:
        if self._opened is None:
            stack = ExitStack()
            engine = stack.enter_context(open_engine(self._declared, self._frame))
            self._opened = engine, weakref.finalize(self, stack.close)
        return self._opened[0]

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1]()
