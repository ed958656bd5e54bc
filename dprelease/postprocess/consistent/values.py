"""Estimates and integer tables of a family, written area after area in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.estimates import FirstPass, Top, first_pass, top_estimates
from dprelease.consistency.family import IntegerPiece, integer_tables_of_top, table_of_cliques
from dprelease.consistency.integer_tables.decisions import Clique, Refinement, cliques, refinement
from dprelease.consistency.subtrees import PlacedSubtree
from dprelease.consistency.variances import Variances
from dprelease.numerics.lattice import Flags
from dprelease.postprocess.consistent.area_tables import GroupTables, grouped_leaves
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import (
    PlacedTable,
    Shape,
    table_weights,
    zeros_of,
)
from dprelease.postprocess.consistent.invariants import contradictions
from dprelease.postprocess.consistent.outputs import (
    estimates_name,
    integer_table_name,
    lowest_estimated_level,
    records_name,
)
from dprelease.postprocess.consistent.piece_rows import (
    Column,
    NamedBatch,
    OutputTable,
    RowMaker,
    without_whole,
)
from dprelease.postprocess.consistent.reading import MeasuredColumn, start_on_lattice
from dprelease.postprocess.families import NoisedTable
from dprelease.schema.release_parts.consistent import ConsistentSpec
from dprelease.system.prefetch import Spread

DENSE = 10_000_000
"""Number of cells up to which an integer table lists all; larger tables omit cells with 0."""

FEW_CELLS = 1 << 12
"""Number of combinations of keys up to which integer tables are computed for all keys together."""

MOST_CLIQUE_CELLS = 1 << 17
"""Largest number of combinations of keys of a table that is not declared, but needed by others."""

MOST_RECORDS = 1 << 31
"""Largest number of synthetic persons that are written."""

FEW = 1 << 20
"""Number of cells of a family below which it is processed without parallel tasks."""


def is_dense(placed: PlacedTable) -> bool:
    """Return whether an integer table has a row for every cell."""
    return placed.table.query.keys.size <= DENSE


def required_tables(shape: Shape, spec: ConsistentSpec) -> list[list[Table]]:
    """Return for each level the tables with required estimates.

    Integer tables need those of all cliques, of which published tables are sums.
    """
    needed = cliques_of(shape, spec) if spec.non_negative else []
    return published_tables(shape, spec, {clique.table for clique in needed})


def published_tables(
    shape: Shape, spec: ConsistentSpec, required: Collection[Table] = ()
) -> list[list[Table]]:
    """Return for each level the tables with published estimates or intervals, and `required`."""
    # Integer tables and groupings are sums of leaves.
    needs_leaves = spec.non_negative or shape.groupings
    last = len(shape.levels) - 1 if needs_leaves else lowest_estimated_level(shape, spec)
    found: list[list[Table]] = []
    for level in reversed(range(len(shape.levels))):
        here = {*required} | {one.attributes for one in shape.at(level)} if level <= last else set()
        found.append(sorted(here | set(found[-1] if found else ()), key=lambda t: (len(t), t)))
    return found[::-1]


def refinements_of(column: FamilyColumn, spec: ConsistentSpec) -> tuple[Refinement, ...]:
    """Return how the integer tables of each clique of a column are computed."""
    shape, never = column.shape, zeros_of(column.shape, spec.zeros)
    return tuple(
        refinement(
            column.variances,
            clique.table,
            np.asarray(never.all(axis=tuple(i for i in shape.everything if i not in clique.table))),
            composition=spec.composition is not None,
            method=spec.method,
            weights=table_weights(shape, spec.targets, column.name),
            separator=clique.separator,
        )
        for clique in cliques_of(shape, spec)
    )


def cliques_of(shape: Shape, spec: ConsistentSpec) -> list[Clique]:
    """Return the cliques whose integer tables are computed: all keys together, if these are few.

    Combinations that never occur are impossible in every table, so their keys are in one clique.
    """
    declared = {one.attributes for one in shape.placed}
    if shape.everything in declared or math.prod(shape.sizes) <= FEW_CELLS:
        return [Clique(shape.everything, None)]
    at = {key.column: i for i, key in enumerate(shape.attributes)}
    zeros = [tuple(sorted(at[key] for key in entry)) for entry in spec.zeros]
    return cliques(shape.sizes, [*declared, *zeros])


def family_values(
    family: str,
    columns: Sequence[FamilyColumn],
    spec: ConsistentSpec,
    noised: Sequence[NoisedTable],
    spread: Spread,
) -> Iterator[NamedBatch]:
    """Yield rows of all outputs of a family.

    `spread`: the map function for subtrees, unless there are few cells.
    """
    shape = columns[0].shape
    if sum(one.table.query.keys.size for one in shape.placed) < FEW:
        spread = map
    wanted = required_tables(shape, spec)
    started = [_ColumnProgress.of(column, spec, noised, wanted, spread) for column in columns]
    never = zeros_of(shape, spec.zeros)
    maker = RowMaker(
        shape.sizes,
        tuple(
            tuple(_table_layout(placed, shape, spec, never) for placed in shape.at(level))
            for level in range(len(shape.levels))
        ),
        tuple(one.column for one in started),
        derived_columns(shape),
        wanted,
        records_name(family) if spec.publish.records else None,
        grouped_leaves(shape),
    )
    grouped = GroupTables(
        shape,
        [(one.measured.agreed, one.column, one.variances) for one in started],
        {
            table.name: _possible_cells(table, shape, never)
            for tables in shape.grouped
            for table, _ in tables
        },
    )
    tops = [one.highest for one in started]
    if (
        maker.records is not None
        and int(table_of_cliques(tops[0].whole[0], ()).sum()) > MOST_RECORDS
    ):
        maker = replace(maker, records=None)
    yield from grouped.collect(maker.rows(tops, [one.variances for one in started]))
    tasks = zip(*(one.subtrees() for one in started), strict=True)  # the same areas of every column
    for rows in spread(maker.below, tasks):
        yield from grouped.collect(rows)
    yield from grouped.rows(with_integers=spec.non_negative)


def _table_layout(
    placed: PlacedTable, shape: Shape, spec: ConsistentSpec, never: Flags
) -> OutputTable:
    estimates = (
        estimates_name(placed.name) if placed.level <= lowest_estimated_level(shape, spec) else None
    )
    whole = integer_table_name(placed.name) if spec.non_negative else None
    possible = _possible_cells(placed, shape, never)
    return OutputTable(placed.level, placed.order, estimates, whole, is_dense(placed), possible)


def _possible_cells(placed: PlacedTable, shape: Shape, never: Flags) -> Flags:
    """Return which cells of one area, in the order of the file, are not 0 everywhere."""
    left = tuple(i for i in shape.everything if i not in placed.attributes)
    return placed.order.flatten_for_file(np.asarray((~never).any(axis=left))[np.newaxis])


@dataclass(frozen=True)
class _ColumnProgress:
    """One column after the upward pass over its subtrees."""

    column: Column
    measured: MeasuredColumn
    variances: Variances
    first: FirstPass
    top: Top

    @classmethod
    def of(
        cls,
        agreed: FamilyColumn,
        spec: ConsistentSpec,
        noised: Sequence[NoisedTable],
        wanted: list[list[Table]],
        spread: Spread,
    ) -> _ColumnProgress:
        """Return a column after its first pass."""
        measured = MeasuredColumn(agreed, noised)
        # Contradicting exact tables have no consistent estimates, so nothing is estimated then.
        sound = not any(contradictions(measured, non_negative=spec.non_negative))
        variances, first = start_on_lattice(measured, wanted, sound=sound, spread=spread)
        first = first or first_pass(variances, measured.read, spread=spread)
        cliques = refinements_of(agreed, spec) if spec.non_negative and agreed.is_shown else ()
        column = Column(agreed.vector, cliques, measured.is_cut)
        return cls(column, measured, variances, first, top_estimates(variances, first, wanted))

    @cached_property
    def highest(self) -> IntegerPiece:
        """Return the estimates of the top of the tree, and its integer tables if computed."""
        if not self.column.cliques:
            return without_whole(self.top.piece)
        return integer_tables_of_top(self.variances, self.column.cliques, self.top.piece)

    def subtrees(self) -> Iterator[PlacedSubtree]:
        """Yield the subtrees below the top, in order."""
        whole = self.highest.whole[-1] if self.column.cliques else None
        return self.top.subtrees_below(self.variances, self.measured.read, self.first, whole)
