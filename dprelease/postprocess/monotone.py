"""Put the quantiles of one column in ascending order, because each is selected independently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.query.measurement import OutputColumn, quantile_vector_name
from dprelease.query.resolve import Query

Vectors = Mapping[str, Integers]
NamedQuantile = tuple[Fraction, str]
"""A quantile: the part of the values below it, and the name of its noisy vector."""


def ascending(query: Query, column: OutputColumn, vectors: Vectors) -> Integers:
    """Return one quantile of every cell, in the order of all quantiles of its column.

    Post-processing of noisy answers. The smallest and the largest value are ordered first, then the
    other quantiles are ordered between them: a quantile above the largest value does not change the
    largest value. The largest error doesn't grow.
    """
    source = column.parts[0].aggregate.column
    quantiles = {
        _quantile_and_name(other)
        for other in query.columns
        if is_quantile(other) and other.parts[0].aggregate.column == source
    }
    ends = sorted(
        quantile_and_name for quantile_and_name in quantiles if quantile_and_name[0] in (0, 1)
    )
    inner = sorted(quantiles.difference(ends))
    quantile, lows = _quantile_and_name(column), sum(at == 0 for at, _ in ends)
    bounds = _sort_vectors(ends, vectors)
    if quantile in ends:
        return bounds[ends.index(quantile)]
    values = _sort_vectors(inner, vectors)[inner.index(quantile)]
    values = np.maximum(values, bounds[lows - 1]) if lows else values
    return np.minimum(values, bounds[lows]) if lows < len(ends) else values


def is_quantile(column: OutputColumn) -> bool:
    """Return whether a column is a quantile, measured or read from a tree."""
    return column.at is not None or column.parts[0].aggregate.part is not None


def _quantile_and_name(column: OutputColumn) -> NamedQuantile:
    """Return the quantile that a column publishes, and the name of its vector."""
    first = column.parts[0]
    if column.at is not None:
        return column.at, quantile_vector_name(first.name, column.at)
    return first.aggregate.part or Fraction(0), first.name


def _sort_vectors(named: Sequence[NamedQuantile], vectors: Vectors) -> list[Integers]:
    """Return the vectors with each cell's values in ascending order."""
    values = [vectors[name] for _, name in named]
    return values if len(values) < 2 else list(np.sort(np.stack(values), axis=0))
