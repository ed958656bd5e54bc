"""Limits of a chance from hits among draws, and of epsilon from two of them; never too sharp.

Source  Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case
        of the binomial", Biometrika 26(4): the lower limit of a chance, after h hits among n draws,
        is the p at which P(X >= h) is as large as the allowed miss, X binomial of n and p.

That tail is bounded here, and not computed. From each k to the next one the binomial mass is
multiplied by (n - k) p / ((k + 1) (1 - p)), which falls with k. So, where the factor at h is below
1,

    P(X >= h) <= P(X = h) / (1 - (n - h) p / ((h + 1) (1 - p))).

A ball encloses the right side. The tail rises with p: where the right side certainly lies within
the miss, p certainly lies at or below the limit. As far out as limits of small misses lie, masses
fall so fast that nearly nothing is lost: the tests compare with the limit itself.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb, ctx

from dprelease.mechanisms.base import rounded_up
from dprelease.numerics.balls import ball

PRECISION = 128
STEPS = 400
CLOSE = 2.0**-30
"""Relative width, of the chance and of its complement, at which a search ends."""


def least_chance(hits: int, draws: int, miss: Fraction) -> Fraction:
    """Return a number below the chance of a hit, but for a probability of at most `miss`.

    At or below Clopper and Pearson's lower limit, exact as a fraction.

    Raises
    ------
    ValueError
        For more hits than draws, or a miss that is not between 0 and 1/2.
    """
    if not (0 <= hits <= draws and draws > 0 and 0 < miss < Fraction(1, 2)):
        raise ValueError("hits are some of the draws, and a miss is between 0 and 1/2")
    if hits == 0:
        return Fraction(0)
    low, high = 0.0, hits / draws
    with ctx.workprec(PRECISION):
        ways = _log_ways(hits, draws)
        limit = ball(miss).log()
        for _ in range(STEPS):
            middle = (low + high) / 2
            if not low < middle < high or high - low <= CLOSE * min(low, 1.0 - high):
                break
            tail = ways + _log_tail(middle, hits, draws)
            low, high = (middle, high) if tail <= limit else (low, middle)
    return Fraction(low)


def greatest_chance(hits: int, draws: int, miss: Fraction) -> Fraction:
    """Return a number above the chance of a hit, but for a probability of at most `miss`.

    At or above Clopper and Pearson's upper limit: the rest of the lower one of the misses.
    """
    return 1 - least_chance(draws - hits, draws, miss)


def _log_ways(hits: int, draws: int) -> arb:
    """Return the logarithm of the binomial coefficient."""
    parts = [arb(n + 1).lgamma() for n in (draws, hits, draws - hits)]
    return parts[0] - parts[1] - parts[2]


def _log_tail(chance: float, hits: int, draws: int) -> arb:
    """Return the logarithm of the bound, but for the binomial coefficient."""
    p = arb(chance)
    q = 1 - p
    factor = (draws - hits) * p / ((hits + 1) * q)
    return hits * p.log() + (draws - hits) * q.log() - (1 - factor).log()


def epsilon_between(one: Fraction, other: Fraction, delta: Fraction) -> float:
    """Return ln((one - delta) / other) rounded down, or 0 where it is no more than that.

    An event with a chance of at least `one` on one table and at most `other` on its neighbour shows
    that no smaller epsilon holds at `delta`.
    """
    gain = one - delta
    if gain <= other:
        return 0.0
    with ctx.workprec(PRECISION):
        return max(0.0, -rounded_up((ball(other) / ball(gain)).log()))
