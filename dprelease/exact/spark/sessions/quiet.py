"""What Spark's Python prints and takes over by itself: the run alone says how it ended."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def handler_kept() -> Iterator[None]:
    """Give the interrupt of the keyboard back to whoever handled it before the block.

    A new application takes it, and asks Java to cancel its jobs; ours are ended with it anyway.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and before is not None:  # else it isn't Python's to give
            signal.signal(signal.SIGINT, before)


@contextmanager
def silence_logging() -> Iterator[None]:
    """Let no log be printed in the block that nobody has asked for.

    Whoever is interrupted while Java answers finds a traceback on the screen otherwise, and log
    records of everybody from then on: py4j configures the root logger.
    """
    nobody, root = logging.NullHandler(), logging.getLogger()
    if not root.handlers:
        root.addHandler(nobody)
    try:
        yield
    finally:
        root.removeHandler(nobody)


def without_tracebacks(spark: SparkSession) -> None:
    """Let the thread that takes Spark's accumulators print nothing when Java is gone."""
    server: Any = getattr(getattr(spark, "_sc", None), "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
