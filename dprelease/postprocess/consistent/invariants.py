"""Invariants, tables with published true values: list them, and check that they are possible.

Everything here is a function of the declaration or of published measurements, invariants among
them. So the handling of contradictory numbers (an exchanged file, or numbers too large for 64 bits)
reveals nothing that is not published. In this case the step reads all numbers as 0, and publishes
no errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.integer_tables.decisions import Clique, exact_tables
from dprelease.numerics.lattice import Flags, Integers
from dprelease.postprocess.consistent.additivity import spans, unequal_sums
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape
from dprelease.postprocess.consistent.reading import MeasuredColumn
from dprelease.schema.release_parts.consistent import ConsistentSpec

Reason = tuple[tuple[str | int, ...], str]

ReadTable = Callable[[PlacedTable, int, int], Integers]


def invariant_tables(agreed: FamilyColumn) -> list[PlacedTable]:
    """Return the exactly published tables of a column, in declared order."""
    return [one for one in agreed.shape.placed if agreed.is_exact(one)]


def wrong_invariants(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec, never: Flags
) -> Iterator[Reason]:
    """Yield places below `consistent`, and why invariants there are impossible.

    - `never`: which finest cells are 0 everywhere.
    """
    for agreed in columns:
        exact = invariant_tables(agreed)
        if exact and agreed.measurement.aggregate.lattice is not None:
            reason = "an exact sum reveals the one value that is not yet known; use counts"
            yield (
                ("invariants", _invariant_index(agreed.name, spec)),
                f"'{agreed.name}' is a sum: {reason}",
            )
        for table in dict.fromkeys(one.attributes for one in exact):
            if never.all(axis=_other_attributes(shape, table)).any():
                keys = ", ".join(shape.attributes[i].column for i in table)
                yield ("zeros",), f"the table [{keys}] is an invariant, with cells that can't be"


def crossing_invariants(
    columns: Sequence[FamilyColumn], spec: ConsistentSpec, cliques: Sequence[Clique]
) -> Iterator[Reason]:
    """Yield invariants that integer tables can't all satisfy: those that cross at one level.

    Layer 2 preserves one exact table per level, and all sums of it. For two crossing exact margins,
    integer tables exist; for three, deciding whether any exist is hard.
    """
    for agreed in columns if spec.non_negative else ():
        for level, name in enumerate(agreed.shape.levels):
            exact = exact_tables(agreed.variances, level)
            if len(exact) == 1 and _crosses_a_separator(exact[0], cliques):
                reason = (
                    f"whole tables can't keep an exact table of level '{name}' whose keys no table "
                    "has together with those of the others: declare a table by all keys"
                )
                yield ("invariants", _invariant_index(agreed.name, spec)), reason
                break
            if len(exact) > 1:
                reason = (
                    f"whole tables can't keep several exact tables of level '{name}', none of them "
                    "a sum of another: publish one by the keys of all, or estimates alone"
                )
                yield ("invariants", _invariant_index(agreed.name, spec)), reason
                break


def _crosses_a_separator(exact: Table, cliques: Sequence[Clique]) -> bool:
    """Return whether an exact table and a separator of a clique are not nested in the clique."""
    return any(
        not (within <= set(clique.separator) or set(clique.separator) <= within)
        for clique in cliques
        if clique.separator is not None
        for within in [set(exact) & set(clique.table)]
    )


def _invariant_index(column: str, spec: ConsistentSpec) -> int:
    """Return the index of the first invariant of a column."""
    named = (i for i, one in enumerate(spec.invariants) if one.column in (None, column))
    return next(named, 0)


def _other_attributes(shape: Shape, table: Table) -> tuple[int, ...]:
    return tuple(i for i in range(len(shape.sizes)) if i not in table)


def contradictions(measured: MeasuredColumn, *, non_negative: bool) -> Iterator[str]:
    """Yield contradictions between published true counts: unequal sums, or numbers below 0."""
    shape, exact = measured.agreed.shape, invariant_tables(measured.agreed)

    def read(placed: PlacedTable, start: int, stop: int) -> Integers:
        return measured.read(placed.level, placed.attributes, start, stop)

    yield from unequal_sums(shape, exact, read)
    for level in range(len(shape.levels)):
        here = [one for one in exact if one.level == level]
        for one, other in combinations(here, 2):
            if not _have_equal_common_sums(shape, one, other, read):
                yield f"'{one.name}' and '{other.name}' have other sums"
        for one in here:
            if non_negative and any((read(one, *span) < 0).any() for span in spans(shape, one)):
                yield f"'{one.name}' has numbers below 0"


def _have_equal_common_sums(
    shape: Shape, one: PlacedTable, other: PlacedTable, read: ReadTable
) -> bool:
    """Return whether two tables of a level have the same sums over their common keys."""
    common = {*one.attributes} & {*other.attributes}
    if common in ({*one.attributes}, {*other.attributes}):
        return True  # one is a sum of the other, which is checked elsewhere
    for span in spans(shape, max(one, other, key=shape.cells)):
        first, second = (
            _sum_over_others(read(table, *span), table.attributes, common) for table in (one, other)
        )
        if not np.array_equal(first, second):
            return False
    return True


def _sum_over_others(values: Integers, table: Table, common: set[int]) -> Integers:
    axes = tuple(1 + place for place, i in enumerate(table) if i not in common)
    summed: Integers = values.sum(axis=axes)
    return summed
