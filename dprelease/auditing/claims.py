"""How near a change comes to what is claimed of it, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.privacy.unit import Sensitivity


@dataclass(frozen=True, slots=True)
class Nearness:
    """A change beside its claim: the largest part of it that was used, and by what."""

    ratio: float
    by: str

    @property
    def holds(self) -> bool:
        """Return whether the change is within the claim."""
        return self.ratio <= 1.0


NOTHING = Nearness(0.0, "")


def nearness(change: Sequence[int], claim: Sensitivity) -> Nearness:
    """Return how near the moved cells of one pair come to a sensitivity.

    `change`: by how many steps each cell moved that did, or how far two scores of it moved apart. A
    ratio above 1 is a breach, and no rounding makes one of what is within the claim, or hides one.
    """
    return _near(tuple(sorted((abs(moved) for moved in change if moved), reverse=True)), claim)


@lru_cache(1 << 16)
def _near(sizes: tuple[int, ...], claim: Sensitivity) -> Nearness:
    if not sizes:
        return NOTHING
    used: dict[str, Fraction] = {
        "the shift of a cell": _part(sizes[0], claim.largest_shift),
        "the L1 norm": _part(sum(sizes), claim.l1),
        "the number of parts": _part(parts_of(sizes, claim), claim.slots),
    }
    squares = _part(sum(size * size for size in sizes), claim.l2_squared)
    near = {by: _ratio_as_float(ratio) for by, ratio in used.items()}
    near["the L2 norm"] = _ratio_as_float(squares, root=True)
    by = max(near, key=lambda name: near[name])
    return Nearness(near[by], by)


def _part(found: int, claimed: int) -> Fraction:
    return Fraction(found, claimed) if claimed else Fraction(10**9)


def _ratio_as_float(ratio: Fraction, *, root: bool = False) -> float:
    """Return a ratio as a float on its own side of 1."""
    number = math.sqrt(float(ratio)) if root else float(ratio)
    return max(number, math.nextafter(1.0, 2.0)) if ratio > 1 else min(number, 1.0)


def parts_of(sizes: Sequence[int], claim: Sensitivity) -> int:
    """Return of how many parts a change is made at least, each one of the claim's moves.

    Parts that add up in the same cells are not told apart: then the norms alone say something, and
    the number of parts is one that is claimed. `sizes` fall.
    """
    if claim.meeting > 1:
        return 1
    moves = sorted(claim.moves, key=lambda move: (-move.shift, move.cells))
    parts, at = 0, 0
    while at < len(sizes):
        fitting = [move for move in moves if move.shift >= sizes[at]]
        if not fitting:
            return claim.slots  # the shift of that cell is a breach by itself
        at += max(move.cells for move in fitting)
        parts += 1
    return parts
