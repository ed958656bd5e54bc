"""Run a release on another engine than the declared one."""

from __future__ import annotations

from dataclasses import replace

from dprelease.errors import DataError
from dprelease.exact.engines import kind_of_engine
from dprelease.planning.kinds import kind_of
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.engine_names import DEFAULT_ENGINE, ENGINES


def left_open(declaration: Declaration) -> list[str]:
    """Return what the engine exposes to people other than the recipients; starts no engine."""
    return kind_of_engine(declaration.spec.engine).left_open(declaration.spec)


def on_engine(declaration: Declaration, engine: str | None) -> Declaration:
    """Return the declaration with this engine; its texts stay unchanged.

    Raises
    ------
    DataError
        DP-SPARK-005 if only the engine of this machine can run it.
    """
    if engine is None or engine == declaration.spec.engine:
        return declaration
    if engine not in ENGINES:
        raise ValueError(f"engines are {' and '.join(ENGINES)}")
    problem = kind_of(declaration.spec).engine_problem
    if engine != DEFAULT_ENGINE and problem:
        raise DataError("DP-SPARK-005", problem=problem)
    return replace(declaration, spec=declaration.spec.model_copy(update={"engine": engine}))
