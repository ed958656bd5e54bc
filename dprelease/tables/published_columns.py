"""Published columns as Arrow arrays: values with their margins of error, labels and flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats, Integers
from dprelease.numerics.rounding import plain_text
from dprelease.postprocess.derived_values import (
    FRACTIONS,
    WHOLE,
    fractions_of,
    margins_of,
    whole_margin,
    whole_of,
)
from dprelease.postprocess.finishing import finished_fractions, post_process
from dprelease.postprocess.monotone import ascending, is_quantile
from dprelease.query.forms.single_part import LABEL
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.tables.arrays import (
    arrow_type_of_steps,
    boolean_array,
    float_array,
    key_values,
    scale_steps,
    take_values,
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
    return types


def published_arrays(
    query: Query, column: OutputColumn, vectors: Vectors, laws: Mechanisms
) -> dict[str, pa.Array]:
    """Return a published column and its companion columns, by name."""
    if column.form == LABEL:
        candidates = key_values(candidates_of(query, column))
        return {column.name: take_values(candidates, vectors[column.parts[0].name])}
    fractional = _fraction_values(column, vectors, laws) if column.form in FRACTIONS else None
    values = fractional or _step_values(query, column, vectors, laws)
    return {column.name: values.array, **companion_columns(column, values.array, values.margin)}


def companion_columns(
    column: OutputColumn, values: pa.Array, margin: pa.Array | None
) -> dict[str, pa.Array]:
    """Return the companion columns of published values, by name.

    They are computed from the published values and their margins of error alone.
    """
    arrays = {}
    if column.margin is not None:
        arrays[f"{column.name}_moe"] = margin
    if column.post.labels:
        arrays[f"{column.name}_label"] = _labelled_texts(column, values)
    if column.post.flag_above is not None:
        arrays[f"{column.name}_unreliable"] = _flag_array(column, values, margin)
    return arrays


def margins_on_lattice(column: OutputColumn, laws: Mechanisms, cells: int) -> pa.Array | None:
    """Return the margins of error of multiples of a step, all equal; None if not needed."""
    confidence = _needed_confidence(column)
    if confidence is None:
        return None
    if column.form in WHOLE:
        width = whole_margin(column, laws, confidence)
    else:
        width = laws[column.parts[0].name].half_width(confidence)
    return scale_steps(np.full(cells, width), column.step or Fraction(1))


@dataclass(frozen=True)
class _Values:
    """The published values of a column, and their margins if any are needed."""

    array: pa.Array
    margin: pa.Array | None


def _step_values(query: Query, column: OutputColumn, vectors: Vectors, laws: Mechanisms) -> _Values:
    """Return the published values of a column on a lattice, with their margins."""
    steps, step = _published_steps(query, column, vectors), column.step or Fraction(1)
    steps, empty = post_process(steps, column.post, step)
    array = scale_steps(steps, step)
    margin = margins_on_lattice(column, laws, len(steps))
    return _Values(array if empty is None else with_nulls(array, empty), margin)


def _published_steps(query: Query, column: OutputColumn, vectors: Vectors) -> Integers:
    """Return the steps of a column before the declared post-processing."""
    first = column.parts[0]
    if column.form in WHOLE:
        return whole_of(column, vectors)
    if is_quantile(column):
        return ascending(query, column, vectors)
    return vectors[first.name]


def _fraction_values(column: OutputColumn, vectors: Vectors, laws: Mechanisms) -> _Values:
    """Return the published fractions of a column, with their margins."""
    values = fractions_of(column, vectors)
    margin, confidence = None, _needed_confidence(column)
    if confidence is not None:
        margin = float_array(margins_of(column, vectors, laws, confidence))
    return _Values(float_array(finished_fractions(values, column.post)), margin)


def _needed_confidence(column: OutputColumn) -> float | None:
    """Return the confidence of the margin that a column or its flags need; None without one."""
    if column.margin is None and column.post.flag_above is None:
        return None
    return float(column.margin or DEFAULT_CONFIDENCE)


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


def _flag_array(column: OutputColumn, values: pa.Array, margin: pa.Array | None) -> pa.Array:
    """Return whether the margin of error of each value exceeds the declared fraction of it."""
    numbers, widths = _as_floats(values), _as_floats(margin)
    with np.errstate(invalid="ignore"):
        return boolean_array(~(widths <= np.abs(numbers) * float(column.post.flag_above or 0)))


def _as_floats(array: pa.Array | None) -> Floats:
    """Return the margins as floats; there must be margins."""
    import pyarrow as pa

    if array is None:
        raise TypeError("a flag needs a margin")
    floats: Floats = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return floats


def candidates_of(query: Query, column: OutputColumn) -> Key:
    """Return the key whose declared values are the candidates of a selected label."""
    name = column.parts[0].aggregate.column or ""
    key = key_of(name, query.table.columns[name])
    if isinstance(key, str):
        raise TypeError("candidates are declared values")
    return key
