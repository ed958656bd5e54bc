"""All normal and discrete Gaussian vectors of a release as one normal law, and the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb

from dprelease.numerics.balls import ball
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.verification.certificate.kinds import VectorKind
from dprelease.verification.certificate.neighbour_blocks import START, Block, Cutting
from dprelease.verification.certificate.proven_losses import ProvenLosses
from dprelease.verification.certificate.smoothed_integers import Smoothing, smoothing

ANY, CLOSE = 2, 2**14
"""Least variances of discrete Gaussian noise, in those of its smoothing: a 2^14th more of mu^2 is
less than the planner's own grids leave."""


@dataclass(frozen=True, slots=True)
class NormalVectors:
    """Vectors whose squares of mu add up to `mu_squared`, but for `smoothing`; and all `others`."""

    mu_squared: Fraction
    smoothing: Smoothing
    kinds: tuple[VectorKind, ...]
    others: tuple[VectorKind, ...]

    @property
    def every(self) -> list[VectorKind]:
        """Return all vectors, the normal ones as one."""
        one = replace(
            self.kinds[0],
            losses=normal_losses(self.mu_squared),
            sensitivity=Sensitivity(1, (Move(1, 1),)),
            columns=("",),
        )
        return [one, *self.others]


def normal_vectors(kinds: Sequence[VectorKind], least: int) -> NormalVectors | None:
    """Return the vectors that are normal, or on the integers and wide enough; None if none are.

    `least`: how wide, in variances of what smooths. Where parts of a change meet, `ANY` is.
    """
    on_integers = [kind for kind in kinds if kind.losses.variance is not None]
    smooth = smoothing(sum(kind.cells_of_unit for kind in on_integers))
    total, found, others = Fraction(0), [], []
    for kind in kinds:
        mu_squared = kind.mu_squared
        variance = kind.losses.variance
        if variance is not None:
            wide = ANY if kind.meets else least
            if variance >= wide * smooth.variance:
                mu_squared = kind.by_squares(variance - smooth.variance)
        if mu_squared is None:
            others.append(kind)
        else:
            total += mu_squared
            found.append(kind)
    return NormalVectors(total, smooth, tuple(found), tuple(others)) if found else None


def normal_losses(mu_squared: Fraction) -> ProvenLosses:
    """Return those of N(0, 1) against N(mu, 1): mu^2 / 2 - mu x at x, which falls."""

    def cells(_shift: int, cutting: Cutting) -> list[list[Block]]:
        if not mu_squared:
            return [[Block(arb(1), arb(1), arb(0), arb(0))]]
        mu = ball(mu_squared).sqrt()
        reach = _reach(cutting.least)
        span = 2 * reach
        fine = max(cutting.fine / math.sqrt(float(mu_squared)), span / cutting.most)
        parts = max(START, math.ceil(span / fine))
        edges = [ball(-reach + Fraction(span * i, parts)) for i in range(parts + 1)]
        losses = [mu * (mu / 2 - x) for x in edges]
        p, q = _masses(edges), _masses([x - mu for x in edges])
        pairs = zip(p, q, [*losses, None], [None, *losses], strict=True)
        return [[Block(own, other, low, high) for own, other, low, high in pairs]]

    return ProvenLosses(cells, "normal losses", mu_squared=lambda _shift: mu_squared)


def _reach(least: float) -> int:
    """Return a whole x beyond which N(0, 1) has at most `least`: at most exp(-x^2 / 2)."""
    return math.ceil(math.sqrt(max(0.0, -2.0 * math.log(least)))) + 1


def _masses(edges: Sequence[arb]) -> list[arb]:
    """Return the masses of N(0, 1) up to the first edge, between edges, and beyond the last."""
    root = arb(2).sqrt()
    upper = [bool(x > 0) for x in edges]
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
