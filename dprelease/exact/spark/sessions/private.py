"""Keep a Spark that we start private: its settings, and the folder that it works in.

By default Spark serves a web page on every interface, without a password, which shows how many
records each task read. It also writes shuffle data, ids included, unencrypted and readable for all
users, into folders that remain after a kill.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from dprelease.errors import DataError
from dprelease.exact.scratch import private_folder

# Read Spark's configuration on this machine without starting Spark.

DEFAULTS_FILE = "spark-defaults.conf"


class Defaults(dict[str, str]):
    """Settings of `spark-defaults.conf`; a release's own settings override them."""

    @classmethod
    def read(cls) -> Self:
        """Return the settings that Spark would read; empty if the file is missing or not text."""
        try:
            text = (_configuration_folder() / DEFAULTS_FILE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return cls()
        lines = (line.strip() for line in text.splitlines())
        pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line)
        return cls((name, rest[0]) for name, *rest in pairs if rest and name[0] not in "#!")


def _configuration_folder() -> Path:
    """Return the folder of Spark's configuration."""
    named = os.environ.get("SPARK_CONF_DIR")
    if named:
        return Path(named)
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home) / "conf"
    package = find_spec("pyspark")
    return Path(package.origin).parent / "conf" if package and package.origin else Path("conf")


SCRATCH = "dprelease-spark-"
LOCAL_DIR_SETTING = "spark.local.dir"
LOCAL_DIRS_VARIABLE = "SPARK_LOCAL_DIRS"
"""Environment variable that Spark prefers to `spark.local.dir`."""

JAVA_EXIT_SECONDS = 30.0

PRIVATE_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",  # the same counts, in files
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
}
"""Settings of every Spark that this process starts, unless the release declares others."""

ONE_PROCESS_SETTINGS = {
    # A job on one machine needs no network, and other users of the machine must not see it.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
"""Additional settings if driver and executors are one process."""


def is_local(master: str) -> bool:
    """Return whether driver and executors are one process of this machine."""
    return master == "local" or master.startswith("local[")


@contextmanager
def private_settings(master: str | None, config: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield settings for a Spark of this process, with private folders that are then removed.

    Folders left by killed runs are removed as well.

    Raises DataError: DP-SPARK-003 if the folders can't be made.
    """
    defaults = Defaults.read()
    alone = is_local(master or config.get("spark.master") or defaults.get("spark.master", "local"))
    with ExitStack() as stack:
        folders = [
            stack.enter_context(_private_folder(path)) for path in _parent_folders(config, defaults)
        ]
        folder_list = ",".join(map(str, folders))
        stack.enter_context(_set_environment(folder_list))
        yield (
            PRIVATE_SETTINGS
            | (ONE_PROCESS_SETTINGS if alone else {})
            | dict(config)
            | {LOCAL_DIR_SETTING: folder_list}
        )


def has_java() -> bool:
    """Return whether pyspark has already started a Java."""
    from pyspark import SparkContext

    known: Any = SparkContext
    return known._gateway is not None


def forget_folders() -> None:
    """Make Java look up its folders again, so that it doesn't use an earlier session's folders."""
    from pyspark import SparkContext

    known: Any = SparkContext
    if known._jvm is not None:
        utils = getattr(known._jvm, "org.apache.spark.util.Utils$")
        getattr(utils, "MODULE$").clearLocalRootDirs()


def end_java() -> None:
    """End Java, which would otherwise use the settings of this run in later sessions."""
    from pyspark import SparkContext

    known: Any = SparkContext
    gateway, known._gateway, known._jvm = known._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # Java then exits, and removes its files
        try:
            gateway.proc.wait(JAVA_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()


def _parent_folders(config: Mapping[str, str], defaults: Defaults) -> list[Path]:
    """Return the parents of the private folders: Spark's own working folders."""
    declared_folders = (
        config.get(LOCAL_DIR_SETTING)
        or os.environ.get(LOCAL_DIRS_VARIABLE)
        or defaults.get(LOCAL_DIR_SETTING, "")
    )
    names = [name.strip() for name in declared_folders.split(",") if name.strip()]
    return [Path(name) for name in names or [tempfile.gettempdir()]]


@contextmanager
def _private_folder(parent: Path) -> Iterator[Path]:
    """Make a private folder in `parent` while it is used, or raise DP-SPARK-003."""
    made: Path | None = None
    with ExitStack() as stack:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(private_folder(parent, SCRATCH))
        except OSError:
            made = None
        if made is None:
            problem = f"no folder can be made in a folder of {LOCAL_DIR_SETTING}"
            raise DataError(
                "DP-SPARK-003", problem=problem, remedy=f"name another as {LOCAL_DIR_SETTING}"
            )
        yield made


@contextmanager
def _set_environment(folders: str) -> Iterator[None]:
    """Set the folders in the environment as well, for a Java started in the block."""
    before = os.environ.get(LOCAL_DIRS_VARIABLE)
    os.environ[LOCAL_DIRS_VARIABLE] = folders
    try:
        yield
    finally:
        os.environ.pop(LOCAL_DIRS_VARIABLE)
        if before is not None:
            os.environ[LOCAL_DIRS_VARIABLE] = before


RECORDS_TEXT = "how many records each task read"
EXPOSING_SETTINGS = {
    "spark.ui.enabled": (
        "true",
        f"the web UI listens on every interface, without a password, and shows {RECORDS_TEXT}",
    ),
    "spark.eventLog.enabled": ("true", f"event logs tell {RECORDS_TEXT}"),
    "spark.io.encryption.enabled": (
        "false",
        "shuffle and spill files hold ids and values in the clear",
    ),
}
"""For each setting, the value with which it exposes something, and what it exposes."""

SPARK_DEFAULTS = {
    "spark.ui.enabled": "true",
    "spark.eventLog.enabled": "false",
    "spark.io.encryption.enabled": "false",
}
"""The values that these settings have in Spark by default."""

LISTENER_SETTINGS = (
    "spark.extraListeners",
    "spark.sql.queryExecutionListeners",
    "spark.plugins",
    "spark.metrics.conf",
)
FOLDERS_TEXT = (
    "executors work in folders of the cluster (SPARK_LOCAL_DIRS of a worker, YARN's local folders, "
    "a pod's volumes): who reads them, and what removes them after a kill, is its own"
)
SERVER_TEXT = (
    "the server of Spark Connect is configured by itself: nothing of spark.ui.enabled, "
    "spark.eventLog.enabled, spark.io.encryption.enabled and spark.local.dir can be set from here"
)


def exposure_texts(master: str | None, config: Mapping[str, str]) -> list[str]:
    """Return texts on what these settings of Spark expose; empty if they expose nothing."""
    defaults = Defaults.read()
    known = {**defaults, **PRIVATE_SETTINGS, **config}
    named = master or known.get("spark.remote") or known.get("spark.master") or "local[*]"
    if named.startswith("sc://"):
        return [SERVER_TEXT]
    open_doors = _setting_exposures(known)
    if not is_local(named):
        open_doors += [*_network_exposures(known), FOLDERS_TEXT]
    return open_doors


def session_exposure_texts(spark: Any) -> list[str]:
    """Return texts on what a running Spark exposes that somebody else has configured."""
    return _setting_exposures(
        {name: str(spark.conf.get(name, own)) for name, own in SPARK_DEFAULTS.items()}
    )


def _setting_exposures(known: Mapping[str, str]) -> list[str]:
    """Return a text for each setting of Spark that shows records to others."""
    words = [
        f"{what} ({name} is {value})"
        for name, (value, what) in EXPOSING_SETTINGS.items()
        if known.get(name, "").strip().lower() == value
    ]
    listeners = [name for name in LISTENER_SETTINGS if known.get(name)]
    return words + [f"{name} names something that hears {RECORDS_TEXT}" for name in listeners]


def _network_exposures(known: Mapping[str, str]) -> list[str]:
    """Return a text for each way in which records are readable in the network."""
    words = []
    if known.get("spark.authenticate", "false").lower() != "true":
        words.append(
            "whoever reaches the ports of driver and executors may ask them for rows "
            "(spark.authenticate is not true)"
        )
    ciphers = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    if not any(known.get(name, "false").lower() == "true" for name in ciphers):
        words.append(
            "rows, and the key of encrypted local files, cross the network in the clear "
            f"(neither {ciphers[0]} nor {ciphers[1]} is true)"
        )
    return words
