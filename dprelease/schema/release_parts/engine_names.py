"""The list of engines: their names, and the modules that open them."""

from __future__ import annotations

DEFAULT_ENGINE = "duckdb"
"""The engine if none is named; the only one that reads single records."""

SPARK = "spark"
"""The engine for tables that are distributed over machines."""

ENGINES = {
    DEFAULT_ENGINE: "dprelease.exact.duckdb_factory",
    SPARK: "dprelease.exact.spark.spark_factory",
}
"""By name, the module that defines `ENGINE`, as in `exact.engine_api.EngineKind`.

Stored as a string: names are checked, and releases verified, without any engine installed.
"""


def not_an_engine() -> str:
    """Return, in words, the valid names of engines."""
    *names, last = map(repr, ENGINES)
    return f"it must be {', '.join(names)} or {last}"
