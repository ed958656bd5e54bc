"""Compute an independent lower bound of the privacy cost, from probabilities of published integers.

This module uses nothing from the planner's accountant: no losses, no privacy curves and no
compositions. All outputs are grouped into blocks, whose probabilities under two neighbours come
from ball arithmetic. The distributions of the blocks' losses are composed by dp-accounting.
Grouping is post-processing, and all rounding is downwards, so the result is a *lower bound* of the
cost of the release. A claim below the bound is false. A small distance between claim and bound
shows that the accountant is tight.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import ctx

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.numerics.lattice import Floats
from dprelease.numerics.rounding import round_down
from dprelease.privacy.budget import Variant
from dprelease.privacy.guarantee import Event, Guarantee
from dprelease.privacy.unit import Move, Sensitivity

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

MOST_KINDS = 12
"""Maximum number of kinds of vectors; omitting the other kinds can only lower the bound."""

NEAR_BLOCKS, FAR_BLOCKS = 160, 40
LEAST_TAIL = 1e-18
LEAST_MASS = 1e-290
"""The smallest float that is used as a probability, because smaller floats have fewer bits.

Smaller probabilities are set to 0 under P, and rounded up to this float under Q.
"""

LARGEST_GRID = 2**18
TRUNCATED = 1e-15
"""The probability that dp-accounting may move to an infinite loss in each self-composition."""

ORDERS = (1.01, 1.5, 2.0, 4.0, 16.0)
SUM_NOISE = 2.0**-40
"""An upper bound of the float error in a sum of some hundred probabilities."""

FLOAT_NOISE = 1e-12
"""The error of a delta that Fourier transforms, and `TRUNCATED` for all kinds, may cause."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """The second opinion on a claim: a lower bound of the cost.

    `at_least` is the lower bound of the cost of the published integers, in the same measure as
    `claimed`. `exact` lists the parts of the computation in balls, in whole numbers or with stated
    errors, and `floating` the parts that rely on floats. Neither list means that the claim is
    proved.
    """

    counted: str
    claimed: float
    at_least: float
    contradicted: bool
    exact: tuple[str, ...]
    floating: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the opinion as JSON values."""
        return {
            "counted": self.counted,
            "claimed": self.claimed,
            "at_least": self.at_least,
            "contradicted": self.contradicted,
            "exact": list(self.exact),
            "floating_point": list(self.floating),
        }


@dataclass(frozen=True, slots=True)
class _BlockProbabilities:
    """The probabilities of blocks of outputs under P (`p`) and under Q (`q`), in `times` cells.

    P is the distribution of the noise, and Q that of the noise after a move.
    """

    p: Floats
    q: Floats
    times: int

    @property
    def loss(self) -> Floats:
        """Return ln(p / q), rounded down; infinity where q is zero."""
        with np.errstate(divide="ignore"):
            losses = np.log(self.p) - np.log(self.q)
        return losses - 2.0**-48 * (1.0 + np.abs(np.where(np.isfinite(losses), losses, 0.0)))


def second_opinion(events: Sequence[Event], guarantee: Guarantee) -> Opinion:
    """Return the second opinion on the guarantee of a release."""
    kinds: Counter[tuple[Mechanism, Sensitivity]] = Counter()
    for event in events:
        mechanism = registry.mechanism_of_event(event)
        if isinstance(
            mechanism, Mechanism
        ):  # selections are omitted, which can only lower the bound
            # A unit may put all parts that can meet into one cell, and have no other part.
            alone = event.sensitivity.meeting > 1
            kinds[mechanism, event.sensitivity] += 1 if alone else event.sensitivity.slots
    parts = [
        _worst_move_blocks(mechanism, sensitivity, slots)
        for (mechanism, sensitivity), slots in kinds.most_common(MOST_KINDS)
    ]
    if guarantee.rho is not None:
        counted, claimed, price = "rho", guarantee.rho, _rho_lower_bound(parts)
    elif guarantee.accountant == Variant.PURE:
        counted, claimed, price = "epsilon", guarantee.epsilon, _pure_lower_bound(parts)
    else:
        delta = round_down(guarantee.delta)
        counted, claimed = "epsilon", guarantee.epsilon
        price = _epsilon_lower_bound(parts, delta, claimed)
    contradicted = price > claimed * (1 + 1e-9)
    met = any(event.sensitivity.meeting > 1 for event in events)
    return Opinion(
        counted, claimed, price, contradicted, *_exact_and_floating_parts(guarantee, met=met)
    )


def _exact_and_floating_parts(
    guarantee: Guarantee, *, met: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which parts of a computation are exact, and which rely on floats."""
    exact = ["probabilities of the noise (in ball arithmetic)", "sensitivities (in whole numbers)"]
    floating = []
    if guarantee.accountant == "pure":
        exact.append("the sum of all largest losses (exact, each rounded up)")
    elif guarantee.accountant == "zcdp":
        floating.append("the sum of Rényi divergences, each rounded up; their largest ratio")
    if met and guarantee.accountant != "pure":
        exact.append(
            "contributions to the same cell (largest losses, or Rényi divergences of L2 norms)"
        )
    if guarantee.delta:
        exact.append("the composition of privacy-loss distributions (sums of positive floats)")
    return tuple(exact), tuple(floating)


def _worst_move_blocks(
    mechanism: Mechanism, sensitivity: Sensitivity, slots: int
) -> _BlockProbabilities:
    """Return the blocks of the move, up or down, that best distinguishes the neighbours."""
    if isinstance(mechanism, RandomizedResponse):  # one value replaces another, and no number moves
        return _response_blocks(mechanism, slots)
    blocks = []
    for move in _possible_moves(sensitivity):
        for sign in (1,) if mechanism.is_symmetric else (1, -1):  # both directions are equivalent
            blocks.append(_block_probabilities(mechanism, move, sign, slots))
    return max(blocks, key=_kullback_leibler_divergence)


def _possible_moves(sensitivity: Sensitivity) -> list[Move]:
    """Return the moves of one part; if parts can meet, of one cell that such parts all touch."""
    meeting = sensitivity.meeting
    if meeting == 1:
        return list(sensitivity.moves)
    return [Move(move.shift * meeting, 1) for move in sensitivity.moves]


def _kullback_leibler_divergence(blocks: _BlockProbabilities) -> float:
    """Return the Kullback-Leibler divergence of all cells together."""
    finite = np.isfinite(blocks.loss)
    if not finite.all():
        return math.inf
    return blocks.times * float(np.sum(blocks.p * blocks.loss))


def _block_probabilities(
    mechanism: Mechanism, move: Move, sign: int, slots: int
) -> _BlockProbabilities:
    """Return the probabilities of blocks of outputs, before and after a cell moves up or down.

    The cell moves up by `move.shift` steps if `sign` is 1, and down if `sign` is -1.
    """
    edges = _block_edges(mechanism, move.shift)
    with ctx.workprec(128):
        own = [_tail_intervals(mechanism, edge) for edge in edges]
        moved = [_tail_intervals(mechanism, edge - sign * move.shift) for edge in edges]
        # P is rounded down and Q up, so that no loss is larger than it is: this is a lower bound.
        p = [float(_probability_between(a, b).lower()) for a, b in pairwise(own)]
        q = [_rounded_up_float(_probability_between(a, b)) for a, b in pairwise(moved)]
    # The lower end of an interval around a tiny probability can be below 0.
    masses = np.maximum(np.array(p), 0.0)
    seen = masses > LEAST_MASS
    return _BlockProbabilities(masses[seen], np.array(q)[seen], slots * move.cells)


def _response_blocks(mechanism: RandomizedResponse, times: int) -> _BlockProbabilities:
    """Return the probabilities of three answers: one value, another value, and any other value."""
    with ctx.workprec(128):
        rest, inside = mechanism.tail(2, True), mechanism.tail(0, False)
        masses = [inside, mechanism.tail(1, True) - rest, rest]
        p = np.array([float(mass.lower()) for mass in masses])
        q = np.array([_rounded_up_float(masses[i]) for i in (1, 0, 2)])
    seen = p > LEAST_MASS
    return _BlockProbabilities(p[seen], q[seen], times)


def _rounded_up_float(mass: Any) -> float:
    """Return a probability as a float, rounded up except in its last bits; 0 only for exactly 0."""
    return 0.0 if mass.is_zero() else max(float(mass.upper()), LEAST_MASS)


def _tail_intervals(mechanism: Mechanism, edge: int) -> tuple[Any, Any]:
    """Return intervals (balls) that contain P(K < edge) and P(K >= edge)."""
    return mechanism.tail(edge - 1, False), mechanism.tail(edge, True)


def _probability_between(low: tuple[Any, Any], high: tuple[Any, Any]) -> Any:
    """Return an interval (ball) that contains the probability between two edges.

    `low` and `high` are the tails at these edges. The result is the smaller interval of two: the
    difference of the lower tails, or of the upper tails.
    """
    below, above = high[0] - low[0], low[1] - high[1]
    return below if below.rad() < above.rad() else above


def _block_edges(mechanism: Mechanism, shift: int) -> list[int]:
    """Return the edges of blocks: close together near the middle, farther apart in the tails."""
    near = max(1.0, 4.0 * mechanism.half_width(0.5) + shift)
    step = max(1, round(near / NEAR_BLOCKS))
    middle = [step * i for i in range(-NEAR_BLOCKS, NEAR_BLOCKS + 1)]
    far = []
    edge = step * NEAR_BLOCKS
    growth_factor = 1.15
    for _ in range(4 * FAR_BLOCKS):
        with ctx.workprec(64):
            if float(mechanism.tail(edge, True)) < LEAST_TAIL or edge > 2**60:
                break
        edge = max(edge + step, round(edge * growth_factor))
        far.append(edge)
    return [-edge for edge in reversed(far)] + middle + far


def _pure_lower_bound(parts: Sequence[_BlockProbabilities]) -> float:
    """Return the sum of the largest losses of all parts."""
    return sum(part.times * float(np.max(part.loss)) for part in parts)


def _rho_lower_bound(parts: Sequence[_BlockProbabilities]) -> float:
    """Return the largest ratio of Rényi divergence and order, over some orders."""
    rho = 0.0
    for order in ORDERS:
        total = 0.0
        for part in parts:
            # The exponential of a larger number overflows, and smaller losses only lower the bound.
            exponents = (order - 1) * np.minimum(part.loss, 700.0 / order)
            moment = math.log(float(np.sum(part.p * np.exp(exponents)))) - SUM_NOISE
            total += part.times * moment / (order - 1)
        rho = max(rho, total / order)
    return rho * (1 - 1e-9)


def _epsilon_lower_bound(
    parts: Sequence[_BlockProbabilities], delta: float, claimed: float
) -> float:
    """Return an epsilon below which delta is certainly too large, from losses rounded down."""
    if not parts:
        return 0.0
    times = sum(part.times for part in parts)
    reach = 4.0 * claimed + 1.0
    width = max(2e-3 * claimed / times, 2.0 * reach / LARGEST_GRID)
    mechanisms = [_loss_distribution(part, width, math.ceil(reach / width)) for part in parts]
    total = mechanisms[0].self_compose(parts[0].times, TRUNCATED)
    for mechanism, part in zip(mechanisms[1:], parts[1:], strict=True):
        total = total.compose(mechanism.self_compose(part.times, TRUNCATED))
    return float(total.get_epsilon_for_delta(delta + FLOAT_NOISE))


def _loss_distribution(part: _BlockProbabilities, width: float, half: int) -> PLDPmf:
    """Return the distribution of losses rounded down to the grid; some losses are dropped."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    endless = ~np.isfinite(part.loss)
    places = np.floor(np.where(endless, 0.0, part.loss) / width)
    inside = ~endless & (np.abs(places) <= half)
    masses = np.bincount(places[inside].astype(np.int64) + half, part.p[inside], minlength=1)
    lowest = int(np.argmax(masses > 0))
    infinite = float(np.sum(part.p[endless]))
    # The last argument asks for an optimistic estimate: dp-accounting also rounds losses down.
    return DensePLDPmf(width, lowest - half, masses[lowest:], infinite, False)
