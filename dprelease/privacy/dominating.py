"""Dominating pairs on a grid of losses, from the masses of loss intervals.

The P mass p and the Q mass q of one interval of losses are split onto the interval's two ends so
that both are kept: a mean-preserving spread of the likelihood ratio, which lowers no hockey-stick
divergence, for they are means of convex functions of that ratio (Doroshenko, Ghazi, Kamath, Kumar
and Manurangsi 2022, arXiv 2207.04380v1, "connect the dots"). Unlike in second differences of delta,
nothing that is nearly equal is subtracted at small masses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dprelease.privacy.loss import RELATIVE_ERROR, Floats, PrivacyLoss
from dprelease.privacy.unit import Move, Sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable

    from dp_accounting.pld.pld_pmf import DensePLDPmf

    Losses = Callable[[int], tuple[PrivacyLoss, ...]]

MASS_FACTOR = 1.0 + RELATIVE_ERROR
"""By how much the true P masses may exceed ours, for each coordinate that is composed."""

LOSS_ERROR = 2.0 * RELATIVE_ERROR
"""By how much a loss ln(p/q) may exceed ours, for each coordinate.

With relative errors r of p and q, delta(epsilon) <= (1 + r) times our delta at epsilon - 2r.
"""

NEAR = 2.0**-46
"""What a comparison of two curves overlooks: the noise of a floating-point transform."""

LARGEST_GRID = 2**22


def grid_pmf(loss: PrivacyLoss, width: float) -> DensePLDPmf:
    """Return a law of losses on multiples of `width` that dominates `loss`.

    Dominates: up to `MASS_FACTOR` and `LOSS_ERROR`, every delta(epsilon) of the result is at least
    that of `loss`.

    Raises
    ------
    OverflowError
        If the losses reach too far for a grid of this width.
    """
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    reach = int(np.ceil(loss.span / width)) + 1
    if reach > LARGEST_GRID:
        raise OverflowError("the grid of losses is too long")
    edges: Floats = np.arange(-reach, reach + 1, dtype=np.float64)
    edges *= width
    p, q = loss.masses(edges)
    probabilities = np.zeros(len(edges))
    probabilities[0] += p[0]  # losses below the grid move up to its end
    upper = _upper_share(p[1:-1], q[1:-1], edges[:-1], width)
    probabilities[:-1] += p[1:-1] * (1.0 - upper)
    probabilities[1:] += p[1:-1] * upper
    return DensePLDPmf(width, -reach, probabilities, float(p[-1]), True)


def _upper_share(p: Floats, q: Floats, lower: Floats, width: float) -> Floats:
    """Return the share of each interval's P mass that goes to its upper end.

    With t the share: q = p exp(-lower) ((1 - t) + t exp(-width)).
    """
    drop = -np.expm1(-width)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (1.0 - np.exp(lower) * q / p) / drop
    return np.where(p > 0.0, np.clip(np.nan_to_num(share, nan=1.0, posinf=1.0), 0.0, 1.0), 1.0)


def slot_pmf(losses: Losses, sensitivity: Sensitivity, width: float) -> DensePLDPmf:
    """Return a law of losses that dominates every move of one slot, up to `NEAR`."""
    best: DensePLDPmf | None = None
    for move in sensitivity.moves:
        found = move_pmf(losses, move, width)
        if best is None or dominates(found, best):
            best = found
        elif not dominates(best, found):
            # Neither curve lies above: the largest shift in the most cells bounds both.
            cells = max(move.cells for move in sensitivity.moves)
            return move_pmf(losses, Move(sensitivity.largest_shift, cells), width)
    if best is None:
        raise ValueError("a sensitivity has at least one move")
    return best


def move_pmf(losses: Losses, move: Move, width: float) -> DensePLDPmf:
    """Return a law of losses that dominates `cells` independent cells shifted by `shift`."""
    directions = losses(move.shift)
    if len(directions) != 1:
        raise NotImplementedError("laws whose directions differ are priced by their pure epsilon")
    single = grid_pmf(directions[0], width)
    found = single
    for _ in range(move.cells - 1):
        found = found.compose(single)
    return found


def dominates(upper: DensePLDPmf, lower: DensePLDPmf) -> bool:
    """Return whether every delta(epsilon) of `upper` is at least that of `lower`, up to `NEAR`.

    Both curves are linear in exp(epsilon) between points of their common grid, so comparing them at
    the points, and their infinite masses, compares them everywhere.
    """
    if upper._infinity_mass < lower._infinity_mass:
        return False
    first = min(upper._lower_loss, lower._lower_loss)
    last = max(p._lower_loss + len(p._probs) for p in (upper, lower))
    points = np.arange(first, last + 1) * upper._discretization
    ours, theirs = upper.get_delta_for_epsilon(points), lower.get_delta_for_epsilon(points)
    return bool(np.all(np.asarray(ours) + NEAR >= np.asarray(theirs)))
