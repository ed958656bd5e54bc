"""Quantiles of one column in ascending order: each was chosen by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query


def ascending(query: Query, measurement: Measurement, vectors: Mapping[str, Integers]) -> Integers:
    """Return one quantile of every cell, after all quantiles of its column have been sorted.

    Sorting noised answers is post-processing, and never moves one further from the truth than the
    worst of them was.
    """
    wanted = measurement.aggregate
    same = [
        (other.aggregate.part, other.name)
        for other in query.measurements
        if other.aggregate.part is not None and other.aggregate.column == wanted.column
    ]
    same.sort()
    if len(same) == 1:
        return vectors[measurement.name]
    names = [name for _, name in same]
    ordered: Integers = np.sort(np.stack([vectors[name] for name in names]), axis=0)
    return np.ascontiguousarray(ordered[names.index(measurement.name)])
