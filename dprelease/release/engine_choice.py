"""The engine of a run, where it is not the declared one."""

from __future__ import annotations

from dataclasses import replace

from dprelease.errors import DataError
from dprelease.schema.load import Declaration

ENGINES = ("duckdb", "spark")


def left_open(declaration: Declaration) -> list[str]:
    """Return what the engine shows to others than those who get the release; starts no engine."""
    spec = declaration.spec
    if spec.engine != "spark":
        return []
    from dprelease.exact.spark.exposure import left_open as by_spark

    return by_spark(spec.spark.master, spec.spark.config)


def on_engine(declaration: Declaration, engine: str | None) -> Declaration:
    """Return the declaration as if it named this engine; its texts stay as they are.

    Raises
    ------
    DataError
        DP-SPARK-005 if Spark can't run it.
    """
    if engine is None or engine == declaration.spec.engine:
        return declaration
    if engine not in ENGINES:
        raise ValueError(f"engines are {' and '.join(ENGINES)}")
    if engine == "spark" and declaration.spec.mode == "local":
        raise DataError("DP-SPARK-005", problem="records keep the order of their source")
    return replace(declaration, spec=declaration.spec.model_copy(update={"engine": engine}))
