"""Compare changes between two sides with the claimed sensitivities, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from dprelease.auditing.changes import Changes
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stored_values import AS_DECLARED
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.privacy.unit import Sensitivity
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query


@dataclass(frozen=True, slots=True)
class ShareOfClaim:
    """The largest share of a claimed sensitivity that a change uses.

    `ratio` is this share, and `by` the name of the norm that it is a share of.
    """

    ratio: float
    by: str

    @property
    def holds(self) -> bool:
        """Return whether the change is at most the claimed sensitivity."""
        return self.ratio <= 1.0


NO_SHARE = ShareOfClaim(0.0, "")


def largest_share_of_claim(change: Sequence[int], claim: Sensitivity) -> ShareOfClaim:
    """Return the largest share of a claimed sensitivity that the changed cells of a pair use.

    `change` has the change of each cell: a number of steps, or the change of the difference between
    two scores. A ratio above 1 breaches the claim; rounding never turns a ratio of at most 1 into a
    larger one, or the other way round.
    """
    return _cached_share(
        tuple(sorted((abs(moved) for moved in change if moved), reverse=True)), claim
    )


@lru_cache(1 << 16)
def _cached_share(sizes: tuple[int, ...], claim: Sensitivity) -> ShareOfClaim:
    """Return the largest share of a claim that absolute changes in descending order use."""
    if not sizes:
        return NO_SHARE
    used: dict[str, Fraction] = {
        "the shift of a cell": _ratio_to_claim(sizes[0], claim.largest_shift),
        "the L1 norm": _ratio_to_claim(sum(sizes), claim.l1),
        "the number of parts": _ratio_to_claim(number_of_moves(sizes, claim), claim.slots),
    }
    squares = _ratio_to_claim(sum(size * size for size in sizes), claim.l2_squared)
    near = {by: _ratio_as_float(ratio) for by, ratio in used.items()}
    near["the L2 norm"] = _ratio_as_float(squares, root=True)
    by = max(near, key=lambda name: near[name])
    return ShareOfClaim(near[by], by)


def _ratio_to_claim(found: int, claimed: int) -> Fraction:
    """Return found / claimed; a large number if nothing is claimed."""
    return Fraction(found, claimed) if claimed else Fraction(10**9)


def _ratio_as_float(ratio: Fraction, *, root: bool = False) -> float:
    """Return a ratio, or its square root, as a float that is above 1 only if the ratio is."""
    number = math.sqrt(float(ratio)) if root else float(ratio)
    return max(number, math.nextafter(1.0, 2.0)) if ratio > 1 else min(number, 1.0)


def number_of_moves(sizes: Sequence[int], claim: Sensitivity) -> int:
    """Return the smallest number of claimed moves that can make a change together.

    `sizes` has the absolute changes of cells, in descending order. If several claimed moves may add
    up in one cell, or only the sum of all changes is limited, the moves can't be told apart; then
    the result is 1, and only the norms are compared.
    """
    if claim.meeting > 1 or claim.of_all_rows:
        return 1
    moves = sorted(claim.moves, key=lambda move: (-move.shift, move.cells))
    parts, at = 0, 0
    while at < len(sizes):
        fitting = [move for move in moves if move.shift >= sizes[at]]
        if not fitting:
            return claim.slots  # the change of this single cell already breaches the claim
        at += max(move.cells for move in fitting)
        parts += 1
    return parts


MeasurementName = tuple[str, str]
"""The names of a query and of one of its measurements."""


@dataclass
class LargestChange:
    """The pair with the largest change of a measurement, and the number of compared pairs.

    `share` is the share of the claim that this change uses. `least` is the situation without other
    units that has the smallest change, and `step` is the sum of its absolute changes; if possible,
    it changes a true value from 0 to 1.
    """

    query: Query
    measurement: Measurement
    mechanism: Randomizer
    pairs: int = 0
    share: ShareOfClaim = NO_SHARE
    description: str = ""
    situation: Situation | None = None
    storages: tuple[str, str] = (AS_DECLARED, AS_DECLARED)
    change: list[int] = field(default_factory=list)
    least: Situation | None = None
    step: int = 0

    def update_least(self, situation: Situation, step: int) -> None:
        """Set `least` to a situation that has no other units, and a smaller change."""
        if not situation.other_units and (self.least is None or step < self.step):
            self.least, self.step = situation, step


def record_changes(
    worst: Mapping[MeasurementName, LargestChange],
    changes: Mapping[MeasurementName, Changes],
    situations: Sequence[Situation],
    storages: tuple[str, str],
    failing: Collection[int] = (),
) -> None:
    """Compare the changes of all measurements with their claims.

    Two kinds of pairs are not compared: pairs whose sides differ in an invariant, because they are
    not neighbours, and pairs on which the engine fails (`failing` has their numbers).
    """
    not_compared = {*failing} | {
        pair
        for name, largest in worst.items()
        if largest.measurement.exact == "declared"
        for pair in changes[name]
    }
    for name, largest in worst.items():
        if largest.measurement.exact == "declared":
            continue
        largest.pairs += len(situations) - len(not_compared)
        for pair, change in changes[name].items():
            if pair in not_compared:
                continue
            if storages == (AS_DECLARED, AS_DECLARED):
                largest.update_least(situations[pair], sum(map(abs, change)))
            share = share_of_claim(largest, change)
            if share.ratio > largest.share.ratio:
                largest.share = share
                largest.situation = situations[pair]
                largest.storages = storages
                largest.description, largest.change = situations[pair].description, change
                if storages[0] != AS_DECLARED:
                    largest.description += f", stored {storages[0]}"
                if storages[0] != storages[1]:
                    largest.description += " on one side alone"


def share_of_claim(largest: LargestChange, change: Sequence[int]) -> ShareOfClaim:
    """Return the share of a claim that a change uses.

    The share is infinite for a change of a value that follows from invariants.
    """
    if largest.measurement.exact:
        return (
            ShareOfClaim(float("inf"), "what follows from invariants") if any(change) else NO_SHARE
        )
    return largest_share_of_claim(change, largest.measurement.sensitivity)
