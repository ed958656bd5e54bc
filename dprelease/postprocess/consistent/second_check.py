"""Checks of `verify` by methods other than running the step again.

**Standard errors.** Published standard errors are those of a dense solve.

For small families all errors are checked: the covariance of the leaves' cells is the inverse of A'
W A, by LAPACK, and a cell's variance a sum of its entries. For larger families the check uses
residual spaces, each a scalar problem on the tree: the upper levels, with what lies below as
measurements, and one family of leaves, given its parent. Families with measured groupings have no
such problems, so errors are checked only for small ones.

**Integer tables.** Cells are at least 0, structural zeros are 0, and no exchange of a unit between
two parts is an improvement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dprelease.consistency.algebra import Table, subtables
from dprelease.consistency.integer_tables.decisions import Refinement
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import SpaceVariances, Variances
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.postprocess.consistent.additivity import spans, unequal_groups, unequal_sums
from dprelease.postprocess.consistent.family_columns import FamilyColumn
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape, zeros_of
from dprelease.postprocess.consistent.invariants import contradictions, invariant_tables
from dprelease.postprocess.consistent.normal_equations import (
    CellNumbers,
    Files,
    PublishedColumn,
    wrong_equations,
)
from dprelease.postprocess.consistent.outputs import (
    lowest_estimated_level,
    records_name,
    tables_with_estimates,
)
from dprelease.postprocess.consistent.reading import MeasuredColumn, on_lattice
from dprelease.postprocess.consistent.values import (
    DENSE,
    MOST_RECORDS,
    refinements_of,
    required_tables,
)
from dprelease.postprocess.families import NoisedTable
from dprelease.schema.release_parts.consistent import ConsistentSpec

SAMPLED = 64
"""Number of areas of each level whose parts are checked."""


def impossible_cells(
    shape: Shape, tables: Sequence[PlacedTable], published: PublishedColumn, never: Flags
) -> Iterator[str]:
    """Yield tables with cells below 0, or with non-zero structural zeros."""
    for placed in tables:
        axes = tuple(i for i in range(len(shape.sizes)) if i not in placed.attributes)
        zero = never.all(axis=axes)
        for span in spans(shape, placed):
            published_values = published.whole(placed, *span)
            if (published_values < 0).any() or published_values[:, zero].any():
                yield f"'{placed.name}' has cells that can't be"
                break


def gainful_exchanges(
    published: PublishedColumn, how: Refinement, spec: ConsistentSpec
) -> Iterator[str]:
    """Yield areas where moving a unit between two parts would bring both closer to their estimates.

    Checks the first table computed by the fast method at each level, which is an exact optimum: no
    unit of a part costs more than the next one of another part would. Costs are squared distances
    to the estimates.
    """
    shape = published.shape
    for level in range(1, lowest_estimated_level(shape, spec) + 1):
        if how.methods[level] != "fast" or how.composed[level]:
            continue  # no table of the level is the one nearest to the estimates by itself
        made = how.chains[level][0]
        known = [one for one in shape.at(level) if set(one.attributes) >= set(made)]
        if not known:
            continue  # it is not published here
        finest = max(known, key=shape.cells)
        left = tuple(1 + i for i, a in enumerate(finest.attributes) if a not in made)
        starts = shape.tree.starts[level - 1]
        areas = shape.tree.counts[level - 1]
        for area in np.unique(np.linspace(0, areas - 1, min(SAMPLED, areas)).astype(int)).tolist():
            start, stop = int(starts[area]), int(starts[area + 1])
            if stop - start < 2:
                continue
            x = published.whole(finest, start, stop).sum(axis=left)
            z = published.estimates(finest, start, stop).sum(axis=left)
            if _improves_by_exchange(x, z, published.bits):
                yield f"parts of area {area} of level '{shape.levels[level - 1]}' gain by exchange"


def _improves_by_exchange(x: Integers, z: Integers, bits: int) -> bool:
    """Return whether moving a unit from one part to another brings any cell nearer to z."""
    length = int(x.sum(axis=0).max()).bit_length() + len(x).bit_length()
    if length + bits > 61:
        return False  # such numbers are solved in a coarser unit
    last = np.where(x > 0, ((2 * x - 1) << bits) - 2 * z, -(1 << 62)).max(axis=0)
    following = (((2 * x + 1) << bits) - 2 * z).min(axis=0)
    return bool((last > following).any())


MOST_UNKNOWNS = 2000
LEAST_RATIO, MOST_RATIO = 1 - 1e-7, 1 + 1e-5
"""Range of a published error relative to the dense one: rounded up, and a solve is inexact."""

ZERO_TOLERANCE = 1e-5
"""Largest result of a solve that counts as an error of 0, relative to the largest noise."""

EIGENVALUE_TOLERANCE = 1e-11
"""Largest eigenvalue that counts as 0, relative to the largest one.

What no table measures, and what exact tables determine, has eigenvalues of 0 but for rounding."""


def wrong_errors(
    variances: Variances, published: PublishedColumn, spec: ConsistentSpec
) -> Iterator[str]:
    """Yield tables whose published standard errors are not those of a dense solve."""
    shape, name = published.shape, published.column.name
    small = shape.tree.counts[-1] * math.prod(shape.sizes) <= MOST_UNKNOWNS
    found = _dense_errors(published, spec) if small else _sample_errors(variances, published, spec)
    noise_moments = [moments for level in published.column.noise_moments for _, moments in level]
    widest = math.sqrt(max(moments.variance for moments in noise_moments))
    for placed, start, errors in found:
        published_values = published.errors(placed, start, start + len(errors))
        wanted = errors.reshape(len(errors), *(1,) * (published_values.ndim - 1))
        nearly_zero = (published_values == 0) & (wanted < ZERO_TOLERANCE * widest)
        if not (
            (published_values >= wanted * LEAST_RATIO) & (published_values <= wanted * MOST_RATIO)
            | nearly_zero
        ).all():
            yield f"the standard errors of '{name}' in '{placed.name}' are not those of a solve"


Expected = Iterator[tuple[PlacedTable, int, Floats]]
"""Tables, their first area, and the standard error of a cell at each area from there on."""


def _ancestors(shape: Shape, level: int) -> Integers:
    """Return the area of a level that each leaf lies in."""
    found = np.arange(shape.tree.counts[-1])
    for parents in reversed(shape.tree.parents[level:]):
        found = parents[found]
    return found


def _dense_errors(published: PublishedColumn, spec: ConsistentSpec) -> Expected:
    """Yield the standard errors of all tables of a small family, from a dense solve."""
    shape = published.shape
    ancestors = [_ancestors(shape, level) for level in range(len(shape.levels))]
    ancestors += [key.ancestors.numbers for key in shape.groupings]
    same = {one.attributes: _in_same_cell(one.attributes, shape.sizes) for one in shape.placed}
    size = len(ancestors[0]) * math.prod(shape.sizes)
    information, known = np.zeros((size, size)), np.zeros((size, size))
    for placed in (*shape.placed, *shape.grouping_tables):
        together = ancestors[placed.level][:, None] == ancestors[placed.level]
        moments, cells = published.column.moments_of(placed), same[placed.attributes]
        if moments.variance:
            information += np.kron(together / float(moments.variance), cells)
        else:
            known += np.kron(together, cells)
    covariance = _covariance(information, known)
    for placed in (*tables_with_estimates(shape, spec), *_grouped_tables(shape)):
        first = same[placed.attributes][:1]  # whose cells make the table's first one
        errors = []
        for area in range(int(ancestors[placed.level].max()) + 1):
            q = np.kron(ancestors[placed.level] == area, first[0]).astype(float)
            errors.append(math.sqrt(max(0.0, float(q @ covariance @ q))))
        yield placed, 0, np.array(errors)


def _grouped_tables(shape: Shape) -> list[PlacedTable]:
    """Return the tables of all groupings."""
    return [table for tables in shape.grouped for table, _ in tables]


def _covariance(information: Floats, known: Floats) -> Floats:
    """Return the covariance of unknowns of which some sums are known exactly.

    `known`: the sum of E'E over the exact tables E, whose eigenvalues are 0, or 1 and more. What E
    says nothing of has the information of the measurements; the rest is certain.
    """
    if not known.any():
        return np.asarray(np.linalg.pinv(information, rcond=EIGENVALUE_TOLERANCE, hermitian=True))
    values, vectors = np.linalg.eigh(known)
    free = vectors[:, values < 0.5]
    inner = np.linalg.pinv(free.T @ information @ free, rcond=EIGENVALUE_TOLERANCE, hermitian=True)
    return np.asarray(free @ inner @ free.T)


def _in_same_cell(table: Table, sizes: tuple[int, ...]) -> Floats:
    """Return (cells, cells) whether two finest cells lie in one cell of a table."""
    found: Floats = np.ones((1, 1))
    for i, n in enumerate(sizes):
        found = np.asarray(np.kron(found, np.eye(n) if i in table else np.ones((n, n))), float)
    return found


def _sample_errors(
    variances: Variances, published: PublishedColumn, spec: ConsistentSpec
) -> Expected:
    """Yield errors of the upper levels, and of one family of leaves."""
    shape = published.shape
    tree = shape.tree
    known = all(level.min() >= 0 for one in variances.of.values() for level in one.upward)
    of = variances.of if known else {}  # what nothing measures has no finite solve
    if not of or shape.grouping_tables:
        return
    cut = max(level for level, count in enumerate(tree.counts) if count <= MOST_UNKNOWNS)
    groups = [key.ancestors.numbers for key in shape.groupings] if cut == tree.levels - 1 else []
    upper = {space: _upper_level_variances(one, cut, groups) for space, one in of.items()}
    parent = _parent_of_few(tree)
    lower = (
        {} if parent is None else {space: _leaf_variances(one, parent) for space, one in of.items()}
    )
    for placed in (*tables_with_estimates(shape, spec), *_grouped_tables(shape)):
        if placed.level <= cut + len(groups):
            by_space = {space: one[placed.level] for space, one in upper.items()}
            yield placed, 0, _cell_errors(shape.sizes, placed.attributes, by_space)
        elif placed.level == tree.levels - 1 and parent is not None:
            start = int(tree.starts[-1][parent])
            yield placed, start, _cell_errors(shape.sizes, placed.attributes, lower)


def _cell_errors(sizes: tuple[int, ...], table: Table, of: Mapping[Table, Floats]) -> Floats:
    """Return the error of one cell at each area, from the variances of the residual spaces."""
    total: Floats = np.zeros(1)
    for space in subtables(table):
        if space in of:
            weight = math.prod(1 - 1 / sizes[i] for i in space)
            weight /= math.prod(sizes[i] for i in table if i not in space) ** 2
            total = total + weight * of[space]
    return np.sqrt(total)


def _upper_level_variances(
    one: SpaceVariances, cut: int, groups: Sequence[Integers]
) -> list[Floats]:
    """Return F of the levels down to `cut`, with its areas as measurements of variance V.

    Then follows F of groupings, of which `groups` has the group of each area of the level `cut`.
    """
    tree = one.tree
    level = np.arange(tree.counts[cut])
    from_below = one.variances_from_below(cut, 0, tree.counts[cut])
    if not from_below.all():  # exact there, and so is all that lies above
        counts = [*tree.counts[: cut + 1], *(int(of.max()) + 1 for of in groups)]
        return [np.zeros(count) for count in counts]
    information, known = np.diag(1.0 / from_below), np.zeros((len(level), len(level)))
    above = [level]
    for parents in reversed(tree.parents[:cut]):
        level = parents[level]
        above.append(level)
    for depth, areas in enumerate(reversed(above[1:])):
        own = one.own[depth]
        if own is None:
            continue
        if own == 0:
            known += areas[:, None] == areas
        else:
            information += (areas[:, None] == areas) / own
    covariance = _covariance(information, known) if known.any() else np.linalg.inv(information)
    found = []
    for areas in (*reversed(above), *groups):
        member = (areas[None, :] == np.arange(int(areas.max()) + 1)[:, None]).astype(float)
        found.append(np.einsum("ij,ij->i", member @ covariance, member))
    return found


def _parent_of_few(tree: Tree) -> int | None:
    """Return an area in the middle of the lowest level but one with not too many leaves."""
    fan = tree.fan(tree.levels - 2) if tree.levels > 1 else np.empty(0, np.int64)
    possible = np.flatnonzero((fan > 0) & (fan <= MOST_UNKNOWNS))
    return int(possible[len(possible) // 2]) if len(possible) else None


def _leaf_variances(one: SpaceVariances, parent: int) -> Floats:
    """Return F of the leaves of one area, given what is known of that area from elsewhere."""
    tree, level = one.tree, one.tree.levels - 1
    start, stop = (int(place) for place in tree.starts[level - 1][parent : parent + 2])
    own = one.variances_from_below(level, start, stop)
    if not own.all():
        return np.zeros(stop - start)
    final = float(one.variances(level - 1, parent, parent + 1)[0])
    if final == 0:  # the sum of the leaves is exact
        return np.diag(_covariance(np.diag(1.0 / own), np.ones((len(own), len(own))))).copy()
    elsewhere = 1.0 / final - 1.0 / float(own.sum())
    information = np.diag(1.0 / own) + max(0.0, elsewhere)
    return np.diag(np.linalg.inv(information)).copy()


def second_check(
    family: str,
    columns: Sequence[FamilyColumn],
    spec: ConsistentSpec,
    noised: Sequence[NoisedTable],
    files: Files,
) -> Iterator[str]:
    """Yield the errors found in the published tables of a family; none for correct tables."""
    shape = columns[0].shape
    for column in (one for one in columns if one.is_shown):
        measured = MeasuredColumn(column, noised)
        wanted = required_tables(shape, spec)
        wrong = list(contradictions(measured, non_negative=spec.non_negative))
        yield from wrong
        variances = on_lattice(measured, wanted, sound=not wrong)
        published = PublishedColumn(column, variances.structure.bits, files)
        yield from unequal_sums(shape, tables_with_estimates(shape, spec), published.estimates)
        yield from unequal_groups(shape, published.estimates)
        yield from _changed_invariants(published, measured, spec)
        if not measured.is_cut and lowest_estimated_level(shape, spec) == len(shape.levels) - 1:
            yield from wrong_equations(variances, measured, published)
        if not measured.is_cut:
            yield from wrong_errors(variances, published, spec)
        if spec.non_negative:
            yield from unequal_sums(shape, shape.placed, published.whole)
            yield from unequal_groups(shape, published.whole)
            never = zeros_of(shape, spec.zeros)
            yield from impossible_cells(shape, shape.placed, published, never)
            for how in refinements_of(column, spec):
                if how.separator is None:
                    yield from gainful_exchanges(published, how, spec)
            if spec.publish.records:
                yield from _wrong_records(family, published, files)


def _changed_invariants(
    published: PublishedColumn, measured: MeasuredColumn, spec: ConsistentSpec
) -> Iterator[str]:
    """Yield published tables that differ from the measured invariants."""
    shape, bits = published.shape, published.bits
    for placed in invariant_tables(published.column):
        estimated_too = placed.level <= lowest_estimated_level(shape, spec)
        for span in spans(shape, placed):
            exact = measured.read(placed.level, placed.attributes, *span)
            same = not estimated_too or np.array_equal(
                published.estimates(placed, *span), exact << bits
            )
            if spec.non_negative:
                same = same and np.array_equal(published.whole(placed, *span), exact)
            if not same:
                yield f"'{placed.name}' is not the invariant that was published"
                break


def _wrong_records(family: str, published: PublishedColumn, files: Files) -> Iterator[str]:
    """Yield tables of the last level whose cells have other numbers of synthetic persons."""
    shape = published.shape
    keys = shape.leaves
    total = int(published.whole(shape.at(0)[0], 0, 1).sum())
    if total > MOST_RECORDS or keys.size > DENSE:
        return
    counts, last, cells_of = np.zeros(keys.size, np.int64), 0, CellNumbers(keys).of
    for batch in files[records_name(family)]():
        cells = cells_of(batch)
        if len(cells):
            if cells[0] < last or (np.diff(cells) < 0).any():
                yield "invented persons are not in the order of their cells"
            last = int(cells[-1])
        counts += np.bincount(cells, minlength=keys.size)
    areas = shape.tree.counts[-1]
    counts = counts.reshape(areas, *shape.sizes)
    for placed in shape.at(len(shape.levels) - 1):
        left = tuple(1 + i for i in shape.everything if i not in placed.attributes)
        if not np.array_equal(counts.sum(axis=left), published.whole(placed, 0, areas)):
            yield f"invented persons are not as many as '{placed.name}' says"
