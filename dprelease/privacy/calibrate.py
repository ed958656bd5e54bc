"""The least noise that spends exactly the budget: one common factor for a whole release."""

from __future__ import annotations

import math
from collections.abc import Callable

TOLERANCE = 1e-3
"""A solved release spends at least 1 - TOLERANCE of its epsilon, and never more than all of it."""

LARGEST_FACTOR = 2.0**60

MOST_SECANTS = 8
STEEPEST, FLATTEST = -8.0, -0.125
"""Slopes of prices, in logarithms, that a secant is trusted with."""

NEARBY = 1 / 64
"""Step, in logarithms, that the secant may take beyond what was priced."""


def least_factor(price: Callable[[float], float], epsilon: float, start: float) -> float | None:
    """Return a factor whose price lies in [(1 - TOLERANCE) epsilon, epsilon]; None if none does.

    `price` falls as the factor grows and may be infinite. Every answer has been priced: the last
    evaluation, not the search, is the guarantee. The search is a bracket and then regula falsi in
    logarithms, where prices are close to straight lines.
    """
    low = high = 0.0
    low_price = high_price = math.nan
    factor = start
    while factor < LARGEST_FACTOR:  # bracket: low is too cheap in noise, high fits the budget
        found = price(factor)
        if _fits(found, epsilon):
            return factor
        if found > epsilon:
            low, low_price = factor, found
            if high:
                break
            factor *= 2.0 if math.isinf(found) else min(4.0, max(1.05, 1.1 * found / epsilon))
        else:
            high, high_price = factor, found
            if low:
                break
            factor *= max(0.25, min(0.95, 0.9 * found / epsilon)) if found > 0 else 0.25
            if factor < 1.0 / LARGEST_FACTOR:
                return high
    else:
        return None
    for _ in range(60):
        factor = _between(low, low_price, high, high_price, epsilon)
        found = price(factor)
        if _fits(found, epsilon):
            return factor
        if found > epsilon:
            low, low_price = factor, found
        else:
            high, high_price = factor, found
    return high  # a staircase of prices: the next lower factor costs too much


def near_factor(price: Callable[[float], float], epsilon: float, start: float) -> float | None:
    """Return a factor whose price is about that of `least_factor`; None if none is found.

    For comparisons, not for guarantees: the answer is extrapolated from two prices nearby, and not
    priced itself. Secants in logarithms; where they don't lead, `least_factor`.
    """
    aim = math.log(epsilon * (1.0 - TOLERANCE / 8))
    place, slope, last = math.log(start), -1.0, None
    for _ in range(MOST_SECANTS):
        found = price(math.exp(place))
        if not 0.0 < found < math.inf:
            break
        if last is not None:
            slope = (math.log(found) - last[1]) / (place - last[0])
            if not STEEPEST <= slope <= FLATTEST:
                break
        step = (aim - math.log(found)) / slope
        if abs(step) <= (NEARBY if last else TOLERANCE / 8):
            return math.exp(place + step)
        last = place, math.log(found)
        place += min(max(step, -1.0), 1.0)
    return least_factor(price, epsilon, math.exp(place))


def _fits(found: float, epsilon: float) -> bool:
    return (1.0 - TOLERANCE) * epsilon <= found <= epsilon


def _between(low: float, low_price: float, high: float, high_price: float, goal: float) -> float:
    """Return a factor between, aimed a little below the budget."""
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
