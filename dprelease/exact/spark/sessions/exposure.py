"""Describe in texts what a cluster's configuration exposes to others, without starting Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.exact.spark.sessions.private import PRIVATE_SETTINGS, Defaults, is_local

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
