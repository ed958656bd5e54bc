"""Margins have the declared coverage: exact binomial bands over thousands of releases.

A forest of equal trees is as many releases of one: each area's and cell's coverages are independent.
"""

from __future__ import annotations

from copy import copy
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from dprelease.consistency import passes, standard_errors, variances
from dprelease.consistency.algebra import cell_count as number_of_cells
from dprelease.consistency.family import integer_pieces, intervals
from dprelease.consistency.integer_tables.decisions import refinement
from dprelease.consistency.standard_errors import half_widths
from dprelease.consistency.structure import NoiseMoments, Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from tests.consistency.families import marginal, noisy_tables, true_tables

RELEASES = 5000
SIZES = (2, 3)
QUANTILE = float(norm.ppf(0.975))
NEAR = 0.003  # what whole noise of these widths may differ from normal noise
WRONG = 1e-9 / 200  # of one cell's verdict
TABLES = [(), (0,), (0, 1)]
SCALES = [0, 4, 60, 900]  # classes of size: empty cells, tens, hundreds, thousands


def forest(rng):
    """Return many copies of one family (leaves on two levels, a single child) and its truth."""
    one = [np.array([0, 0, 0]), np.array([0, 0, 0, 2])]  # the second area of level 1 is a leaf
    counts = [1, 3, 4]
    parents = [
        np.concatenate([level + copy * above for copy in range(RELEASES)])
        for level, above in zip(one, counts, strict=False)
    ]
    spreads = [
        {(): 40, (0, 1): 60},
        {(): 300, (0,): 250, (0, 1): 300},  # a leaf of this level is known far less than the others
        {(): 90, (0, 1): 50},
    ]
    laws = [{t: NoiseMoments(Fraction(sd**2)) for t, sd in level.items()} for level in spreads]
    laws[2][()] = NoiseMoments(Fraction(90**2), Fraction(7))
    structure = Structure(SIZES, Tree(RELEASES, parents), laws)
    leaves = [
        np.tile(rng.poisson(np.resize(SCALES, (count, *SIZES))), (RELEASES, 1, 1)).astype(np.int64)
        for count in counts
    ]
    return structure, true_tables(structure, leaves), counts


def coverages(seed=0):
    """Return (level, table, area, how many releases each cell's margin and cut interval cover)."""
    rng = np.random.default_rng(seed)
    structure, truth, counts = forest(rng)
    measured = noisy_tables(structure, rng, truth)
    known = Variances(structure)

    def read(level, table, start, stop):
        return measured[level, table][start:stop]

    estimated = [[] for _ in counts]
    whole = [[] for _ in counts]
    for piece in integer_pieces(known, read, [refinement(known, (0, 1))], cells_at_most=1 << 14):
        for at in range(0 if piece.estimates.top else 1, len(piece.whole)):
            estimated[piece.estimates.level + at].append(piece.estimates.tables[at][0, 1])
            whole[piece.estimates.level + at].append(piece.whole[at][0, 1])
    found = []
    for level, count in enumerate(counts):
        x1, x2 = np.concatenate(estimated[level]), np.concatenate(whole[level])
        for table in TABLES:
            widths = half_widths(known, table, level, 0, len(x1), QUANTILE)
            true, estimate = marginal(truth[level], table), marginal(x1, table)
            off = np.abs(estimate - (true << structure.bits))
            hit = off <= widths.reshape(-1, *[1] * len(table))
            told = intervals(estimate, widths, marginal(x2, table), structure.bits)
            cut = (told.lower <= true) & (true <= told.upper)
            around = np.abs(marginal(x2, table) - true) <= told.moe
            shape = (RELEASES, count, number_of_cells(SIZES, table))
            found.append(
                (level, table, *(x.reshape(shape).sum(axis=0).ravel() for x in (hit, cut, around)))
            )
    return found


def failures(found):
    """Return every cell whose coverage differs from the declared one."""
    low = binom.ppf(WRONG, RELEASES, 0.95 - NEAR)
    high = binom.ppf(1 - WRONG, RELEASES, 0.95 + NEAR)
    bad = []
    for level, table, hit, cut, around in found:
        wrong = (hit < low) | (hit > high) | (cut < low) | (around < cut)
        bad.extend((level, table, int(cell)) for cell in np.flatnonzero(wrong))
    return bad


def test_margins_of_estimates_have_the_declared_coverage():
    assert failures(coverages()) == []


def without_means(sizes, table):
    """Return a cell's coefficients as if its means over other values had no variance."""
    return {space: c for space, c in kept(sizes, table).items() if set(space) == set(table)}


kept = standard_errors.cell_coefficients


def equal_shares(self, level, start, stop):
    """Divide differences equally, ignoring the variances."""
    weights = true_shares(self, level, start, stop)[0]
    parents = self.tree.parents[level - 1][start:stop]
    fan = self.tree.fan(level - 1)[parents]
    first = self.tree.starts[level - 1][parents] - start
    return np.ones_like(weights), np.arange(1, len(fan) + 1) - first, fan


true_shares = variances.SpaceVariances.shares
FAULTS = {
    "a forgotten 1/n": (standard_errors, "cell_coefficients", without_means),
    "variances of the own table alone": (
        standard_errors,
        "final_variances_at",
        lambda known, level, start, stop: (
            lambda space: np.full(stop - start, known.of[space].own[level] or 0.0)
        ),
    ),
    "gains that are not those of the variances": (
        passes,
        "_child_differences",
        lambda one, level, nodes, above, apart: _divide_equally(one, level, nodes, above, apart),
    ),
}
true_shared = passes._child_differences


class EqualDivision(variances.SpaceVariances):
    """The same variances, whose differences are divided equally; other threads see no change."""

    shares = equal_shares


def _divide_equally(one, level, nodes, above, apart):
    equal = copy(one)
    equal.__class__ = EqualDivision
    return true_shared(equal, level, nodes, above, apart)


@pytest.mark.share(0.2)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_change_the_coverage(fault, monkeypatch):
    where, name, wrong = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong)
    assert len(failures(coverages())) > 0
