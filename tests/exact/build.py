"""Small declared tables and queries for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_table import DenseProfile, ExactTable
from dprelease.noise.selections import quantile_runs
from dprelease.planning.quantile_target import RankTarget
from dprelease.privacy.unit import Neighbours
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query, resolve_one
from dprelease.schema.load import Declared, table_from_mapping
from dprelease.schema.model import Files, relative_reader, validate
from dprelease.schema.release import Limits, QuerySpec
from dprelease.schema.yaml_text.reader import Document


def declare(columns: dict[str, Any], **more: Any) -> Declared:
    """Return a table `t` with these columns; `table=...` gives it another name."""
    return table_from_mapping({"table": "t", "columns": columns, **more}, Path())


def ask(
    declared: Declared,
    columns: dict[str, Any],
    by: list[str] | None = None,
    where: str | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    other: Declared | None = None,
    **more: Any,
) -> Query:
    """Return a resolved query of a declared table; `other` is a table that it may join."""
    values: dict[str, Any] = {"from": "t", "group_by": by or [], "columns": columns, **more}
    if where is not None:
        values["where"] = where
    spec = validate(QuerySpec, Document(Path("q"), "", values, {}), Files(relative_reader(Path())))
    tables = {table.table.name: table for table in (declared, other) if table is not None}
    return resolve_one(declared, "q", spec, neighbours, Limits(), tables)


def exact(query: Query, frame: object, joined: object = None) -> dict[str, np.ndarray]:
    """Return the true vectors of a query over a frame, and one that is joined to it."""
    other = None if query.join is None else query.join.declared
    with Engine.open(query.declared, frame, other, joined, queries=[query]) as engine:
        found = engine.run(query)
    return {
        measurement.name: _vector_or_scores(found, measurement)
        for measurement in query.measurements
    }


def _vector_or_scores(found: ExactTable, measurement: Measurement) -> np.ndarray:
    """Return a vector; for a choice, the scores of all candidates in all cells."""
    aggregate = measurement.aggregate
    if not measurement.is_choice:
        return found.vector(measurement.name)
    profile = found.profile(measurement.name)
    if isinstance(profile, DenseProfile):
        profile = profile.pairs()
    if not isinstance(aggregate, Quantile):
        return profile.dense(aggregate.candidates)
    runs = quantile_runs(profile, aggregate, RankTarget.of(aggregate, 3 * aggregate.side))
    rows = [np.repeat(scores, lengths) for scores, lengths in runs]
    return np.stack(rows)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a file, or skip the test where the oldest version of Arrow that serves can't."""
    try:
        pq.write_table(table, path)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"PyArrow {pa.__version__} does not write Parquet of these types")
