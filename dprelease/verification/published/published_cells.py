"""Check that the published cells of a query are possible under its declaration, for some noise.

Companion columns follow from the value and its noise, post-processing must not change the value,
rules that leave cells empty were applied, and a selected value lies within its bounds. Columns that
follow from other published columns are computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.postprocess.finishing import post_process
from dprelease.postprocess.quantile_order import is_quantile
from dprelease.query.forms.single_part import LABEL
from dprelease.query.measurement import OutputColumn
from dprelease.query.post import PostProcessing
from dprelease.query.quality import CONFIDENCE, too_wide
from dprelease.query.resolve import Query
from dprelease.tables import formats
from dprelease.tables.arrays import key_values
from dprelease.tables.published_columns import (
    candidates_of,
    lattice_companions,
    lattice_margin,
)
from dprelease.verification.published.published_quality import (
    are_possible_fractions,
    published_reasons,
)
from dprelease.verification.published.published_quantiles import (
    are_possible_quantiles,
    is_possible_quantile,
)
from dprelease.verification.published.published_steps import is_postprocessed, values_in_steps
from dprelease.verification.published.recomputed_columns import follow_from_each_other

if TYPE_CHECKING:
    import pyarrow as pa


def may_be_published(path: Path, query: Query, laws: Mapping[str, Randomizer]) -> bool:
    """Return whether all cells of a table and their companion columns are possible.

    `path` is a file with the columns of its query, and `laws` has the noise of each measurement.
    """
    import pyarrow as pa

    try:
        return all(are_possible_cells(batch, query, laws) for batch in _batches(path, query))
    except (OSError, pa.ArrowException):
        return False


def _batches(path: Path, query: Query) -> Iterator[pa.RecordBatch]:
    """Yield the cells of a table; all at once if a column is computed from several cells."""
    if any(column.form.needs_all_cells for column in query.columns):
        yield from formats.PUBLISHED_FORMAT.read(path).combine_chunks().to_batches()
    else:
        yield from formats.PUBLISHED_FORMAT.batches(path, None)


def are_possible_cells(batch: pa.RecordBatch, query: Query, laws: Mapping[str, Randomizer]) -> bool:
    """Return whether the cells of a batch are possible, each alone and all together."""
    return (
        all(_is_possible_column(batch, query, column, laws) for column in query.columns)
        and are_possible_quantiles(batch, query)
        and follow_from_each_other(batch, query, laws)
    )


def _is_possible_column(
    batch: pa.RecordBatch, query: Query, column: OutputColumn, laws: Mapping[str, Randomizer]
) -> bool:
    """Return whether the values of a column, and their companions, are possible."""
    values = batch.column(column.name)
    if column.form == LABEL:
        import pyarrow.compute as pc

        known = pc.is_in(values, value_set=key_values(candidates_of(query, column)))
        return values.null_count == 0 and bool(pc.all(known).as_py() is not False)
    if not column.form.on_lattice:
        return are_possible_fractions(batch, column)
    if is_quantile(column):
        return is_possible_quantile(batch, column)
    return _are_possible_multiples(batch, column, laws)


def _are_possible_multiples(
    batch: pa.RecordBatch, column: OutputColumn, laws: Mapping[str, Randomizer]
) -> bool:
    """Return whether multiples of a step, and their companions, are possible."""
    values, post = batch.column(column.name), column.post
    if values.null_count and not post.leaves_cells_empty:
        return False
    expected_columns = lattice_companions(column, values, laws, published_reasons(batch, column))
    if any(not batch.column(name).equals(array) for name, array in expected_columns.items()):
        return False
    if post == PostProcessing():
        return True  # the noise may be any number of steps
    step = column.step or Fraction(1)
    found = values_in_steps(values, step)
    if found is None:
        return False
    shown = found.numbers[found.known]
    if not is_postprocessed(shown, column):
        return False
    if post.suppress_below is not None:
        least = np.array([-(-post.suppress_below // step)], dtype=np.int64)
        if np.any(shown < post_process(least, post, step)[0]):
            return False
    if post.suppress_above is not None:
        steps, width = shown.astype(np.float64), float(lattice_margin(column, laws, CONFIDENCE))
        return not too_wide(steps, steps - width, steps + width, post.suppress_above).any()
    return True
