"""Compute dominating pairs on a grid of losses from pieces of the outputs.

A piece is a set of outputs whose losses lie between two points of the grid. Its P probability p and
its Q probability q are divided between these two points so that both sums stay the same. This is a
mean-preserving spread of the likelihood ratio. Hockey-stick divergences are means of convex
functions of this ratio, so no divergence becomes smaller (Doroshenko, Ghazi, Kamath, Kumar and
Manurangsi 2022, arXiv 2207.04380v1, "connect the dots"). Second differences of delta would be an
alternative, but they subtract nearly equal numbers at small probabilities.
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

PROBABILITY_FACTOR = 1.0 + RELATIVE_ERROR
"""Largest ratio of a true P probability to the computed one, for each composed coordinate."""

LOSS_ERROR = 2.0 * RELATIVE_ERROR * (1.0 + 2.0**-10)
"""Largest difference of a true loss ln(p/q) and the computed one, for each coordinate.

With relative errors r of p and q, delta(epsilon) is at most (1 + r) times the computed delta at
epsilon - 2r. The last factor covers the rounding of divided probabilities, which is some units in
the last place of q.
"""

EQUAL_CURVES = 2.0**-36
"""Curves with a smaller relative distance count as equal, so that rounding causes no crossings."""

LARGEST_GRID = 2**22
LEAST_DELTA = 1e-290
"""Smallest delta of any budget; smaller values may be ignored."""


def grid_of(loss: PrivacyLoss, width: float) -> Grid:
    """Return a privacy-loss distribution on multiples of `width` that dominates `loss`.

    The result dominates `loss` if, up to its factor and `LOSS_ERROR`, every delta(epsilon) of the
    result is at least the delta(epsilon) of `loss`.

    Raises
    ------
    OverflowError
        If the losses reach too far for a grid of this width.
    """
    if 2 * min(loss.span, LARGEST_LOSS) / width > LARGEST_GRID:
        raise OverflowError("the grid of losses is too long")
    last_point = int(min(math.ceil(loss.span / width) + 1, LARGEST_LOSS / width))
    pieces = loss.pieces(width)
    low = np.floor(np.clip(pieces.low / width, -last_point, last_point))
    high = np.ceil(np.clip(pieces.high / width, -last_point, np.inf))
    # Such a piece moves to infinity; the rest of Q gets outputs with probability 0 under P.
    is_infinite = high > last_point
    high = np.where(is_infinite, low, np.maximum(high, low + 1))
    # A piece below the grid moves up to the first point, which needs less than its Q probability.
    upper_part = _part_of_upper_point(pieces.p, pieces.q, low * width, (high - low) * width)
    finite = np.where(is_infinite, 0.0, pieces.p)
    points = np.concatenate((low, high)).astype(np.int64) + last_point
    point_probabilities = np.concatenate((finite * (1.0 - upper_part), finite * upper_part))
    probabilities: Floats = np.bincount(points, point_probabilities, 2 * last_point + 2).astype(
        np.float64
    )
    factor = PROBABILITY_FACTOR * (1.0 + sum_error(len(points)))
    return Grid(width, -last_point, probabilities, float(np.sum(pieces.p[is_infinite])), factor)


def _part_of_upper_point(p: Floats, q: Floats, lower: Floats, width: Floats) -> Floats:
    """Return the part t of the P probability of each piece that goes to its upper point.

    It follows from q = p exp(-lower) ((1 - t) + t exp(-width)).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = (1.0 - np.exp(lower) * q / p) / -np.expm1(-width)
    return np.where(p > 0.0, np.clip(np.nan_to_num(part, nan=1.0, posinf=1.0), 0.0, 1.0), 1.0)


def pointwise_largest(grids: Sequence[Grid]) -> Grid:
    """Return a distribution that covers all pairs that one of `grids` covers.

    The pointwise maximum of curves of dominating pairs is also the curve of a dominating pair (Zhu,
    Dong and Wang 2022, arXiv 2106.08567v4, Proposition 4).
    """
    best = grids[0]
    for other in grids[1:]:
        best = _pointwise_larger(best, other)
    return best


def _pointwise_larger(a: Grid, b: Grid) -> Grid:
    """Return the distribution whose delta at every grid point is the larger of both deltas.

    With x = exp(epsilon), a curve is linear between two points, and its slope is minus the Q
    probability above these points. Where one curve stays above the other, its probabilities are
    copied, so that no nearly equal numbers are subtracted. A probability is a difference of slopes
    only where the curves cross, and the rounding error of such differences is measured and added.
    """
    first, last = min(a.first, b.first), max(a.last, b.last)
    a, b = _pad(a, first, last), _pad(b, first, last)
    (delta_a, above_a), (delta_b, above_b) = a.curve(), b.curve()
    factor = max(a.factor, b.factor) * (1.0 + EQUAL_CURVES) * (1.0 + 4.0 * a.curve_error)
    upper_part = delta_b > delta_a * (1.0 + EQUAL_CURVES)
    if not upper_part.any() and a.infinite >= b.infinite:
        return replace(a, factor=factor, infinite=a.infinite + a.curve_lost)
    if (delta_b * (1.0 + EQUAL_CURVES) >= delta_a).all() and b.infinite >= a.infinite:
        return replace(b, factor=factor, infinite=b.infinite + b.curve_lost)
    delta, above = np.where(upper_part, delta_b, delta_a), np.where(upper_part, above_b, above_a)
    p = np.where(upper_part, b.probabilities, a.probabilities)
    # above[i] is exp(epsilon_i) times minus the slope above point i: a chord at a crossing.
    crossing = np.flatnonzero(upper_part[1:] != upper_part[:-1])
    grow = math.expm1(a.width)
    above[crossing] = (delta[crossing] - delta[crossing + 1]) / grow
    for i in sorted({*crossing.tolist(), *(crossing + 1).tolist()}):
        before = math.exp(a.width) * above[i - 1] if i else 1.0 - delta[0]
        p[i] = max(0.0, before - above[i])
    largest = Grid(a.width, first, p, max(a.infinite, b.infinite))
    curve, _ = largest.curve()
    relevant = delta > LEAST_DELTA
    totals = (float(np.sum(x.probabilities)) + x.infinite for x in (a, largest))
    missing = float(np.max(delta[relevant] / curve[relevant], initial=next(totals) / next(totals)))
    infinite = largest.infinite + largest.curve_lost + LEAST_DELTA
    return replace(largest, factor=factor * max(1.0, missing), infinite=infinite)


def _pad(grid: Grid, first: int, last: int) -> Grid:
    return replace(grid, first=first, probabilities=grid.padded(first, last))


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
