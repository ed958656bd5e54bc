"""Combine all normal and discrete Gaussian vectors of a release into one normal distribution.

Discrete Gaussian noise is nearly a post-processing of normal noise with a smaller variance. So all
such vectors together are bounded by one normal distribution.

Let K have the probabilities exp(-(k - m)^2 / (2 v)) / S on the integers, for an integer m, and let
w < v. Let Y be normal around m with variance v - w. Publish, instead of Y = y, an integer J with
the probabilities exp(-(J - y)^2 / (2 w)) / Z(y): for every y, this is post-processing of Y. The
integral over y of the product of both exponentials is such an exponential again, so

    P(J = k) = exp(-(k - m)^2 / (2 v)) / sqrt(2 pi v), times sqrt(2 pi w) / Z within their bounds.

By Poisson's summation formula, Z(y) / sqrt(2 pi w) is 1 + 2 sum over j > 0 of exp(-2 pi^2 w j^2)
cos(2 pi j y), which is between 1 - h and 1 + h for h = 2 x / (1 - x), x = exp(-2 pi^2 w). And S /
sqrt(2 pi v) is between 1 and 1 + h, as v > w. So P(K = k) is at most (1 + h) P(J = k), and at least
(1 - h) / (1 + h) P(J = k), for every m. With the first bound for P and the second one for Q, in
each of n cells,

    delta(epsilon) <= (1 + h)^n delta'(epsilon - n ln((1 + h)^2 / (1 - h))),

where delta' is the delta of the normal vectors. Their squares of mu, shift^2 / (v - w), add up over
all cells, also if several parts of a change touch the same cell, and also if the moves depend on
earlier answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb, ctx

from dprelease.numerics.balls import ball
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.verification.certificate.closed_forms import upper_end
from dprelease.verification.certificate.kinds import VectorKind
from dprelease.verification.certificate.neighbour_blocks import (
    START,
    Block,
    BlockOptions,
    ProvenLosses,
)

UNSEEN = 35
"""The bounds by h in all cells together cost at most 2 to the power of minus this number."""

PRECISION = 128


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The cost of publishing normal noise as integers, for n cells, as in the module docstring.

    `variance` is w, `raised` is at least (1 + h)^n, and `slack` is at least n ln((1 + h)^2 / (1 -
    h)).
    """

    variance: Fraction
    raised: Fraction
    slack: Fraction


def smoothing_for(cells: int) -> Smoothing:
    """Return a smoothing whose effect on this many cells together is negligible."""
    if not cells:
        return Smoothing(Fraction(0), Fraction(1), Fraction(0))
    with ctx.workprec(PRECISION):
        bits = UNSEEN + cells.bit_length()
        variance = Fraction(bits, 28)  # 2 pi^2 > 28 ln 2: x < 2^-bits
        x = (-2 * arb.pi() ** 2 * ball(variance)).exp()
        h = 2 * x / (1 - x)
        one = (2 * h.log1p() - (-h).log1p()).upper()
        return Smoothing(
            variance, upper_end((cells * h.log1p()).exp()), upper_end(cells * arb(one))
        )


ANY, CLOSE = 2, 2**14
"""The smallest variances of discrete Gaussian noise, as multiples of the variance of its smoothing.
With such a variance, smoothing increases mu^2 by a factor of 1 + 2^-14, which is less than the
error of the planner's grids."""


@dataclass(frozen=True, slots=True)
class NormalVectors:
    """Normal vectors, which together have the shift mu of `mu_squared`, and all other vectors.

    `smoothing` is the cost of treating discrete Gaussian noise as normal noise.
    """

    mu_squared: Fraction
    smoothing: Smoothing
    kinds: tuple[VectorKind, ...]
    others: tuple[VectorKind, ...]

    @property
    def all_kinds(self) -> list[VectorKind]:
        """Return the kinds of all vectors, with the normal vectors combined into one."""
        one = replace(
            self.kinds[0],
            losses=normal_losses(self.mu_squared),
            sensitivity=Sensitivity(1, (Move(1, 1),)),
            columns=("",),
        )
        return [one, *self.others]


def vectors_with_gaussian_noise(kinds: Sequence[VectorKind], least: int) -> NormalVectors | None:
    """Return the vectors with normal or wide discrete Gaussian noise; None if there are none.

    `least`: the smallest variance of wide noise, as a multiple of the variance of its smoothing. If
    parts of a change can meet in a cell, `ANY` replaces it.
    """
    on_integers = [kind for kind in kinds if kind.losses.variance is not None]
    smooth = smoothing_for(sum(kind.cells_of_unit for kind in on_integers))
    total, found, others = Fraction(0), [], []
    for kind in kinds:
        mu_squared = kind.mu_squared
        variance = kind.losses.variance
        if variance is not None:
            wide = ANY if kind.parts_can_meet else least
            if variance >= wide * smooth.variance:
                mu_squared = kind.mu_squared_for_variance(variance - smooth.variance)
        if mu_squared is None:
            others.append(kind)
        else:
            total += mu_squared
            found.append(kind)
    return NormalVectors(total, smooth, tuple(found), tuple(others)) if found else None


def normal_losses(mu_squared: Fraction) -> ProvenLosses:
    """Return the proven losses of N(0, 1) against N(mu, 1).

    The loss at x is mu^2 / 2 - mu x, which decreases in x.
    """

    def block_lists(_shift: int, options: BlockOptions) -> list[list[Block]]:
        """Return the blocks of a normal distribution; its shift is already in mu."""
        if not mu_squared:
            return [[Block(arb(1), arb(1), arb(0), arb(0))]]
        mu = ball(mu_squared).sqrt()
        reach = _negligible_distance(options.least)
        span = 2 * reach
        fine = max(options.fine / math.sqrt(float(mu_squared)), span / options.most)
        parts = max(START, math.ceil(span / fine))
        edges = [ball(-reach + Fraction(span * i, parts)) for i in range(parts + 1)]
        losses = [mu * (mu / 2 - x) for x in edges]
        p, q = _normal_probabilities(edges), _normal_probabilities([x - mu for x in edges])
        pairs = zip(p, q, [*losses, None], [None, *losses], strict=True)
        return [[Block(own, other, low, high) for own, other, low, high in pairs]]

    return ProvenLosses(block_lists, "normal losses", mu_squared=lambda _shift: mu_squared)


def _negligible_distance(least: float) -> int:
    """Return an integer x above which N(0, 1) has a probability of at most `least`.

    This probability is at most exp(-x^2 / 2).
    """
    return math.ceil(math.sqrt(max(0.0, -2.0 * math.log(least)))) + 1


def _normal_probabilities(edges: Sequence[arb]) -> list[arb]:
    """Return the probabilities of N(0, 1) below all edges, between edges, and above all edges."""
    root = arb(2).sqrt()
    upper = [bool(x > 0) for x in edges]
    # The smaller tail at each edge keeps its digits; 1 minus it would lose them.
    signed = zip(edges, upper, strict=True)
    tails = [((x if above else -x) / root).erfc() / 2 for x, above in signed]
    found = [1 - tails[0] if upper[0] else tails[0]]
    for i in range(1, len(edges)):
        if upper[i - 1]:
            found.append(tails[i - 1] - tails[i])
        elif upper[i]:
            found.append(1 - tails[i - 1] - tails[i])
        else:
            found.append(tails[i] - tails[i - 1])
    found.append(tails[-1] if upper[-1] else 1 - tails[-1])
    return found
