"""Vectors that are added up in memory, from rows that come in batches."""

from __future__ import annotations

import duckdb
import numpy as np

from dprelease.exact.table import Integers
from dprelease.query.aggregate import SquareSum, Sum
from dprelease.query.measure import Measure

BATCH = 2**20
"""Rows that come from the engine at a time."""


def most_added(measure: Measure) -> int:
    """Return the most, in size, that one row adds to a vector."""
    aggregate = measure.aggregate
    if isinstance(aggregate, Sum | SquareSum):
        return max(abs(aggregate.least), abs(aggregate.most))
    return measure.sensitivity.largest_shift


def counted(link: duckdb.DuckDBPyConnection, sql: str, places: int) -> Integers:
    """Return how often each place occurs; rows come in batches, so memory does not grow."""
    counts: Integers = np.zeros(places + 1, dtype=np.int64)
    for batch in link.sql(sql).to_arrow_reader(BATCH):
        np.add.at(counts, batch.column(0).to_numpy(), 1)
    return counts[:places]
