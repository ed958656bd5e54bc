"""Random families of tables, and slow exact answers for them: dense matrices and fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.consistency.algebra import cell_count, squared_lengths, subtables
from dprelease.consistency.estimates import pieces
from dprelease.consistency.structure import MeasuredGrouping, NoiseMoments, Structure
from dprelease.consistency.tree import Tree


@dataclass
class Case:
    """A declared family and its measured numbers."""

    structure: Structure
    measured: dict  # (level, table) -> (nodes, n_i ...)

    def read(self, level, table, start, stop):
        return self.measured[level, table][start:stop]


def random_tree(rng, levels, most=4):
    """Return a ragged tree: childless areas on any level, single children, one root."""
    parents, above = [], 1
    for _ in range(levels - 1):
        count = int(rng.integers(1, most)) * above
        parents.append(np.sort(rng.integers(0, above, count)))
        above = count
    return Tree(1, parents)


def true_tables(structure, cells):
    """Return the cells of every area by level, summed from those of the leaves."""
    tree = structure.tree
    found = [part.copy() for part in cells]
    for level in range(tree.levels - 2, -1, -1):
        inner = tree.fan(level) > 0
        found[level][inner] = 0
        np.add.at(found[level], tree.parents[level], found[level + 1])
    return found


def marginal(cells, table):
    k = cells.ndim - 1
    return cells.sum(axis=tuple(i + 1 for i in range(k) if i not in table))


def random_case(rng, *, levels=None, sizes=None, exact=True, full=0.7, share=0.4, truth=True):
    """Return a family with random noise (missing tables, invariants) and noisy numbers."""
    sizes = sizes or tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
    levels = levels or int(rng.integers(1, 5))
    tree = random_tree(rng, levels)
    while tree.levels > 1 and tree.counts[-1] * np.prod(sizes) > 260:  # unknowns of the dense solve
        sizes = sizes[:-1] if len(sizes) > 1 else sizes
        tree = random_tree(rng, levels, 3)
    everything = tuple(range(len(sizes)))
    laws = []
    for _ in range(tree.levels):
        here = {}
        for table in subtables(everything):
            if rng.random() < share:
                variance = Fraction(int(rng.integers(1, 50)), int(rng.integers(1, 5)))
                if exact and rng.random() < 0.12:
                    variance = Fraction(0)
                mean = Fraction(int(rng.integers(0, 3)), 3) if variance else Fraction(0)
                here[table] = NoiseMoments(variance, mean)
        laws.append(here)
    if rng.random() < full:
        laws[-1].setdefault(everything, NoiseMoments(Fraction(3)))
    structure = Structure(sizes, tree, laws)
    return Case(structure, noisy_tables(structure, rng, random_truth(structure, rng)))


def with_random_groupings(case, rng, number=2):
    """Return the same family with random measured groupings of the areas of the last level."""
    old, groupings, measured = case.structure, [], dict(case.measured)
    cells = random_truth(old, rng)[-1]
    possible = sorted({t for table in old.noise_moments[-1] for t in subtables(table)})
    for level in range(old.tree.levels, old.tree.levels + number):
        size = int(rng.integers(1, 6))  # perhaps with empty groups
        groups = rng.integers(0, size, old.tree.counts[-1])
        variances = {t: Fraction(10) ** int(rng.integers(-4, 5)) for t in possible}
        laws = {t: NoiseMoments(v, v / 3) for t, v in variances.items() if rng.random() < 0.6}
        for table, law in laws.items():
            sums = np.zeros((size, *(old.sizes[i] for i in table)), np.int64)
            np.add.at(sums, groups, marginal(cells, table))
            noise = rng.normal(float(law.mean), float(law.variance) ** 0.5, sums.shape)
            measured[level, table] = sums + np.rint(noise).astype(np.int64)
        groupings.append(MeasuredGrouping(groups, size, laws))
    structure = Structure(old.sizes, old.tree, old.noise_moments, old.largest, groupings)
    return Case(structure, measured)


def random_truth(structure, rng, mean=4.0):
    cells = [
        rng.poisson(mean * rng.random((count, *structure.sizes)) ** 4).astype(np.int64)
        for count in structure.tree.counts
    ]
    return true_tables(structure, cells)


def noisy_tables(structure, rng, truth):
    """Return measured numbers: rounded normal noise with about the declared means and variances."""
    found = {}
    for level, laws in enumerate(structure.noise_moments):
        for table, law in laws.items():
            exact = marginal(truth[level], table)
            noise = np.rint(rng.normal(float(law.mean), float(law.variance) ** 0.5, exact.shape))
            found[level, table] = exact + (noise.astype(np.int64) if law.variance else 0)
    return found


class Dense:
    """The same least-squares problem as one matrix over the cells of all leaves."""

    def __init__(self, case):
        self.structure = structure = case.structure
        tree = structure.tree
        leaves = [
            (level, v) for level in range(tree.levels) for v in np.flatnonzero(tree.fan(level) == 0)
        ]
        self.place = {leaf: at for at, leaf in enumerate(leaves)}
        self.members = [np.zeros((count, len(leaves)), np.int64) for count in tree.counts]
        for level in reversed(range(tree.levels)):
            for v in range(tree.counts[level]):
                if (level, v) in self.place:
                    self.members[level][v, self.place[level, v]] = 1
                else:
                    start, stop = tree.starts[level][v : v + 2]
                    self.members[level][v] = self.members[level + 1][start:stop].sum(axis=0)
        for grouping in structure.groupings:
            inside = np.arange(grouping.size)[:, None] == grouping.groups
            self.members.append(inside @ self.members[tree.levels - 1])
        self.rows, self.values, self.variances = [], [], []
        for (level, table), measured in case.measured.items():
            law = structure.moments_at(level)[table]
            self.rows.append(np.kron(self.members[level], self.summing(table)))
            flat = [Fraction(int(y)) - law.mean for y in measured.ravel()]
            self.values.extend(flat)
            self.variances.extend([law.variance] * len(flat))
        self.design = (
            np.vstack(self.rows)
            if self.rows
            else np.zeros((0, len(leaves) * int(np.prod(structure.sizes))))
        )

    def summing(self, table):
        matrix = np.ones((1, 1), np.int64)
        for i, n in enumerate(self.structure.sizes):
            matrix = np.kron(
                matrix, np.eye(n, dtype=np.int64) if i in table else np.ones((1, n), np.int64)
            )
        return matrix

    def query(self, level, table):
        return np.kron(self.members[level], self.summing(table))

    def solve(self):
        """Return the estimate, its covariance and the projection onto what is estimable.

        Exact rows first: x = x0 + Z t with Z their null space; least squares for t in the rest.
        """
        noisy = np.array([v > 0 for v in self.variances], bool)
        values = np.array([float(v) for v in self.values])
        fixed = self.design[~noisy].astype(float)
        size = self.design.shape[1]
        if len(fixed):
            _u, s, vt = np.linalg.svd(fixed)
            rank = int((s > 1e-9 * s[0]).sum())
            null = vt[rank:].T
            start = np.linalg.pinv(fixed, rcond=1e-9) @ values[~noisy]
        else:
            null, start = np.eye(size), np.zeros(size)
        sd = np.sqrt([float(v) for v in np.array(self.variances, object)[noisy]])
        rest = self.design[noisy] / sd[:, None]
        u, s, vt = np.linalg.svd(rest @ null, full_matrices=False)
        kept = s > 1e-9 * (
            np.abs(rest).max() if rest.size else 0
        )  # not of s[0], which may be nothing
        inverse = null @ ((vt[kept].T / s[kept]) @ u[:, kept].T)
        x = start + inverse @ (values[noisy] / sd - rest @ start)
        seen = np.vstack((fixed, rest))
        return x, inverse @ inverse.T, np.linalg.pinv(seen, rcond=1e-10) @ seen

    def exact(self):
        """Return the estimate in fractions; the design must have full rank, all variances positive."""
        size = self.design.shape[1]
        normal = [[Fraction(0)] * (size + 1) for _ in range(size)]
        for row, value, variance in zip(
            self.design.tolist(), self.values, self.variances, strict=True
        ):
            seen = [j for j, x in enumerate(row) if x]
            for i in seen:
                for j in seen:
                    normal[i][j] += row[i] * row[j] / variance
                normal[i][size] += row[i] * value / variance
        for i in range(size):  # Gauss and Jordan
            pivot = next(j for j in range(i, size) if normal[j][i])
            normal[i], normal[pivot] = normal[pivot], normal[i]
            normal[i] = [x / normal[i][i] for x in normal[i]]
            for j in range(size):
                if j != i and normal[j][i]:
                    normal[j] = [
                        x - normal[j][i] * y for x, y in zip(normal[j], normal[i], strict=True)
                    ]
        return [row[size] for row in normal]


def whole_tree(variances, read, published, **options):
    """Return the estimates of all levels at once; the parameters are those of `pieces`."""
    structure = variances.structure
    parts_of = [
        {t: [np.zeros((0, *(structure.sizes[i] for i in t)), np.int64)] for t in level}
        for level in published
    ]
    for piece in pieces(variances, read, published, **options):
        for at, tables in enumerate(piece.tables[0 if piece.top else 1 :]):
            for table, values in tables.items():
                parts_of[piece.level + at + (not piece.top)][table].append(values)
    levels = parts_of[: structure.tree.levels]
    return [{t: np.concatenate(parts) for t, parts in level.items()} for level in levels]


def query_coefficients(sizes, query):
    """Return the coefficients for any whole weights over all cells: |P_T q|^2 / N_(not T)."""
    return {
        space: length * cell_count(sizes, space) / math.prod(sizes)
        for space, length in squared_lengths(sizes, query).items()
        if length
    }
