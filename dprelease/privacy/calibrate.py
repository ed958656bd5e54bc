"""Find the least noise within a budget, as one common factor for all scales of a release."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

TOLERANCE = 1e-3
"""Largest part of its budget that a calibrated release leaves unspent."""

LARGEST_FACTOR = 2.0**60

LEAST_RATIO = 1.0 + 2.0**-40
"""Ratio of two factors below which a search ends, because costs of linear programs may jump."""

MOST_SECANTS = 8
STEEPEST, FLATTEST = -8.0, -0.125
"""Slopes of the cost, in logarithms, for which a secant step is accepted."""

NEARBY, NEARBY_SQUARED = 2.0**-8, 2.0**-11
"""Bounds for the last step of a secant search, in logarithms.

The first bounds the step, for costs with a kink. The second bounds the product of the step and the
sum of this step and the previous step. The error of a secant is half of this product times a
curvature, which is below one half.
"""

ENOUGH_SPENT = 1.0 - TOLERANCE / 2
"""Spent part of the budget above which no further evaluation of the cost is worthwhile."""


def least_factor(cost_of: Callable[[float], float], budget: float, start: float) -> float | None:
    """Return a factor whose cost lies in [(1 - TOLERANCE) budget, budget], or None.

    `cost_of` returns the privacy cost of a factor. Its result falls as the factor grows, and may be
    infinite. The function evaluates the cost of every factor that it returns, and the guarantee
    rests on this evaluation alone. The search finds a bracket first, and then uses regula falsi in
    logarithms, in which costs are close to straight lines. If costs jump, the result is the least
    factor found within the budget. It is None if no factor is within the budget.
    """
    low = high = 0.0
    low_cost = high_cost = math.nan
    factor = start
    # The bracket: `low` adds too little noise, and `high` is within the budget.
    while factor < LARGEST_FACTOR:
        cost = cost_of(factor)
        if _spends_budget(cost, budget):
            return factor
        if cost > budget:
            low, low_cost = factor, cost
            if high:
                break
            factor *= 2.0 if math.isinf(cost) else min(4.0, max(1.05, 1.1 * cost / budget))
        else:
            high, high_cost = factor, cost
            if low:
                break
            factor *= max(0.25, min(0.95, 0.9 * cost / budget)) if cost > 0 else 0.25
            # Even almost no noise is within the budget.
            if factor < 1.0 / LARGEST_FACTOR:
                return high
    else:
        return None
    return _bracketed_factor(cost_of, budget, (low, low_cost), (high, high_cost))


def _bracketed_factor(
    cost_of: Callable[[float], float],
    budget: float,
    below: tuple[float, float],
    above: tuple[float, float],
) -> float:
    """Return a factor within the budget, from a search between two factors.

    `below` is a factor that exceeds the budget, and `above` is a factor within the budget, each
    with its cost.
    """
    (low, low_cost), (high, high_cost) = below, above
    for _ in range(60):
        if high <= low * LEAST_RATIO:
            break
        factor = _factor_between(low, low_cost, high, high_cost, budget)
        cost = cost_of(factor)
        if _spends_budget(cost, budget):
            return factor
        if cost > budget:
            low, low_cost = factor, cost
        else:
            high, high_cost = factor, cost
    return high  # the cost jumps here: the next lower factor costs too much


def improved_factor(cost_of: Callable[[float], float], budget: float, factor: float) -> float:
    """Return a factor that spends more of the budget, or `factor` if one evaluation finds none."""
    cost = cost_of(factor)
    if cost >= ENOUGH_SPENT * budget:
        return factor
    nearer = factor * (cost / budget) ** 0.75
    return nearer if _spends_budget(cost_of(nearer), budget) else factor


def approximate_factor(
    cost_of: Callable[[float], float], budget: float, start: float, slope: float = -1.0
) -> tuple[float, float] | None:
    """Return a factor close to the result of `least_factor`, and the slope of the cost.

    The factor is for comparisons and not for guarantees: the search may extrapolate the factor from
    two costs nearby, without an evaluation of its own cost. The search uses secants in logarithms,
    and calls `least_factor` if secants fail. `slope` is the approximate slope of the cost in
    logarithms. The result is None if no factor is found.
    """
    goal = math.log(budget * (1.0 - TOLERANCE / 8))
    position = last_position = math.log(start)
    last_log_cost = math.nan
    for _ in range(MOST_SECANTS):
        cost = cost_of(math.exp(position))
        if (1.0 - TOLERANCE / 4) * budget <= cost <= budget:
            return math.exp(position), slope
        if not 0.0 < cost < math.inf:
            break
        if position != last_position:
            slope = (math.log(cost) - last_log_cost) / (position - last_position)
        if not STEEPEST <= slope <= FLATTEST:
            break
        step, distance = (goal - math.log(cost)) / slope, abs(position - last_position)
        if (
            distance
            and abs(step) <= NEARBY
            and abs(step) * (abs(step) + distance) <= NEARBY_SQUARED
        ):
            return math.exp(position + step), slope
        last_position, last_log_cost = position, math.log(cost)
        position += min(max(step, -2.0), 2.0)
    factor = least_factor(cost_of, budget, math.exp(position))
    return None if factor is None else (factor, -1.0)


def parabola_minimum(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the minimum of the parabola through the lowest point and its two neighbours.

    The result is None if the lowest point has only one neighbour, or if no minimum lies between
    the neighbours.
    """
    lowest_index = min(range(len(points)), key=lambda i: points[i][1])
    if not 0 < lowest_index < len(points) - 1:
        return None
    (x0, y0), (x1, y1), (x2, y2) = points[lowest_index - 1 : lowest_index + 2]
    if not math.isfinite(y0 + y2):
        return None
    left, right = (x1 - x0) * (y1 - y2), (x1 - x2) * (y1 - y0)
    if left == right:
        return None
    lowest_at = x1 - ((x1 - x0) * left - (x1 - x2) * right) / (2 * (left - right))
    # Rounded, so that the last digits of a machine's floats don't reach the manifest.
    return float(f"{lowest_at:.6g}") if x0 < lowest_at < x2 else None


def _spends_budget(cost: float, budget: float) -> bool:
    """Return whether a cost is within the budget and uses almost all of it."""
    return (1.0 - TOLERANCE) * budget <= cost <= budget


def _factor_between(
    low: float, low_cost: float, high: float, high_cost: float, goal: float
) -> float:
    """Return a factor between `low` and `high` whose cost is expected to be just below `goal`."""
    middle = math.sqrt(low * high)
    if math.isinf(low_cost) or high_cost <= 0.0:
        return middle
    # A third of the tolerance below the budget, because a guess above it can't be returned.
    log_goal = math.log(goal * (1.0 - TOLERANCE / 3))
    slope = (math.log(high_cost) - math.log(low_cost)) / (math.log(high) - math.log(low))
    if slope >= 0.0:
        return middle
    guess = math.exp(math.log(low) + (log_goal - math.log(low_cost)) / slope)
    # Away from both ends, so that every step of the search makes the bracket smaller.
    margin = (high / low) ** 0.05
    return min(max(guess, low * margin), high / margin) if high / low > 1.001 else middle
