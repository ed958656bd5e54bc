"""The float recursion with derivatives, against exact variances and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dprelease.consistency.shares import design, optimum
from dprelease.consistency.shares.design import Shape, Sources, final_variances
from dprelease.consistency.shares.optimum import Row, cell_variances, values_and_slopes
from dprelease.consistency.variances import Variances
from tests.consistency.families import random_case
from tests.consistency.shares.designs import all_tables, random_design, skewed_tree


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


def exact_variances(known: Variances, level):
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
        lost = design.unknown(shape, sources)
        found = final_variances(shape, sources, lost, precisions)
        for level, each in enumerate(found):
            each[lost.final[level]] = np.inf
            expected = exact_variances(known, level)
            np.testing.assert_allclose(each, expected, rtol=1e-9, atol=1e-9, err_msg=str(seed))


def compare_with_differences(seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        design = random_design(rng)
        rows = [
            Row((level, table), node)
            for level, table in all_tables(design)
            for node in range(-1, design.shape.counts[level])
        ]
        shares = rng.dirichlet(np.ones(len(design.items))) + 0.01
        values, slopes = values_and_slopes(design, rows, shares)
        each = cell_variances(design, shares, [row.placed for row in rows])
        for row, value, variances in zip(rows, values, each, strict=True):
            mean = design.shape.fractions(row.placed[0]) @ variances
            assert value == pytest.approx(mean if row.node < 0 else variances[row.node], rel=1e-12)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(optimum, "_BATCH_SIZE", 1)  # one space after another
            alone = values_and_slopes(design, rows, shares)
        np.testing.assert_allclose(alone[0], values, rtol=1e-12)
        np.testing.assert_allclose(alone[1], slopes, rtol=1e-9, atol=1e-12 * np.abs(slopes).max())
        for item in range(len(shares)):
            step = 1e-5 * shares * (np.arange(len(shares)) == item)
            more, less = (values_and_slopes(design, rows, shares + s)[0] for s in (step, -step))
            difference = (more - less) / (2 * step[item])
            np.testing.assert_allclose(
                slopes[:, item], difference, rtol=1e-5, atol=1e-7 * np.abs(slopes).max()
            )


def test_float_variances_equal_exact_variances():
    compare_with_published(range(60))


def test_derivatives_equal_finite_differences():
    compare_with_differences(range(12))


@pytest.mark.audit
def test_variances_and_derivatives_of_many_families():
    compare_with_published(range(60, 2000))
    compare_with_differences(range(12, 200))


def with_single_leaves(shape):
    """Return the shape with one leaf for each class."""
    return Shape(shape.weights[0], shape.parents, [np.ones_like(c) for c in shape.copies[1:]])


PLANTED = {
    "the mean of children in the place of their sum": (
        Shape,
        "of_tree",
        lambda kept: lambda tree: with_single_leaves(kept(tree)),
    ),
    "half of what comes from above": (
        design,
        "_final_of_children",
        lambda kept: lambda *a: kept(*a[:-1], a[-1] * 0.5),
    ),
    "an only unknown child taken for one of several": (
        design,
        "unknown",
        lambda kept: lambda *a: replace(kept(*a), final=kept(*a).below),
    ),
    "exact tables taken for unknown ones": (
        design,
        "_upward_variances",
        lambda kept: lambda shape, s, *a: kept(shape, Sources(s.measured, s.exact & False), *a),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_in_variances_are_found(fault, monkeypatch):
    where, name, wrong = PLANTED[fault]
    monkeypatch.setattr(where, name, wrong(getattr(where, name)))
    with pytest.raises(AssertionError):
        compare_with_published(range(60))


def test_averaged_shape_has_similar_mean_variances():
    shape = Shape.of_tree(skewed_tree(np.random.default_rng(0), [1, 20, 300, 4000, 30000]))
    small = shape.with_average_fans()
    assert small.counts == [1] * 5
    np.testing.assert_allclose(
        [w.sum() for w in small.weights], [w.sum() for w in shape.weights], rtol=1e-12
    )
    precisions = np.array([[0.1], [0.2], [0.3], [0.2], [0.2]])
    sources = Sources(precisions > 0, precisions < 0)
    means = []
    for one in (shape, small):
        lost = design.unknown(one, sources)
        final = final_variances(one, sources, lost, precisions)
        means.append([(one.fractions(level) @ final[level])[0] for level in range(5)])
    np.testing.assert_allclose(means[1], means[0], rtol=0.1)
