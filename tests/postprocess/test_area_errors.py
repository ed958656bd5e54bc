"""Errors of areas that are made of areas of the last level."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.consistency.structure import NoiseMoments, Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from dprelease.postprocess.consistent.area_tables import AreaErrors

NOISE, EXACT = NoiseMoments(Fraction(4)), NoiseMoments(Fraction(0))


def test_all_leaves_are_not_the_whole_if_an_area_has_no_leaves() -> None:
    """The whole is exact, but the sum of the leaves lacks the area without leaves."""
    tree = Tree(1, [np.array([0, 0]), np.array([0, 0])])
    structure = Structure((2,), tree, [{(): EXACT}, {(0,): NOISE}, {(0,): NOISE}])
    errors = AreaErrors.of(Variances(structure), tree, np.array([0, 1]), np.ones(2))
    assert errors.whole_areas_by_level == [0, 1, 0]
    assert errors.variances[()] > 0.0


def test_all_leaves_are_the_whole() -> None:
    tree = Tree(1, [np.array([0, 0]), np.array([0, 0, 1])])
    structure = Structure((2,), tree, [{(): EXACT}, {(0,): NOISE}, {(0,): NOISE}])
    errors = AreaErrors.of(Variances(structure), tree, np.arange(3), np.ones(3))
    assert errors.whole_areas_by_level == [1, 0, 0]
    assert errors.variances[()] == 0.0
