"""Spark sessions, and what may be heard of them.

What Spark's Python prints and takes over by itself: the run alone says how it ended.
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
from dprelease.exact.spark.sessions.exposure import left_open_by
from dprelease.exact.spark.sessions.private import (
    end_java,
    forget_folders,
    has_java,
    private_settings,
)
from dprelease.exact.spark.sessions.workers import (
    name_python,
    refuse_missing_python,
    refuse_other_versions,
)
from dprelease.system.forks import Maker

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


FIXED = {
    "spark.sql.session.timeZone": "UTC",
    # Else a column of a catalogue would be missing in files that write it otherwise.
    "spark.sql.caseSensitive": "false",
    # No partition may be cut or moved after rows were brought together by their unit.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64MB",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Of what is asked of the files of a table; rows about people are spread by their number.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # else no column of the file can be read
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""Settings of the session that answers may depend on."""

CONNECT = "SPARK_CONNECT_MODE_ENABLED"
"""Where pyspark notes that this process uses Spark Connect."""

QUIET = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True)
class Settings:
    """Which Spark to use: its own configuration decides where nothing is said."""

    master: str | None = None
    staging: str | None = None
    """A folder that all executors reach, and as confidential as the data."""
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_remote(self) -> bool:
        """Return whether a server of Spark Connect is named."""
        return (self.master or "").startswith("sc://")


class ExposedWarning(UserWarning):
    """A Spark that was configured elsewhere tells others more than the release does."""


@contextmanager
def session(settings: Settings) -> Iterator[SparkSession]:
    """Yield a session of its own: of the application that runs already, or of a new one.

    A new one is private, and its folder is removed; of one that runs, or of a server, it is told
    what stays open.

    Warns
    -----
    ExposedWarning
        If somebody else configured Spark so that others see more than the release.

    Raises
    ------
    DataError
        DP-SPARK-003 if pyspark is not installed, or Spark can't be started.
    """
    if find_spec("pyspark") is None:
        problem, remedy = "pyspark is not installed", "install dprelease[spark]"
        raise DataError("DP-SPARK-003", problem=problem, remedy=remedy)
    from pyspark.sql import SparkSession

    running, mode = SparkSession.getActiveSession(), os.environ.get(CONNECT)
    own, maker = running is None and not settings.is_remote, Maker()
    with ExitStack() as stack:
        config: Mapping[str, str] = settings.config
        if own:
            refuse_missing_python(settings.master or config.get("spark.master"), os.environ)
            config = stack.enter_context(private_settings(settings.master, config))
            stack.enter_context(_java())
        stack.enter_context(silence_logging())
        with handler_kept():
            spark = attempt(lambda: _start_session(settings, config, running), _not_started())
        if own:
            without_tracebacks(spark)
        try:
            if not (own or is_kept()):
                _tell_open(spark)
            yield spark
        finally:
            # Else the application would stop, or the parent of a forked process lose it.
            if maker.is_here and (running is None or not is_classic(spark)):
                with suppress(DataError):  # what has been answered has been answered
                    attempt(spark.stop, _not_started())
            if mode is None:
                os.environ.pop(CONNECT, None)  # pyspark would start no other Spark after it


_KEPT: list[Maker] = []
"""Who keeps an application of this process for several engines."""


@contextmanager
def keep_application(settings: Settings) -> Iterator[None]:
    """Keep one application for all sessions of the block, whose executors are asked only once.

    To start one takes longer than to count what an audit invents.

    Warns
    -----
    ExposedWarning
        As `session`.

    Raises
    ------
    DataError
        DP-SPARK-003 as `session`, DP-SPARK-004 if its executors have other versions.
    """
    with session(settings) as spark:
        refuse_other_versions(spark)
        _KEPT.append(Maker())
        try:
            yield
        finally:
            _KEPT.pop()


def is_kept() -> bool:
    """Return whether this process keeps an application whose executors were asked already."""
    return bool(_KEPT) and _KEPT[-1].is_here


@contextmanager
def _java() -> Iterator[None]:
    """Leave no Java that was not there before, nor any that remembers this run's folders."""
    before, maker = has_java(), Maker()
    attempt(forget_folders, _not_started())
    try:
        yield
    finally:
        if maker.is_here:  # the Java of a forked process is its parent's
            with suppress(DataError):
                attempt(forget_folders if before else end_java, _not_started())


def _tell_open(spark: SparkSession) -> None:
    open_doors = attempt(lambda: left_open_by(spark), _not_started())
    if open_doors:
        told = one_line("; ".join(open_doors))
        warnings.warn(f"Spark was configured elsewhere: {told}", ExposedWarning, 5)


def is_classic(spark: SparkSession) -> bool:
    """Return whether the driver of Spark is here; else it is reached through Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def _not_started() -> DataError:
    problem = "Spark refused to start, or is not available"
    remedy = (
        "check `spark: {master: ..., config: ...}` and the configuration of Spark, and Java; Spark "
        "Connect needs dprelease[spark-connect]"
    )
    return DataError("DP-SPARK-003", problem=problem, remedy=remedy)


def _start_session(
    settings: Settings, config: Mapping[str, str], running: SparkSession | None
) -> SparkSession:
    if running is not None:
        again: Any = running
        spark = running.newSession() if is_classic(running) else again.cloneSession()
    else:
        spark = _new(settings, config)
    for name, value in FIXED.items():
        spark.conf.set(name, value)
    return spark


def _new(settings: Settings, config: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName("dprelease")
    master = settings.master or ""
    if settings.is_remote:
        builder = builder.remote(master)
    else:
        for name, value in QUIET.items():
            builder = builder.config(name, value)
        if master:
            builder = builder.master(master)
        if not master or master.startswith("local"):
            name_python(os.environ)
    for name, value in config.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.create() if settings.is_remote else builder.getOrCreate()
    return spark
