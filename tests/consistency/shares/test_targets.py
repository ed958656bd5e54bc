"""Optimal shares against dense matrices, brute force, closed forms, and another optimiser."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from dprelease.consistency.algebra import cell_count, subtables
from dprelease.consistency.shares import design, optimum, targets
from dprelease.consistency.shares.design import Design, NotEstimableError
from dprelease.consistency.shares.targets import (
    CLOSE,
    UnreachableTargetsError,
    least_budget,
    least_greatest,
    least_mean,
    margin_limit,
)
from dprelease.consistency.tree import Tree
from tests.consistency.shares.designs import (
    DenseDesign,
    all_tables,
    cell_weights,
    floats,
    random_design,
    skewed_tree,
)

pytestmark = pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
"""SciPy before 1.16 says so of its own steps."""

NEAR = 1e-9  # of floats
DENSE = 1e-7  # of dense solves, which differ by as much from one processor's BLAS to another's


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def other_mean(dense, weights):
    """Return the least mean that a quasi-Newton method finds in logarithms of shares."""

    def f(x):
        w = softmax(x)
        value, slopes = dense.mean(w, weights)
        return math.log(value), w * (slopes - w @ slopes) / value

    items = len(dense.normals)
    bounds = [(-9.0, 9.0)] * items  # no share so small that the dense matrix is singular
    found = minimize(f, np.zeros(items), jac=True, method="L-BFGS-B", bounds=bounds)
    return math.exp(found.fun)


def other_greatest(dense, limits):
    """Return the least greatest part that sequential quadratic programming finds."""
    items = len(dense.normals)
    start = np.full(items, 1 / items)
    first = dense.parts(start, limits)[0].max()

    def room(z):
        return z[-1] - dense.parts(z[:-1], limits)[0] / first

    def slopes(z):
        found = -dense.parts(z[:-1], limits)[1] / first
        return np.hstack([found, np.ones((len(found), 1))])

    found = minimize(
        lambda z: z[-1],
        np.append(start, 1.0),
        jac=lambda z: np.eye(items + 1)[-1],
        method="SLSQP",
        bounds=[(1e-7, 1.0)] * items + [(1e-6, None)],
        constraints=[
            {"type": "ineq", "fun": room, "jac": slopes},
            {
                "type": "eq",
                "fun": lambda z: z[:-1].sum() - 1,
                "jac": lambda z: np.append(z[:-1] * 0 + 1, 0),
            },
        ],
        options={"maxiter": 200, "ftol": 1e-12},
    )
    w = np.maximum(found.x[:-1], 1e-7)
    return float(dense.parts(w / w.sum(), limits)[0].max())


def random_aim(design, rng):
    """Return weights, and limits of some tables."""
    every = all_tables(design)
    weights = {at: float(rng.uniform(0.1, 3)) for at in every}
    limits = {at: float(rng.uniform(0.3, 3)) for at in every if rng.random() < 0.6}
    return weights, limits or {every[-1]: 1.0}


def assert_valid_plan(design, found):
    """Assert that shares are short fractions with sum 1, for tables that may be measured."""
    assert sum((s for level in found.shares for s in level.values()), Fraction(0)) == 1
    for level, prices in zip(found.shares, design.prices, strict=True):
        assert set(level) <= set(prices)
        assert all(s > 0 and s.denominator <= 1 << 36 for s in level.values())


def assert_equals_dense(seed):
    """Compare three objectives on a random design with the dense problem and another optimiser."""
    rng = np.random.default_rng(seed)
    design = random_design(rng)
    dense, equal = DenseDesign(design), np.full(len(design.items), 1 / len(design.items))
    weights, limits = random_aim(design, rng)
    mean = least_mean(design, weights)
    greatest = least_greatest(design, limits)
    for found in (mean, greatest):
        assert_valid_plan(design, found)
        assert 0 <= found.gap + NEAR <= CLOSE + 2 * NEAR
    w = floats(design, mean)
    assert mean.value == pytest.approx(dense.mean(w, weights)[0], rel=DENSE)
    assert mean.value <= dense.mean(equal, weights)[0] * (1 + CLOSE)
    assert mean.value <= other_mean(dense, weights) * (1 + CLOSE)
    w = floats(design, greatest)
    assert greatest.value == pytest.approx(dense.parts(w, limits)[0].max(), rel=DENSE)
    assert greatest.value <= dense.parts(equal, limits)[0].max() * (1 + CLOSE)
    assert greatest.value <= other_greatest(dense, limits) * (1 + CLOSE)
    for shares in [*rng.dirichlet(np.full(len(equal), 0.7), 20), w]:
        shares = (shares + 1e-9) / (shares + 1e-9).sum()
        assert dense.mean(shares, weights)[0] >= mean.bound * (1 - DENSE)
        assert dense.parts(shares, limits)[0].max() >= greatest.bound * (1 - DENSE)
    check_limits(design, dense, weights, limits, greatest, rng)


def check_limits(design, dense, weights, limits, greatest, rng):
    """Check a mean under limits that the budget satisfies, and mixtures with the optimum."""
    room = greatest.value * float(rng.uniform(1.02, 2))
    limits = {at: limit * room for at, limit in limits.items()}
    found = least_mean(design, weights, limits)
    assert_valid_plan(design, found)
    w = floats(design, found)
    assert dense.parts(w, limits)[0].max() <= 1 + NEAR
    assert found.value == pytest.approx(dense.mean(w, weights)[0], rel=DENSE)
    assert found.gap <= CLOSE + NEAR
    free, feasible = floats(design, least_mean(design, weights)), floats(design, greatest)
    for share in np.linspace(0, 1, 21):  # some of these keep the limits, all of those are worse
        mixed = share * free + (1 - share) * feasible
        if (mixed > 0).all() and dense.parts(mixed, limits)[0].max() <= 1:
            assert dense.mean(mixed, weights)[0] >= found.bound * (1 - NEAR)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("seed", range(6))
def test_random_designs_agree_with_the_dense_problem(seed):
    assert_equals_dense(seed)


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(6, 150))
def test_many_designs_agree_with_the_dense_problem(seed):
    assert_equals_dense(seed)


def test_two_shares_equal_a_grid_search():
    """A total above four areas, measured or not: a grid of shares."""
    design = Design((1,), Tree(1, [np.zeros(4, np.int64)]), [{(): 1.0}, {(): 1.0}])
    w = np.linspace(0.0005, 0.9995, 200_000)
    total = 1 / (w + (1 - w) / 4)
    each = (1 / (1 - w)) * (3 / 4) + total / 16
    for weights in ([1, 1], [5, 1], [1, 50]):
        found = least_mean(design, {(0, ()): weights[0], (1, ()): weights[1]})
        best = float((weights[0] * total + weights[1] * each).min())
        assert best * (1 - 1e-5) <= found.value <= best * (1 + CLOSE)
    for limits in ([1, 1], [2, 1], [1, 40]):
        found = least_greatest(design, {(0, ()): limits[0], (1, ()): limits[1]})
        best = float(np.maximum(total / limits[0], each / limits[1]).min())
        assert best * (1 - 1e-5) <= found.value <= best * (1 + CLOSE)


def test_mean_variance_of_a_cube():
    """Equal shares give 4.33, square roots of cells 2.42, the optimum 2.31 (8.0 as measured)."""
    design = Design((6, 2, 18), Tree(1), [dict.fromkeys(subtables((0, 1, 2)), 1.0)])
    weights = cell_weights(design, design.items)
    aim = optimum.Aim(weights)
    equal = np.full(8, 1 / 8)
    roots = np.sqrt([cell_count(design.sizes, table) for _level, table in design.items])
    assert optimum.evaluate_shares(design, aim, equal).total == pytest.approx(4.33, abs=0.005)
    assert optimum.evaluate_shares(design, aim, roots / roots.sum()).total == pytest.approx(
        2.42, abs=0.005
    )
    found = least_mean(design, weights)
    assert found.value == pytest.approx(2.31, abs=0.005)
    assert found.value == pytest.approx(residual_optimum((6, 2, 18), weights), rel=CLOSE)


def residual_optimum(sizes, weights):
    """Return (sum sqrt(a_T c_T))^2, the least weighted variance if residuals themselves could be measured.

    With one level, F_T = 1 / lambda_T costs c_T = |P_T e|^2 for each unit of lambda_T
    (ResidualPlanner).
    """
    spaces = subtables(tuple(range(len(sizes))))
    root = 0.0
    for space in spaces:
        cost = math.prod(1 - 1 / n if i in space else 1 / n for i, n in enumerate(sizes))
        counted = sum(
            weight
            * math.prod(
                1 - 1 / n if i in space else 1 / n if i in table else n for i, n in enumerate(sizes)
            )
            for (_level, table), weight in weights.items()
            if set(space) <= set(table)
        )
        root += math.sqrt(cost * counted)
    return root**2


@pytest.mark.parametrize("seed", range(6))
def test_marginals_reach_the_optimum_of_residuals(seed):
    """Marginals are never better than the closed form; with cell weights they are equal."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(2, 9, 3))
    tables = subtables((0, 1, 2))
    design = Design(sizes, Tree(1), [dict.fromkeys(tables, 1.0)])
    some = {(0, t): float(rng.uniform(0.1, 3)) for t in tables}
    assert least_mean(design, some).value >= residual_optimum(sizes, some) * (1 - NEAR)
    weights = cell_weights(design, design.items)
    assert least_mean(design, weights).value <= residual_optimum(sizes, weights) * (1 + CLOSE)


@pytest.mark.parametrize("seed", range(5))
def test_exact_tables_have_no_share(seed):
    rng = np.random.default_rng(seed)
    design = random_design(rng, exact=0.2)
    every = all_tables(design)
    found = least_mean(design, dict.fromkeys(every, 1.0))
    assert found.gap <= CLOSE + NEAR
    assert_valid_plan(design, found)
    told = replace(design, exact=[subtables(tuple(range(len(design.sizes))))] * design.areas.levels)
    for known in (
        least_mean(told, dict.fromkeys(every, 1.0)),
        least_greatest(told, dict.fromkeys(every, 1.0)),
    ):
        assert known.value == known.gap == 0
        assert known.needs == 0
    with pytest.raises(ValueError, match="no least budget"):
        least_budget(told, dict.fromkeys(every, 1.0), {every[0]: 1.0})


def test_unreachable_targets_report_the_nearest():
    rng = np.random.default_rng(3)
    design = random_design(rng, levels=3)
    every = all_tables(design)
    weights, limits = dict.fromkeys(every, 1.0), {every[0]: margin_limit(0.5, 1.96), every[-1]: 0.1}
    with pytest.raises(UnreachableTargetsError) as told:
        least_mean(design, weights, limits)
    nearest = told.value.nearest
    assert nearest.value == max(nearest.parts.values()) > 1
    factor = nearest.needs
    for budget, kept in ((factor, True), (factor * Fraction(999, 1000), False)):
        scaled = replace(
            design, prices=[{t: k / float(budget) for t, k in p.items()} for p in design.prices]
        )
        assert (least_greatest(scaled, limits).value <= 1 + CLOSE) is kept
        dense = DenseDesign(scaled)
        assert bool(dense.parts(floats(design, nearest), limits)[0].max() <= 1) is kept


def test_least_budget_satisfies_all_limits():
    design = random_design(np.random.default_rng(5), levels=2)
    every = all_tables(design)
    weights, limits = dict.fromkeys(every, 1.0), {every[1]: 0.2, every[-1]: 0.5}
    factor, found = least_budget(design, weights, limits)
    least = least_greatest(design, limits)
    assert factor == least.needs * Fraction(101, 100)
    assert max(found.parts.values()) <= 1
    assert found.gap <= 2 * CLOSE
    scaled = replace(
        design, prices=[{t: k / float(factor) for t, k in p.items()} for p in design.prices]
    )
    dense = DenseDesign(scaled)
    w = floats(design, found)
    assert dense.parts(w, limits)[0].max() <= 1 + NEAR
    assert dense.mean(w, weights)[0] == pytest.approx(found.value, rel=1e-7)


def test_error_names_tables_that_are_not_estimable():
    tree = Tree(1, [np.zeros(2, np.int64)])
    design = Design((2, 3), tree, [{(0, 1): 1.0}, {(0,): 1.0}])
    assert least_mean(design, {(0, (0, 1)): 1.0, (1, (0,)): 1.0}).gap <= CLOSE
    for call in (least_mean, least_greatest):
        with pytest.raises(NotEstimableError) as told:
            call(design, {(0, (1,)): 1.0, (1, (0, 1)): 1.0})
        assert told.value.missing == {(1, (0, 1)): [(1,), (0, 1)]}
    single = Design((2, 3), Tree(1, [np.zeros(1, np.int64)]), design.prices)
    assert least_mean(single, {(1, (0, 1)): 1.0}).value > 0  # an only child equals its parent


BAD = {
    "no weight": lambda d: least_mean(d, {}),
    "a weight of 0": lambda d: least_mean(d, {(0, ()): 0.0}),
    "an infinite weight": lambda d: least_mean(d, {(0, ()): math.inf}),
    "no limit": lambda d: least_greatest(d, {}),
    "a negative limit": lambda d: least_greatest(d, {(0, ()): -1.0}),
    "a limit of 0": lambda d: least_mean(d, {(0, ()): 1.0}, {(0, ()): 0.0}),
    "a price of 0": lambda d: replace(d, prices=[{(): 0.0}]),
    "no prices": lambda d: replace(d, prices=[{}]),
    "prices of another tree": lambda d: replace(d, prices=[{(): 1.0}] * 2),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_weights_and_limits_are_refused(case):
    with pytest.raises(ValueError, match=r"posit|needs|every level"):
        BAD[case](Design((2,), Tree(1), [{(): 1.0, (0,): 1.0}]))


def replace_function(where, name, wrong):
    return lambda monkeypatch: monkeypatch.setattr(where, name, wrong(getattr(where, name)))


def average(found, design, tables):
    return [
        np.full_like(each, design.shape.fractions(level) @ each)
        for (level, _table), each in zip(tables, found, strict=True)
    ]


PLANTED = {
    "a bound that is what was found": replace_function(
        optimum.RelativeRows,
        "lower_bound",
        lambda kept: lambda self, shares: float(self.at(shares)[0][self.raised].max()),
    ),
    "half of what comes from above": replace_function(
        design, "_final_of_children", lambda kept: lambda *a: kept(*a[:-1], a[-1] * 0.5)
    ),
    "other slopes": replace_function(
        optimum,
        "values_and_slopes",
        lambda kept: lambda *a: (lambda v, s: (v, s * np.linspace(0.5, 1, s.shape[1])))(*kept(*a)),
    ),
    "shares cut, not rounded": replace_function(
        targets,
        "_round_to_binary_digits",
        lambda kept: lambda shares, digits: np.floor(np.ldexp(shares, 8)) / 2.0**8,
    ),
    "limits on the average": replace_function(
        optimum,
        "cell_variances",
        lambda kept: lambda d, w, tables: average(kept(d, w, tables), d, tables),
    ),
}


def fails(seed):
    try:
        assert_equals_dense(seed)
    except (AssertionError, UnreachableTargetsError, ZeroDivisionError):
        return True
    return False


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_in_shares_are_found(fault, monkeypatch):
    PLANTED[fault](monkeypatch)
    assert any(map(fails, range(12)))


def large(counts):
    design_tree = skewed_tree(np.random.default_rng(0), counts)
    tables = subtables((0, 1))
    return Design((2, 7), design_tree, [dict.fromkeys(tables, 1.0) for _ in counts])


def test_search_of_a_large_tree_starts_on_an_average():
    design = large([1, 10, 90, 360, 6000])
    assert design.shape.size > optimum._LARGE_TREE
    limits = {at: (1 + at[0]) * 2.0 ** len(at[1]) for at in design.items}
    for found in (
        least_mean(design, cell_weights(design, design.items)),
        least_greatest(design, limits),
        least_mean(
            design, dict.fromkeys(design.items, 1.0), {at: 20 * v for at, v in limits.items()}
        ),
    ):
        assert found.gap <= CLOSE
        assert_valid_plan(design, found)


@pytest.mark.audit
def test_shares_of_four_hundred_thousand_leaves():
    counts = [1, 254, 5000, 18000, 418000]
    design = large(counts)
    for found in (
        least_mean(design, cell_weights(design, design.items)),
        least_mean(design, dict.fromkeys(design.items, 1.0)),
        least_greatest(design, {at: (1 + at[0]) * 2.0 ** len(at[1]) for at in design.items}),
    ):
        assert found.gap <= CLOSE
