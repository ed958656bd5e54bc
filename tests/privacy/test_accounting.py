"""Composition: never below the exact privacy cost, and close to it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.optimal import Optimal
from dprelease.privacy.accounting import ROUGH, Composer, epsilon_at, pure_epsilon
from dprelease.privacy.calibrate import TOLERANCE, approximate_factor, improved_factor, least_factor
from dprelease.privacy.grid import (
    LOSS_ERROR,
    Grid,
    grid_of,
    move_grid,
    pointwise_largest,
    slot_grid,
)
from dprelease.privacy.losses.normal import normal_delta
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.unit import Move, Neighbours, PrivacyUnit, Sensitivity
from tests.covering import sampled
from tests.mechanisms.laws import KINDS, law_of, laws
from tests.reference.read import number, rows


def vector(name: str, scale: float, shift: int = 1, slots: int = 1) -> PricedVector:
    law = registry.get(name).of(scale=scale)
    return PricedVector(law, law.losses, Sensitivity(slots, (Move(shift, 1),)))


def delta_of(vectors: list[PricedVector], epsilon: float) -> float:
    """Return the least delta whose epsilon is at most the one given, by bisection in logarithms."""
    low, high = -12.0, 0.0
    for _ in range(30):
        middle = (low + high) / 2
        fits = epsilon_at(vectors, Fraction(10**middle)) <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return 10**high


@pytest.mark.parametrize(
    ("table", "name", "column"),
    [
        ("composition_laplace", "laplace", "scale"),
        ("composition_discrete_laplace", "discrete_laplace", "scale_t"),
    ],
)
def test_repeated_answers_equal_exact_composition(table: str, name: str, column: str) -> None:
    compared = 0
    for row in rows(table):
        delta = Fraction(row["delta"])
        if not 0 < delta < Fraction(1, 2):
            continue
        found = epsilon_at([vector(name, float(row[column]), slots=int(row["count"]))], delta)
        assert found >= float(row["epsilon"]) * (1 - 1e-12)
        assert found <= float(row["epsilon"]) * 1.002 + 1e-4
        compared += 1
    assert compared >= 5


def test_mixed_pairs_equal_exact_composition() -> None:
    compared = 0
    for row in rows("composition_mixed_pairs"):
        names = row["pair"].replace("(sigma2)", "").split("+")
        scales = [float(row["first_scale"]), float(row["second_scale_or_sigma2"])]
        if "sigma2" in row["pair"]:
            scales[1] = math.sqrt(scales[1])
        if not 1e-40 < float(row["delta"]) < 0.5:
            continue
        vectors = [vector(name, scale) for name, scale in zip(names, scales, strict=True)]
        found = epsilon_at(vectors, Fraction(row["delta"]))
        assert float(row["epsilon"]) * (1 - 1e-9) <= found <= float(row["epsilon"]) * 1.003 + 2e-4
        compared += 1
    assert compared >= 3


@pytest.mark.parametrize("slots", [1, 7, 400])
def test_gaussian_noise_composes_by_squares(slots: int) -> None:
    """The closed form, and the grid without it, agree from above."""
    closed = epsilon_at([vector("gaussian", 30.0, slots=slots)], Fraction(1, 10**7))
    mu = math.sqrt(slots) / 30.0
    assert normal_delta(mu, closed) <= 1e-7
    assert normal_delta(mu, closed * (1 - 1e-9)) > 1e-7
    law = registry.get("gaussian").of(scale=30.0)
    part = grid_of(law.losses(1)[0], 1 / 30 / 50)
    grid = Composer(1e-16).compose_copies(part, slots).epsilon(1e-7)
    assert closed * (1 - 1e-9) <= grid <= closed * 1.001


@pytest.mark.parametrize("row", rows("gaussian_sigma"), ids=str)
def test_sigma_reference(row: dict[str, str]) -> None:
    """The sigma of a target spends that target, from the safe side."""
    epsilon = number(row["epsilon"])
    mu = float(row["l2_sensitivity"]) / float(row["sigma_analytic"])
    assert normal_delta(mu, epsilon) == pytest.approx(float(row["delta"]), rel=1e-6)


def exact_delta(laws: list[tuple[str, float, int]], epsilon: float) -> float:
    """Return delta by enumerating products of masses of small discrete laws; no grid, no transform."""
    tables = []
    for name, scale, shift in laws:
        law = registry.get(name).of(scale=scale)
        reach = int(12 * scale) + shift + 2
        upper = [float(law.tail(k, True)) for k in range(-reach, reach + 2)]
        mass = np.array(upper[:-1]) - np.array(upper[1:])
        p, q = mass[shift:], mass[:-shift]
        tables.append((p, q))
    total_p, total_q = np.array([1.0]), np.array([1.0])
    for p, q in tables:
        total_p, total_q = np.outer(total_p, p).ravel(), np.outer(total_q, q).ravel()
    return float(np.sum(np.maximum(total_p - math.exp(epsilon) * total_q, 0.0)))


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["discrete_laplace", "discrete_gaussian"]),
            st.floats(0.6, 3.0),
            st.integers(1, 2),
        ),
        min_size=1,
        max_size=3,
    ),
    st.floats(0.1, 3.0),
)
def test_reported_cost_covers_the_exact_one(
    laws: list[tuple[str, float, int]], epsilon: float
) -> None:
    exact = exact_delta(laws, epsilon)
    vectors = [vector(name, scale, shift) for name, scale, shift in laws]
    if exact > 1e-9:
        found = epsilon_at(vectors, Fraction(exact) * (1 - Fraction(1, 10**9)))
        assert found >= epsilon * (1 - 1e-6)


def test_composition_is_within_kov_bound() -> None:
    """k-fold discrete Laplace of small scale is near randomized response: within its KOV bound."""
    for row in rows("composition_kov_theorem34"):
        if float(row["delta"]) or int(row["count"]) > 300:
            continue
        scale = 1 / float(row["epsilon"])
        law = vector("discrete_laplace", scale, slots=int(row["count"]))
        found = epsilon_at([law], Fraction(row["slack_delta"]))
        assert found <= float(row["epsilon_total"]) * 1.001


def test_pure_composition_adds() -> None:
    vectors = [vector("laplace", 1.0) for _ in range(3)] + [vector("laplace", 2.0)] * 2
    assert pure_epsilon(vectors) == 4
    assert epsilon_at(vectors, Fraction(0)) == 4.0
    assert pure_epsilon([*vectors, vector("gaussian", 5.0)]) is None
    assert epsilon_at([vector("gaussian", 5.0)], Fraction(0)) == math.inf


@pytest.mark.parametrize("exponent", [12, 15, 20, 30, 36])
def test_small_deltas_are_composed(exponent: int) -> None:
    """Rounding a normal law to a fine lattice costs next to nothing at any delta."""
    delta = Fraction(1, 10**exponent)
    closed = epsilon_at([vector("gaussian", 900.0, shift=100)], delta)
    mixed = [vector("discrete_gaussian", 900.0 * math.sqrt(k), shift=100) for k in (3, 1.5)]
    assert closed * (1 - 1e-5) <= epsilon_at(mixed, delta) <= closed * (1 + 1e-3)
    # Losses that 1e-40 of the outputs have are not looked at one by one.
    assert epsilon_at(mixed, Fraction(1, 10**60)) == math.inf


@settings(max_examples=8)
@given(st.sampled_from(KINDS), st.floats(1.0, 50.0), st.integers(1, 30))
def test_more_noise_never_costs_more(kind: tuple[str, int], scale: float, slots: int) -> None:
    laws = [law_of(kind[0], scale * factor, kind[1]) for factor in (1.0, 1.3, 2.0)]
    sensitivity = Sensitivity(slots, (Move(1, 1),))
    prices = [
        epsilon_at([PricedVector(law, law.losses, sensitivity)], Fraction(1, 10**6)) for law in laws
    ]
    assert prices[0] >= prices[1] >= prices[2]


def test_grid_dominates_its_loss() -> None:
    """Relative to every delta, however small: no absolute error hides in the far tails."""
    smallest = 1.0
    for name, shape, scale in laws((1.0, 9.0, 3000.0), 2):
        for loss in law_of(name, scale, shape, 2).losses(2):
            width = (1e-3 if scale < 100 else 1e-5) * (
                1 if loss.largest_relevant_loss < 500 else 10
            )
            grid = grid_of(loss, width)
            for epsilon in np.linspace(0.0, min(loss.largest_relevant_loss, 100.0) * 0.999, 15):
                true = loss.delta(float(epsilon))
                if true > 1e-38:
                    assert delta_at(grid, float(epsilon) - LOSS_ERROR) >= true * (1 - 1e-12), name
                    smallest = min(smallest, true)
    assert smallest < 1e-30


def delta_at(grid: Grid, epsilon: float) -> float:
    """Return what the law says of one epsilon, straight from the definition."""
    losses = np.arange(grid.first, grid.last + 1) * grid.width
    rest = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return grid.factor * (grid.infinite + float(np.sum(grid.probabilities * rest)))


def covers(upper: Grid, lower: Grid) -> bool:
    """Return whether deltas of `upper` are those of `lower` or more, at up to 400 points of both."""
    ends = min(upper.first, lower.first), max(upper.last, lower.last)
    points = np.unique(np.linspace(*ends, 400).astype(int)) * upper.width
    deltas = ((delta_at(upper, x), delta_at(lower, x) / lower.factor) for x in points)
    return all(ours >= theirs * (1 - 1e-11) for ours, theirs in deltas)


def test_slot_covers_each_of_its_moves() -> None:
    for name, shape in sampled(KINDS, 0.3):
        law = law_of(name, 6.0, shape, 3)
        moves = (Move(3, 1), Move(2, 2))
        slot = slot_grid(law.losses, Sensitivity(1, moves), 1e-3)
        for move in moves:
            assert covers(slot, move_grid(law.losses, move, 1e-3))
    laplace = law_of("laplace", 6.0)
    assert not covers(
        move_grid(laplace.losses, Move(1, 1), 1e-3), move_grid(laplace.losses, Move(2, 1), 1e-3)
    )


probabilities = st.lists(st.floats(1e-12, 1.0), min_size=2, max_size=6)


@given(probabilities, probabilities, st.integers(-3, 3), st.sampled_from([0.0, 1e-9]))
def test_pointwise_largest_covers_both_tightly(
    first: list[float], second: list[float], offset: int, infinite: float
) -> None:
    """Crossing curves: never below either, and at the points never above the larger one."""
    width = 0.25
    grids = []
    for masses, start in ((first, -2), (second, offset)):
        p = np.array(masses) / sum(masses) * (1.0 - infinite)
        q = float(np.sum(p * np.exp(-width * (start + np.arange(len(p))))))
        # A law of losses needs a Q mass of at most one: it moves up until it has.
        grids.append(Grid(width, start + max(0, math.ceil(math.log(q) / width)), p, infinite))
    found = pointwise_largest(grids)
    assert all(covers(found, grid) for grid in grids)
    points = np.arange(found.first, found.last + 1) * width
    each = [np.array([delta_at(g, x) for x in points]) for g in (found, *grids)]
    assert np.all(each[0] <= np.maximum(each[1], each[2]) * (1 + 1e-9) + 1e-12)
    assert found.probabilities.sum() + found.infinite == pytest.approx(1.0, abs=1e-9)


def test_least_factor_spends_the_budget_exactly() -> None:
    for goal in (0.01, 1.0, 7.0):
        price = {"calls": 0}

        def cost(factor: float, price: dict[str, int] = price) -> float:
            price["calls"] += 1
            return 3.0 / factor + 5.0 / factor**2

        factor = least_factor(cost, goal, 1.0)
        assert factor is not None
        assert goal * (1 - TOLERANCE) <= cost(factor) <= goal
        assert price["calls"] < 25
    assert least_factor(lambda _factor: math.inf, 1.0, 1.0) is None
    stairs = least_factor(lambda factor: 2.0 if factor < 3.0 else 0.5, 1.0, 1.0)
    assert stairs is not None
    assert 3.0 <= stairs < 3.1


@pytest.mark.parametrize("start", [0.01, 1.0, 7.9, 300.0])
def test_approximate_factor_needs_few_evaluations(start: float) -> None:
    calls = 0

    def cost(factor: float) -> float:
        nonlocal calls
        calls += 1
        return 3.0 / factor + 5.0 / factor**2

    found = approximate_factor(cost, 1.0, start)
    assert found is not None
    factor, slope = found
    assert calls <= 9
    assert cost(factor) == pytest.approx(1.0, abs=TOLERANCE / 2)
    again = approximate_factor(cost, 1.0, factor * 1.03, slope)
    assert again is not None
    assert calls <= 12
    assert cost(again[0]) == pytest.approx(1.0, abs=TOLERANCE / 2)


def test_approximate_factor_of_discontinuous_costs() -> None:
    assert approximate_factor(lambda _factor: math.inf, 1.0, 1.0) is None
    for stairs in (
        lambda factor: 2.0 if factor < 3.0 else 0.5,
        lambda factor: math.inf if factor < 3.0 else 0.5,
    ):
        found = approximate_factor(stairs, 1.0, 1.0)
        assert found is not None
        assert 3.0 <= found[0] < 3.1


def test_improved_factor_spends_more() -> None:
    assert improved_factor(lambda factor: 1 / factor, 1.0, 1.0009) < 1.0004
    assert improved_factor(lambda factor: 1 / factor, 1.0, 1.0004) == 1.0004
    assert improved_factor(lambda factor: 2.0 if factor < 1.0009 else 0.9991, 1.0, 1.0009) == 1.0009


@pytest.mark.parametrize("name", registry.names())
@pytest.mark.parametrize("slots", [1, 40])
def test_rough_costs_are_close_upper_bounds(name: str, slots: int) -> None:
    kind = registry.get(name)
    sensitivity = Sensitivity(slots, (Move(6, 1),))
    law = kind.design(12.0 * slots**0.5, sensitivity, **kind.example_shapes[0])
    vectors = [PricedVector(law, law.losses, sensitivity), vector("laplace", 40.0 * slots)]
    fine, rough = (
        epsilon_at(vectors, Fraction(1, 10**6), *precision) for precision in ((), (ROUGH,))
    )
    # Either lies above the true price, the fine one by less than the rough one, about; what is
    # roughly within a hundredth of the best is priced truly.
    assert fine * (1 - 2e-4) <= rough <= fine * (1 + 8e-3)


def test_sensitivities_of_both_neighbour_relations() -> None:
    unit = PrivacyUnit("id", max_groups=3, max_rows_per_group=2)
    add = Sensitivity.of(
        per_group=4, within_group=6, unit=unit, neighbours=Neighbours.ADD_REMOVE, cells=9
    )
    assert add == Sensitivity(3, (Move(4, 1),))
    change = Sensitivity.of(
        per_group=4, within_group=6, unit=unit, neighbours=Neighbours.REPLACE, cells=9
    )
    assert change == Sensitivity(3, (Move(6, 1), Move(4, 2)))
    assert (change.l1, change.l2_squared, change.largest_shift) == (24, 108, 6)
    one = Sensitivity.of(
        per_group=4, within_group=6, unit=unit, neighbours=Neighbours.REPLACE, cells=1
    )
    assert one == Sensitivity(1, (Move(6, 1),))


def test_noise_that_is_always_0_is_refused() -> None:
    """Such a law publishes the truth: none can be made."""
    with pytest.raises(BudgetError, match=r"DP-MECH-005.*always 0"):
        Optimal(1.0, (5,))


@pytest.mark.parametrize("slots", [2, 3])
def test_rational_convolution_of_optimal_noise(slots: int) -> None:
    """Whole-number masses composed exactly, output by output, with no float anywhere."""
    law = Optimal(4.0, (40, 24, 14, 8, 4, 2, 1))
    whole = Fraction(40 + 2 * (24 + 14 + 8 + 4 + 2 + 1))
    masses = {k: Fraction(law.masses[abs(k)]) / whole for k in range(-6, 7)}
    pairs = [(masses.get(k, Fraction(0)), masses.get(k - 1, Fraction(0))) for k in range(-6, 8)]
    delta = Fraction(1, 5)
    vector = PricedVector(law, law.losses, Sensitivity(slots, (Move(1, 1),)))
    epsilon = epsilon_at([vector], delta)
    # exp(epsilon) between rationals: what is claimed holds at the smaller one as well.
    factor = Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**12))
    exact = Fraction(0)
    for outputs in itertools.product(pairs, repeat=slots):
        p, q = (math.prod((pair[i] for pair in outputs), start=Fraction(1)) for i in (0, 1))
        exact += max(Fraction(0), p - factor * q)
    assert exact <= delta * (1 + Fraction(1, 10**10))
    assert exact >= delta * Fraction(98, 100)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("times", [1, 12])
@pytest.mark.parametrize("name", ["laplace", "discrete_laplace", "gaussian", "discrete_gaussian"])
def test_costs_agree_with_dp_accounting(name: str, times: int) -> None:
    """The library's distributions of the same noise say nearly the same, and are no tighter."""
    from dp_accounting.pld import privacy_loss_distribution as theirs

    scale, delta = 6.0, 1e-6
    own = {
        "laplace": lambda: theirs.from_laplace_mechanism(scale, value_discretization_interval=1e-4),
        "discrete_laplace": lambda: theirs.from_discrete_laplace_mechanism(
            1 / scale, value_discretization_interval=1e-4
        ),
        "gaussian": lambda: theirs.from_gaussian_mechanism(
            scale, value_discretization_interval=1e-4
        ),
        "discrete_gaussian": lambda: theirs.from_discrete_gaussian_mechanism(
            scale, value_discretization_interval=1e-4
        ),
    }[name]()
    expected = own.self_compose(times).get_epsilon_for_delta(delta)
    found = epsilon_at([vector(name, scale, slots=times)], Fraction(1, 10**6))
    assert found == pytest.approx(expected, rel=3e-3)
    assert found <= expected * (1 + 1e-3)
