"""How near a mechanism comes to the least error that its guarantee allows."""

from __future__ import annotations

import math
from collections.abc import Callable

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.optimal import LARGEST_EPSILON, LEAST_DELTA, least_error

STEPS = 40
"""Halvings that find epsilon; the efficiency moves by less than 1e-9 with what they leave."""


def efficiency(mechanism: Mechanism, shift: int, delta: float) -> float | None:
    """Return the least mean absolute error at one cell's own (epsilon, delta), over its error.

    epsilon is what one cell, moved by up to `shift` steps, has at `delta`; the least error is that
    of all symmetric laws on the integers that never rise away from 0. 0 for noise without a mean
    absolute error. None where no such optimum is computed: epsilon above 20, delta between 0 and
    1e-20, or no guarantee at all.
    """
    losses = mechanism.losses(shift)
    largest = max(loss.pure_epsilon for loss in losses)
    if delta:
        largest = _epsilon_at(lambda e: max(loss.delta(e) for loss in losses), delta, largest)
    if not 0 < largest <= LARGEST_EPSILON or 0 < delta < LEAST_DELTA:
        return None
    error = mechanism.mean_absolute_error
    return 0.0 if math.isinf(error) else least_error(largest, delta, shift) / error


def _epsilon_at(curve: Callable[[float], float], delta: float, largest: float) -> float:
    """Return an epsilon, up to 20, whose delta is at most `delta`; infinity if there is none."""
    low, high = 0.0, min(largest, float(LARGEST_EPSILON))
    if curve(high) > delta:
        return math.inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return high
