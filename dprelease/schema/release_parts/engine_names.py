"""The list of engines: their names, and the modules that open them."""

from __future__ import annotations

DEFAULT_ENGINE = "duckdb"
"""The engine if a release names none, and the only engine that reads single records."""

SPARK = "spark"
"""The engine for tables that are distributed over machines."""

ENGINES = {
    DEFAULT_ENGINE: "dprelease.exact.duckdb_factory",
    SPARK: "dprelease.exact.spark.spark_factory",
}
"""The module of each engine by name, which defines `ENGINE` (`exact.engine_api.EngineKind`).

Modules are named by strings, so that names can be checked, and releases verified, without any
engine installed.
"""


def not_an_engine() -> str:
    """Return the text of an error that lists the valid names of engines."""
    *names, last = map(repr, ENGINES)
    return f"it must be {', '.join(names)} or {last}"
