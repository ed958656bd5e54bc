"""Published columns as Arrow arrays: values with their margins of error, labels and flags."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.numerics.rounding import plain_text
from dprelease.postprocess.derived_values import (
    FRACTIONS,
    WHOLE,
    estimates_of,
    fractions_of,
    whole_margin,
    whole_of,
)
from dprelease.postprocess.finishing import (
    coded_cells,
    finished_fractions,
    post_process,
    post_process_end,
)
from dprelease.postprocess.quantile_order import (
    QuantileSteps,
    is_quantile,
    quantile_steps,
    value_vector_name,
)
from dprelease.query.aggregates.aggregate import DAYS, SECONDS
from dprelease.query.forms.single_part import LABEL
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.measurement import OutputColumn
from dprelease.query.post import NO_POST_PROCESSING
from dprelease.query.quality import (
    CODES,
    CONFIDENCE,
    FEW_PEOPLE,
    SUPPRESSED,
    UNSURE_DIVISOR,
    quality_codes,
    too_wide,
)
from dprelease.query.resolve import Query
from dprelease.tables.arrays import (
    FEW_VALUES,
    arrow_type_of_steps,
    day_array,
    float_array,
    key_values,
    scale_steps,
    second_array,
    take_values,
    text_array,
    with_nulls,
)

if TYPE_CHECKING:
    import pyarrow as pa

Mechanisms = Mapping[str, Randomizer]
TIME_TYPES = {DAYS: "date32[day]", SECONDS: "timestamp[us]"}
"""The Arrow types of dates and timestamps, by the unit of their steps."""
Vectors = Mapping[str, Integers]


def published_types(query: Query, column: OutputColumn) -> list[tuple[str, str]]:
    """Return the name and the Arrow type of a column and of its companion columns."""
    if column.form == LABEL:
        kinds = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32[day]"}
        return [(column.name, kinds[candidates_of(query, column).kind])]
    kind = TIME_TYPES.get(column.time_unit) or arrow_type_of_steps(column.step)
    types = [(column.name, kind)]
    if column.form in FRACTIONS:
        types += [(f"{column.name}_lower", kind), (f"{column.name}_upper", kind)]
    elif column.margin is not None:
        types.append((f"{column.name}_moe", kind))
    if column.interval is not None:
        types += [(f"{column.name}_lower", kind), (f"{column.name}_upper", kind)]
    if column.post.labels:
        types.append((f"{column.name}_label", "string"))
    if column.quality:
        types.append((f"{column.name}_quality", "string"))
    return types


def published_arrays(
    query: Query, column: OutputColumn, vectors: Vectors, laws: Mechanisms
) -> dict[str, pa.Array]:
    """Return a published column and its companion columns, by name."""
    if column.form == LABEL:
        candidates = key_values(candidates_of(query, column))
        return {column.name: take_values(candidates, vectors[column.parts[0].name])}
    if column.form in FRACTIONS:
        return _fraction_arrays(column, vectors, laws)
    if is_quantile(column):
        return _quantile_arrays(column, quantile_steps(query, column, vectors), vectors)
    return _lattice_arrays(column, vectors, laws)


def exact_array(query: Query, column: OutputColumn, vectors: Vectors) -> pa.Array:
    """Return the values of a column without noise, before post-processing."""
    if column.form in FRACTIONS:
        return float_array(fractions_of(column, vectors))
    if is_quantile(column):
        return _value_array(column, vectors[value_vector_name(column)])
    plain = replace(column, post=NO_POST_PROCESSING, margin=None, quality=())
    return published_arrays(query, plain, vectors, {})[column.name]


def _lattice_arrays(
    column: OutputColumn, vectors: Vectors, laws: Mechanisms
) -> dict[str, pa.Array]:
    """Return a column of multiples of a step, and its companion columns, by name."""
    steps, step = _published_steps(column, vectors), column.step or Fraction(1)
    steps, small = post_process(steps, column.post, step)
    values, width = steps.astype(np.float64), 0.0
    if column.post.suppress_above is not None:
        width = float(lattice_margin(column, laws, CONFIDENCE))
    emptied = emptied_cells(column, vectors, values, values - width, values + width)
    if small is not None:
        emptied[FEW_PEOPLE] = emptied.get(FEW_PEOPLE, small) | small
    array = scale_steps(steps, step)
    if emptied:
        array = with_nulls(array, np.logical_or.reduce(list(emptied.values())))
    return {column.name: array, **lattice_companions(column, array, laws, emptied)}


def emptied_cells(
    column: OutputColumn, vectors: Vectors, values: Floats, lower: Floats, upper: Floats
) -> dict[str, Flags]:
    """Return which cells (n,) the rules of a column leave empty, by quality code.

    Nothing about the value of such a cell is published, so its interval is left empty, too. `lower`
    and `upper` are the ends of the 95 % intervals, in the unit of the values.
    """
    emptied = {}
    if column.post.suppress_people is not None:
        emptied[FEW_PEOPLE] = vectors[column.people] < math.ceil(column.post.suppress_people)
    if column.post.suppress_above is not None:
        emptied[SUPPRESSED] = too_wide(values, lower, upper, column.post.suppress_above)
    return emptied


def _quantile_arrays(
    column: OutputColumn, found: QuantileSteps, vectors: Vectors
) -> dict[str, pa.Array]:
    """Return a published quantile with its interval and its companion columns, by name.

    The ends of the interval are processed like the values, but rounded outwards. A minimum or a
    maximum that contradicts other quantiles is left empty, but not its interval.
    """
    step = column.step or Fraction(1)
    steps, small = post_process(found.values, column.post, step)
    ends = [
        post_process_end(end, column.post, step, side)
        for end, side in ((found.lower, -1), (found.upper, 1))
    ]
    floats = (x.astype(np.float64) for x in (steps, *ends))
    emptied = emptied_cells(column, vectors, *floats)
    if small is not None:
        emptied[FEW_PEOPLE] = emptied.get(FEW_PEOPLE, small) | small
    hidden = np.logical_or.reduce([np.zeros_like(found.empty), *emptied.values()])
    arrays = {column.name: with_nulls(_value_array(column, steps), found.empty | hidden)}
    if column.interval is not None:
        for name, end in zip(("lower", "upper"), ends, strict=True):
            arrays[f"{column.name}_{name}"] = with_nulls(_value_array(column, end), hidden)
    return arrays | quantile_companions(column, arrays, emptied)


def quantile_companions(
    column: OutputColumn, published: Mapping[str, pa.Array], emptied: Mapping[str, Flags]
) -> dict[str, pa.Array]:
    """Return the labels and the quality of a published quantile, by name.

    They are computed from the published values, intervals and reasons of empty cells alone. No
    class follows from an interval that says hardly more than the bounds, because these hold for any
    data.
    """
    arrays, values = {}, published[column.name]
    if column.post.labels:
        arrays[f"{column.name}_label"] = _labelled_texts(column, values)
    if column.quality:
        numbers = as_floats(values)
        lower, upper = (as_floats(published[f"{column.name}_{end}"]) for end in ("lower", "upper"))
        unknown = _nearly_bounds(column, lower, upper)
        lower, upper = (np.where(unknown, math.nan, end) for end in (lower, upper))
        arrays[f"{column.name}_quality"] = quality_array(
            column, numbers, lower, upper, emptied=emptied
        )
    return arrays


def _value_array(column: OutputColumn, steps: Integers) -> pa.Array:
    """Return steps of a column as its published values: times, or multiples of the step."""
    if column.time_unit:
        return day_array(steps) if column.time_unit == DAYS else second_array(steps)
    return scale_steps(steps, column.step or Fraction(1))


def _nearly_bounds(column: OutputColumn, lower: Floats, upper: Floats) -> Flags:
    """Return which intervals (n,) say hardly more than the bounds of the column, or its codes.

    These are wider than half of the distance between the bounds.
    """
    lattice, post, step = column.parts[0].aggregate.lattice, column.post, column.step or Fraction(1)
    if lattice is None:
        raise TypeError("a quantile has bounds")
    least = (lattice.lower * step, post.bottom_code, Fraction(0) if post.non_negative else None)
    most = (lattice.upper * step, post.top_code)
    width = min(end for end in most if end is not None) - max(
        end for end in least if end is not None
    )
    are_wide: Flags = upper - lower > float(width / 2)
    return are_wide


def lattice_companions(
    column: OutputColumn, values: pa.Array, laws: Mechanisms, emptied: Mapping[str, Flags]
) -> dict[str, pa.Array]:
    """Return the companion columns of published multiples of a step, by name.

    They are computed from the published values, the noise and the reasons of empty cells alone.
    """
    arrays, step = {}, column.step or Fraction(1)
    if column.margin is not None:
        steps = lattice_margin(column, laws, column.margin)
        arrays[f"{column.name}_moe"] = scale_steps(np.full(len(values), steps), step)
    if column.post.labels:
        arrays[f"{column.name}_label"] = _labelled_texts(column, values)
    if column.quality:
        numbers = as_floats(values)
        width = float(lattice_margin(column, laws, CONFIDENCE) * step)
        arrays[f"{column.name}_quality"] = quality_array(
            column, numbers, numbers - width, numbers + width, emptied=emptied
        )
    return arrays


def quality_array(
    column: OutputColumn,
    values: Floats,
    lower: Floats,
    upper: Floats,
    *,
    at_bound: Flags | None = None,
    emptied: Mapping[str, Flags] | None = None,
) -> pa.Array:
    """Return the quality codes (n,) of a column as texts; parameters as of `quality_codes`.

    Values that are coded, or that are 0 where negative values become 0, are at a bound too.
    """
    moved = coded_cells(values, column.post)
    if at_bound is not None:
        moved = moved | at_bound
    codes = quality_codes(values, lower, upper, column.quality, at_bound=moved, emptied=emptied)
    return take_values(text_array(CODES), codes.astype(np.int64))


def lattice_margin(column: OutputColumn, laws: Mechanisms, confidence: Fraction) -> int:
    """Return the margin of error of all cells of a column, in steps."""
    if column.form in WHOLE:
        return whole_margin(column, laws, float(confidence))
    return int(laws[column.parts[0].name].half_width(float(confidence)))


def _published_steps(column: OutputColumn, vectors: Vectors) -> Integers:
    """Return the steps of a column before the declared post-processing."""
    return whole_of(column, vectors) if column.form in WHOLE else vectors[column.parts[0].name]


def _fraction_arrays(
    column: OutputColumn, vectors: Vectors, laws: Mechanisms
) -> dict[str, pa.Array]:
    """Return the published fractions of a column, and their companion columns, by name."""
    confidence = column.margin or CONFIDENCE
    shown = estimates_of(column, vectors, laws, float(confidence))
    rated = shown
    # Quality and suppression always follow from 95 %, so that a declared confidence does not change
    # them.
    if confidence != CONFIDENCE and (column.quality or column.post.suppress_above):
        rated = estimates_of(column, vectors, laws, float(CONFIDENCE))
    values = finished_fractions(np.where(shown.unsure, math.nan, shown.values), column.post)
    emptied = emptied_cells(column, vectors, values, rated.lower, rated.upper)
    hidden = np.logical_or.reduce([np.zeros_like(shown.unsure), *emptied.values()])
    values[hidden] = math.nan
    emptied |= {UNSURE_DIVISOR: shown.unsure}
    arrays = {
        name: float_array(np.where(hidden, math.nan, numbers))
        for name, numbers in (
            (column.name, values),
            (f"{column.name}_lower", shown.lower),
            (f"{column.name}_upper", shown.upper),
        )
    }
    if column.post.labels:
        arrays[f"{column.name}_label"] = _labelled_texts(column, arrays[column.name])
    if column.quality:
        arrays[f"{column.name}_quality"] = quality_array(
            column, values, rated.lower, rated.upper, at_bound=shown.moved, emptied=emptied
        )
    return arrays


def _labelled_texts(column: OutputColumn, array: pa.Array) -> pa.Array:
    """Return the values as texts, with a label for the lowest and the highest code."""
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = array.cast(pa.string())
    ends = ((column.post.bottom_code, "or less"), (column.post.top_code, "or more"))
    for end, words in ends:
        if end is not None:
            at_end = pc.equal(array.cast(pa.float64()), float(end))
            labels = pc.if_else(at_end, f"{plain_text(end)} {words}", labels)
    return labels


def as_floats(array: pa.Array) -> Floats:
    """Return numbers (n,) as floats; NaN for null."""
    import pyarrow as pa

    from dprelease.exact.arrow_numbers import to_numpy_ignoring_nulls, validity_mask

    if pa.types.is_decimal(array.type):
        if len(array) < FEW_VALUES:
            numbers = [math.nan if x is None else float(x) for x in array.to_pylist()]
            return np.array(numbers, dtype=np.float64)
        array = array.cast(pa.float64())
    floats: Floats = to_numpy_ignoring_nulls(array).astype(np.float64)
    known = validity_mask(array)
    return floats if known is None else np.where(known, floats, math.nan)


def candidates_of(query: Query, column: OutputColumn) -> Key:
    """Return the key whose declared values are the candidates of a selected label."""
    name = column.parts[0].aggregate.column or ""
    key = key_of(name, query.table.columns[name])
    if isinstance(key, str):
        raise TypeError("candidates are declared values")
    return key
