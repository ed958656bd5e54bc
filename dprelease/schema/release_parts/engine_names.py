"""The one list of engines: their names, and where each is opened."""

from __future__ import annotations

DEFAULT_ENGINE = "duckdb"
"""The engine of whoever names none; the only one that reads single records."""

SPARK = "spark"
"""The engine of tables that are spread over machines."""

ENGINES = {
    DEFAULT_ENGINE: "dprelease.exact.duckdb_factory",
    SPARK: "dprelease.exact.spark.spark_factory",
}
"""By name, the module that declares `ENGINE`, as `exact.answering.EngineKind` has it.

A text: names are checked, and releases verified, where no engine is installed.
"""


def not_an_engine() -> str:
    """Return in words what the name of an engine is."""
    *names, last = map(repr, ENGINES)
    return f"it is one of {', '.join(names)} or {last}"
