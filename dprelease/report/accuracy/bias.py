"""Compute the bias of small numbers if negative values are published as 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dprelease.mechanisms.base import Mechanism

SPREADS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""True values for which the bias is shown, in standard deviations of the noise."""

PIECES = 400
"""Number of intervals in which the probability below 0 is summed."""

MOST_DEVIATIONS = 40.0
"""Distance from 0, in standard deviations, at which the sum of probabilities ends."""


def bias_at_zero(mechanism: Mechanism) -> Sequence[tuple[int, float]]:
    """Return (true value, mean error) in noise steps, if negative values are published as 0.

    E max(t + K, 0) - t - E K is the sum of P(K <= -t - j) over j >= 1. The result is empty if the
    noise has no standard deviation.
    """
    spread = mechanism.standard_deviation
    if not math.isfinite(spread):
        return ()
    places = dict.fromkeys(round(float(part) * spread) for part in SPREADS)
    return [(true, _tail_sum(mechanism, true, spread)) for true in places]


def _tail_sum(mechanism: Mechanism, true: int, spread: float) -> float:
    """Return the sum of P(K <= -t - j) over j >= 1; for wide noise, over several steps at once."""
    piece = max(1, math.ceil(MOST_DEVIATIONS * spread / PIECES))
    added, j = 0.0, 1
    while j <= MOST_DEVIATIONS * spread + 1:
        ends = (float(mechanism.tail(-true - k, False).mid()) for k in (j, j + piece - 1))
        part = piece * sum(ends) / 2.0
        added += part
        if part <= 1e-9 * added:
            break
        j += piece
    return added
