"""Whether published values are ones that the declaration admits, whatever noise they have.

What stands beside a value follows from it and from the law of its noise; what post-processing would
change is no value of it; a chosen value lies within its bounds. Fractions are left out: their
margins rest on noised parts that are not published.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.postprocess.finishing import post_process
from dprelease.query.forms.single_part import LABEL
from dprelease.query.measurement import Published
from dprelease.query.post import PostProcessing
from dprelease.query.resolve import Query
from dprelease.tables import formats
from dprelease.tables.arrays import key_values
from dprelease.tables.published_columns import (
    Laws,
    beside,
    candidates_of,
    margins_on_lattice,
    published_types,
)

if TYPE_CHECKING:
    import pyarrow as pa


MOST = 2**63 - 1
"""Steps of a value: noise saturates below, sums of noised vectors may lie beyond that."""


def may_be_published(path: Path, query: Query, column: Published, laws: Laws) -> bool:
    """Return whether all cells of a column, and what stands beside it, are what they may be.

    `path`: of a file that has the columns of its query. `laws`: of its measurements, by name.
    """
    import pyarrow as pa

    names = [name for name, _ in published_types(query, column)]
    try:
        return all(
            _may_be(batch, query, column, laws) for batch in formats.PUBLISHED.batches(path, names)
        )
    except (OSError, pa.ArrowException):
        return False


def _may_be(batch: pa.RecordBatch, query: Query, column: Published, laws: Laws) -> bool:
    values = batch.column(column.name)
    if column.form == LABEL:
        import pyarrow.compute as pc

        known = pc.is_in(values, value_set=key_values(candidates_of(query, column)))
        return values.null_count == 0 and bool(pc.all(known).as_py() is not False)
    if not column.form.on_lattice:
        return True
    if values.null_count and column.post.suppress_below is None:
        return False
    told = beside(column, values, margins_on_lattice(column, laws, len(values)))
    if any(not batch.column(name).equals(array) for name, array in told.items()):
        return False
    aggregate = column.parts[0].aggregate
    chosen = aggregate.lattice if aggregate.is_choice else None
    if chosen is None and column.post == PostProcessing():
        return True  # any number of steps may be noise
    steps = _steps(values.drop_null(), column.step or Fraction(1))
    if steps is None:
        return False
    if column.post != PostProcessing():
        return _is_finished(steps, column)
    return chosen is None or bool(((chosen.lower <= steps) & (steps <= chosen.upper)).all())


def _is_finished(steps: Integers, column: Published) -> bool:
    """Return whether post-processing would change nothing any more; its ends need not be round."""
    post, step = column.post, column.step or Fraction(1)
    ends = [int(end / step) for end in (post.bottom_code, post.top_code) if end is not None]
    again, _ = post_process(steps, post, step)
    return bool(((again == steps) | np.isin(steps, ends)).all())


def _steps(values: pa.Array, step: Fraction) -> Integers | None:
    """Return values as lattice steps; None if one lies between two of them."""
    if step == 1:
        steps: Integers = values.to_numpy()
        return steps
    found = [Fraction(value) / step for value in values.to_pylist()]
    if any(value.denominator != 1 or abs(value) > MOST for value in found):
        return None
    return np.array([int(value) for value in found], dtype=np.int64)
