"""Include the measurements of groupings in the estimates, by changes of those of the leaves."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from dprelease.consistency.algebra import Contrasts
from dprelease.consistency.estimates import CELLS_AT_MOST, first_pass, top_estimates
from dprelease.consistency.fixed_point import require_below, sibling_sums
from dprelease.consistency.passes import Read, downward_pass, own_contrasts, upward_pass
from dprelease.consistency.variances import Variances


def with_groups(variances: Variances, read: Read, cells_at_most: int = CELLS_AT_MOST) -> Variances:
    """Return variances with the changes of the leaves' measurements (see `group_gains`).

    Estimates computed with the result are those of least squares over all tables, also those of
    groupings; without groupings, the result is the same as `variances`.

    - `read`: as in `estimates.pieces`, also for the levels of groupings.

    Raises FixedPointRangeError if numbers are too large for the declared largest number.
    """
    structure, levels = variances.structure, variances.structure.tree.levels
    if not structure.groupings:
        return variances
    groupings = structure.groupings
    measured = [
        own_contrasts(variances, read, level, 0, grouping.size)
        for level, grouping in enumerate(groupings, levels)
    ]
    differences = [dict(own) for own in measured]
    for start, leaves in _leaf_contrasts(variances, read, cells_at_most):
        for grouping, rest in zip(groupings, differences, strict=True):
            groups = grouping.groups[start : start + len(leaves[()])]
            # The leaves of a group lie anywhere, and `sibling_sums` needs them side by side.
            order = np.argsort(groups, kind="stable")
            edges = np.searchsorted(groups[order], np.arange(grouping.size + 1))
            for space in rest:
                sums = sibling_sums(leaves[space][order], edges)
                rest[space] = require_below(rest[space] - sums, structure.limit(space))
    # The caller's variances stay without changes: they serve several sets of measurements.
    found = copy(variances)
    found.changes = {}
    for space, one in variances.of.items():
        if one.gains is None:
            continue
        of_space = [
            (grouping.groups, rest[space])
            for grouping, rest in zip(groupings, differences, strict=True)
            if space in rest
        ]
        changes = one.gains.changes(np.concatenate([values for _, values in of_space]))
        found.changes[space] = [
            (groups, change) for (groups, _), change in zip(of_space, changes, strict=True)
        ]
    return found


def _leaf_contrasts(
    variances: Variances, read: Read, cells_at_most: int
) -> Iterator[tuple[int, Contrasts]]:
    """Yield the first of some consecutive leaves, and their estimates from the tree alone."""
    first = first_pass(variances, read, cells_at_most)
    top = top_estimates(variances, first, [[]] * variances.structure.tree.levels)
    for placed in top.subtrees_below(variances, read, first):
        part = placed.subtree
        up = upward_pass(part.variances, part.read, 0, part.own)
        yield part.ranges[-1][0], downward_pass(part.variances, 0, part.own, up, placed.final)[-1]
