"""Non-negative tables: the least-squares optimum in any batch, and integers near them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dprelease.consistency.algebra import subtables
from dprelease.consistency.integer_tables import nearest_tables as module
from dprelease.consistency.integer_tables.least_squares import round_tables
from dprelease.consistency.integer_tables.nearest_tables import nearest_tables, project

SIZES = [(2, 3), (4,), (2, 2, 3), (1, 3)]


def problem(seed: int, sizes: tuple[int, ...], children: int, problems: int):
    """Return random estimates, precisions, possible entries and sums."""
    rng = np.random.default_rng(seed)
    shape = (*sizes, children, problems)
    truth = rng.poisson(rng.lognormal(0, 1.5, shape))
    estimates = truth + rng.normal(0, 2, shape)
    sums = truth.sum(axis=-2)
    precisions = {
        space: rng.lognormal(0, 1, (children, problems))
        for space in subtables(tuple(range(len(sizes))))
        if all(sizes[axis] > 1 for axis in space)
    }
    possible = np.broadcast_to((sums > 0)[..., None, :], shape)
    return estimates, precisions, possible, sums


def projection(sizes: tuple[int, ...], space: tuple[int, ...]) -> np.ndarray:
    """Return the matrix that projects a table on a residual space."""
    matrix = np.ones((1, 1))
    for axis, size in enumerate(sizes):
        mean = np.full((size, size), 1 / size)
        matrix = np.kron(matrix, np.eye(size) - mean if axis in space else mean)
    return matrix


def gradient(x, estimates, precisions):
    """Return the gradient of the objective of one problem, by dense matrices: (cells, children)."""
    sizes, children = estimates.shape[:-1], estimates.shape[-1]
    apart = (x - estimates).reshape(-1, children)
    return sum(
        projection(sizes, space) @ apart * (2 * precision)
        for space, precision in precisions.items()
    )


@pytest.mark.each
@pytest.mark.parametrize(("sizes", "children"), [*itertools.product(SIZES, [1, 2, 4])])
def test_non_negative_tables_are_optimal(sizes, children):
    """By the Karush-Kuhn-Tucker conditions, which prove it for a convex problem.

    For each cell, the gradient is equal for all children above 0, and not smaller for children
    with 0.
    """
    for seed in range(3):
        z, precisions, possible, sums = problem(seed, sizes, children, 3)
        x = project(
            z, precisions, possible, sums.astype(float), subtables(tuple(range(len(sizes)))), 600
        )
        assert (x >= 0).all()
        assert np.abs(x.sum(axis=-2) - sums).max() < 1e-6
        for at in range(3):
            own = {space: one[:, at] for space, one in precisions.items()}
            slopes = gradient(x[..., at], z[..., at], own)
            inside = x[..., at].reshape(slopes.shape) > 1e-6
            for cell in np.flatnonzero(sums[..., at].ravel()):
                assert np.ptp(slopes[cell][inside[cell]]) < 1e-4
                assert slopes[cell].min() > slopes[cell][inside[cell]].max() - 1e-4


@pytest.mark.parametrize("sizes", SIZES)
def test_batches_give_the_same_bits_as_single_problems(sizes):
    z, precisions, possible, sums = problem(5, sizes, 3, 4)
    coarse = [(axis,) for axis in range(len(sizes))][:2] if len(sizes) > 1 else []
    together = nearest_tables(
        z, precisions, possible, sums.astype(float), coarse, [(), *coarse], 60
    )
    padding = [(0, 0)] * len(sizes) + [(0, 2), (0, 0)]
    padded = nearest_tables(
        np.pad(z, padding),
        {space: np.pad(one, [(0, 2), (0, 0)]) for space, one in precisions.items()},
        np.pad(possible, padding),
        sums.astype(float),
        coarse,
        [(), *coarse],
        60,
    )
    assert (padded[..., :3, :] == together).all()
    for at in range(4):
        one = slice(at, at + 1)
        alone = nearest_tables(
            z[..., one],
            {space: p[:, one] for space, p in precisions.items()},
            possible[..., one],
            sums[..., one].astype(float),
            coarse,
            [(), *coarse],
            60,
        )
        assert (alone[..., 0] == together[..., at]).all()


@pytest.mark.each
@pytest.mark.parametrize(("sizes", "children"), [*itertools.product(SIZES, [1, 3, 7])])
def test_integers_add_up_and_are_near_their_fractions(sizes, children):
    for seed in range(3):
        z, precisions, possible, sums = problem(seed, sizes, children, 6)
        tables = [(axis,) for axis in range(len(sizes))]
        x = project(z, precisions, possible, sums.astype(float), tables, 400)
        whole = round_tables(x, possible, sums, tables)
        assert (whole.sum(axis=-2) == sums).all()
        assert (whole >= 0).all()
        assert not whole[~possible].any()
        assert np.abs(whole - x).max() < 1 + 1e-3
        rough = round_tables(
            project(z, precisions, possible, sums.astype(float), tables, 3), possible, sums, tables
        )
        assert (rough.sum(axis=-2) == sums).all()
        assert (rough >= 0).all()


def test_rounded_roots_have_a_near_total():
    z, precisions, possible, _ = problem(1, (3, 4), 1, 50)
    x = project(z, precisions, possible, None, [(0,), (1,)], 60)
    whole = round_tables(x, possible, None, [(0,), (1,)])
    assert (np.abs(whole - x) < 1).all()
    assert np.abs(whole.sum(axis=(0, 1, 2)) - x.sum(axis=(0, 1, 2))).max() < 1


def test_rounding_keeps_the_errors_of_measured_tables_small():
    """Independent rounding is off by up to 5 in sums of 24 cells; controlled rounding by 2.5."""
    sizes, tables = (2, 6, 4), [(0,), (1,), (2,)]
    rng = np.random.default_rng(4)
    x = rng.gamma(0.7, 3.0, (*sizes, 8, 40))
    sums = np.floor(x.sum(axis=-2) + rng.random((*sizes, 40))).astype(np.int64)
    x *= (sums / x.sum(axis=-2))[..., None, :]
    possible = np.broadcast_to((sums > 0)[..., None, :], x.shape)
    whole = round_tables(x, possible, sums, tables)
    for table in [(), *tables]:
        axes = tuple(axis for axis in range(3) if axis not in table)
        errors = np.abs((whole - x).sum(axis=axes))
        assert errors.max() < 2.5
        assert (errors >= 1).mean() < 0.06


@pytest.mark.share(0.5)
@pytest.mark.parametrize("axis", [0, 1])
def test_fully_trusted_coarse_table_is_its_own_optimum(axis, monkeypatch):
    """With unlimited trust, the sums of the result are the non-negative optimum of the sums."""
    monkeypatch.setattr(module, "TRUST", 1e7)
    monkeypatch.setattr(module, "COARSE_ITERATIONS", 4000)
    sizes = (3, 4)
    z, precisions, possible, sums = problem(3, sizes, 3, 4)
    z = z - 3.0  # so that sums are below 0, too
    first = [(axis,)]
    x = nearest_tables(z, precisions, possible, sums.astype(float), first, first, 20000)
    own = {
        (): precisions[()] / sizes[1 - axis],
        (0,): precisions[(axis,)] / sizes[1 - axis],
    }
    can_be = possible.any(axis=1 - axis)
    alone = project(
        z.sum(axis=1 - axis), own, can_be, sums.sum(axis=1 - axis).astype(float), [], 8000
    )
    assert np.abs(x.sum(axis=1 - axis) - alone).max() < 0.05
