"""Find the least noise that spends the budget: one common factor for all scales of a release."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

TOLERANCE = 1e-3
"""A calibrated release spends between 1 - TOLERANCE of its epsilon and all of it, never more."""

LARGEST_FACTOR = 2.0**60

CLOSEST = 1.0 + 2.0**-40
"""Factors closer than this are equal: costs may jump where linear programs find the noise."""

MOST_SECANTS = 8
STEEPEST, FLATTEST = -8.0, -0.125
"""Slopes of the cost, in logarithms, for which a secant step is accepted."""

NEARBY, NEARBY_SQUARED = 2.0**-8, 2.0**-11
"""Largest last step of a secant, and largest product of it with the step before, in logarithms.

A secant errs by half of the product times a curvature, which is below one half. The other bound is
for costs with a kink.
"""

ENOUGH = 1.0 - TOLERANCE / 2
"""Part of the budget above which another evaluation gains nothing."""


def least_factor(cost_of: Callable[[float], float], epsilon: float, start: float) -> float | None:
    """Return a factor whose cost lies in [(1 - TOLERANCE) epsilon, epsilon]; None if none does.

    `cost_of` falls as the factor grows, and may be infinite. Every returned factor has been
    evaluated: the guarantee rests on this evaluation, not on the search. The search finds a bracket
    and then uses regula falsi in logarithms, where costs are close to straight lines.
    """
    low = high = 0.0
    low_price = high_price = math.nan
    factor = start
    while factor < LARGEST_FACTOR:  # bracket: low adds too little noise, high fits the budget
        spent = cost_of(factor)
        if _fits(spent, epsilon):
            return factor
        if spent > epsilon:
            low, low_price = factor, spent
            if high:
                break
            factor *= 2.0 if math.isinf(spent) else min(4.0, max(1.05, 1.1 * spent / epsilon))
        else:
            high, high_price = factor, spent
            if low:
                break
            factor *= max(0.25, min(0.95, 0.9 * spent / epsilon)) if spent > 0 else 0.25
            if factor < 1.0 / LARGEST_FACTOR:
                return high
    else:
        return None
    return _bracketed_factor(cost_of, epsilon, (low, low_price), (high, high_price))


def _bracketed_factor(
    cost_of: Callable[[float], float],
    epsilon: float,
    below: tuple[float, float],
    above: tuple[float, float],
) -> float:
    """Return a factor that fits, between one too small and one that fits, both with costs."""
    (low, low_price), (high, high_price) = below, above
    for _ in range(60):
        if high <= low * CLOSEST:
            break
        factor = _between(low, low_price, high, high_price, epsilon)
        spent = cost_of(factor)
        if _fits(spent, epsilon):
            return factor
        if spent > epsilon:
            low, low_price = factor, spent
        else:
            high, high_price = factor, spent
    return high  # costs have a step here: the next lower factor costs too much


def nearer_factor(cost_of: Callable[[float], float], epsilon: float, factor: float) -> float:
    """Return a factor that spends more of the budget, if one more evaluation finds one."""
    spent = cost_of(factor)
    if spent >= ENOUGH * epsilon:
        return factor
    nearer = factor * (spent / epsilon) ** 0.75
    return nearer if _fits(cost_of(nearer), epsilon) else factor


def near_factor(
    cost_of: Callable[[float], float], epsilon: float, start: float, slope: float = -1.0
) -> tuple[float, float] | None:
    """Return a factor whose cost is about that of `least_factor`; None if none is found.

    For comparisons, not for guarantees: the factor may be extrapolated from two costs nearby,
    without an evaluation. Uses secants in logarithms, and `least_factor` where these fail. `slope`:
    approximate slope of the cost in logarithms. The slope found is returned with the factor.
    """
    aim = math.log(epsilon * (1.0 - TOLERANCE / 8))
    place = last = math.log(start)
    last_price = math.nan
    for _ in range(MOST_SECANTS):
        spent = cost_of(math.exp(place))
        if (1.0 - TOLERANCE / 4) * epsilon <= spent <= epsilon:
            return math.exp(place), slope
        if not 0.0 < spent < math.inf:
            break
        if place != last:
            slope = (math.log(spent) - last_price) / (place - last)
        if not STEEPEST <= slope <= FLATTEST:
            break
        step, distance = (aim - math.log(spent)) / slope, abs(place - last)
        if (
            distance
            and abs(step) <= NEARBY
            and abs(step) * (abs(step) + distance) <= NEARBY_SQUARED
        ):
            return math.exp(place + step), slope
        last, last_price = place, math.log(spent)
        place += min(max(step, -2.0), 2.0)
    factor = least_factor(cost_of, epsilon, math.exp(place))
    return None if factor is None else (factor, -1.0)


def lowest(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the minimum of the parabola through the lowest point and its two neighbours."""
    at = min(range(len(points)), key=lambda i: points[i][1])
    if not 0 < at < len(points) - 1:
        return None
    (x0, y0), (x1, y1), (x2, y2) = points[at - 1 : at + 2]
    if not math.isfinite(y0 + y2):
        return None
    left, right = (x1 - x0) * (y1 - y2), (x1 - x2) * (y1 - y0)
    if left == right:
        return None
    lowest_at = x1 - ((x1 - x0) * left - (x1 - x2) * right) / (2 * (left - right))
    return float(f"{lowest_at:.6g}") if x0 < lowest_at < x2 else None


def _fits(spent: float, epsilon: float) -> bool:
    return (1.0 - TOLERANCE) * epsilon <= spent <= epsilon


def _between(low: float, low_price: float, high: float, high_price: float, goal: float) -> float:
    """Return a factor between `low` and `high` whose cost is expected just below the budget."""
    middle = math.sqrt(low * high)
    if math.isinf(low_price) or high_price <= 0.0:
        return middle
    aim = math.log(goal * (1.0 - TOLERANCE / 3))
    slope = (math.log(high_price) - math.log(low_price)) / (math.log(high) - math.log(low))
    if slope >= 0.0:
        return middle
    guess = math.exp(math.log(low) + (aim - math.log(low_price)) / slope)
    margin = (high / low) ** 0.05
    return min(max(guess, low * margin), high / margin) if high / low > 1.001 else middle
