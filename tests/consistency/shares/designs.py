"""Small designs with dense answers: variances as functions of shares, by matrices over leaf cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dprelease.consistency.algebra import subtables
from dprelease.consistency.shares.design import Design
from dprelease.consistency.structure import Structure
from dprelease.consistency.tree import Tree
from tests.consistency.families import Case, Dense, random_tree


def random_design(rng, *, levels=None, exact=0.0, share=0.7, unknowns=90):
    """Return a ragged design, the finest table measurable at every level: leaves are on any."""
    levels = levels or int(rng.choice([1, 2, 3, 3, 4]))
    tree = random_tree(rng, levels, 5)
    while max(tree.counts) > 25:
        tree = random_tree(rng, levels, 4)
    sizes = (int(rng.integers(2, 5)),)
    while (
        len(sizes) < 3 and rng.random() < 0.8 and np.prod(sizes) * 3 * max(tree.counts) < unknowns
    ):
        sizes += (int(rng.integers(1, 4)),)
    tables = subtables(tuple(range(len(sizes))))
    prices = [
        {t: float(rng.uniform(0.5, 5)) for t in tables if rng.random() < share}
        for _ in range(tree.levels)
    ]
    for level in prices:
        level.setdefault(tables[-1], float(rng.uniform(0.5, 5)))
    known = [[t for t in tables if rng.random() < exact] for _ in prices]
    return Design(sizes, tree, prices, known)


def all_tables(design):
    """Return every table at every level."""
    tables = subtables(tuple(range(len(design.sizes))))
    return [(level, table) for level in range(design.areas.levels) for table in tables]


@dataclass
class DenseDesign:
    """Variances of every table's cells at every area, from the inverse of the normal matrix."""

    design: Design

    def __post_init__(self):
        tree = self.design.areas
        dense = Dense(Case(Structure(self.design.sizes, tree, [{}] * tree.levels), {}))
        self.normals, self.middles = [], {}
        for level, table in self.design.items:
            rows = dense.query(level, table).astype(float)
            self.normals.append(rows.T @ rows / self.design.prices[level][table])
        self.queries = {at: dense.query(*at).astype(float) for at in all_tables(self.design)}

    def inverse(self, shares):
        """Return the covariance of leaf cells; of what is estimable only, where shares are 0."""
        normal = np.tensordot(shares, self.normals, axes=1)
        if (shares > 0).all():
            return np.linalg.inv(normal)
        return np.linalg.pinv(normal, rcond=1e-10, hermitian=True)

    def each(self, shares, at):
        """Return the variance of a table's cell at each area: (areas, cells), equal along cells."""
        query = self.queries[at]
        found = np.einsum("ij,jk,ik->i", query, self.inverse(shares), query)
        return found.reshape(self.design.areas.counts[at[0]], -1)

    def mean(self, shares, weights):
        """Return the weighted sum of mean variances, and its derivatives by shares."""
        inverse, key = self.inverse(shares), tuple(weights.items())
        if key not in self.middles:
            self.middles[key] = sum(
                weight * self.queries[at].T @ self.queries[at] / len(self.queries[at])
                for at, weight in key
            )
        middle = self.middles[key]
        around = inverse @ middle @ inverse
        slopes = [-float((normal * around).sum()) for normal in self.normals]
        return float((middle * inverse).sum()), np.array(slopes)

    def parts(self, shares, limits):
        """Return the variance of each limited table by area as a part of its limit, and derivatives."""
        rows = np.concatenate(
            [
                self.queries[at][:: len(self.queries[at]) // self.design.areas.counts[at[0]]]
                / np.sqrt(limit)
                for at, limit in limits.items()
            ]
        )
        seen = rows @ self.inverse(shares)
        slopes = [-(seen @ normal * seen).sum(axis=1) for normal in self.normals]
        return (seen * rows).sum(axis=1), np.array(slopes).T


def floats(design, found):
    """Return the shares of an allocation in the order of the design's items."""
    return np.array([float(found.shares[level].get(t, 0)) for level, t in design.items])


def skewed_tree(rng, counts, spread=0.7):
    """Return a tree of given numbers of areas, each with at least one child, of very unequal sizes."""
    parents = []
    for above, below in zip(counts, counts[1:], strict=False):
        shares = rng.lognormal(0, spread, above)
        fan = 1 + rng.multinomial(below - above, shares / shares.sum())
        parents.append(np.repeat(np.arange(above), fan))
    return Tree(counts[0], parents)


def cell_weights(design, published):
    """Return weights by which `least_mean` minimises the mean variance of all published cells."""
    numbers = design.numbers(published)
    total = math.fsum(numbers.values())
    return {placed: number / total for placed, number in numbers.items()}
