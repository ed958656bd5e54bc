"""Rounding bounds are used for every piece of every table, but computed once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.consistency import passes
from dprelease.consistency.standard_errors import half_widths
from dprelease.consistency.structure import NoiseMoments, Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances

SIZES = (2, 3)
TABLES = [(), (0,), (0, 1)]


def ragged_tree_variances() -> Variances:
    """Return the variances of a ragged tree of 1, 7 and 40 areas; the last measure one table."""
    rng = np.random.default_rng(3)
    tree = Tree(1, [np.zeros(7, np.int64), np.sort(np.r_[np.arange(7), rng.integers(0, 7, 33)])])
    laws = {table: NoiseMoments(Fraction(2 + len(table))) for table in TABLES}
    return Variances(Structure(SIZES, tree, [laws, laws, {(0, 1): NoiseMoments(Fraction(5))}]))


def test_rounding_bounds_do_not_depend_on_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ragged_tree_variances()
    expected = {space: passes.rounding_bounds(whole, space) for space in whole.of}
    monkeypatch.setattr(Tree.some, "__defaults__", (3,))
    cut = ragged_tree_variances()
    assert {space: passes.rounding_bounds(cut, space) for space in cut.of} == expected


def test_pieces_contain_each_sibling_group_once() -> None:
    tree = ragged_tree_variances().structure.tree
    for at_once in (1, 5, 1000):
        spans = list(tree.some(2, at_once))
        assert [node for span in spans for node in range(*span)] == list(range(40))
        assert all({start, stop} <= {*tree.starts[1].tolist()} for start, stop in spans)


def test_rounding_bounds_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, each piece would take the time of the whole tree."""
    asked: list[object] = []
    compute = passes._compute_rounding_bounds

    def counted(of: Variances, space: tuple[int, ...]) -> list[float]:
        asked.append(space)
        return compute(of, space)

    monkeypatch.setattr(passes, "_compute_rounding_bounds", counted)
    found = ragged_tree_variances()
    for start in range(40):
        half_widths(found, (0, 1), 2, start, start + 1, 2.0)
    assert len(asked) == len(set(asked)) == 4
    coarser = found.with_largest(1 << 40)  # on another lattice they are others
    assert passes.rounding_bounds(coarser, ()) != passes.rounding_bounds(found, ())
    assert len(asked) == 5
