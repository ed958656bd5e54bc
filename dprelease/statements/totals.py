"""The SQL of the total of a measurement over rows."""

from __future__ import annotations

from dprelease.numerics.lattice import LIMIT
from dprelease.query.measurement import Measurement


def clamped_total_sql(total: str, position: int) -> str:
    """Return the BIGINT column `m<position>` of a total, clamped to 2^62."""
    # Replace NULL first: DuckDB's greatest(NULL, x) is x, which would make a missing value a bound.
    known = f"coalesce({total}, 0)"
    inside = f"least(greatest({known}, -{LIMIT}::HUGEINT), {LIMIT}::HUGEINT)"
    return f"CAST({inside} AS BIGINT) AS m{position}"


def total_sql(measurement: Measurement, j: int, *, counted: bool) -> str:
    """Return SQL of a measurement's total over `kept`; `counted`: a row stands for `n` rows."""
    aggregate = measurement.aggregate
    if aggregate.is_distinct:
        return f"count(DISTINCT {f'v{j}' if aggregate.reads_values else 'id'})"
    if aggregate.reads_values:
        return f"sum(v{j})"
    return "sum(n)" if counted else "count(*)"
