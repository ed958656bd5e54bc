"""Privacy loss distributions on grids: every operation keeps an upper bound, in rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.privacy.accounting import MOST_POINTS, Composer
from dprelease.privacy.grid import Grid, sum_error

WIDTH = 0.125

Law = dict[int, Fraction]


def exactly(grid: Grid) -> Law:
    """Return the masses as rational numbers; None stands for no key, infinity is apart."""
    return {grid.first + i: Fraction(float(p)) for i, p in enumerate(grid.probabilities) if p > 0}


def product(one: Law, other: Law) -> Law:
    found: Law = {}
    for a, p in one.items():
        for b, q in other.items():
            found[a + b] = found.get(a + b, Fraction(0)) + p * q
    return found


def delta_of(law: Law, infinite: Fraction, point: int, width: float) -> float:
    """Return delta at epsilon = point * width of a law, rounded a little."""
    terms = [float(p) * -math.expm1((point - i) * width) for i, p in law.items() if i > point]
    return float(infinite) + math.fsum(terms)


masses = st.lists(st.floats(1e-150, 1.0), min_size=1, max_size=12)
grids = st.builds(
    lambda p, first, infinite: Grid(
        WIDTH, first, np.array(p) / sum(p) * (1 - infinite), infinite, 1.0
    ),
    masses,
    st.integers(-20, 20),
    st.sampled_from([0.0, 1e-12, 0.25]),
)


@given(grids, grids)
def test_convolution_equals_the_rational_one(one: Grid, other: Grid) -> None:
    """Each mass within the stated relative error, down to the smallest."""
    found = one.compose(other)
    exact = product(exactly(one), exactly(other))
    masses = exactly(found)
    for point, mass in exact.items():
        near = masses.get(point, Fraction(0))
        assert abs(near - mass) <= Fraction(found.factor - 1) * mass + Fraction(1, 10**300)
    endless = 1 - (1 - Fraction(one.infinite)) * (1 - Fraction(other.infinite))
    assert endless * (1 - Fraction(1, 10**15)) <= Fraction(found.infinite)
    assert found.infinite <= float(endless) + 1e-15


@given(grids)
def test_coarser_grid_dominates(grid: Grid) -> None:
    coarse = grid.with_double_width()
    assert coarse.width == 2 * grid.width
    fine, wide = exactly(grid), exactly(coarse)
    assert float(sum(wide.values())) == pytest.approx(float(sum(fine.values())), rel=1e-14)
    q_fine, q_wide = (
        math.fsum(float(p) * math.exp(-i * width) for i, p in law.items())
        for law, width in ((fine, grid.width), (wide, coarse.width))
    )
    assert q_wide == pytest.approx(q_fine, rel=1e-13)
    for point in range(grid.first - 2, grid.last + 2):
        ours = coarse.factor * (
            coarse.infinite
            + math.fsum(
                float(p) * -math.expm1(point * grid.width - i * coarse.width)
                for i, p in wide.items()
                if i * coarse.width > point * grid.width
            )
        )
        theirs = delta_of(fine, Fraction(grid.infinite), point, grid.width)
        assert ours >= theirs * (1 - 1e-13)


def test_rounding_losses_down_does_not_dominate() -> None:
    """The test above can fail: losses that are rounded down lose delta."""
    grid = Grid(WIDTH, 1, np.array([1.0]), 0.0)
    down = Grid(2 * WIDTH, 0, np.array([1.0]), 0.0)
    assert delta_of(exactly(down), Fraction(0), 0, down.width) == 0.0
    assert grid.with_double_width().epsilon(0.05) > grid.epsilon(0.05) * (1 - 1e-9)
    assert down.epsilon(0.05) < grid.epsilon(0.05) / 2


@example(Grid(WIDTH, -1, np.array([0.2, 0.55, 0.25]), 0.0), 0.3)  # both ends are far
@given(grids, st.sampled_from([0.0, 1e-140, 1e-6, 0.3, 2.0]))
def test_truncated_tails_move_up(grid: Grid, mass: float) -> None:
    cut = grid.without_tails(mass)
    moved = cut.infinite - grid.infinite
    assert moved <= mass * (1 + 1e-12) + 1e-16
    for point in range(grid.first - 1, grid.last + 1):
        before = delta_of(exactly(grid), Fraction(grid.infinite), point, WIDTH)
        after = delta_of(exactly(cut), Fraction(cut.infinite), point, WIDTH)
        assert after * cut.factor >= before * (1 - 1e-14)


@given(grids, st.floats(1e-14, 0.9))
def test_epsilon_spends_delta_exactly(grid: Grid, delta: float) -> None:
    found = grid.epsilon(delta)
    if math.isinf(found):
        assert grid.infinite > delta * (1 - 1e-9)
        return

    def at(epsilon: float) -> float:
        losses = np.arange(grid.first, grid.last + 1) * WIDTH
        rest = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return grid.infinite + math.fsum(grid.probabilities * rest)

    assert at(found) <= delta * (1 + 1e-14)
    if found > 2e-15 and grid.first * WIDTH < found * (1 - 1e-9):
        assert at(found * (1 - 1e-9) - 1e-12) >= delta * (1 - 1e-6) - 1e-11


def test_losses_beyond_floats_are_infinite() -> None:
    far = Grid(1.0, -400, np.array([0.5] + [0.0] * 799 + [0.5]), 0.0)
    both = far.compose(far)
    assert both.last <= 600
    assert both.first >= -600
    assert both.infinite == pytest.approx(0.25)
    assert float(np.sum(both.probabilities)) == pytest.approx(0.75)
    nothing = Grid(1.0, 500, np.array([1.0]), 0.0)
    assert nothing.compose(nothing).infinite >= 1.0
    assert nothing.compose(nothing).epsilon(0.5) == math.inf


def randomized_response(epsilon: float, width: float) -> Grid:
    half = round(epsilon / width)
    p = np.zeros(2 * half + 1)
    p[-1] = 1.0 / (1.0 + math.exp(-half * width))
    p[0] = 1.0 - p[-1]
    return Grid(width, -half, p, 0.0)


@pytest.mark.parametrize("times", [1, 5, 64, 300])
def test_powers_of_randomized_response(times: int) -> None:
    """The exact delta of k bits (Kairouz, Oh and Viswanath 2015, Theorem 3.3), in fractions."""
    width = 2.0**-7
    bit = randomized_response(8 * width, width)
    found = Composer(1e-25).compose_copies(bit, times)
    likely = Fraction(float(bit.probabilities[-1]))
    for epsilon in (0.0, 0.25, 1.0, 3.0):
        exact = 0.0
        for k in range(times + 1):
            loss = (2 * k - times) * 8 * width
            if loss > epsilon:
                mass = math.comb(times, k) * likely**k * (1 - likely) ** (times - k)
                exact += float(mass) * -math.expm1(epsilon - loss)
        if exact > 1e-20:
            assert found.epsilon(exact) >= epsilon * (1 - 1e-12)
            assert found.epsilon(exact * (1 + 1e-4)) <= epsilon * (1 + 1e-5) + 1e-4


def test_long_grids_are_coarsened_at_little_cost() -> None:
    width = 2.0**-12
    bit = randomized_response(0.25, width)
    composer = Composer(1e-20)
    fine = bit
    for _ in range(63):
        fine = fine.compose(bit)
    found = composer.compose_copies(bit, 64)
    assert len(found.probabilities) <= MOST_POINTS < len(fine.probabilities)
    for delta in (1e-3, 1e-6, 1e-9, 1e-12):
        least = fine.epsilon(delta)
        assert least * (1 - 1e-9) <= found.epsilon(delta) <= least * (1 + 3e-5)


def test_different_grids_compose_on_the_coarser_one() -> None:
    one, other = randomized_response(0.5, 2.0**-5), randomized_response(0.5, 2.0**-8)
    found = Composer(0.0).compose_all([one, other, one])
    assert found.width == one.width
    assert found.epsilon(1e-9) == pytest.approx(1.5, rel=1e-6)


def test_error_of_a_sum_grows_with_its_terms() -> None:
    assert sum_error(2**22) < 2.0**-29
    assert sum_error(0) > 0


@pytest.mark.parametrize("times", [3, 40])
def test_composition_agrees_with_dp_accounting(times: int) -> None:
    """Its transforms, where their absolute errors don't matter yet."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    p = np.exp(-((np.arange(201) - 100.0) ** 2) / 800.0)
    p /= p.sum()
    grid = Grid(1e-3, -80, p, 1e-13)
    library = DensePLDPmf(1e-3, -80, p, 1e-13, True).self_compose(times, 1e-18)
    found = Composer(1e-22).compose_copies(grid, times)
    for delta in (1e-2, 1e-5, 1e-8):
        assert found.epsilon(delta) == pytest.approx(library.get_epsilon_for_delta(delta), rel=2e-5)
