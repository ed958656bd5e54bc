"""The float recursion with derivatives, against the published one and against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dprelease.consistency.shares import shape_variances
from dprelease.consistency.shares.jets import BENDS, SLOPES, VALUES
from dprelease.consistency.shares.shape_variances import (
    Sources,
    final_variances,
    mean_variances,
    unknown,
    values_of,
)
from dprelease.consistency.shares.shapes import Shape
from dprelease.consistency.variances import Variances
from tests.consistency.families import random_case
from tests.consistency.shares.designs import skewed_tree


def declared(known: Variances):
    """Return sources and precisions of a family: (levels, spaces)."""
    levels = known.structure.tree.levels
    own = np.array(
        [
            [np.nan if (v := one.own[at]) is None else v for one in known.of.values()]
            for at in range(levels)
        ]
    )
    measured = own > 0
    return Sources(measured, own == 0), np.where(measured, 1 / np.where(measured, own, 1.0), 0.0)


def published(known: Variances, level):
    """Return F of each space at one area of each class of a level."""
    tree = known.structure.tree
    picked = np.arange(tree.counts[level])
    if level == tree.levels - 1:
        picked = tree.starts[level - 1][:-1][tree.fan(level - 1) > 0] if level else picked[:1]
    return np.array(
        [one.variances(level, 0, tree.counts[level])[picked] for one in known.of.values()]
    ).T


def families(seeds):
    for seed in seeds:
        known = Variances(random_case(np.random.default_rng(seed)).structure)
        if known.of:
            yield seed, known, Shape.of_tree(known.structure.tree)


def compare_with_published(seeds):
    for seed, known, shape in families(seeds):
        sources, precisions = declared(known)
        lost = shape_variances.unknown(shape, sources)
        found = final_variances(shape, sources, lost, precisions, VALUES)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shape_variances, "_AT_ONCE", 1)  # one space after another
            alone = values_of(shape, sources, precisions)
        for level, jet in enumerate(found):
            expected = published(known, level)
            np.testing.assert_allclose(jet.value, expected, rtol=1e-9, atol=1e-9, err_msg=str(seed))
            assert (alone[level] == jet.value).all()


def compare_with_differences(seeds):
    for seed, known, shape in families(seeds):
        sources, precisions = declared(known)
        lost = unknown(shape, sources)
        rng = np.random.default_rng(seed)
        jets = final_variances(shape, sources, lost, precisions, BENDS)
        for by in rng.integers(0, shape.levels, 2):
            step = np.zeros_like(precisions)
            step[by] = 1e-5 * precisions[by]
            width = 2 * np.where(step[by] > 0, step[by], np.inf)
            more = final_variances(shape, sources, lost, precisions + step, SLOPES)
            less = final_variances(shape, sources, lost, precisions - step, SLOPES)
            for level, jet in enumerate(jets):
                finite, seen = np.isfinite(jet.value), np.isfinite(width)
                scale = np.where(finite, jet.value, 0.0).max(initial=0) + 1
                for a, b, exact in (
                    (more[level].value, less[level].value, jet.slope[..., by]),
                    (more[level].slope, less[level].slope, jet.bend[..., by]),
                ):
                    there = finite & seen
                    wide = width.reshape(1, -1, *[1] * (exact.ndim - 2))
                    difference = (
                        np.where(np.isfinite(a), a, 0) - np.where(np.isfinite(b), b, 0)
                    ) / wide
                    error = np.abs(difference - exact)[there]
                    bound = 1e-4 * np.abs(exact[there]) + 1e-5 * scale**3
                    assert (error <= bound).all(), (seed, level, error.max())


def test_values_are_those_of_what_is_published():
    compare_with_published(range(60))


def test_derivatives_are_those_of_differences():
    compare_with_differences(range(25))


@pytest.mark.audit
def test_many_families():
    compare_with_published(range(60, 2000))
    compare_with_differences(range(25, 400))


def with_single_leaves(shape):
    """Forget how many leaves stand for one class."""
    return Shape(shape.weights[0], shape.parents, [np.ones_like(c) for c in shape.copies[1:]])


PLANTED = {
    "the mean of children in the place of their sum": (
        Shape,
        "of_tree",
        lambda kept: lambda tree: with_single_leaves(kept(tree)),
    ),
    "half of what comes from above": (
        shape_variances,
        "_below",
        lambda kept: lambda *a: kept(*a[:-1], a[-1].times(np.array(0.5))),
    ),
    "an only unknown child taken for one of several": (
        shape_variances,
        "unknown",
        lambda kept: lambda *a: replace(kept(*a), final=kept(*a).below),
    ),
    "exact tables taken for unknown ones": (
        shape_variances,
        "_upward",
        lambda kept: lambda shape, s, *a: kept(shape, Sources(s.measured, s.exact & False), *a),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault, monkeypatch):
    where, name, wrong = PLANTED[fault]
    monkeypatch.setattr(where, name, wrong(getattr(where, name)))
    with pytest.raises(AssertionError):
        compare_with_published(range(60))


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_an_averaged_shape_has_the_same_areas_and_nearly_the_same_means(parts):
    shape = Shape.of_tree(skewed_tree(np.random.default_rng(0), [1, 20, 300, 4000, 30000]))
    kinds = [np.zeros(count, np.int64) for count in shape.counts]
    small = shape.merge_siblings(kinds, parts)
    assert small.size <= sum(parts**level for level in range(5))
    for level in range(5):
        assert small.weights[level].sum() == pytest.approx(shape.weights[level].sum())
    precisions = np.array([[0.1], [0.2], [0.3], [0.2], [0.2]])
    sources = Sources(precisions > 0, precisions < 0)
    means = []
    for one in (shape, small):
        final = final_variances(one, sources, unknown(one, sources), precisions, VALUES)
        means.append([mean_variances(one, level, final[level]).value[0, 0] for level in range(5)])
    np.testing.assert_allclose(means[1], means[0], rtol={1: 0.1, 3: 0.03, 8: 0.02}[parts])


def test_areas_of_different_kinds_stay_apart():
    shape = Shape.of_tree(skewed_tree(np.random.default_rng(1), [1, 6, 40, 200]))
    kinds = [np.arange(count) % 2 for count in shape.counts]
    small = shape.merge_siblings(kinds, 1)
    assert small.counts[1] == 2
    assert small.counts[2] == 4


def test_even_shapes_need_counts_alone():
    counts = [1, 4, 10]
    shape = Shape.even(counts)
    assert [float(w.sum()) for w in shape.weights] == counts
    assert shape.counts == [1, 1, 1]
