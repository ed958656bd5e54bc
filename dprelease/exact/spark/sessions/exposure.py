"""Report what a cluster's configuration exposes to others, in words; starts no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.exact.spark.sessions.private import CLOSED, is_local
from dprelease.exact.spark.sessions.session_defaults import Defaults

RECORDS = "how many records each task read"
OPEN = {
    "spark.ui.enabled": (
        "true",
        f"the web UI listens on every interface, without a password, and shows {RECORDS}",
    ),
    "spark.eventLog.enabled": ("true", f"event logs tell {RECORDS}"),
    "spark.io.encryption.enabled": (
        "false",
        "shuffle and spill files hold ids and values in the clear",
    ),
}
"""For each setting, the value with which it exposes something, and what it exposes."""

SPARKS_OWN = {
    "spark.ui.enabled": "true",
    "spark.eventLog.enabled": "false",
    "spark.io.encryption.enabled": "false",
}
"""Spark's defaults."""

LISTENERS = (
    "spark.extraListeners",
    "spark.sql.queryExecutionListeners",
    "spark.plugins",
    "spark.metrics.conf",
)
FOLDERS = (
    "executors work in folders of the cluster (SPARK_LOCAL_DIRS of a worker, YARN's local folders, "
    "a pod's volumes): who reads them, and what removes them after a kill, is its own"
)
SERVER = (
    "the server of Spark Connect is configured by itself: nothing of spark.ui.enabled, "
    "spark.eventLog.enabled, spark.io.encryption.enabled and spark.local.dir can be set from here"
)


def left_open(master: str | None, config: Mapping[str, str]) -> list[str]:
    """Return texts on what these settings of Spark expose; empty if they expose nothing."""
    defaults = Defaults.read()
    known = {**defaults, **CLOSED, **config}
    named = master or known.get("spark.remote") or known.get("spark.master") or "local[*]"
    if named.startswith("sc://"):
        return [SERVER]
    open_doors = _exposures(known)
    if not is_local(named):
        open_doors += [*_network(known), FOLDERS]
    return open_doors


def left_open_by(spark: Any) -> list[str]:
    """Return texts on what a running Spark exposes that somebody else has configured."""
    return _exposures({name: str(spark.conf.get(name, own)) for name, own in SPARKS_OWN.items()})


def _exposures(known: Mapping[str, str]) -> list[str]:
    words = [
        f"{what} ({name} is {value})"
        for name, (value, what) in OPEN.items()
        if known.get(name, "").strip().lower() == value
    ]
    listeners = [name for name in LISTENERS if known.get(name)]
    return words + [f"{name} names something that hears {RECORDS}" for name in listeners]


def _network(known: Mapping[str, str]) -> list[str]:
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
