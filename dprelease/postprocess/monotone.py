"""Put the quantiles of one column in ascending order, because each is selected independently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.query.measurement import OutputColumn, read_at
from dprelease.query.resolve import Query

Vectors = Mapping[str, Integers]
Named = tuple[Fraction, str]
"""A quantile: the part of the values below it, and the name of its noisy vector."""


def ascending(query: Query, column: OutputColumn, vectors: Vectors) -> Integers:
    """Return one quantile of every cell, in the order of all quantiles of its column.

    Post-processing of noisy answers. The smallest and the largest value are ordered first, then the
    other quantiles are ordered between them: a quantile above the largest value does not change the
    largest value. The largest error doesn't grow.
    """
    source = column.parts[0].aggregate.column
    same = {
        _quantile_and_name(other)
        for other in query.columns
        if is_quantile(other) and other.parts[0].aggregate.column == source
    }
    ends = sorted(one for one in same if one[0] in (0, 1))
    inner = sorted(same.difference(ends))
    wanted, lows = _quantile_and_name(column), sum(at == 0 for at, _ in ends)
    bounds = _sort_vectors(ends, vectors)
    if wanted in ends:
        return bounds[ends.index(wanted)]
    found = _sort_vectors(inner, vectors)[inner.index(wanted)]
    found = np.maximum(found, bounds[lows - 1]) if lows else found
    return np.minimum(found, bounds[lows]) if lows < len(ends) else found


def is_quantile(column: OutputColumn) -> bool:
    """Return whether a column is a quantile, measured or read from a tree."""
    return column.at is not None or column.parts[0].aggregate.part is not None


def _quantile_and_name(column: OutputColumn) -> Named:
    first = column.parts[0]
    if column.at is not None:
        return column.at, read_at(first.name, column.at)
    return first.aggregate.part or Fraction(0), first.name


def _sort_vectors(named: Sequence[Named], vectors: Vectors) -> list[Integers]:
    """Return the vectors with each cell's values in ascending order."""
    found = [vectors[name] for _, name in named]
    return found if len(found) < 2 else list(np.sort(np.stack(found), axis=0))
