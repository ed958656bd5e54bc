"""The shape of a tree for computing variances: equivalent areas form one class.

A variance depends only on the position of an area in the tree. A shape has classes of areas: for
each class its parent class, and the number of its areas in every area of the parent (`copies`, a
fraction if areas of different kinds are merged). Leaves of the last level under one parent are
always one class, so that 7.7 million blocks are 236 thousand numbers. `merge_siblings` goes further
and puts areas of about the same size together: its results are approximate, and are checked on the
shape of the tree itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import Floats, Whole
from dprelease.consistency.tree import Tree

Mask = NDArray[np.bool_]


class Shape:
    """Classes of areas by level.

    Parameters
    ----------
    roots
        For each class of level 0, the number of its areas.
    parents
        For every level from 1 on, the parent class of each of its classes; rising.
    copies
        For every level from 1 on, how many areas of a class each area of its parent has.
    """

    def __init__(self, roots: Floats, parents: Sequence[Whole], copies: Sequence[Floats]) -> None:
        self.parents = list(parents)
        self.copies = [roots, *copies]
        self.counts = [len(level) for level in self.copies]
        self.weights = [roots]
        for parent, copied in zip(parents, copies, strict=True):
            self.weights.append(self.weights[-1][parent] * copied)

    @property
    def levels(self) -> int:
        """Return the number of levels."""
        return len(self.counts)

    @property
    def size(self) -> int:
        """Return the number of classes on all levels."""
        return sum(self.counts)

    @cached_property
    def starts(self) -> list[Whole]:
        """Return by level, the last left out, where the child classes of each class start."""
        return [
            np.searchsorted(level, np.arange(above + 1), side="left")
            for above, level in zip(self.counts, self.parents, strict=False)
        ]

    def inner(self, level: int) -> Whole:
        """Return the classes of a level that have children."""
        return self._inner[level]

    @cached_property
    def _inner(self) -> list[Whole]:
        found = [np.flatnonzero(np.diff(starts)) for starts in self.starts]
        return [*found, np.empty(0, np.int64)]

    def total(self, level: int, of: Floats) -> Floats:
        """Return the sums of a level's numbers over each parent's children, copies counted."""
        inner = self.inner(level - 1)
        found = np.zeros((self.counts[level - 1], *of.shape[1:]))
        copies = self.copies[level].reshape(-1, *[1] * (of.ndim - 1))
        found[inner] = np.add.reduceat(of * copies, self.starts[level - 1][inner], axis=0)
        return found

    @classmethod
    def of_tree(cls, tree: Tree) -> Shape:
        """Return the shape of a tree: a class for each area, and for the leaves of each."""
        if tree.levels == 1:
            return cls(np.array([float(tree.counts[0])]), [], [])
        fan = tree.fan(tree.levels - 2)
        inner = np.flatnonzero(fan)
        copies = [np.ones(count) for count in tree.counts[1:-1]]
        roots = np.ones(tree.counts[0])
        return cls(roots, [*tree.parents[:-1], inner], [*copies, fan[inner].astype(np.float64)])

    @classmethod
    def even(cls, counts: Sequence[float]) -> Shape:
        """Return the shape of a tree with only the numbers of areas by level known."""
        copies = [np.array([below / above]) for above, below in pairwise(counts)]
        return cls(np.array([float(counts[0])]), [np.zeros(1, np.int64)] * len(copies), copies)

    def merge_siblings(self, kinds: Sequence[Whole], parts: int) -> Shape:
        """Return a smaller shape, in which siblings of about the same size are one class.

        Parameters
        ----------
        kinds
            For each level, a number for each class: different ones never become one.
        parts
            Into how many classes, by size, siblings of one kind are divided at most.
        """
        sizes = self._sizes()
        group = np.unique(kinds[0], return_inverse=True)[1]
        weights = [_totals(group, self.weights[0])]
        parents: list[Whole] = []
        for level in range(1, self.levels):
            above = group[self.parents[level - 1]]
            group = _classes(above, kinds[level], sizes[level], parts)
            weights.append(_totals(group, self.weights[level]))
            parent = np.zeros(len(weights[-1]), np.int64)
            parent[group] = above
            parents.append(parent)
        copies = [
            below / above[parent]
            for (above, below), parent in zip(pairwise(weights), parents, strict=True)
        ]
        return Shape(weights[0], parents, copies)

    def _sizes(self) -> list[Floats]:
        """Return a number that sorts areas with similar variances next to each other.

        It is V of `variances`, with own measurements that are about as good as children's sums:
        it grows with an area's children, and with theirs.
        """
        sizes = [np.ones(self.counts[-1])]
        for level in reversed(range(self.levels - 1)):
            below = self.total(level + 1, sizes[-1])
            inner = below > 0
            usual = float(np.average(below[inner], weights=self.weights[level][inner]))
            here = np.full(self.counts[level], usual)
            here[inner] = 1 / (1 / usual + 1 / below[inner])
            sizes.append(here)
        return sizes[::-1]


def _totals(group: Whole, weights: Floats) -> Floats:
    return np.bincount(group, weights).astype(np.float64)


def _classes(above: Whole, kinds: Whole, sizes: Floats, parts: int) -> Whole:
    """Return the class of each area: by its parent's class, its kind, and its rank by size."""
    order = np.lexsort((sizes, kinds, above))
    a, k, s = above[order], kinds[order], sizes[order]
    new = np.ones(len(order), bool)  # where another parent or kind begins
    new[1:] = (a[1:] != a[:-1]) | (k[1:] != k[:-1])
    first = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    length = np.diff(np.append(first, len(order)))[run]
    other = new.copy()
    other[1:] |= s[1:] != s[:-1]
    rank = np.flatnonzero(other)[np.cumsum(other) - 1] - first[run]  # equal sizes, equal ranks
    part = rank * parts // length
    change = new.copy()
    change[1:] |= part[1:] != part[:-1]
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(change) - 1
    return found
