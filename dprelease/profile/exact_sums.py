"""Compute how much contribution limits change the answers of a query, without noise.

The engine runs the statements of the query itself. No other module of this package reads exact
answers about cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.exact.engine_api import QueryEngine
from dprelease.numerics.lattice import LIMIT, Floats, Integers
from dprelease.planning.notes.limit_choices import HIGHEST_LIMITS
from dprelease.postprocess.derived_values import FRACTIONS, fractions_of
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.count import Count
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.mechanism import AUTO, MechanismSpec

ROWS = "rows of the cell"
MANY_GROUPS, MANY_ROWS = HIGHEST_LIMITS["max_groups"], HIGHEST_LIMITS["max_rows_per_group"]


@dataclass(frozen=True, slots=True, repr=False)
class Sums:
    """The exact answers of one query under some contribution limits.

    `rows` is the number of counted rows. `vectors` has the sums in each cell by column, in the unit
    of the column. `fractions` has the means, ratios, variances and standard deviations over all
    cells together, which are NaN without rows.
    """

    rows: int
    vectors: Mapping[str, Floats]
    fractions: Mapping[str, float]

    def mean_difference(self, unlimited: Sums, column: str) -> float:
        """Return the mean absolute difference between a column's cells here and in `unlimited`."""
        return float(np.abs(unlimited.vectors[column] - self.vectors[column]).mean())


def unlimited_sums(engine: QueryEngine, query: Query) -> Sums:
    """Return the exact answers of a query under limits that leave out nothing."""
    return sums_under_limits(engine, query, PrivacyUnit(query.unit.id, MANY_GROUPS, MANY_ROWS))


def sums_under_limits(engine: QueryEngine, query: Query, limits: PrivacyUnit) -> Sums:
    """Return the exact answers of a query under other contribution limits."""
    unit = query.unit if query.unit.id is None else limits
    measurements = [_with_sensitivity(m, query, unit) for m in query.measurements if m.is_vector]
    with_limits = replace(
        query, unit=unit, measurements=(*measurements, _row_count_measurement(query, unit))
    )
    exact = engine.run(with_limits)
    vectors = {
        m.name: exact.vector(m.name).astype(np.float64) * float(m.step) for m in measurements
    }
    totals = {m.name: _clamped_total(exact.vector(m.name)) for m in measurements}
    fractions = {
        column.name: float(fractions_of(column, totals)[0])
        for column in query.columns
        if column.form in FRACTIONS and {part.name for part in column.parts} <= totals.keys()
    }
    return Sums(int(exact.vector(ROWS).sum()), vectors, fractions)


def _clamped_total(vector: Integers) -> Integers:
    """Return the sum of all cells as a vector of one cell, clamped to the range of vectors."""
    total = sum(vector.tolist())
    return np.array([min(max(total, -LIMIT), LIMIT)], dtype=np.int64)


def _with_sensitivity(measurement: Measurement, query: Query, unit: PrivacyUnit) -> Measurement:
    """Return the measurement with the sensitivity that belongs to the limits of `unit`."""
    cells = query.keys.size
    sensitivity = measurement.aggregate.sensitivity(unit, query.neighbours, cells)
    return replace(measurement, sensitivity=sensitivity)


def _row_count_measurement(query: Query, unit: PrivacyUnit) -> Measurement:
    """Return the measurement that counts the rows of each cell."""
    count = Count()
    sensitivity = count.sensitivity(unit, query.neighbours, query.keys.size)
    noise = MechanismSpec(name=AUTO)
    return Measurement(ROWS, count, sensitivity, "rows", noise, Fraction(1), ROWS)
