"""Margins of consistent tables have the declared coverage for every mechanism.

The mechanisms add noise to empty families, so estimates are errors. Bounds are binomial, with a
false alarm less than once in 10^9 runs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dprelease.consistency.standard_errors import half_widths, standard_errors
from dprelease.consistency.structure import Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.gaussian import Gaussian
from dprelease.numerics.lattice import Integers, sample
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent.family_columns import FamilyColumn, consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.families import FamilyTable
from tests.consistency.families import whole_tree
from tests.release.area_family import read_family
from tests.replay import Keyed

ROOTS, MANY = 2000, 25_000
"""Independent families that are looked at at once: trees beside each other. Of so many a margin
that covers 93.7 instead of 95 % is seen to."""

CONFIDENCES = ("0.8", "0.9", "0.95", "0.99")

LAWS = [
    "discrete_gaussian",
    "gaussian",
    "laplace",
    "discrete_laplace",
    "{name: discrete_offset_symmetric_gaussian, ratio: 4}",
    "{name: asymmetric_laplace, k: 1.5, debias: false}",
]


def column_of(folder: Path, mechanism: str, epsilon: str, confidence: str) -> FamilyColumn:
    columns = f'{{n: {{count: "*", margin: {confidence}}}}}'
    budget = f"epsilon: {epsilon}, delta: 1e-6"
    declaration = read_family(folder, mechanism=mechanism, columns=columns, budget=budget)
    (family,) = prepare(declaration)[1].families
    return consistent_columns(Shape.of(family.tables))[0]


def drawn_errors(
    column: FamilyColumn, roots: int = ROOTS
) -> tuple[Variances, list[dict[tuple[int, ...], Integers]]]:
    """Return the estimates of many empty families, which are only noise."""
    shape = column.shape
    base = shape.tree
    parents = [
        np.concatenate([level + i * above for i in range(roots)])
        for level, above in zip(base.parents, base.counts, strict=False)
    ]
    tree = Tree(roots, parents)
    variances = Variances(
        Structure(shape.sizes, tree, [dict(level) for level in column.noise_moments])
    )
    bits, held = Keyed("coverage"), {}
    for placed in shape.placed:
        law: Mechanism = column.mechanism_of(placed.table)
        size = tree.counts[placed.level] * shape.cells(placed)
        held[placed.level, placed.attributes] = sample(law, size, bits).reshape(
            tree.counts[placed.level], *(shape.sizes[i] for i in placed.attributes)
        )
    wanted = [[placed.attributes for placed in shape.at(level)] for level in range(tree.levels)]
    return variances, whole_tree(variances, lambda level, t, a, b: held[level, t][a:b], wanted)


def refute_margins(mechanism: str, epsilon: str, folder: Path, roots: int) -> None:
    """Check one cell of each table of each family: families are independent."""
    column = column_of(folder, mechanism, epsilon, "0.5")
    variances, found = drawn_errors(column, roots)
    for confidence in CONFIDENCES:
        asked = replace(column.column, margin=Fraction(confidence))
        quantile = FamilyColumn(column.shape, asked).quantile
        least = stats.binom.ppf(1e-12, roots, float(confidence))
        for placed in column.shape.placed:
            table, level = placed.attributes, placed.level
            areas = variances.structure.tree.counts[level]
            widths = half_widths(variances, table, level, 0, areas, quantile)
            cells = found[level][table].reshape(areas, -1)[:, 0]
            inside = (np.abs(cells) <= widths).reshape(roots, -1)[:, 0]
            assert inside.sum() >= least, (placed.name, confidence, inside.mean())


@pytest.mark.share(0.25)
@pytest.mark.parametrize("epsilon", ["1", "30"])
@pytest.mark.parametrize("mechanism", LAWS)
def test_margins_of_consistent_tables_cover_as_declared(
    mechanism: str, epsilon: str, tmp_path: Path
) -> None:
    refute_margins(mechanism, epsilon, tmp_path, ROOTS)


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", ["1", "30"])
@pytest.mark.parametrize("mechanism", LAWS)
def test_margins_of_many_families_cover_as_declared(
    mechanism: str, epsilon: str, tmp_path: Path
) -> None:
    refute_margins(mechanism, epsilon, tmp_path, MANY)


@pytest.mark.parametrize("mechanism", LAWS)
def test_standard_errors_of_families_match_the_noise(mechanism: str, tmp_path: Path) -> None:
    column = column_of(tmp_path, mechanism, "1", "0.95")
    variances, found = drawn_errors(column)
    unit = 2.0**variances.structure.bits
    for placed in column.shape.placed:
        areas = variances.structure.tree.counts[placed.level]
        cells = found[placed.level][placed.attributes].reshape(ROOTS, -1)[:, 0] / unit
        error = standard_errors(variances, placed.attributes, placed.level, 0, areas)[0]
        # Squares have at most the excess kurtosis of the law, 3 of Laplace noise and 6 aside.
        assert np.mean(cells**2) == pytest.approx(error**2, rel=7 * math.sqrt(8 / ROOTS))
        assert abs(np.mean(cells)) <= 7 * error / math.sqrt(ROOTS)


@pytest.mark.parametrize("confidence", ["0.8", "0.99"])
@pytest.mark.parametrize("law", [DiscreteGaussian(0.669), Gaussian(0.68)])
def test_small_noise_has_the_margin_of_its_mechanism(
    law: Mechanism, confidence: str, tmp_path: Path
) -> None:
    """Values are integer steps: the normal margin of one measurement would be too narrow."""
    asked = column_of(tmp_path, "discrete_gaussian", "1", confidence)
    tables = [FamilyTable(one.table.query, {"n": law}) for one in asked.shape.placed]
    (column,) = consistent_columns(Shape.of(tables))
    error = math.sqrt(float(column.noise_moments[0][0][1].variance))
    normal = float(stats.norm.ppf((1 + float(confidence)) / 2))
    needed = law.half_width(float(confidence))
    assert math.floor(normal * error) < needed <= math.floor(column.quantile * error)
