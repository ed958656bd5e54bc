"""The cost of all rows of a person, if only their total number is limited."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.planning.calibration import make_accounting_input
from dprelease.privacy.accounting import epsilon_at, pure_epsilon
from dprelease.privacy.guarantee import Event
from dprelease.privacy.renyi import rho_of
from dprelease.privacy.unit import Move, Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import sum_sensitivity
from dprelease.query.aggregates.frequent import Frequent
from tests.covering import thinned

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE
NOISES = [
    name
    for name in registry.names()
    if registry.get(name).costs_most_in_few_cells and issubclass(registry.get(name), Mechanism)
]
UNITS = [
    PrivacyUnit("id", groups, rows, total)
    for groups, rows, total in [(4, 4, 4), (3, 2, 4), (4, 2, 3), (3, 3, 5), (2, 5, 4), (5, 1, 3)]
]
EPSILONS = (0.0, 0.1, 0.4, 1.0, 2.0)


def law(name: str, scale: float, shape: int = 0) -> Mechanism:
    kind = registry.get(name)
    assert issubclass(kind, Mechanism)
    return kind.design(scale, Sensitivity(1, (Move(4, 1),)), None, **kind.example_shapes[shape])


def probabilities(noise: Mechanism, reach: int) -> np.ndarray:
    """Return the probabilities of the noise from -reach to reach, nearly all of it."""
    tails = [float(noise.tail(k, True)) for k in range(1, reach + 2)]
    side = [a - b for a, b in itertools.pairwise(tails)]
    return np.array([*side[::-1], 1 - 2 * tails[0], *side])


def divergence(p: np.ndarray, change: tuple[int, ...], epsilon: float) -> float:
    """Return delta(epsilon) between noise alone and noise around a change, by enumeration."""
    wide = np.pad(p, 8)
    before, after = np.ones(1), np.ones(1)
    for shift in filter(None, change):
        before = np.multiply.outer(before, wide).ravel()
        after = np.multiply.outer(after, np.roll(wide, shift)).ravel()
    return float(np.maximum(after - math.exp(epsilon) * before, 0).sum())


def row_counts(unit: PrivacyUnit, cells: int) -> Iterator[tuple[int, ...]]:
    """Yield every number of rows by cell that the limits allow."""
    for counts in itertools.product(range(unit.max_rows_per_group + 1), repeat=cells):
        groups = sum(count > 0 for count in counts)
        if groups <= unit.max_groups and sum(counts) <= (unit.max_rows or math.inf):
            yield counts


@pytest.mark.share(0.4)
@pytest.mark.parametrize(("name", "scale"), thinned(NOISES, [1.3, 4.0], together=2))
def test_log_concave_noise_costs_most_in_few_cells(name: str, scale: float) -> None:
    """Moving a step to a cell that already moves as far makes no divergence smaller."""
    p = probabilities(law(name, scale), 80)
    for epsilon in EPSILONS:
        for x, y in [(1, 1), (2, 1), (3, 1), (2, 2), (4, 2), (0, 3)]:
            small, large = sorted((x, y))
            less = divergence(p, (large, small), epsilon)
            assert divergence(p, (large + 1, small - 1), epsilon) >= less - 1e-9 or not small
            assert divergence(p, (large, -small), epsilon) == pytest.approx(less, abs=1e-9)


def test_staircase_noise_can_cost_more_in_many_cells() -> None:
    """So the bound is refused for it: in staircase noise, one step may show as much as four."""
    p = probabilities(law("staircase", 3.0), 60)
    assert divergence(p, (2, 0), 1.5) < 1e-9
    assert divergence(p, (1, 1), 1.5) > 0.01


def largest_sums(change: tuple[int, ...]) -> list[int]:
    return list(itertools.accumulate(sorted(map(abs, change), reverse=True)))


def covers(claim: Sensitivity, change: tuple[int, ...]) -> bool:
    """Return whether the proof of `Sensitivity.of` applies to a change."""
    ((shift, sides),) = [(move.shift, move.cells) for move in claim.moves]
    signs = [tuple(c for c in change if c > 0), tuple(c for c in change if c < 0)]
    for part in signs if sides == 2 else [change]:
        for k, found in enumerate(largest_sums(part), 1):
            if found > min(k, claim.slots) * shift:
                return False
    return True


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("bounds", [(1, 1), (0, 3), (-2, 3), (-3, 3)], ids=str)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_allowed_change_is_covered(
    unit: PrivacyUnit, bounds: tuple[int, int], neighbours: Neighbours
) -> None:
    """By brute force over the rows of a person, and of another one, in three cells."""
    claim = sum_sensitivity(*bounds, unit, neighbours, 3)
    if not claim.of_all_rows:
        return
    least, most = min(bounds[0], 0), max(bounds[1], 0)
    # Extreme sums of a cell's rows suffice: the conditions are monotone in absolute values.
    sums = {
        tuple(n * end for n, end in zip(counts, ends, strict=True))
        for counts in row_counts(unit, 3)
        for ends in itertools.product({least, most}, repeat=3)
    }
    others = sums if neighbours is REPLACED else {(0, 0, 0)}
    for one in sums:
        for other in others:
            change = tuple(a - b for a, b in zip(one, other, strict=True))
            assert covers(claim, change), change
            assert sum(map(abs, change)) <= claim.l1
            assert sum(c * c for c in change) <= claim.l2_squared


@pytest.mark.parametrize("unit", [*UNITS[:3], PrivacyUnit("id", 2, 3)], ids=str)
@pytest.mark.parametrize("bounds", [(0, 3), (-2, 3), (-3, -1)], ids=str)
@pytest.mark.parametrize("most", [1, 4, 7, 100])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_clipped_sums_stay_within_the_claim(
    unit: PrivacyUnit, bounds: tuple[int, int], most: int, neighbours: Neighbours
) -> None:
    """By brute force over the sums of a person's rows, clipped in each of three cells."""
    claim = sum_sensitivity(*bounds, unit, neighbours, 3, most)
    least, largest = min(bounds[0], 0), max(bounds[1], 0)
    sums = {
        tuple(min(max(n * end, -most), most) for n, end in zip(counts, ends, strict=True))
        for counts in row_counts(unit, 3)
        for ends in itertools.product({least, largest}, repeat=3)
    }
    reached = 0
    for one in sums:
        for other in sums if neighbours is REPLACED else {(0, 0, 0)}:
            change = tuple(a - b for a, b in zip(one, other, strict=True))
            assert max(map(abs, change)) <= claim.largest_shift
            assert sum(map(abs, change)) <= claim.l1
            assert sum(c * c for c in change) <= claim.l2_squared
            assert not claim.of_all_rows or covers(claim, change)
            reached = max(reached, *map(abs, change))
    assert reached == claim.largest_shift or claim.of_all_rows
    if most == 100:
        assert claim == sum_sensitivity(*bounds, unit, neighbours, 3)


def test_bound_is_reached_for_divisible_limits() -> None:
    """Twenty rows may lie in one cell, or in four cells of five; no smaller claim covers both."""
    one = sum_sensitivity(1, 1, PrivacyUnit("id", 20, 20, 20), ADDED, 100)
    assert (one.l1, one.l2_squared, one.largest_shift) == (20, 400, 20)
    four = sum_sensitivity(1, 1, PrivacyUnit("id", 20, 5, 20), ADDED, 100)
    assert (four.l1, four.l2_squared, four.largest_shift) == (20, 100, 5)
    assert covers(four, (5, 5, 5, 5))
    assert not covers(Sensitivity(3, four.moves, of_all_rows=True), (5, 5, 5, 5))
    uneven = sum_sensitivity(1, 1, PrivacyUnit("id", 20, 6, 20), ADDED, 100)
    assert 20 <= uneven.l1 < 26


def test_ineffective_limit_keeps_the_sensitivity() -> None:
    for total in (6, 7, 10**9):
        for neighbours in Neighbours:
            unit = PrivacyUnit("id", 3, 2)
            limited = PrivacyUnit("id", 3, 2, total)
            found = sum_sensitivity(-1, 4, limited, neighbours, 9)
            assert found == sum_sensitivity(-1, 4, unit, neighbours, 9)
            assert not found.of_all_rows


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("name", "unit"), thinned(NOISES, UNITS[:4], together=2), ids=str)
def test_accounted_cost_covers_all_rows(name: str, unit: PrivacyUnit) -> None:
    claim = sum_sensitivity(1, 1, unit, ADDED, 3)
    noise = law(name, 2.5)
    priced = [make_accounting_input(noise, claim)]
    p = probabilities(noise, 50)
    for delta in (Fraction(1, 20), Fraction(1, 200)):
        epsilon = epsilon_at(priced, delta)
        for counts in {tuple(sorted(counts)) for counts in row_counts(unit, 3)}:
            assert divergence(p, counts, epsilon) <= float(delta) + 1e-7, (counts, epsilon)


@pytest.mark.parametrize("name", registry.names())
def test_other_noise_has_no_finite_cost(name: str) -> None:
    claim = sum_sensitivity(1, 1, UNITS[0], ADDED, 9)
    kind = registry.get(name)
    if name in NOISES or not issubclass(kind, Mechanism):
        return
    priced = [make_accounting_input(law(name, 9.0), claim)]
    assert pure_epsilon(priced) is None
    assert epsilon_at(priced, Fraction(1, 1000)) == rho_of(priced) == math.inf


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_selections_are_covered_by_the_claim(unit: PrivacyUnit, neighbours: Neighbours) -> None:
    """Changes are added up in as few selections as the claim has, and never exceed its shift."""
    claim = Frequent("k", 5).sensitivity(unit, neighbours, 4)
    most = max(move.shift for move in claim.moves)
    for counts in row_counts(unit, 4):
        change = [count for count in counts if count]
        if neighbours is REPLACED:
            change = [2 * count for count in change]
        change.sort()
        while len(change) > 1 and change[0] + change[1] <= most and claim.of_all_rows:
            change = sorted([change[0] + change[1], *change[2:]])
        assert not change or (len(change) <= claim.slots and change[-1] <= most)


def test_events_record_limits_of_all_rows() -> None:
    claim = sum_sensitivity(1, 1, UNITS[0], ADDED, 9)
    event = Event("q", "c", "laplace", (("scale", "9.0"),), claim)
    assert claim.of_all_rows
    assert Event.from_json(event.to_json()) == event


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_sums_of_cells_are_covered(unit: PrivacyUnit, neighbours: Neighbours) -> None:
    """Of six finest cells, each table has two cells of three, or three of two."""
    fine = sum_sensitivity(1, 1, unit, neighbours, 6)
    if not fine.of_all_rows:
        return
    for most, cells in ((3, 2), (2, 3), (6, 1)):
        claim = fine.of_sums(cells, most)
        sums = {
            tuple(sum(counts[i * most : (i + 1) * most]) for i in range(cells))
            for counts in row_counts(unit, 6)
        }
        for one in sums:
            for other in sums if neighbours is REPLACED else [(0,) * cells]:
                change = tuple(a - b for a, b in zip(one, other, strict=True))
                if cells == 1:
                    assert abs(change[0]) <= claim.largest_shift
                else:
                    assert covers(claim, change)
