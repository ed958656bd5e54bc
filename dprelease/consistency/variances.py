"""Compute variances, gains and estimability of estimates (layer 1) from the declaration.

For each residual space T (see `algebra`) the tree is one scalar problem: every contrast of T at
node p is the sum of its children's, and is measured at p with variance v_p (infinite where no
table measures it, 0 where it is exact). With the children's best estimates u_c, of variances V_c,
s = sum u_c and U = sum V_c, the best estimate from a node's own subtree is
    u = s + a (m - s),    a = U / (U + v),    V = a v
(inverse-variance average of two independent estimates). Going down, x_root = u, F_root = V and
    x_c = u_c + g_c (x_p - s_p),    g_c = V_c / U_p,    F_c = V_c (U_p - V_c) / U_p + g_c^2 F_p :
conditional on the children's sum, the estimate of a single child is u_c + g_c (sum - s), with
variance V_c - V_c^2 / U_p, and x_p is the best estimate of the sum from all measurements. This is
generalised least squares on the whole tree with its exact variances. Hay et al. (VLDB 2010) is the
case of equal variances; the general one is Gaussian belief propagation on a tree, derived here and
compared with dense solves in the tests.

**Not measured below.** If exactly one child has V = infinity, it takes all of the difference (g =
1, and g = 0 for its siblings): x_c = x_p - sum of the others' u, with F_c = F_p + the others' sum
of V, the limit of the formulas; a single child is such a case, and equals its parent. If several
children have an infinite V, none of them is estimable: they share the difference equally, so that
sums still hold, and their F is infinite. (The design sketch calls every node below an infinite V
unestimable, which would exclude single children.)

**Rounding of variances.** V is stored in whole multiples of 2**-h and U is their exact sum, so the
order of summation has no effect. `slack` bounds the effect of rounding: the gains used are those of
a least-squares problem whose variances differ from the declared ones by factors within 1 +- eta,
eta = the sum over levels of (half a unit over the level's least positive V, and 8 roundings of a
float). For such gains the true variance of the estimate is at most (1 + eta) / (1 - eta) times the
variance of the changed problem (a sum of c_j^2 v_j with v_j <= v'_j / (1 - eta), and the changed
problem's estimate has c_j of least variance there), and the computed F differs from the latter by
the roundings of its own formula, where nothing cancels: V_c (U - V_c) is a difference of whole
numbers. So (1 + slack) F >= the variance of the published value, with slack = 16 (levels + 1) eta.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from fractions import Fraction

import numpy as np

from dprelease.consistency.algebra import Table, own_weights, spaces_of
from dprelease.consistency.fixed_point import (
    Floats,
    Whole,
    round_half_even,
    running_sums,
    variance_bits,
)
from dprelease.consistency.group_gains import GroupGains
from dprelease.consistency.structure import Structure
from dprelease.consistency.tree import Ranges, Tree

Changes = Mapping[Table, Sequence[tuple[Whole, Whole]]]

_BATCH_SIZE = 1 << 20
INFINITE = -1  # a number that stands for an infinite variance


class SpaceVariances:
    """V, U, gains and F of one residual space T on the whole tree.

    - `tree`: the areas.
    - `own`: for each level, the variance v with which its tables measure T; None if none of them
      does.
    """

    def __init__(self, tree: Tree, own: list[float | None]) -> None:
        self.tree = tree
        self.own = own
        self.bits = [0] * tree.levels  # h of each level
        self.upward: list[Whole] = [
            np.empty(0, np.int64)
        ] * tree.levels  # V; one number for the last level
        self.summed: list[Whole] = [
            np.empty(0, np.int64)
        ] * tree.levels  # U; INFINITE for leaves too
        self.measurement_weights: list[Floats] = [np.empty(0)] * tree.levels  # a
        self.least = [0] * tree.levels  # positive V in units
        for level in reversed(range(tree.levels)):
            self._compute_upward(level)
        self.eta = sum(0.5 / max(least, 1) + 8 * 2.0**-53 for least in self.least)
        self.slack = 16 * (tree.levels + 1) * self.eta
        self.final: list[
            Floats
        ] = []  # F of every level but the last, which follows from its parents'
        for level in range(max(1, tree.levels - 1)):
            self.final.append(self.variances(level, 0, tree.counts[level]))
        self.gains: GroupGains | None = None

    def add_groups(self, groups: Sequence[Whole], noise: Sequence[Sequence[Fraction]]) -> None:
        """Include measured groups of leaves in F, which is then known for the last level, too.

        See `GroupGains` for the parameters.
        """
        self.gains = GroupGains(self, groups, noise)
        self.final = self.gains.final_variances()

    def _compute_upward(self, level: int) -> None:
        last = level == self.tree.levels - 1
        nodes = 1 if last else self.tree.counts[level]
        self.summed[level] = np.full(nodes, INFINITE, np.int64) if last else self._child_sums(level)
        summed = self._in_floats(self.summed[level], level + 1)
        own = self.own[level]
        weight, best = _combine_variances(summed, np.inf if own is None else own)
        self.measurement_weights[level] = weight
        finite = best[np.isfinite(best)]
        largest = float(finite.max()) if len(finite) else 0.0
        bits = variance_bits(largest, self.tree.most_children(level - 1))
        units = round_half_even(np.ldexp(np.where(np.isfinite(best), best, 0.0), bits))
        # A positive variance must not become 0, which would mean an exact number.
        units = np.where(best > 0, np.maximum(units, 1), units)
        self.bits[level] = bits
        self.least[level] = int(units[(best > 0) & np.isfinite(best)].min(initial=1 << 62))
        self.upward[level] = np.where(np.isfinite(best), units, INFINITE)

    def _child_sums(self, level: int) -> Whole:
        """Return U of each node of a level; INFINITE without children or with an infinite V."""
        fan = self.tree.fan(level)
        below = self.upward[level + 1]
        if level + 1 == self.tree.levels - 1:
            known = (fan > 0) & (below[0] != INFINITE)
            return np.where(known, fan * below[0], INFINITE)
        starts = self.tree.starts[level]
        # One cumulative sum for all families, which is faster than `reduceat` and needs no case for
        # empty ones.
        total = np.concatenate(([0], np.cumsum(np.maximum(below, 0))))
        unknown = np.concatenate(([0], np.cumsum(below == INFINITE)))
        sums: Whole = total[starts[1:]] - total[starts[:-1]]  # each below 2**62; wraps cancel
        infinite = (unknown[starts[1:]] > unknown[starts[:-1]]) | (fan == 0)
        return np.where(infinite, INFINITE, sums)

    def _in_floats(self, units: Whole, level: int) -> Floats:
        """Return variances in units of a level as floats; INFINITE becomes infinity."""
        bits = self.bits[level] if level < self.tree.levels else 0
        return np.where(units == INFINITE, np.inf, np.ldexp(units.astype(np.float64), -bits))

    def part(self, tree: Tree, level: int, ranges: Ranges) -> SpaceVariances:
        """Return the variances of `tree`, which has some areas of a level and all areas below them.

        F of its highest areas is that of the whole tree. `level` must not be the last level.
        """
        slices = [slice(*here) for here in ranges]
        slices[-1] = slice(None)  # one number for all areas
        found = copy(self)
        found.tree = tree
        found.gains = None  # of the whole tree
        found.own, found.bits = self.own[level:], self.bits[level:]
        found.least = self.least[level:]
        found.upward = [values[s] for values, s in zip(self.upward[level:], slices, strict=True)]
        found.summed = [values[s] for values, s in zip(self.summed[level:], slices, strict=True)]
        found.measurement_weights = [
            values[s] for values, s in zip(self.measurement_weights[level:], slices, strict=True)
        ]
        found.final = [
            values[slice(*here)] for values, here in zip(self.final[level:], ranges, strict=False)
        ]
        return found

    def upward_of(self, level: int, start: int, stop: int) -> Whole:
        """Return V in units of a level for some of its nodes."""
        if level == self.tree.levels - 1:
            return np.broadcast_to(self.upward[level], (stop - start,))
        return self.upward[level][start:stop]

    def variances_from_below(self, level: int, start: int, stop: int) -> Floats:
        """Return V of some nodes of a level, the variance of estimates from it and from below."""
        return self._in_floats(self.upward_of(level, start, stop), level)

    def measurement_weights_of(self, level: int, start: int, stop: int) -> Floats:
        """Return the weight a of the measurements of some nodes of a level, not their children."""
        if level == self.tree.levels - 1:
            return np.broadcast_to(self.measurement_weights[level], (stop - start,))
        return self.measurement_weights[level][start:stop]

    def shares(self, level: int, start: int, stop: int) -> tuple[Whole, Whole, Whole]:
        """Return the weights by which differences are divided among the children start <= c < stop.

        Returns weights W; for each child the running sum of W over its preceding siblings and
        itself; the sum of W over all children of its parent, so that g = W / sum. W is V, or 1 and
        0 for children with infinite and finite V if the V of a sibling is infinite.
        """
        parents = self.tree.parents[level - 1][start:stop]
        first = int(parents[0])
        starts = self.tree.starts[level - 1][first : int(parents[-1]) + 2] - start
        upward = self.upward_of(level, start, stop)
        free = self.summed[level - 1][parents] == INFINITE
        weights = np.where(free, (upward == INFINITE).astype(np.int64), np.maximum(upward, 0))
        running = running_sums(weights, starts)
        total = running[np.maximum(starts[1:], 1) - 1][parents - first]
        return weights, running, total

    def variances(self, level: int, start: int, stop: int) -> Floats:
        """Return F, the variance of the final estimate, for some nodes of a level."""
        if level < len(self.final):
            return self.final[level][start:stop]
        if level == 0:
            return self._in_floats(self.upward_of(0, start, stop), 0)
        parents = self.tree.parents[level - 1][start:stop]
        if not len(parents):
            return np.empty(0)
        family = self.tree.starts[level - 1]
        low, high = int(family[parents[0]]), int(family[parents[-1] + 1])
        weights, _running, total = (
            part[start - low : stop - low] for part in self.shares(level, low, high)
        )
        upward = self.upward_of(level, start, stop)
        gain = np.divide(weights, total, out=np.zeros(len(total)), where=total > 0)
        conditional = self._conditional_variances(level, parents, upward, total)
        above = self.final[level - 1][parents]
        # A gain of 0 takes nothing from an infinite F above, where the product would be undefined.
        passed = np.multiply(gain * gain, above, out=np.zeros(len(gain)), where=gain > 0)
        final: Floats = conditional + passed
        return final

    def _conditional_variances(
        self, level: int, parents: Whole, upward: Whole, total: Whole
    ) -> Floats:
        """Return the variance of each child given its parent: V (U - V) / U, or its limit."""
        free = self.summed[level - 1][parents] == INFINITE
        own = self._in_floats(upward, level)
        # A difference of whole numbers, in which nothing is rounded before the division.
        others = (total - upward).astype(np.float64) / np.maximum(total, 1).astype(np.float64)
        conditional = np.where(free, own, own * others)
        alone = free & (upward == INFINITE) & (total == 1)
        if alone.any():
            conditional = np.where(alone, self._finite_sibling_sums(level, parents), conditional)
        return np.asarray(conditional)

    def _finite_sibling_sums(self, level: int, parents: Whole) -> Floats:
        """Return the sum of the finite V among the children of each of `parents`."""
        starts = self.tree.starts[level - 1]
        upward = self.upward_of(level, 0, self.tree.counts[level])
        total = np.concatenate(([0], np.cumsum(np.maximum(upward, 0))))
        return np.ldexp(
            (total[starts[parents + 1]] - total[starts[parents]]).astype(np.float64),
            -self.bits[level],
        )


def _combine_variances(summed: Floats, own: float) -> tuple[Floats, Floats]:
    """Return a and V of nodes.

    `summed`: the variances of their children's sums. `own`: the variance of their measurement.
    """
    known = np.isfinite(summed)
    if np.isinf(own):
        return np.zeros(len(summed)), summed
    if own == 0:
        return np.ones(len(summed)), np.zeros(len(summed))
    finite = np.where(known, summed, 1.0)
    weight = np.where(known, finite / (finite + own), 1.0)
    return weight, weight * own


class Variances:
    """Variances of all residual spaces of a structure, and the tables that can be published.

    - `structure`: the declaration.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.rounding_bounds: dict[Table, list[float]] = {}  # results of `passes.rounding_bounds`
        self.rounding_bounds_of_tree: dict[Table, list[float]] = {}  # without measured groupings
        self.changes: Changes = {}
        """For each space, and each grouping that measures it, the group of each leaf, and what is
        added to the measured contrasts of a group's leaves (`estimates.with_groups`)."""
        self.weights: list[dict[Table, dict[Table, float]]] = []  # by level and space
        own: dict[Table, list[Fraction | None]] = {space: [] for space in structure.spaces}
        levels = structure.tree.levels
        for at in range(levels + len(structure.groupings)):
            level: dict[Table, dict[Table, float]] = {}
            for space in structure.spaces:
                cell_variances = {
                    table: moments.variance for table, moments in structure.moments_at(at).items()
                }
                variance, weights = own_weights(structure.sizes, space, cell_variances)
                own[space].append(variance)
                level[space] = {table: float(weight) for table, weight in weights.items()}
            self.weights.append(level)
        self.of = {
            space: SpaceVariances(
                structure.tree, [None if v is None else float(v) for v in own[space][:levels]]
            )
            for space in structure.spaces
        }
        for space, one in self.of.items():
            measured = [
                (grouping.groups, [variance] * grouping.size)
                for grouping, variance in zip(structure.groupings, own[space][levels:], strict=True)
                if variance is not None
            ]
            if measured and one.own[-1] is None:
                raise ValueError("a grouping measures what the last level does not measure")
            if measured:
                one.add_groups(*zip(*measured, strict=True))

    def with_largest(self, largest: int) -> Variances:
        """Return the same variances, with the unit of values for another declared largest number.

        Raises ValueError if the largest number leaves no room for 64-bit arithmetic.
        """
        old = self.structure
        found = copy(self)
        found.rounding_bounds, found.rounding_bounds_of_tree, found.changes = {}, {}, {}
        found.structure = Structure(old.sizes, old.tree, old.noise_moments, largest, old.groupings)
        return found

    def part(self, level: int, ranges: Ranges) -> Variances:
        """Return the variances of some areas of a level and all areas below them.

        The result includes `rounding_bounds`, because these bounds belong to the whole tree.
        """
        found = copy(self)
        found.structure = self.structure.part(level, ranges)
        found.rounding_bounds = {
            space: values[level:] for space, values in self.rounding_bounds.items()
        }
        found.weights = self.weights[level:]
        leaves = slice(*ranges[-1])
        found.changes = {
            space: [(groups[leaves], change) for groups, change in changes]
            for space, changes in self.changes.items()
        }
        tree = found.structure.tree
        found.of = {space: one.part(tree, level, ranges) for space, one in self.of.items()}
        return found

    def estimable(self, level: int) -> set[Table]:
        """Return the residual spaces that are estimable at every area of a level."""
        tree = self.structure.tree
        pieces = range(0, tree.counts[level], _BATCH_SIZE)
        return {
            space
            for space, one in self.of.items()
            if all(
                np.isfinite(
                    one.variances(level, at, min(at + _BATCH_SIZE, tree.counts[level]))
                ).all()
                for at in pieces
            )
        }

    def publishable(self, tables: Iterable[Table]) -> list[list[Table]]:
        """Return for each level the `tables` that can be estimated at all of its areas and above.

        The result depends only on the declaration, and `check` reports it before data is read.
        """
        sizes = self.structure.sizes
        wanted = list(tables)
        by_level = []
        for level in range(self.structure.tree.levels):
            spaces = self.estimable(level)
            wanted = [table for table in wanted if set(spaces_of(sizes, table)) <= spaces]
            by_level.append(wanted)
        return by_level
