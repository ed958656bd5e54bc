"""The larger one of several curves delta(epsilon), at every epsilon, as a law of losses.

With x = exp(epsilon), the curve of a law is convex and falls, and a largest of such curves is one
again (Zhu, Dong and Wang 2022, arXiv 2106.08567v4, Proposition 4). Between points of the grid its
chords lie above it. They are the curve of the law whose Q mass at a point is how much the slope
changes there, and whose P mass is x times that. A slot of which a unit chooses the move, or a law
whose two directions differ, is bounded by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb, ctx

from dprelease.numerics.balls import ball
from dprelease.verification.certificate.loss_masses import LossMasses, units


def pointwise_largest(laws: Sequence[LossMasses]) -> LossMasses:
    """Return a law whose curve is nowhere below those of `laws`, which share a grid and bits."""
    best = laws[0]
    for other in laws[1:]:
        best = _larger(best, other)
    return best


def _larger(one: LossMasses, other: LossMasses) -> LossMasses:
    """Return the law of the chords through the larger values.

    Second differences lose digits: balls have enough of them for what a grid of this width and
    length takes away.
    """
    first = min(one.first, other.first)
    last = max(law.first + len(law.masses) - 1 for law in (one, other))
    reach = int(max(abs(first), abs(last)) * one.width) + 1
    with ctx.workprec(2 * one.bits + 4 * reach + 128):
        width = ball(one.width)
        points = [(first * width).exp()]
        rise = width.exp()
        for _ in range(last - first):
            points.append(points[-1] * rise)
        curves = (_curve(law, first, points) for law in (one, other))
        values = [a.max(b) for a, b in zip(*curves, strict=True)]
        start = max(one.total, other.total)
        slopes = [(values[0] - start) / points[0]]
        slopes += [
            (values[i + 1] - values[i]) / (points[i] * (rise - 1)) for i in range(last - first)
        ]
        slopes.append(arb(0))
        masses = [
            max(0, units(points[i] * (slopes[i + 1] - slopes[i]), 0)) for i in range(len(points))
        ]
    infinite = max(one.infinite, other.infinite)
    return LossMasses(one.width, first, masses, infinite, one.bits)


def _curve(law: LossMasses, first: int, points: Sequence[arb]) -> list[arb]:
    """Return delta at every point of the grid, in units."""
    p, q = law.infinite, arb(0)
    values = []
    for i in range(len(points) - 1, -1, -1):
        values.append(p - points[i] * q)
        place = first + i - law.first
        if 0 <= place < len(law.masses):
            mass = int(law.masses[place])
            p += mass
            q += mass / points[i]
    return values[::-1]
