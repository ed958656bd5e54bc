"""Compute dominating pairs on a grid of losses from pieces of the outputs.

The P probability p and the Q probability q of one piece, whose losses lie between two points of the
grid, are split onto these two points so that both are preserved: a mean-preserving spread of the
likelihood ratio, which lowers no hockey-stick divergence, for they are means of convex functions of
that ratio (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, arXiv 2207.04380v1, "connect the
dots"). Unlike in second differences of delta, no nearly equal numbers are subtracted at small
probabilities.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dprelease.privacy.grid import Grid, sum_error
from dprelease.privacy.loss import LARGEST_LOSS, RELATIVE_ERROR, Floats, PrivacyLoss
from dprelease.privacy.unit import Move, Sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Losses = Callable[[int], tuple[PrivacyLoss, ...]]

MASS_FACTOR = 1.0 + RELATIVE_ERROR
"""Relative amount by which true P probabilities may exceed ours, per composed coordinate."""

LOSS_ERROR = 2.0 * RELATIVE_ERROR * (1.0 + 2.0**-10)
"""Amount by which a loss ln(p/q) may exceed ours, per coordinate.

With relative errors r of p and q, delta(epsilon) <= (1 + r) times our delta at epsilon - 2r. The
rounding of a share, some units in the last place of q, is within the last factor.
"""

NEAR = 2.0**-36
"""Curves with a smaller relative distance are equal, so that rounding makes no crossings."""

LARGEST_GRID = 2**22
LEAST_DELTA = 1e-290
"""Smallest delta of any budget; smaller values may be ignored."""


def grid_of(loss: PrivacyLoss, width: float) -> Grid:
    """Return a privacy-loss distribution on multiples of `width` that dominates `loss`.

    Dominates: up to its factor and `LOSS_ERROR`, every delta(epsilon) of the result is at least
    that of `loss`.

    Raises
    ------
    OverflowError
        If the losses reach too far for a grid of this width.
    """
    if 2 * min(loss.span, LARGEST_LOSS) / width > LARGEST_GRID:
        raise OverflowError("the grid of losses is too long")
    reach = int(min(math.ceil(loss.span / width) + 1, LARGEST_LOSS / width))
    pieces = loss.pieces(width)
    low = np.floor(np.clip(pieces.low / width, -reach, reach))
    high = np.ceil(np.clip(pieces.high / width, -reach, np.inf))
    endless = high > reach  # to infinity: the rest of Q has outputs with probability 0 under P
    high = np.where(endless, low, np.maximum(high, low + 1))
    # A piece below the grid moves up to the first point, which needs less than its Q probability.
    upper = _upper_share(pieces.p, pieces.q, low * width, (high - low) * width)
    finite = np.where(endless, 0.0, pieces.p)
    places = np.concatenate((low, high)).astype(np.int64) + reach
    masses = np.concatenate((finite * (1.0 - upper), finite * upper))
    probabilities: Floats = np.bincount(places, masses, 2 * reach + 2).astype(np.float64)
    factor = MASS_FACTOR * (1.0 + sum_error(len(places)))
    return Grid(width, -reach, probabilities, float(np.sum(pieces.p[endless])), factor)


def _upper_share(p: Floats, q: Floats, lower: Floats, width: Floats) -> Floats:
    """Return the share of the P probability of each piece that goes to its upper point.

    With t the share: q = p exp(-lower) ((1 - t) + t exp(-width)).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (1.0 - np.exp(lower) * q / p) / -np.expm1(-width)
    return np.where(p > 0.0, np.clip(np.nan_to_num(share, nan=1.0, posinf=1.0), 0.0, 1.0), 1.0)


def pointwise_largest(grids: Sequence[Grid]) -> Grid:
    """Return a distribution that covers the pairs that each of `grids` covers.

    The pointwise maximum of curves of dominating pairs is again such a curve (Zhu, Dong and Wang
    2022, arXiv 2106.08567v4, Proposition 4).
    """
    best = grids[0]
    for other in grids[1:]:
        best = _larger(best, other)
    return best


def _larger(a: Grid, b: Grid) -> Grid:
    """Return the distribution whose delta at every grid point is the larger of both deltas.

    With x = exp(epsilon), a curve is linear between points and its slope there is minus the Q
    probability above. Where one curve stays above the other, its probabilities are copied, so that
    no nearly equal numbers are subtracted. Only where the curves cross is a probability a
    difference of slopes. The rounding error there is measured and added.
    """
    first, last = min(a.first, b.first), max(a.last, b.last)
    a, b = _spread(a, first, last), _spread(b, first, last)
    (delta_a, above_a), (delta_b, above_b) = a.curve(), b.curve()
    factor = max(a.factor, b.factor) * (1.0 + NEAR) * (1.0 + 4.0 * a.curve_error)
    upper = delta_b > delta_a * (1.0 + NEAR)
    if not upper.any() and a.infinite >= b.infinite:
        return replace(a, factor=factor, infinite=a.infinite + a.curve_lost)
    if (delta_b * (1.0 + NEAR) >= delta_a).all() and b.infinite >= a.infinite:
        return replace(b, factor=factor, infinite=b.infinite + b.curve_lost)
    delta, above = np.where(upper, delta_b, delta_a), np.where(upper, above_b, above_a)
    p = np.where(upper, b.probabilities, a.probabilities)
    # above[i] is exp(epsilon_i) times minus the slope above point i: a chord at a crossing.
    crossing = np.flatnonzero(upper[1:] != upper[:-1])
    grow = math.expm1(a.width)
    above[crossing] = (delta[crossing] - delta[crossing + 1]) / grow
    for i in sorted({*crossing.tolist(), *(crossing + 1).tolist()}):
        before = math.exp(a.width) * above[i - 1] if i else 1.0 - delta[0]
        p[i] = max(0.0, before - above[i])
    largest = Grid(a.width, first, p, max(a.infinite, b.infinite))
    curve, _ = largest.curve()
    seen = delta > LEAST_DELTA
    totals = (float(np.sum(x.probabilities)) + x.infinite for x in (a, largest))
    missing = float(np.max(delta[seen] / curve[seen], initial=next(totals) / next(totals)))
    infinite = largest.infinite + largest.curve_lost + LEAST_DELTA
    return replace(largest, factor=factor * max(1.0, missing), infinite=infinite)


def _spread(grid: Grid, first: int, last: int) -> Grid:
    return replace(grid, first=first, probabilities=grid.over(first, last))


def slot_grid(losses: Losses, sensitivity: Sensitivity, width: float) -> Grid:
    """Return a privacy-loss distribution that dominates every move of one slot."""
    return pointwise_largest([move_grid(losses, move, width) for move in sensitivity.moves])


def move_grid(losses: Losses, move: Move, width: float) -> Grid:
    """Return a distribution that dominates `cells` independent cells shifted by `shift`."""
    single = pointwise_largest([grid_of(loss, width) for loss in losses(move.shift)])
    composed = single
    for _ in range(move.cells - 1):
        composed = composed.compose(single)
    return composed
