"""The engine of a run, where it is not the declared one."""

from __future__ import annotations

from dataclasses import replace

from dprelease.errors import DataError
from dprelease.schema.load import Declaration

ENGINES = ("duckdb", "spark")


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
