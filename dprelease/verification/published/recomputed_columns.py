"""Compute published columns again from other published columns, where these have their noisy parts.

A count or sum that is published without rounding and codes is a noisy vector. A mean follows from
a published sum and a published count, and a published count of people decides where
`suppress_below: {people: N}` leaves cells empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import LIMIT, Flags, Integers
from dprelease.postprocess.finishing import post_process
from dprelease.postprocess.quantile_order import is_quantile
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.centred_moments import MEAN, STDDEV, SUM, VARIANCE
from dprelease.query.forms.single_part import LABEL, MEASURED
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import CONFIDENCE, FEW_PEOPLE, UNSURE_DIVISOR
from dprelease.query.resolve import Query
from dprelease.tables.published_columns import published_arrays
from dprelease.verification.published.published_quality import has_code

if TYPE_CHECKING:
    import pyarrow as pa


MOST = 2**63 - 1
"""Maximum of a published value in steps, which is larger than any noised vector or sum of them."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Published numbers (n,) of a column in steps; `known`: which of them are not empty."""

    numbers: Integers
    known: Flags


def values_in_steps(values: pa.Array, step: Fraction) -> Steps | None:
    """Return values as numbers of noise steps; None if a value is not a multiple of the step."""
    import pyarrow as pa

    known = values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(values.type):
        micros = values.cast(pa.int64()).fill_null(0).to_numpy()
        seconds, rest = np.divmod(micros, 1_000_000)
        return None if rest.any() else Steps(seconds, known)
    if step == 1:
        return Steps(values.fill_null(0).to_numpy(), known)
    found = [Fraction(value or 0) / step for value in values.to_pylist()]
    if any(value.denominator != 1 or abs(value) > MOST for value in found):
        return None
    return Steps(np.array([int(value) for value in found], dtype=np.int64), known)


def is_postprocessed(steps: Integers, column: OutputColumn) -> bool:
    """Return whether post-processing leaves values unchanged; bounds may be unrounded."""
    post, step = column.post, column.step or Fraction(1)
    ends = [int(end / step) for end in (post.bottom_code, post.top_code) if end is not None]
    again, _ = post_process(steps, post, step)
    return bool(((again == steps) | np.isin(steps, ends)).all())


TOLERANCE = 1e-9
"""Relative tolerance of floats, because other processors may round them differently."""

Known = Mapping[str, Steps]
"""Noisy vectors that follow from published columns, by name; each with the cells that it knows."""


def follow_from_each_other(
    batch: pa.RecordBatch, query: Query, mechanisms: Mapping[str, Randomizer]
) -> bool:
    """Return whether columns are as they follow from other columns of a batch."""
    if not _share_vectors(query):
        return True
    known = _vectors_from_columns(batch, query)
    return all(
        _is_empty_for_few_people(batch, query, column, known)
        and _is_empty_for_its_divisor(batch, column, known, mechanisms)
        and _is_as_computed(batch, query, column, known, mechanisms)
        for column in query.columns
        if column.form != LABEL
    )


def _share_vectors(query: Query) -> bool:
    """Return whether two columns of a query need the same noisy vector."""
    needed = [
        name
        for column in query.columns
        for name in {*(part.name for part in column.parts), column.people} - {""}
    ]
    return len(needed) > len(set(needed))


def _vectors_from_columns(batch: pa.RecordBatch, query: Query) -> dict[str, Steps]:
    """Return the noisy vectors that published columns show, or from which they are computed."""
    known: dict[str, Steps] = {}
    for column in query.columns:
        if column.form == MEASURED and not is_quantile(column):
            found = _steps_before_post_processing(batch, column)
            if found is not None and found.known.any():
                known.setdefault(column.parts[0].name, found)
    for column in query.columns:
        found = _steps_before_post_processing(batch, column) if column.form == SUM else None
        if found is not None and column.parts[1].name in known:
            center = narrow_aggregate(column.parts[0].aggregate, Sum).center
            count = known[column.parts[1].name]
            # The product with the center would overflow an int64; such cells are not compared.
            exact = np.abs(count.numbers) < LIMIT // max(abs(center), 1)
            exact &= np.abs(found.numbers) < LIMIT
            sums = found.numbers - np.where(exact, count.numbers, 0) * center
            known.setdefault(column.parts[0].name, Steps(sums, found.known & count.known & exact))
    return known


def _steps_before_post_processing(batch: pa.RecordBatch, column: OutputColumn) -> Steps | None:
    """Return the values of a column before post-processing, where published values show them."""
    post = column.post
    if replace(post, non_negative=False).changes_values:
        return None
    found = values_in_steps(batch.column(column.name), column.step or Fraction(1))
    if found is None or not post.non_negative:
        return found
    # A published 0 may also have been a number below 0.
    return Steps(found.numbers, found.known & (found.numbers > 0))


def _is_empty_for_few_people(
    batch: pa.RecordBatch, query: Query, column: OutputColumn, known: Known
) -> bool:
    """Return whether a value is empty for its number of people in exactly the right cells."""
    limit = column.post.suppress_people
    if limit is None:
        return True
    empty = ~_is_known(batch, column)
    for few in _small_cells(batch, query, column.people, limit):
        if not empty[few].all():
            return False
    if column.people not in known:
        return True
    people = known[column.people]
    few = people.numbers < math.ceil(limit)
    if not column.quality:
        return bool(empty[few & people.known].all())
    return np.array_equal(has_code(batch, column, FEW_PEOPLE)[people.known], few[people.known])


def _small_cells(
    batch: pa.RecordBatch, query: Query, vector: str, limit: Fraction
) -> Iterator[Flags]:
    """Yield cells in which a noisy vector is below a limit, because a count of it is left empty."""
    for column in query.columns:
        post = column.post
        own = post.suppress_people if column.people == vector else post.suppress_below
        if column.form != MEASURED or column.parts[0].name != vector or own is None:
            continue
        if column.quality:
            few = has_code(batch, column, FEW_PEOPLE)
        else:
            few = ~_is_known(batch, column) & (post.suppress_above is None)
        if own <= limit:
            yield few


def _is_known(batch: pa.RecordBatch, column: OutputColumn) -> Flags:
    """Return which cells (n,) of a column have a value."""
    known: Flags = batch.column(column.name).is_valid().to_numpy(zero_copy_only=False)
    return known


def _is_empty_for_its_divisor(
    batch: pa.RecordBatch, column: OutputColumn, known: Known, mechanisms: Mapping[str, Randomizer]
) -> bool:
    """Return whether a mean or variance is empty in exactly the cells with an unsure divisor.

    A cell that is also empty for few people names that reason.
    """
    count = column.parts[-1].name
    mechanism = mechanisms.get(count)
    if column.form not in (MEAN, VARIANCE, STDDEV) or count not in known or not column.quality:
        return True
    if not isinstance(mechanism, Mechanism):
        return True
    divisor = known[count].numbers - (0 if column.form == MEAN else 1)
    unsure = divisor <= mechanism.half_width(float(column.margin or CONFIDENCE))
    decided: Flags = known[count].known & ~has_code(batch, column, FEW_PEOPLE)
    return np.array_equal(has_code(batch, column, UNSURE_DIVISOR)[decided], unsure[decided])


def _is_as_computed(
    batch: pa.RecordBatch,
    query: Query,
    column: OutputColumn,
    known: Known,
    mechanisms: Mapping[str, Randomizer],
) -> bool:
    """Return whether a column is as computed from its parts, in the cells where all are known."""
    names = {part.name for part in column.parts} | ({column.people} - {""})
    if is_quantile(column) or not names <= known.keys():
        return True
    cells = np.flatnonzero(np.logical_and.reduce([known[name].known for name in names]))
    if not len(cells) or (column.form.needs_all_cells and len(cells) < query.keys.size):
        return True
    vectors = {name: known[name].numbers[cells] for name in names}
    arrays = published_arrays(query, column, vectors, mechanisms)
    return all(_are_same(batch.column(name).take(cells), array) for name, array in arrays.items())


def _are_same(published: pa.Array, computed: pa.Array) -> bool:
    """Return whether two columns are equal; floats up to rounding."""
    import pyarrow as pa

    if not pa.types.is_floating(computed.type):
        return bool(published.equals(computed))
    found, expected = (array.to_numpy(zero_copy_only=False) for array in (published, computed))
    slack = TOLERANCE * np.nanmax(np.abs(expected), initial=0.0)
    return bool(np.allclose(found, expected, rtol=TOLERANCE, atol=slack, equal_nan=True))
