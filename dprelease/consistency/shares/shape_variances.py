"""F of every residual space on a shape, in floats and with derivatives by the precisions.

The recursion is that of `variances`, written with lambda = 1 / v:
    U_p = sum V_c,    V = 1 / (lambda + 1 / U),    g = V_c / U_p,    F_c = g (U_p - V_c + g F_p),
and its limits if nothing below a child measures it. Which V are infinite, and which are 0, follows
from the measured and the exact tables, not from their variances, so these cases have no
derivatives. `variances` computes the published errors and bounds their rounding; this module is
only for finding shares, and no guarantee depends on it.

A class with less than one area per area of its parent (averaged shapes) counts as one area among
its siblings: U - V_c stays at least 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.shares.jets import VALUES, Jet, constant, variable
from dprelease.consistency.shares.shapes import Mask, Shape

_AT_ONCE = 1 << 18  # numbers of one array


@dataclass(frozen=True)
class Sources:
    """The sources of each residual space by level: (levels, spaces).

    Parameters
    ----------
    measured
        Whether a table with noise measures the space.
    exact
        Whether an exact table determines it.
    """

    measured: Mask
    exact: Mask

    def of(self, spaces: slice) -> Sources:
        """Return the same for some of the spaces."""
        return Sources(self.measured[:, spaces], self.exact[:, spaces])


@dataclass(frozen=True)
class Unknown:
    """Which areas have no information on a space, by level: each (classes, spaces).

    Parameters
    ----------
    below
        V is infinite: neither the tables of the area nor those below it determine the space.
    children
        Sum of copies of such children.
    final
        F is infinite: no table determines it.
    """

    below: list[Mask]
    children: list[Floats]
    final: list[Mask]


def unknown(shape: Shape, sources: Sources) -> Unknown:
    """Return which areas have no information, from the declaration, for any shares."""
    told = sources.measured | sources.exact
    spaces = told.shape[1]
    below: list[Mask] = []
    children: list[Floats] = []
    for level in reversed(range(shape.levels)):
        lost = np.ones((shape.counts[level], spaces), bool)
        free = np.zeros((shape.counts[level], spaces))
        if level < shape.levels - 1:
            free = shape.total(level + 1, below[-1].astype(np.float64))
            lost[shape.inner(level)] = free[shape.inner(level)] > 0
        children.append(free)
        below.append(lost & ~told[level])
    below, children = below[::-1], children[::-1]
    final = [below[0]]
    for level in range(1, shape.levels):
        parents = shape.parents[level - 1]
        alone = np.abs(children[level - 1][parents] - 1) < 1e-9
        final.append(below[level] & (final[-1][parents] | ~alone))
    return Unknown(below, children, final)


def final_variances(
    shape: Shape, sources: Sources, lost: Unknown, precisions: Floats, order: int
) -> list[Jet]:
    """Return F of every class by level, infinite if undetermined: jets of (classes, spaces).

    Parameters
    ----------
    lost
        The result of `unknown` for the same shape and sources.
    precisions
        lambda by level and space: (levels, spaces).
    order
        How many derivatives are wanted.
    """
    best, sums = _upward(shape, sources, lost, precisions, order)
    final = [best[0]]
    for level in range(1, shape.levels):
        final.append(_below(shape, lost, level, best[level], sums[level - 1], final[-1]))
    for jet, mask in zip(final, lost.final, strict=True):
        jet.value[mask] = np.inf
    return final


def _upward(
    shape: Shape, sources: Sources, lost: Unknown, precisions: Floats, order: int
) -> tuple[list[Jet], list[Jet]]:
    """Return V of every class, and U of those above the last level; 1 in the place of infinity."""
    levels, spaces = precisions.shape
    zero = constant(0.0, spaces, levels, order)
    best: list[Jet] = []
    sums: list[Jet] = []
    for level in reversed(range(levels)):
        nodes = shape.counts[level]
        own = variable(precisions[level], level, levels, order)
        positive = np.where(sources.measured[level], precisions[level], 1.0)
        alone = Jet(positive[None, :], own.slope, own.bend).inverse()
        mine = alone.take(np.zeros(nodes, np.int64))
        if level < levels - 1:
            inner = shape.inner(level)
            child = best[-1].where(~lost.below[level + 1], zero).times(shape.copies[level + 1])
            total = child.segment_sums(shape.starts[level][inner]).spread(nodes, inner)
            sums.append(total)
            none = total.value <= 0  # exact below, or childless
            sure = Jet(np.where(none, 1.0, total.value), total.slope, total.bend)
            both = (own + sure.inverse()).inverse()
            heard = (lost.children[level] == 0) & _column(inner, nodes)
            mine = both.where(heard & ~none, mine.where(~heard, zero))
        mine = mine.where(~sources.exact[level][None, :] & ~lost.below[level], zero)
        best.append(mine)
    return best[::-1], sums[::-1]


def _below(shape: Shape, lost: Unknown, level: int, best: Jet, sums: Jet, above: Jet) -> Jet:
    """Return F of a level's classes from V, from U of the level above, and from its F."""
    parents = shape.parents[level - 1]
    total, passed = sums.take(parents), above.take(parents)
    lack = np.maximum(1.0 - shape.copies[level], 0.0)
    if lack.any():
        total = total + best.times(lack)
    free = lost.children[level - 1][parents] > 0
    none = total.value <= 0
    sure = Jet(np.where(none, 1.0, total.value), total.slope, total.bend)
    gain = best * sure.inverse()
    usual = gain * ((total - best) + gain * passed)
    if not free.any():
        return usual
    only = lost.below[level]
    return usual.where(~free, best.where(~only, total + passed))


def _column(places: Whole, nodes: int) -> Mask:
    found = np.zeros((nodes, 1), bool)
    found[places] = True
    return found


def mean_variances(shape: Shape, level: int, final: Jet) -> Jet:
    """Return the mean of F over all areas of a level: a jet of one node."""
    share = shape.weights[level] / shape.weights[level].sum()
    return final.times(share).all_summed()


def values_of(shape: Shape, sources: Sources, precisions: Floats) -> list[Floats]:
    """Return F of every class by level: (classes, spaces); some spaces at a time."""
    spaces = precisions.shape[1]
    step = max(1, _AT_ONCE // shape.size)
    found: list[list[Floats]] = [[] for _ in range(shape.levels)]
    for start in range(0, spaces, step):
        some = slice(start, start + step)
        part = sources.of(some)
        lost = unknown(shape, part)
        for level, jet in enumerate(
            final_variances(shape, part, lost, precisions[:, some], VALUES)
        ):
            found[level].append(jet.value)
    return [np.concatenate(parts, axis=1) for parts in found]
