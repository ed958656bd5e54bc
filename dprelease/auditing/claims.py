"""Compare a change with the claimed sensitivity, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.privacy.unit import Sensitivity


@dataclass(frozen=True, slots=True)
class Nearness:
    """The largest share of a claimed sensitivity that a change uses, and the norm of that share."""

    ratio: float
    by: str

    @property
    def holds(self) -> bool:
        """Return whether the change is within the claim."""
        return self.ratio <= 1.0


NOTHING = Nearness(0.0, "")


def nearness(change: Sequence[int], claim: Sensitivity) -> Nearness:
    """Return the largest share of a sensitivity that the changed cells of one pair use.

    `change` has the number of steps by which each changed cell moved, or the change of the
    difference between two of its scores. A ratio above 1 is a breach of the claim. Rounding neither
    makes nor hides a breach.
    """
    return _largest_share(
        tuple(sorted((abs(moved) for moved in change if moved), reverse=True)), claim
    )


@lru_cache(1 << 16)
def _largest_share(sizes: tuple[int, ...], claim: Sensitivity) -> Nearness:
    if not sizes:
        return NOTHING
    used: dict[str, Fraction] = {
        "the shift of a cell": _share_of_claim(sizes[0], claim.largest_shift),
        "the L1 norm": _share_of_claim(sum(sizes), claim.l1),
        "the number of parts": _share_of_claim(number_of_moves(sizes, claim), claim.slots),
    }
    squares = _share_of_claim(sum(size * size for size in sizes), claim.l2_squared)
    near = {by: _ratio_as_float(ratio) for by, ratio in used.items()}
    near["the L2 norm"] = _ratio_as_float(squares, root=True)
    by = max(near, key=lambda name: near[name])
    return Nearness(near[by], by)


def _share_of_claim(found: int, claimed: int) -> Fraction:
    return Fraction(found, claimed) if claimed else Fraction(10**9)


def _ratio_as_float(ratio: Fraction, *, root: bool = False) -> float:
    """Return a ratio (or its square root) as a float that is above 1 only if the ratio is."""
    number = math.sqrt(float(ratio)) if root else float(ratio)
    return max(number, math.nextafter(1.0, 2.0)) if ratio > 1 else min(number, 1.0)


def number_of_moves(sizes: Sequence[int], claim: Sensitivity) -> int:
    """Return the smallest number of claimed moves that together make a change.

    If several moves may add up in the same cells, they can't be distinguished. Then only the norms
    are compared, and the result is the claimed number of moves. `sizes` is in descending order.
    """
    if claim.meeting > 1:
        return 1
    moves = sorted(claim.moves, key=lambda move: (-move.shift, move.cells))
    parts, at = 0, 0
    while at < len(sizes):
        fitting = [move for move in moves if move.shift >= sizes[at]]
        if not fitting:
            return claim.slots  # the change of that cell alone is a breach
        at += max(move.cells for move in fitting)
        parts += 1
    return parts
