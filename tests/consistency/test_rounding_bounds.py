"""Bounds of rounding: asked for every piece of every table, computed once, in pieces of the tree."""

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


def variances() -> Variances:
    """Return those of a ragged tree of 1, 7 and 40 areas; the last measure one table."""
    rng = np.random.default_rng(3)
    tree = Tree(1, [np.zeros(7, np.int64), np.sort(np.r_[np.arange(7), rng.integers(0, 7, 33)])])
    laws = {table: NoiseMoments(Fraction(2 + len(table))) for table in TABLES}
    return Variances(Structure(SIZES, tree, [laws, laws, {(0, 1): NoiseMoments(Fraction(5))}]))


def test_pieces_of_the_tree_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = variances()
    expected = {space: passes.rounding_bounds(whole, space) for space in whole.of}
    monkeypatch.setattr(Tree.some, "__defaults__", (3,))
    cut = variances()
    assert {space: passes.rounding_bounds(cut, space) for space in cut.of} == expected


def test_families_are_whole_and_each_stands_once() -> None:
    tree = variances().structure.tree
    for at_once in (1, 5, 1000):
        spans = list(tree.some(2, at_once))
        assert [node for span in spans for node in range(*span)] == list(range(40))
        assert all({start, stop} <= {*tree.starts[1].tolist()} for start, stop in spans)


def test_margins_of_many_pieces_ask_for_bounds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each piece would cost as much as the tree is large."""
    asked: list[object] = []
    compute = passes._compute_rounding_bounds

    def counted(of: Variances, space: tuple[int, ...]) -> list[float]:
        asked.append(space)
        return compute(of, space)

    monkeypatch.setattr(passes, "_compute_rounding_bounds", counted)
    found = variances()
    for start in range(40):
        half_widths(found, (0, 1), 2, start, start + 1, 2.0)
    assert len(asked) == len(set(asked)) == 4
    coarser = found.with_largest(1 << 40)  # on another lattice they are others
    assert passes.rounding_bounds(coarser, ()) != passes.rounding_bounds(found, ())
    assert len(asked) == 5
