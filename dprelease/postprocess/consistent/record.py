"""The manifest record of a family with consistent tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.standard_errors import standard_errors
from dprelease.numerics.lattice import Floats
from dprelease.numerics.rounding import finite, plain_text
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.consistent.outputs import records_of, tables_with_estimates
from dprelease.postprocess.consistent.reading import FINEST
from dprelease.postprocess.consistent.values import MOST_RECORDS, is_dense, refinement_of
from dprelease.schema.release_parts.consistent import ConsistentSpec

ALGORITHM = "dprelease-consistency/1"
"""Version of the algorithms for least squares and integer tables: other versions, other bits."""

_AT_ONCE = 1 << 18


def family_record(
    family: str, shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec
) -> dict[str, Any]:
    """Return the record of a family, JSON values that follow from the declaration."""
    record: dict[str, Any] = {
        "algorithm": ALGORITHM,
        "words": _words(family, columns, spec),
        "levels": [
            {"name": name, "areas": count}
            for name, count in zip(shape.levels, shape.tree.counts, strict=True)
        ],
        "attributes": [{"name": key.column, "values": key.size} for key in shape.attributes],
        "columns": [_column(agreed, spec) for agreed in columns],
        "estimates": [one.name for one in tables_with_estimates(shape, spec)],
        "whole_tables": [],
        "zeros": [{name: list(values) for name, values in entry.items()} for entry in spec.zeros],
        "records": None,
    }
    computed = derived_columns(shape)
    if computed:
        record["computed"] = [
            {"name": one.name, "formula": one.column.formula, "parts": list(one.column.part_names)}
            for one in computed
        ]
    if spec.non_negative:
        record["whole_tables"] = [
            {"name": one.name, "cells": "all" if is_dense(one) else "those that are not 0"}
            for one in shape.placed
        ]
    if spec.publish.records:
        record["records"] = {"name": records_of(family), "most": MOST_RECORDS}
    return record


def _words(family: str, columns: Sequence[FamilyColumn], spec: ConsistentSpec) -> list[str]:
    """Return texts on the properties of the published values."""
    words = [
        "Estimates are unbiased: least squares of all measurements of the family. They add up "
        "over levels and tables exactly, as multiples of a power of 2 of their step.",
        f"That power is 2^-{FINEST}, or a coarser one where sums of measurements would not fit in "
        "64 bits. Measurements that fit none, sums above about 2^50 steps, are cut, and estimates "
        "then have no standard errors.",
    ]
    if spec.invariants:
        words.append(
            "Tables whose mechanism is 'invariant' are published exactly, outside the "
            "guarantee. They, and values that follow from them alone, have a standard error of 0."
        )
    if any(agreed.column.margin is None for agreed in columns) and spec.non_negative:
        words.append("Columns without a declared margin have intervals with a confidence of 0.95.")
    if spec.non_negative:
        words.append(
            "Integer tables add up and are at least 0; they are biased where the truth is near 0. "
            "Their intervals are those of the estimates, cut to whole numbers from 0 up, never "
            "just a margin around the integer. In a table that lists only cells that are not "
            "0, all others are 0."
        )
    if any(not agreed.is_shown for agreed in columns):
        words.append(
            "Means, ratios and sums that are computed from others are functions of their "
            "estimates. A quotient is left out if the interval of its divisor contains 0; its "
            "standard error is of first order. Integer tables have none of them."
        )
    if spec.composition is not None:
        words.append(
            "Totals of areas with large noise are computed from the composition of the area above, "
            "only in integer tables: more accurate on average, biased where an area differs."
        )
    if spec.publish.records:
        words.append(
            f"The rows of {records_of(family)} are invented: no row is a real person. Their "
            f"counts are those of all integer tables; above {MOST_RECORDS} rows none are written."
        )
    return words


def _column(agreed: FamilyColumn, spec: ConsistentSpec) -> dict[str, Any]:
    shape = agreed.shape
    record: dict[str, Any] = {
        "name": agreed.name,
        "step": plain_text(agreed.step),
        "confidence": plain_text(agreed.confidence),
        "standard_errors_in_a_margin": agreed.quantile,
        "measured": [_measurement_record(agreed, one) for one in shape.placed],
        "standard_errors": [_errors(agreed, one) for one in tables_with_estimates(shape, spec)],
        "refinement": [],
    }
    if spec.non_negative and agreed.is_shown:
        how = refinement_of(agreed, spec)
        record["refinement"] = [
            {
                "level": name,
                "steps": [_keys(shape, table) for table in chain],
                "composed": how.composed[level],
            }
            for level, (name, chain) in enumerate(zip(shape.levels, how.chains, strict=True))
        ]
    return record


def _keys(shape: Shape, table: Table) -> list[str]:
    return [shape.attributes[i].column for i in table]


def _measurement_record(agreed: FamilyColumn, placed: PlacedTable) -> dict[str, Any]:
    law = dict(agreed.laws[placed.level])[placed.attributes]
    return {
        "table": placed.name,
        "level": agreed.shape.levels[placed.level],
        "keys": _keys(agreed.shape, placed.attributes),
        "mechanism": agreed.law_of(placed.table).name,
        "variance": float(law.variance),
        "mean": float(law.mean),
    }


def _errors(agreed: FamilyColumn, placed: PlacedTable) -> dict[str, Any]:
    """Return the least, the middle and the largest standard error of a table's areas."""
    every = np.sort(_all_errors(agreed, placed))
    of = {"least": every[0], "median": every[(len(every) - 1) // 2], "largest": every[-1]}
    return {"table": placed.name, **{name: finite(float(error)) for name, error in of.items()}}


def _all_errors(agreed: FamilyColumn, placed: PlacedTable) -> Floats:
    errors = np.empty(agreed.shape.tree.counts[placed.level])
    for start in range(0, len(errors), _AT_ONCE):
        end = min(start + _AT_ONCE, len(errors))
        found = standard_errors(agreed.variances, placed.attributes, placed.level, start, end)
        errors[start:end] = found * float(agreed.step)
    return errors
