"""Compute the bias of small numbers when negative values are published as 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dprelease.mechanisms.base import Mechanism

SPREADS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""True values for which the bias is shown, in standard deviations of the noise."""

PIECES = 400
"""Number of parts in which the probability below 0 is summed."""

FARTHEST = 40.0
"""Standard deviations below which the sum ends."""


def bias_at_zero(mechanism: Mechanism) -> Sequence[tuple[int, float]]:
    """Return (true value, mean error) in noise steps, if negative values are published as 0.

    E max(t + K, 0) - t - E K is the sum of P(K <= -t - j) over j >= 1. Empty if the noise has no
    standard deviation.
    """
    spread = mechanism.standard_deviation
    if not math.isfinite(spread):
        return ()
    places = dict.fromkeys(round(float(part) * spread) for part in SPREADS)
    return [(true, _below(mechanism, true, spread)) for true in places]


def _below(mechanism: Mechanism, true: int, spread: float) -> float:
    """Return the sum of P(K <= -t - j) over j >= 1, over several steps at once for wide noise."""
    piece = max(1, math.ceil(FARTHEST * spread / PIECES))
    added, j = 0.0, 1
    while j <= FARTHEST * spread + 1:
        ends = (float(mechanism.tail(-true - k, False).mid()) for k in (j, j + piece - 1))
        part = piece * sum(ends) / 2.0
        added += part
        if part <= 1e-9 * added:
            break
        j += piece
    return added
