"""Expected errors against those of every single area, and against dense matrices."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.consistency import expected
from dprelease.consistency.algebra import cell_count, subtables
from dprelease.consistency.expected import expected_errors
from dprelease.consistency.shares.targets import least_greatest, least_mean
from dprelease.consistency.standard_errors import half_widths, standard_errors
from dprelease.consistency.structure import NoiseMoments, Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from tests.consistency.families import random_case
from tests.consistency.shares.designs import DenseDesign, all_tables, floats, random_design

QUANTILE = 1.96


def assert_equals_each_area(seed):
    """Compare every row of a random family with all of its areas, one by one."""
    structure = random_case(np.random.default_rng(seed)).structure
    known = Variances(structure)
    published = known.publishable(subtables(tuple(range(len(structure.sizes)))))
    rows = expected_errors(known, published, QUANTILE)
    assert [(r.level, r.table) for r in rows] == [
        (level, table) for level, tables in enumerate(published) for table in tables
    ]
    for row in rows:
        areas, laws = structure.tree.counts[row.level], structure.noise_moments[row.level]
        assert (row.areas, row.cells) == (areas, areas * cell_count(structure.sizes, row.table))
        each = np.sort(standard_errors(known, row.table, row.level, 0, areas))
        middle = each[(areas + 1) // 2 - 1]
        np.testing.assert_allclose(
            row.standard_error.all(), [each[0], middle, each[-1]], rtol=1e-11
        )
        np.testing.assert_allclose(
            row.variance.all(), np.square(row.standard_error.all()), rtol=1e-11
        )
        widths = half_widths(known, row.table, row.level, 0, areas, QUANTILE) / 2**structure.bits
        assert row.margin.greatest == pytest.approx(widths.max(), abs=2 / 2**structure.bits)
        law = laws.get(row.table)
        assert row.measured == (None if law is None else float(law.variance))
        finer = [t for t in laws if set(row.table) <= set(t)]
        if row.summed is not None:
            assert row.summed == min(
                float(laws[t].variance) * cell_count(structure.sizes, set(t) - set(row.table))
                for t in finer
            )
            assert row.variance.greatest <= row.summed * (1 + 1e-9)  # least squares are never worse
        assert (row.summed is None) == (not finer)


@pytest.mark.parametrize("seed", range(40))
def test_expected_errors_equal_those_of_every_area(seed):
    assert_equals_each_area(seed)


PLANTED = {
    "each leaf's family counted once": (
        "_error_range",
        lambda kept: lambda each, areas: kept(each, np.ones_like(areas)),
    ),
    "the best table alone, not summed": (
        "measured_variances",
        lambda kept: lambda *a: (kept(*a)[0], kept(*a)[0]),
    ),
    "areas of the piece before": (
        "_variances_of_some_areas",
        lambda kept: lambda one, level, picked: kept(one, level, np.maximum(picked - 1, 0)),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_in_expected_errors_are_found(fault, monkeypatch):
    name, wrong = PLANTED[fault]
    monkeypatch.setattr(expected, name, wrong(getattr(expected, name)))

    def fails(seed):
        try:
            assert_equals_each_area(seed)
        except (AssertionError, TypeError):
            return True
        return False

    assert any(map(fails, range(40)))


def test_batch_size_changes_no_expected_error(monkeypatch):
    structure = random_case(np.random.default_rng(8), levels=4, full=1.0).structure
    known = Variances(structure)
    published = known.publishable(subtables(tuple(range(len(structure.sizes)))))
    rows = expected_errors(known, published, QUANTILE)
    monkeypatch.setattr(expected, "_BATCH_SIZE", 3)
    assert expected_errors(known, published, QUANTILE) == rows


def test_tables_that_are_not_estimable_have_no_error():
    tree = Tree(1, [np.zeros(3, np.int64)])
    structure = Structure(
        (2, 2), tree, [{(0,): NoiseMoments(Fraction(2))}, {(): NoiseMoments(Fraction(3))}]
    )
    rows = expected_errors(Variances(structure), [[(0,), (1,)], [(), (0,)]], QUANTILE)
    finite = [math.isfinite(row.margin.greatest) for row in rows]
    assert finite == [True, False, True, False]
    assert rows[3].measured is rows[3].summed is None
    exact = Structure(
        (2,), tree, [{(0,): NoiseMoments(Fraction(0))}, {(0,): NoiseMoments(Fraction(3))}]
    )
    assert expected_errors(Variances(exact), [[(0,)], []], QUANTILE)[0].margin.all() == (0, 0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_errors_of_a_plan_equal_those_of_its_shares(seed):
    """From shares to mechanisms to expected errors: the numbers are the same."""
    rng = np.random.default_rng(seed)
    design = random_design(rng)
    every = all_tables(design)
    limits = {at: float(rng.uniform(0.5, 3)) for at in every}
    for found in (least_mean(design, dict.fromkeys(every, 1.0)), least_greatest(design, limits)):
        laws = [
            {
                t: NoiseMoments(Fraction(design.prices[level][t]) / share)
                for t, share in shares.items()
            }
            for level, shares in enumerate(found.shares)
        ]
        known = Variances(Structure(design.sizes, design.areas, laws))
        tables = subtables(tuple(range(len(design.sizes))))
        rows = expected_errors(known, [tables] * design.areas.levels, QUANTILE)
        dense, w = DenseDesign(design), floats(design, found)
        for row in rows:
            each = dense.each(w, (row.level, row.table))
            assert row.variance.greatest == pytest.approx(each.max(), rel=1e-6)
            assert row.variance.least == pytest.approx(each.min(), rel=1e-6)
        if found.parts:
            parts = {
                at: row.variance.greatest / limits[at]
                for row in rows
                for at in [(row.level, row.table)]
            }
            assert max(parts.values()) == pytest.approx(found.value, rel=1e-6)
            assert parts == pytest.approx(found.parts, rel=1e-6)
