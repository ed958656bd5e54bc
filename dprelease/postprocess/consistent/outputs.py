"""The tables and columns that the step publishes for a family, and their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from dprelease.postprocess.consistent.derived import DerivedColumn, derived_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.families import (
    Flag,
    Kind,
    Lattice,
    NearCounts,
    Output,
    QualityCodes,
    Real,
    Rows,
    reach_of,
)
from dprelease.query.measurement import OutputColumn, Role
from dprelease.query.quality import quality_formula
from dprelease.schema.release_parts.consistent import ConsistentSpec

ADJUSTED = (
    "whether the number was moved out of its interval so that all add up, or no whole number from "
    "0 up is within the margin of the estimate, so that the interval is only the nearest such one"
)
"""Meaning of the flag of an integer table."""

ESTIMATES, TABLES, RECORDS = "estimates", "tables", "records"
"""The folders of estimates, integer tables and synthetic persons in the folder of a release."""

INVENTED = (
    "Invented persons: no row is a real person. Their counts are those of the integer tables."
)

Columns = dict[str, Kind]


def estimates_name(name: str) -> str:
    """Return the name of a table of estimates."""
    return f"{ESTIMATES}/{name}"


def integer_table_name(name: str) -> str:
    """Return the name of an integer table."""
    return f"{TABLES}/{name}"


def records_name(family: str) -> str:
    """Return the name of the synthetic persons of a family."""
    return f"{RECORDS}/{family}_invented"


def lowest_estimated_level(shape: Shape, spec: ConsistentSpec) -> int:
    """Return the lowest level with published estimates."""
    down_to = spec.publish.down_to
    levels = shape.levels
    return levels.index(down_to, 1) if down_to in levels[1:] else len(levels) - 1


def tables_with_estimates(shape: Shape, spec: ConsistentSpec) -> list[PlacedTable]:
    """Return the tables with published estimates."""
    return [one for one in shape.placed if one.level <= lowest_estimated_level(shape, spec)]


def all_outputs(
    family: str,
    shape: Shape,
    columns: Sequence[FamilyColumn],
    spec: ConsistentSpec,
    is_dense: Callable[[PlacedTable], bool],
) -> Iterator[Output]:
    """Yield the tables that are published in addition to the measurements of a family.

    `is_dense`: whether an integer table has a row for every cell.
    """
    summed = {table.name: leaves.name for tables in shape.grouped for table, leaves in tables}
    grouped = [table for tables in shape.grouped for table, _ in tables]
    for placed in (*tables_with_estimates(shape, spec), *grouped):
        types, words = _merge_columns(list(all_estimates(shape, columns)))
        keys = placed.table.query.keys
        named: list[FamilyColumn | DerivedColumn] = [*columns, *derived_columns(shape)]
        yield Output(
            estimates_name(placed.name), keys, types, words, roles=companion_roles(named, types),
            summed=summed.get(placed.name, ""),
        )  # fmt: skip
    if spec.non_negative:
        for placed in (*shape.placed, *grouped):
            types, words = _merge_columns(
                [integer_table_columns(one) for one in columns if one.is_shown]
            )
            keys = placed.table.query.keys
            listed: Rows = "cells" if is_dense(placed) else "some cells"
            roles = companion_roles(columns, types)
            near = {name: one for column in columns for name, one in _near_counts(column, placed)}
            name = integer_table_name(placed.name)
            of = summed.get(placed.name, "")
            yield Output(name, keys, types, words, roles=roles, rows=listed, near=near, summed=of)
    if spec.publish.records:
        yield Output(records_name(family), shape.leaves, {}, {}, INVENTED, rows="people")


COMPANION_ROLES = {
    "se": Role.STANDARD_ERROR,
    "moe": Role.MARGIN,
    "lower": Role.LOWER,
    "upper": Role.UPPER,
    "adjusted": Role.FLAG,
    "quality": Role.QUALITY,
}
"""Companion columns of a column, by the ending of their names."""


def companion_roles(
    columns: Sequence[FamilyColumn | DerivedColumn], types: Columns
) -> dict[str, tuple[Role, str]]:
    """Return the roles of the published companion columns."""
    named = {
        f"{column.name}_{ending}": (role, column.name)
        for column in columns
        for ending, role in COMPANION_ROLES.items()
    }
    own = {column.name for column in columns}
    return {name: role for name, role in named.items() if name in types and name not in own}


DescribedColumns = dict[str, tuple[Kind, str]]


def all_estimates(shape: Shape, columns: Sequence[FamilyColumn]) -> Iterator[DescribedColumns]:
    """Yield the columns of estimates, in the declared order of columns."""
    shown = {one.name: estimate_columns(one) for one in columns if one.is_shown}
    shown |= {
        one.name: {name: (Real(), words) for name, words in one.descriptions.items()}
        | quality_column(one.column)
        for one in derived_columns(shape)
    }
    for column in shape.placed[0].table.query.columns:
        yield shown[column.name]


def estimate_columns(column: FamilyColumn) -> DescribedColumns:
    """Return the columns of estimates of one column, each with a text on how it is computed."""
    name, margin = column.name, column.column.margin
    described: DescribedColumns = {
        name: (Real(), "unbiased least squares of all measurements of the family"),
        f"{name}_se": (Real(), "its standard error, rounded up"),
    }
    if margin is not None:
        words = f"its margin of error at {float(margin):g}, {column.quantile:.4f} standard errors"
        described[f"{name}_moe"] = (Real(), words)
    return described | quality_column(column.column)


def quality_column(column: OutputColumn) -> DescribedColumns:
    """Return the column with the quality of each value, if it is published."""
    if not column.quality:
        return {}
    words = quality_formula(column.name, column.quality)
    return {f"{column.name}_quality": (QualityCodes(), words)}


def integer_table_columns(column: FamilyColumn) -> DescribedColumns:
    """Return the columns of integers of one column, each with a text on how it is computed."""
    name, steps = column.name, Lattice(column.step)
    at = f"{float(column.confidence):g}"
    return {
        name: (steps, "whole steps from 0 up, close to the estimates, computed from the top down"),
        f"{name}_lower": (steps, f"lower end of the interval around the truth at {at}"),
        f"{name}_upper": (steps, f"upper end of the interval around the truth at {at}"),
        f"{name}_moe": (steps, "the larger distance to an end of the interval, or 0"),
        f"{name}_adjusted": (Flag(), ADJUSTED),
        **quality_column(column.column),
    }


def _near_counts(column: FamilyColumn, placed: PlacedTable) -> Iterator[tuple[str, NearCounts]]:
    """Yield the integers of a column in one table that are near counts of people.

    Estimates are no farther off than the measurement of the table, ends of intervals one margin
    more. Integer tables, 0 and more in each cell, have as many people in total as the estimate of
    the total, which is no farther off than the cells of any table together; of a margin of error,
    what is above an interval's width is at most the whole number and the true one.
    """
    if not column.is_shown or placed.level >= len(column.shape.levels):
        return  # tables of groupings are small
    reach = reach_of(column.mechanism_of(placed.table))
    variance = dict(column.noise_moments[placed.level])[placed.attributes].variance
    margin = math.ceil(column.quantile * math.sqrt(variance))
    more = min(
        reach_of(column.mechanism_of(one.table)) * one.table.query.keys.size
        for one in column.shape.placed
    )
    near = NearCounts(column.measurement, 2 * (reach + margin) + 2, more)
    for name, (kind, _) in integer_table_columns(column).items():
        if isinstance(kind, Lattice):
            yield name, near


def _merge_columns(described: Sequence[DescribedColumns]) -> tuple[Columns, Mapping[str, str]]:
    together = {name: kind for one in described for name, kind in one.items()}
    return (
        {name: kind for name, (kind, _) in together.items()},
        {name: words for name, (_, words) in together.items()},
    )
