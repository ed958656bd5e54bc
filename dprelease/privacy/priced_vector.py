"""Noisy vectors as input for the accountant: their privacy losses and sensitivity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.losses.normal import ConcentratedLoss
from dprelease.privacy.losses.pure import PureLoss
from dprelease.privacy.unit import Move, Sensitivity


@dataclass(frozen=True)
class PricedVector:
    """The privacy losses and the sensitivity of one noisy vector, as input for the accountant.

    Vectors with equal keys have equal losses. The function `losses` returns the losses of one cell
    for a shift.
    """

    key: Hashable
    losses: Callable[[int], tuple[PrivacyLoss, ...]] = field(compare=False)
    sensitivity: Sensitivity

    def __post_init__(self) -> None:
        """Raise ValueError if parts of a change may touch the same cell."""
        if self.sensitivity.meeting > 1:
            # Only `priced_vector` knows the cases in which parts that meet have a bound.
            raise ValueError("the parts of a change have to touch different cells")


def priced_vector(
    key: Hashable,
    losses: Callable[[int], tuple[PrivacyLoss, ...]],
    sensitivity: Sensitivity,
    *,
    renyi_from_l2_norm: bool,
    costs_most_in_few_cells: bool = True,
) -> PricedVector:
    """Return the accountant's input for a vector, even if parts of a change touch the same cells.

    - `renyi_from_l2_norm`: whether the Rényi divergences of order a of the noise, at a shift d, are
      at most a rho d^2, with the rho of its loss at a shift of 1.
    - `costs_most_in_few_cells`: whether changes of many cells cost at most as much as the same sum
      of changes in few cells. Otherwise no bound is known for a sensitivity that follows from a
      limit of all rows of a unit (`Sensitivity.of_all_rows`), so the cost is infinite.

    If several parts may touch one cell (`Sensitivity.meeting`), their shifts add up in this cell,
    but the sum of their losses need not bound its loss. The bound of the vector's loss depends on
    the distribution:

    - Normal losses: the loss of a vector follows from the L2 norm of its shift alone (Dong, Roth
      and Su 2022, arXiv 1905.02383v3), and slots x meeting parts that touch different cells have
      this norm.
    - Other distributions with `renyi_from_l2_norm`, such as the discrete Gaussian distribution
      (Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5, Theorem 4): their Rényi divergences
      follow from the L2 norm, and add up over cells. The proof uses no other property.
    - Pure mechanisms: for noise that is the same everywhere, the largest loss at a shift x + y is
      at most the sum of the largest losses at x and at y. So the largest losses of all parts add
      up, in whatever cells they meet.
    - Other distributions: no bound is known here, so the cost is infinite.
    """
    meeting = sensitivity.meeting
    if sensitivity.of_all_rows and not costs_most_in_few_cells:
        unknown = ConcentratedLoss(math.inf)
        return PricedVector((key, sensitivity), lambda _shift: (unknown,), sensitivity)
    if meeting == 1:
        return PricedVector(key, losses, sensitivity)
    # Its squared L2 norm is `l2_squared` of the sums.
    separate_parts = Sensitivity(sensitivity.slots * meeting, sensitivity.moves)
    moves_and_losses = [(move, loss) for move in sensitivity.moves for loss in losses(move.shift)]
    if all(loss.normal_mu is not None for _, loss in moves_and_losses):
        return PricedVector(key, losses, separate_parts)
    worst: PrivacyLoss = ConcentratedLoss(math.inf)
    pure = [
        move.cells * Fraction(loss.pure_epsilon)
        for move, loss in moves_and_losses
        if _is_bounded(loss)
    ]
    rho = [
        move.cells * Fraction(loss.rho) for move, loss in moves_and_losses if loss.rho is not None
    ]
    if len(pure) == len(moves_and_losses):
        # Times `slots` and not `slots` x `meeting`: where parts meet, their number does not grow.
        worst = PureLoss(sensitivity.slots * max(pure))
    elif renyi_from_l2_norm and len(rho) == len(moves_and_losses):
        worst = ConcentratedLoss(round_up(separate_parts.slots * max(rho)))
    return PricedVector((key, sensitivity), lambda _shift: (worst,), Sensitivity(1, (Move(1, 1),)))


def _is_bounded(loss: PrivacyLoss) -> bool:
    """Return whether a privacy loss has a finite largest value."""
    return math.isfinite(loss.pure_epsilon)


VectorCount = tuple[PricedVector, int]
"""A vector, and the total number of slots of all vectors with equal keys and sensitivities."""


def count_equal_vectors(vectors: Sequence[PricedVector]) -> list[VectorCount]:
    """Return one of all vectors with equal keys and sensitivities, with their number of slots."""
    counts: Counter[tuple[Hashable, Sensitivity]] = Counter()
    kinds: dict[tuple[Hashable, Sensitivity], PricedVector] = {}
    for vector in vectors:
        # Equal noise for unequal shifts costs differently, so the key alone is not enough.
        key = (vector.key, vector.sensitivity)
        counts[key] += vector.sensitivity.slots
        kinds[key] = vector
    return [(vector, counts[key]) for key, vector in kinds.items()]
