"""Compute how much contribution limits lower the answers of a query, without noise.

The statements are those of the query. Only this module of the package reads exact answers about
cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.exact.engine_api import Answering
from dprelease.numerics.lattice import LIMIT, Floats, Integers
from dprelease.postprocess.derived_values import FRACTIONS, fractions_of
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.count import Count
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.mechanism import AUTO, MechanismSpec

ROWS = "rows of the cell"
MANY_GROUPS, MANY_ROWS = 10**6, 10**9
"""The highest contribution limits that can be declared."""


@dataclass(frozen=True, slots=True, repr=False)
class Sums:
    """The exact answers of one query under some contribution limits.

    `rows` is the number of rows that count. `vectors` has the sums in each cell by column, in the
    unit of the column. `fractions` has the means, ratios, variances and standard deviations of the
    whole table; NaN without rows.
    """

    rows: int
    vectors: Mapping[str, Floats]
    fractions: Mapping[str, float]

    def cut(self, unlimited: Sums, column: str) -> float:
        """Return the mean absolute difference of a column's cells from those in `unlimited`."""
        return float(np.abs(unlimited.vectors[column] - self.vectors[column]).mean())


def sums_under_bounds(engine: Answering, query: Query, max_groups: int, max_rows: int) -> Sums:
    """Return the exact answers of a query under other limits, by the statements of the release."""
    unit = query.unit
    if unit.id is not None:
        unit = PrivacyUnit(unit.id, max_groups, max_rows)
    measurements = [_with_sensitivity(m, query, unit) for m in query.measurements if m.is_vector]
    widened = replace(query, unit=unit, measurements=(*measurements, _rows(query, unit)))
    exact = engine.run(widened)
    vectors = {
        m.name: exact.vector(m.name).astype(np.float64) * float(m.step) for m in measurements
    }
    totals = {m.name: _total(exact.vector(m.name)) for m in measurements}
    fractions = {
        column.name: float(fractions_of(column, totals)[0])
        for column in query.columns
        if column.form in FRACTIONS
    }
    return Sums(int(exact.vector(ROWS).sum()), vectors, fractions)


def _total(vector: Integers) -> Integers:
    """Return the sum of all cells as a vector of one cell, limited to the range of vectors."""
    total = sum(vector.tolist())
    return np.array([min(max(total, -LIMIT), LIMIT)], dtype=np.int64)


def _with_sensitivity(measurement: Measurement, query: Query, unit: PrivacyUnit) -> Measurement:
    """Return the measurement with a sensitivity that is large enough for these limits."""
    cells = query.keys.size
    sensitivity = measurement.aggregate.sensitivity(unit, query.neighbours, cells)
    return replace(measurement, sensitivity=sensitivity)


def _rows(query: Query, unit: PrivacyUnit) -> Measurement:
    count = Count()
    sensitivity = count.sensitivity(unit, query.neighbours, query.keys.size)
    noise = MechanismSpec(name=AUTO)
    return Measurement(ROWS, count, sensitivity, "rows", noise, Fraction(1), ROWS)


def bounds_to_try(declared: int, most: int) -> Sequence[int]:
    """Return the limits to try: 1, the declared limit, and its halves and doubles.

    A limit above `most` has the same effect as `most`.
    """
    around = {1, declared // 4, declared // 2, 2 * declared, 4 * declared}
    return sorted({declared, *(bound for bound in around if 1 <= bound <= most)})
