"""Optimal shares compared with those of the redistricting data of 2020."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dprelease.consistency.algebra import subtables
from dprelease.consistency.shares.design import Design, Shape
from dprelease.consistency.shares.optimum import cell_variances
from dprelease.consistency.shares.targets import CLOSE, least_greatest, least_mean
from tests.consistency.shares.designs import floats

# The settings with which the 2020 redistricting data were made (the Census Bureau's published
# production code): parts of 1 / variance by level, and by query of each level. One query, whether
# quarters are an institution, is no table of the attributes, and is left out.
SIZES = (8, 2, 2, 63)  # type of quarters, voting age, Hispanic origin, race
AREAS = [1, 51, 3143, 84414, 239780, 8132968]
SHAPE = Shape(  # all areas of a level alike
    np.ones(1),
    [np.zeros(1, np.int64)] * 5,
    [np.array([below / above]) for above, below in pairwise(AREAS)],
)
PARTS = [104, 1440, 447, 687, 1256, 165]  # of 4099
QUERIES = [(), (3,), (2,), (1,), None, (0,), (2, 3), (1, 3), (1, 2), (1, 2, 3), (0, 1, 2, 3)]
F = Fraction
SHARES = [
    [
        F(0),
        F(52, 4097),
        *[F(26, 4097)] * 4,
        F(130, 4097),
        F(130, 4097),
        F(26, 4097),
        F(26, 241),
        F(189, 241),
    ],
    [
        F(3773, 4097),
        *[F(6, 4097)] * 5,
        F(12, 4097),
        F(12, 4097),
        F(6, 4097),
        F(2, 241),
        F(230, 4097),
    ],
    [
        F(3126, 4097),
        *[F(10, 4097)] * 5,
        F(28, 4097),
        F(28, 4097),
        F(10, 4097),
        F(101, 4097),
        F(754, 4097),
    ],
    [
        F(1567, 4102),
        F(4, 2051),
        *[F(5, 4102)] * 4,
        F(1933, 4102),
        F(10, 2051),
        F(5, 4102),
        F(67, 4102),
        F(241, 2051),
    ],
    [
        F(1705, 4099),
        *[F(3, 4099)] * 5,
        F(1055, 4099),
        F(9, 4099),
        F(3, 4099),
        F(24, 4099),
        F(1288, 4099),
    ],
    [
        F(5, 4097),
        F(9, 4097),
        *[F(5, 4097)] * 4,
        F(21, 4097),
        F(21, 4097),
        F(5, 4097),
        F(71, 4097),
        F(3945, 4097),
    ],
]
PUBLISHED = [(), (3,), (2, 3), (1, 2, 3), (0,), (0, 1, 2, 3)]


def production():
    """Return the design in which the whole budget is what production spent, and its variances."""
    spent = {}
    for level, (part, shares) in enumerate(zip(PARTS, SHARES, strict=True)):
        assert sum(shares) == 1
        for table, share in zip(QUERIES, shares, strict=True):
            if table is not None:
                spent[level, table] = float(F(542, 339) ** 2 * F(part, 4099) * share)
    total = sum(spent.values())
    tables = subtables((0, 1, 2, 3))
    design = Design(SIZES, SHAPE, [dict.fromkeys(tables, 1 / total) for _ in AREAS])
    shares = np.array([spent.get(item, 0.0) / total for item in design.items])
    every = [(level, table) for level in range(len(AREAS)) for table in PUBLISHED]
    return design, variances(design, shares, every)


def variances(design, shares, tables):
    """Return the variance of each table's cells, equal in all areas of a level."""
    found = cell_variances(design, shares, tables)
    return {at: float(one) for at, (one,) in zip(tables, found, strict=True)}


@pytest.mark.audit
@pytest.mark.parametrize(
    ("without", "greatest", "of_greatest", "mean", "of_mean"),
    [
        ([(0, ()), (1, ())], 0.676, 0.668, 0.374, 1.12),
        ([(0, ())], 1.002, 0.986, 0.487, 2.36),
    ],
)
def test_optimal_shares_improve_on_those_of_2020(without, greatest, of_greatest, mean, of_mean):
    """Worst and mean ratios to the variances of 2020, for all tables without some totals."""
    design, before = production()
    limits = {at: variance for at, variance in before.items() if at not in without}

    def ratios(found):
        after = variances(design, floats(design, found), list(limits))
        return np.array([after[at] / limits[at] for at in limits])

    found = least_greatest(design, limits)
    assert found.gap <= CLOSE
    assert found.value == pytest.approx(greatest, rel=5e-3)
    assert ratios(found).max() == pytest.approx(found.value)
    assert ratios(found).mean() <= of_greatest * 1.02
    found = least_mean(design, {at: 1 / v / len(limits) for at, v in limits.items()})
    assert found.gap <= CLOSE
    assert found.value == pytest.approx(mean, rel=5e-3)
    assert ratios(found).max() == pytest.approx(of_mean, rel=5e-3)
