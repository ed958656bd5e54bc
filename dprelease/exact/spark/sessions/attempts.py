"""Run Spark actions that may fail, and drop Spark's error messages, which may quote a cell."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from dprelease.errors import DataError, DpReleaseError, State
from dprelease.system.deferred_signals import reraise_handler_errors

Result = TypeVar("Result")


def attempt(work: Callable[[], Result], failure: DpReleaseError) -> Result:
    """Return the result of work; Spark's error messages, which may quote a cell, are dropped.

    Raises `failure` if Spark fails.
    """
    # This changes the filters of the whole process, which is only safe in its main thread.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attempt_in_thread(work, failure)


def attempt_in_thread(work: Callable[[], Result], failure: DpReleaseError) -> Result:
    """Return the result of work, in any thread; unlike `attempt`, this ignores no warnings.

    Raises `failure` if Spark fails.
    """
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    failures = (
        PySparkException, Py4JError, pa.ArrowException, MemoryError, OSError, RuntimeError,
        TypeError, ValueError, LookupError,
    )  # fmt: skip
    with reraise_handler_errors():
        try:
            return work()
        except failures as problem:
            if isinstance(problem, DpReleaseError):
                failure = problem
    raise failure


def reading_failure_error(table: str, format_: str) -> DataError:
    """Return the error of an engine that fails while it reads rows."""
    return DataError("DP-DATA-006", state=State.READ, table=table, format=format_)
