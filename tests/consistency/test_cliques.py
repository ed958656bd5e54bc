"""Cliques contain all tables and form a junction tree; their integer tables agree and add up."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dprelease.consistency.family import integer_pieces, table_of_cliques
from dprelease.consistency.integer_tables.decisions import cliques, refinement
from dprelease.consistency.structure import NoiseMoments, Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from dprelease.postprocess.consistent.synthetic_persons import persons_of_areas
from tests.consistency.families import Case, marginal, noisy_tables, random_truth, whole_tree


def random_tables(rng, attributes):
    """Return random tables that together have every attribute."""
    tables = [
        tuple(sorted(rng.choice(attributes, int(rng.integers(1, 4)), replace=False).tolist()))
        for _ in range(int(rng.integers(1, attributes + 2)))
    ]
    return [*tables, *((i,) for i in range(attributes))]


@pytest.mark.parametrize("seed", range(40))
def test_cliques_form_a_junction_tree(seed):
    """Every table is in a clique, and the overlap of a clique with earlier ones is in one of them."""
    rng = np.random.default_rng(seed)
    attributes = int(rng.integers(3, 9))
    sizes = tuple(rng.integers(1, 6, attributes).tolist())
    tables = random_tables(rng, attributes)
    found = cliques(sizes, tables)
    for table in tables:
        assert any(set(table) <= set(clique.table) for clique in found)
    for one, other in itertools.permutations(found, 2):
        assert not set(one.table) <= set(other.table)
    assert found[0].separator is None
    for at, clique in enumerate(found[1:], 1):
        before = set().union(*(earlier.table for earlier in found[:at]))
        assert set(clique.separator) == set(clique.table) & before
        assert any(set(clique.separator) <= set(earlier.table) for earlier in found[:at])


def test_a_tree_of_pairs_has_its_pairs_as_cliques():
    found = cliques((3, 4, 5, 6), [(0, 1), (1, 2), (1, 3)])
    assert {clique.table for clique in found} == {(0, 1), (1, 2), (1, 3)}
    assert [clique.separator for clique in found] == [None, (1,), (1,)]


def test_a_cycle_of_pairs_is_made_chordal():
    found = cliques((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert sorted(len(clique.table) for clique in found) == [3, 3]


def clique_tables(known, case, how, expected, cells_at_most):
    """Return the tables of all cliques by level; estimates are what they are without cliques."""
    levels = [[] for _ in range(case.structure.tree.levels)]
    for piece in integer_pieces(known, case.read, how, cells_at_most=cells_at_most):
        for at in range(0 if piece.estimates.top else 1, len(piece.whole)):
            levels[piece.estimates.level + at].append(piece.whole[at])
            start, stop = piece.estimates.ranges[at]
            for table, cells in piece.estimates.tables[at].items():
                assert (cells == expected[piece.estimates.level + at][table][start:stop]).all()
    return [
        {one.finest: np.concatenate([part[one.finest] for part in parts]) for one in how}
        for parts in levels
    ]


@pytest.mark.parametrize("method", ["least_squares", "fast"])
@pytest.mark.parametrize("seed", range(8))
def test_integer_tables_of_cliques_agree_and_add_up(seed, method):
    rng = np.random.default_rng(seed)
    attributes = int(rng.integers(3, 6))
    sizes = tuple(rng.integers(1, 4, attributes).tolist())
    tables = random_tables(rng, attributes)
    tree = Tree(1, [np.array([0, 0, 0]), np.sort(rng.integers(0, 3, 5))])
    moments = [  # other tables at each level, so that what is made non-negative first differs, too
        {
            table: NoiseMoments(Fraction(int(rng.integers(1, 20))))
            for table in tables
            if len(table) == 1 or rng.random() < 0.7
        }
        for _ in range(3)
    ]
    structure = Structure(sizes, tree, moments)
    truth = random_truth(structure, rng, 6.0)
    case = Case(structure, noisy_tables(structure, rng, truth))
    known, found = Variances(structure), cliques(sizes, tables)
    how = [refinement(known, one.table, method=method, separator=one.separator) for one in found]
    expected = whole_tree(known, case.read, [sorted({one.table for one in found})] * 3)
    whole = clique_tables(known, case, how, expected, 1 << 20)
    again = clique_tables(known, case, how, expected, int(rng.integers(1, 200)))
    for one, other in zip(whole, again, strict=True):
        assert all((one[table] == other[table]).all() for table in one)
    for level, parts in enumerate(whole):
        for clique in found:
            cells = parts[clique.table]
            assert (cells >= 0).all()
            if clique.separator is not None:
                earlier = table_of_cliques(
                    {t: x for t, x in parts.items() if t != clique.table}, clique.separator
                )
                own = table_of_cliques({clique.table: cells}, clique.separator)
                assert (own == earlier).all()
            if level:
                total = np.zeros_like(whole[level - 1][clique.table])
                np.add.at(total, tree.parents[level - 1], cells)
                inner = tree.fan(level - 1) > 0
                assert (total[inner] == whole[level - 1][clique.table][inner]).all()
    order = [(one.table, one.separator) for one in found]
    numbers = np.concatenate([np.empty(0, int), *persons_of_areas(whole[-1], order, sizes)])
    persons = np.bincount(numbers, minlength=tree.counts[-1] * int(np.prod(sizes)))
    joint = persons.reshape(tree.counts[-1], *sizes)
    for clique in found:
        assert (marginal(joint, clique.table) == whole[-1][clique.table]).all()


def test_records_of_separate_tables_are_independent():
    """Keys without a common table are nearly independent, although nothing is random."""
    tables = {(0,): np.array([[500, 300, 200]]), (1,): np.array([[600, 400]])}
    order = [((0,), None), ((1,), ())]
    (numbers,) = persons_of_areas(tables, order, (3, 2))
    joint = np.bincount(numbers, minlength=6).reshape(3, 2)
    expected = np.outer([500, 300, 200], [600, 400]) / 1000
    assert np.abs(joint - expected).max() <= 3
