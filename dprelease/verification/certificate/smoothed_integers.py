"""Discrete Gaussian noise as normal noise that is told less exactly: all of it is one normal law.

Let K have masses exp(-(k - m)^2 / (2 v)) / S on the integers, m an integer, and let w < v. Take Y
normal around m of variance v - w, and tell an integer J with masses exp(-(J - y)^2 / (2 w)) / Z(y):
whatever y, that is post-processing. The integral over y of both exponentials is again one, so

    P(J = k) = exp(-(k - m)^2 / (2 v)) / sqrt(2 pi v), times sqrt(2 pi w) / Z within their bounds.

By Poisson's sum, Z(y) / sqrt(2 pi w) is 1 + 2 sum over j > 0 of exp(-2 pi^2 w j^2) cos(2 pi j y):
within 1 - h and 1 + h, with h = 2 x / (1 - x), x = exp(-2 pi^2 w). And S / sqrt(2 pi v) is within 1
and 1 + h, for v > w. So P(K = k) is at most 1 + h times P(J = k), and at least (1 - h) / (1 + h)
times it, wherever m is. One mass as P and one as Q, for each of n cells:

    delta(epsilon) <= (1 + h)^n delta'(epsilon - n ln((1 + h)^2 / (1 - h))),

delta' of the normal vectors, whose squares of mu, shift^2 / (v - w), add up: over cells, where
parts of a change meet, and for cells that are moved as the answers before them have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx

from dprelease.numerics.balls import ball
from dprelease.verification.certificate.closed_forms import above

UNSEEN = 35
"""Bits below 1 of what all cells together lose by h."""

PRECISION = 128


@dataclass(frozen=True, slots=True)
class Smoothing:
    """What telling normal noise as integers takes, and adds, for `cells` cells.

    `variance`: w. `raised`: at least (1 + h)^n. `slack`: at least n ln((1 + h)^2 / (1 - h)).
    """

    variance: Fraction
    raised: Fraction
    slack: Fraction


def smoothing(cells: int) -> Smoothing:
    """Return one of which hardly anything is seen in so many cells together."""
    if not cells:
        return Smoothing(Fraction(0), Fraction(1), Fraction(0))
    with ctx.workprec(PRECISION):
        bits = UNSEEN + cells.bit_length()
        variance = Fraction(bits, 28)  # 2 pi^2 > 28 ln 2: x < 2^-bits
        x = (-2 * arb.pi() ** 2 * ball(variance)).exp()
        h = 2 * x / (1 - x)
        one = (2 * h.log1p() - (-h).log1p()).upper()
        return Smoothing(variance, above((cells * h.log1p()).exp()), above(cells * arb(one)))
