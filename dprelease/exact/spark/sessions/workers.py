"""Check before any row is read that executors have the Python and the versions that tasks need."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.errors.printable import one_line
from dprelease.exact.spark.executors.tasks import report_versions, version_text
from dprelease.exact.spark.sessions.attempts import attempt
from dprelease.exact.spark.sessions.private import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON_VARIABLE = "PYSPARK_PYTHON"
"""Environment variable with the Python that executors start."""

VERSION = ".".join(platform.python_version_tuple()[:2])
PYTHON_REMEDY = f"set {PYTHON_VARIABLE} to the path of a Python {VERSION} that every executor has"
INSTALL_REMEDY = (
    "install the same versions of dprelease and duckdb for the Python of every executor"
)

CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r'Cannot run program "([^"\n]*)"',
        "they can't start Python: '{found}' is not there",
        PYTHON_REMEDY,
    ),
    (r"PYTHON_VERSION_MISMATCH", "their Python is of another version", PYTHON_REMEDY),
    (r"No module named '([\w.]*)'", "their Python has no module '{found}'", INSTALL_REMEDY),
    (
        r"(?i)error from python worker|python worker (?:failed|exited)",
        "their Python fails",
        PYTHON_REMEDY,
    ),
)
"""Patterns of Spark's messages when a task that reads nothing fails, with meaning and remedy."""


def refuse_missing_python(master: str | None, environment: Mapping[str, str]) -> None:
    """Raise DP-SPARK-004 if local tasks need a Python that is missing; starts nothing."""
    named = environment.get(PYTHON_VARIABLE)
    if named and is_local(master or "local") and shutil.which(named) is None:
        raise _worker_error(f'Cannot run program "{named}"')


def set_worker_python(environment: MutableMapping[str, str]) -> None:
    """Make local workers use the Python of this process, unless one is configured."""
    if not environment.get(PYTHON_VARIABLE):
        environment[PYTHON_VARIABLE] = sys.executable


def require_same_versions(spark: SparkSession) -> None:
    """Raise DP-SPARK-004 unless executors have the driver's versions; reads no data."""

    def ask_versions() -> tuple[str, str]:
        """Return the versions of the workers and an empty text, or the reverse with the error."""
        ask = spark.range(1, numPartitions=1).mapInArrow(report_versions, "versions string")
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return ask.toArrow()["versions"][0].as_py(), ""
        except (PySparkException, Py4JError) as problem:
            return "", str(problem)

    executor_versions, failure = attempt(ask_versions, _worker_error(""))
    if failure or not executor_versions:
        raise _worker_error(failure)
    if executor_versions != version_text():
        problem = f"they have {executor_versions}, the driver {version_text()}"
        raise DataError("DP-SPARK-004", problem=problem, remedy=INSTALL_REMEDY)


def _worker_error(log_text: str) -> DataError:
    """Return the error for a message of Spark, which can't quote a row: none was read."""
    for pattern, problem, remedy in CAUSES:
        found = re.search(pattern, log_text)
        if found is not None:
            problem_text = problem.format(found=one_line(found[1]) if found.groups() else "")
            return DataError(
                "DP-SPARK-004", problem=problem_text + _python_setting_text(remedy), remedy=remedy
            )
    problem = "Python, dprelease or duckdb is missing there"
    return DataError("DP-SPARK-004", problem=problem, remedy=INSTALL_REMEDY)


def _python_setting_text(remedy: str) -> str:
    """Return a text on the configured Python; empty unless the remedy is to change it."""
    if remedy != PYTHON_REMEDY:
        return ""
    named = os.environ.get(PYTHON_VARIABLE)
    is_set = f"is '{one_line(named)}'" if named else "is not set, so they take python3"
    return f" ({PYTHON_VARIABLE} {is_set})"
