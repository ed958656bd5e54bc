"""Open Spark sessions, and silence what Spark's Python prints or takes over.

Only the run itself reports how it ended.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dprelease.errors import DataError
from dprelease.errors.printable import one_line
from dprelease.exact.spark.sessions.attempts import attempt
from dprelease.exact.spark.sessions.private import (
    end_java,
    forget_folders,
    has_java,
    private_settings,
    session_exposure_texts,
)
from dprelease.exact.spark.sessions.workers import (
    refuse_missing_python,
    require_same_versions,
    set_worker_python,
)
from dprelease.system.forks import Maker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def restore_interrupt_handler() -> Iterator[None]:
    """Restore the handler of keyboard interrupts after the block.

    A new application replaces it by one that makes Java cancel its jobs; our jobs end anyway.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and before is not None:  # otherwise it was not set from Python
            signal.signal(signal.SIGINT, before)


@contextmanager
def silence_logging() -> Iterator[None]:
    """Suppress log output in the block unless logging is configured.

    Otherwise an interrupt while Java answers would print a traceback, and log records of all
    libraries from then on, because py4j configures the root logger.
    """
    nobody, root = logging.NullHandler(), logging.getLogger()
    if not root.handlers:
        root.addHandler(nobody)
    try:
        yield
    finally:
        root.removeHandler(nobody)


def silence_accumulator_thread(spark: SparkSession) -> None:
    """Keep the thread that reads Spark's accumulators silent when Java is gone."""
    server: Any = getattr(getattr(spark, "_sc", None), "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


FIXED_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Otherwise a catalogue's column would be missing in files with another case of its name.
    "spark.sql.caseSensitive": "false",
    # Partitions must not be split or moved after rows were grouped by unit.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64MB",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # For listings of a table's files; rows about people set their own number of partitions.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # else no column of the file can be read
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""Settings of the session on which results may depend."""

CONNECT_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
"""Environment variable by which pyspark knows that this process uses Spark Connect."""

QUIET_SETTINGS = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True)
class SparkSettings:
    """The Spark to use; settings that are None or missing come from Spark's configuration."""

    master: str | None = None
    staging: str | None = None
    """A folder that all executors can reach, and as confidential as the data."""
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_remote(self) -> bool:
        """Return whether a server of Spark Connect is named."""
        return (self.master or "").startswith("sc://")


class ExposedWarning(UserWarning):
    """Warning: Spark was configured by others, and exposes more than the release publishes."""


@contextmanager
def open_session(settings: SparkSettings) -> Iterator[SparkSession]:
    """Yield a separate session: of the running application, or of a new one.

    A new application is private, and its folder is removed. For a running application, or a server,
    a warning lists what it exposes.

    Warns with ExposedWarning if Spark was configured by others so that it exposes more than the
    release.

    Raises DataError: DP-SPARK-003 if pyspark is not installed, or Spark can't be started.
    """
    if find_spec("pyspark") is None:
        problem, remedy = "pyspark is not installed", "install dprelease[spark]"
        raise DataError("DP-SPARK-003", problem=problem, remedy=remedy)
    from pyspark.sql import SparkSession

    running, mode = SparkSession.getActiveSession(), os.environ.get(CONNECT_VARIABLE)
    own, maker = running is None and not settings.is_remote, Maker()
    with ExitStack() as stack:
        config: Mapping[str, str] = settings.config
        if own:
            refuse_missing_python(settings.master or config.get("spark.master"), os.environ)
            config = stack.enter_context(private_settings(settings.master, config))
            stack.enter_context(_end_started_java())
        stack.enter_context(silence_logging())
        with restore_interrupt_handler():
            spark = attempt(lambda: _start_session(settings, config, running), _start_error())
        if own:
            silence_accumulator_thread(spark)
        try:
            if not (own or is_application_alive()):
                _warn_of_exposures(spark)
            yield spark
        finally:
            # Otherwise the application would stop, or a fork would stop that of its parent.
            if maker.is_here and (running is None or not is_classic(spark)):
                with suppress(DataError):  # the answers are complete already
                    attempt(spark.stop, _start_error())
            if mode is None:
                os.environ.pop(
                    CONNECT_VARIABLE, None
                )  # otherwise pyspark would start no other Spark afterwards


_KEEPERS: list[Maker] = []
"""The makers of the application that this process keeps for several engines."""


@contextmanager
def keep_application(settings: SparkSettings) -> Iterator[None]:
    """Keep one application for all sessions of the block; its executors are checked once.

    Starting one takes longer than counting the rows of an audit.

    Warns with ExposedWarning as `open_session`.

    Raises DataError: DP-SPARK-003 as `open_session`, DP-SPARK-004 if its executors have other
    versions.
    """
    with open_session(settings) as spark:
        require_same_versions(spark)
        _KEEPERS.append(Maker())
        try:
            yield
        finally:
            _KEEPERS.pop()


def is_application_alive() -> bool:
    """Return whether this process keeps an application whose executors are checked."""
    return bool(_KEEPERS) and _KEEPERS[-1].is_here


@contextmanager
def _end_started_java() -> Iterator[None]:
    """End a Java started in the block, and make an earlier one forget this run's folders."""
    before, maker = has_java(), Maker()
    attempt(forget_folders, _start_error())
    try:
        yield
    finally:
        if maker.is_here:  # a forked process must not stop its parent's Java
            with suppress(DataError):
                attempt(forget_folders if before else end_java, _start_error())


def _warn_of_exposures(spark: SparkSession) -> None:
    """Warn if the settings of a session show records to others."""
    open_doors = attempt(lambda: session_exposure_texts(spark), _start_error())
    if open_doors:
        exposures_text = one_line("; ".join(open_doors))
        warnings.warn(f"Spark was configured elsewhere: {exposures_text}", ExposedWarning, 5)


def is_classic(spark: SparkSession) -> bool:
    """Return whether the Spark driver is in this process, rather than behind Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def _start_error() -> DataError:
    """Return the error of a session that could not be started."""
    problem = "Spark refused to start, or is not available"
    remedy = (
        "check `spark: {master: ..., config: ...}` and the configuration of Spark, and Java; Spark "
        "Connect needs dprelease[spark-connect]"
    )
    return DataError("DP-SPARK-003", problem=problem, remedy=remedy)


def _start_session(
    settings: SparkSettings, config: Mapping[str, str], running: SparkSession | None
) -> SparkSession:
    """Return a new session, of the running application if there is one, else of a new one."""
    if running is not None:
        again: Any = running
        spark = running.newSession() if is_classic(running) else again.cloneSession()
    else:
        spark = _start_application(settings, config)
    for name, value in FIXED_SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def _start_application(settings: SparkSettings, config: Mapping[str, str]) -> SparkSession:
    """Return the first session of a new application of Spark."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName("dprelease")
    master = settings.master or ""
    if settings.is_remote:
        builder = builder.remote(master)
    else:
        for name, value in QUIET_SETTINGS.items():
            builder = builder.config(name, value)
        if master:
            builder = builder.master(master)
        if not master or master.startswith("local"):
            set_worker_python(os.environ)
    for name, value in config.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.create() if settings.is_remote else builder.getOrCreate()
    return spark
