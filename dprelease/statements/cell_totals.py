"""The sums of a cell, as SQL: over its rows, and within 64 bits."""

from __future__ import annotations

from dprelease.numerics.lattice import LIMIT
from dprelease.query.measurement import Measurement


def bounded_total(total: str, position: int) -> str:
    """Return the BIGINT column `m<position>` of a total, clamped to 2^62."""
    # NULL first: greatest(NULL, x) is x in DuckDB, which would turn "no value" into a bound.
    known = f"coalesce({total}, 0)"
    inside = f"least(greatest({known}, -{LIMIT}::HUGEINT), {LIMIT}::HUGEINT)"
    return f"CAST({inside} AS BIGINT) AS m{position}"


def total_of(measurement: Measurement, j: int, *, counted: bool) -> str:
    """Return the aggregate over `kept`, whose rows stand for n equal ones where `counted`."""
    aggregate = measurement.aggregate
    if aggregate.is_distinct:
        return f"count(DISTINCT {f'v{j}' if aggregate.reads_values else 'id'})"
    if aggregate.reads_values:
        return f"sum(v{j})"
    return "sum(n)" if counted else "count(*)"
