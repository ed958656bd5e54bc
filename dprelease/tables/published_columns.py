"""Published columns as Arrow arrays: values with their margins of error, labels and flags."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.numerics.rounding import plain_text
from dprelease.postprocess.derived_values import (
    FRACTIONS,
    WHOLE,
    fractions_of,
    margins_of,
    whole_margin,
    whole_of,
)
from dprelease.postprocess.finishing import coded_cells, finished_fractions, post_process
from dprelease.postprocess.monotone import ascending, is_quantile
from dprelease.query.forms.single_part import LABEL
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import CODES, CONFIDENCE, FEW_PEOPLE, quality_codes
from dprelease.query.resolve import Query
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.tables.arrays import (
    FEW_VALUES,
    arrow_type_of_steps,
    boolean_array,
    float_array,
    key_values,
    scale_steps,
    take_values,
    text_array,
    with_nulls,
)

if TYPE_CHECKING:
    import pyarrow as pa

Mechanisms = Mapping[str, Randomizer]
Vectors = Mapping[str, Integers]


def published_types(query: Query, column: OutputColumn) -> list[tuple[str, str]]:
    """Return the name and the Arrow type of a column and of its companion columns."""
    if column.form == LABEL:
        kinds = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32[day]"}
        return [(column.name, kinds[candidates_of(query, column).kind])]
    kind = arrow_type_of_steps(column.step)
    types = [(column.name, kind)]
    if column.margin is not None:
        types.append((f"{column.name}_moe", kind))
    if column.post.labels:
        types.append((f"{column.name}_label", "string"))
    if column.post.flag_above is not None:
        types.append((f"{column.name}_unreliable", "bool"))
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
    steps, step = _published_steps(query, column, vectors), column.step or Fraction(1)
    steps, empty = post_process(steps, column.post, step)
    array = scale_steps(steps, step)
    values = array if empty is None else with_nulls(array, empty)
    return {column.name: values, **lattice_companions(column, values, laws)}


def lattice_companions(
    column: OutputColumn, values: pa.Array, laws: Mechanisms
) -> dict[str, pa.Array]:
    """Return the companion columns of published multiples of a step, by name.

    They are computed from the published values and the noise alone.
    """
    arrays, step = {}, column.step or Fraction(1)

    def margins(confidence: float) -> pa.Array:
        """Return the margins of error of all cells, which are equal."""
        width = _lattice_margin(column, laws, confidence)
        return scale_steps(np.full(len(values), width), step)

    if column.margin is not None:
        arrays[f"{column.name}_moe"] = margins(float(column.margin))
    if column.post.labels:
        arrays[f"{column.name}_label"] = _labelled_texts(column, values)
    if column.post.flag_above is not None:
        widths = margins(float(column.margin or DEFAULT_CONFIDENCE))
        arrays[f"{column.name}_unreliable"] = _flag_array(column, values, widths)
    if column.quality:
        numbers = _as_floats(values)
        width = float(_lattice_margin(column, laws, float(CONFIDENCE)) * step)
        empty = {FEW_PEOPLE: np.isnan(numbers)}
        arrays[f"{column.name}_quality"] = quality_array(
            column, numbers, numbers - width, numbers + width, emptied=empty
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


def _lattice_margin(column: OutputColumn, laws: Mechanisms, confidence: float) -> int:
    """Return the margin of error of all cells of a column, in steps."""
    if column.form in WHOLE:
        return whole_margin(column, laws, confidence)
    return int(laws[column.parts[0].name].half_width(confidence))


def _published_steps(query: Query, column: OutputColumn, vectors: Vectors) -> Integers:
    """Return the steps of a column before the declared post-processing."""
    first = column.parts[0]
    if column.form in WHOLE:
        return whole_of(column, vectors)
    if is_quantile(column):
        return ascending(query, column, vectors)
    return vectors[first.name]


def _fraction_arrays(
    column: OutputColumn, vectors: Vectors, laws: Mechanisms
) -> dict[str, pa.Array]:
    """Return the published fractions of a column, and their companion columns, by name."""
    values = finished_fractions(fractions_of(column, vectors), column.post)
    arrays = {column.name: float_array(values)}
    confidence = float(column.margin or DEFAULT_CONFIDENCE)
    if column.margin is not None:
        margin = float_array(margins_of(column, vectors, laws, confidence))
        arrays[f"{column.name}_moe"] = margin
    if column.post.labels:
        arrays[f"{column.name}_label"] = _labelled_texts(column, arrays[column.name])
    if column.post.flag_above is not None:
        margin = float_array(margins_of(column, vectors, laws, confidence))
        arrays[f"{column.name}_unreliable"] = _flag_array(column, arrays[column.name], margin)
    if column.quality:
        width = margins_of(column, vectors, laws, float(CONFIDENCE))
        arrays[f"{column.name}_quality"] = quality_array(
            column, values, values - width, values + width
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


def _flag_array(column: OutputColumn, values: pa.Array, margin: pa.Array) -> pa.Array:
    """Return whether the margin of error of each value exceeds the declared fraction of it."""
    numbers, widths = _as_floats(values), _as_floats(margin)
    with np.errstate(invalid="ignore"):
        return boolean_array(~(widths <= np.abs(numbers) * float(column.post.flag_above or 0)))


def _as_floats(array: pa.Array) -> Floats:
    """Return numbers (n,) as floats; NaN for null."""
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        if len(array) < FEW_VALUES:
            numbers = [math.nan if x is None else float(x) for x in array.to_pylist()]
            return np.array(numbers, dtype=np.float64)
        array = array.cast(pa.float64())
    floats: Floats = array.to_numpy(zero_copy_only=False).astype(np.float64)
    return floats


def candidates_of(query: Query, column: OutputColumn) -> Key:
    """Return the key whose declared values are the candidates of a selected label."""
    name = column.parts[0].aggregate.column or ""
    key = key_of(name, query.table.columns[name])
    if isinstance(key, str):
        raise TypeError("candidates are declared values")
    return key
