"""Prove epsilon at a delta by several methods, the fastest first, and upper bounds of rho.

Rho is bounded by the largest D_a / a over all orders a > 1, in balls; D_a is the Rényi divergence
of order a.

K(a) = (a - 1) D_a is the logarithm of a moment generating function of losses, so K is convex, and a
chord between two orders bounds it from above. The K of independent parts add up. The K of a
privacy-loss distribution on a grid that dominates another distribution is at least as large as the
K of the other one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, arb_poly, ctx

from dprelease.numerics.balls import ball
from dprelease.verification.certificate.closed_forms import (
    concentrated_epsilon,
    normal_epsilon,
    upper_end,
)
from dprelease.verification.certificate.composed_losses import (
    LossGrids,
    LossResolution,
    TooLongError,
    composed_losses,
    loss_resolutions,
)
from dprelease.verification.certificate.kinds import (
    ANY,
    CLOSE,
    NormalVectors,
    VectorKind,
    sum_if_known,
    vectors_with_gaussian_noise,
)
from dprelease.verification.certificate.loss_masses import LossMasses
from dprelease.verification.certificate.neighbour_blocks import SLACK

PRECISION = 256
FIRST = 1 + Fraction(1, 2**16)
LAST = 2**20
MOST_ORDERS = 240
UNSEEN = Fraction(1, 2**100)
"""The delta for which grids of losses are made if moments are computed from them: it is so small
that truncated tails do not change the moments."""


def rho_of_vectors(
    kinds: Sequence[VectorKind], aim: Fraction, resolution: LossResolution
) -> Fraction | None:
    """Return a rho that all vectors together satisfy; None if none is found.

    The search ends at the first rho of at most `aim`. Source: Bun and Steinke 2016, arXiv
    1605.02065v1, Definition 1.1 and Lemma 1.7. Bounds of D_a / a in closed form are added to the
    largest value for the other vectors.

    Raises TooLongError if the losses of some vectors don't fit on a grid.
    """
    known, rest = Fraction(0), []
    for kind in kinds:
        if kind.is_bounded_by_moments:
            rest.append(kind)
        elif (rho := kind.rho) is None:
            return None
        else:
            known += rho
    if not rest:
        return known
    with ctx.workprec(PRECISION):
        found = _largest_quotient(_SummedMoments(rest, resolution), aim - known)
    return None if found is None else known + found


class _SummedMoments:
    """The function K(a) = (a - 1) D_a of all kinds of vectors together."""

    def __init__(self, kinds: Sequence[VectorKind], resolution: LossResolution) -> None:
        self.kinds = kinds
        self.grids: dict[int, list[tuple[int, list[LossMasses]]]] = {}
        on_grids = [kind for kind in kinds if kind.losses.moments is None]
        if on_grids:
            grids = LossGrids(on_grids, UNSEEN, resolution)
            for kind in on_grids:
                self.grids[id(kind)] = grids.losses_by_move(kind)
        self.known: dict[Fraction, arb] = {}

    def at(self, order: Fraction) -> arb:
        """Return K at an order."""
        if order not in self.known:
            self.known[order] = sum(
                (self._moment_of_kind(kind, order) for kind in self.kinds), arb(0)
            )
        return self.known[order]

    def _moment_of_kind(self, kind: VectorKind, order: Fraction) -> arb:
        """Return K at an order for all vectors of one kind."""
        parts = kind.vector_count * kind.sensitivity.slots
        exact = kind.losses.moments
        if exact is None:
            moves = self.grids[id(kind)]
            found = [
                cells * _ln_moment(distribution, order)
                for cells, ways in moves
                for distribution in ways
            ]
        else:
            found = [
                move.cells * exact.ln_moment(move.shift, order) for move in kind.sensitivity.moves
            ]
        # A unit can make any of these moves, so the largest K counts.
        return parts * arb(max(one.upper() for one in found))

    def bound_from_order(self, order: Fraction) -> arb:
        """Return a bound of D_a / a for all a >= order."""
        total = arb(0)
        for kind in self.kinds:
            parts = kind.vector_count * kind.sensitivity.slots
            exact = kind.losses.moments
            if exact is None:
                largest = kind.largest_loss
                assert largest is not None  # kinds on grids have a largest loss
                total += ball(largest / order)
            else:
                moves = kind.sensitivity.moves
                far = [move.cells * exact.bound_from_order(move.shift, order) for move in moves]
                total += parts * max(one.upper() for one in far)
        return total


def _ln_moment(distribution: LossMasses, order: Fraction) -> arb:
    """Return ln E exp((order - 1) loss) for a distribution of losses that are `SLACK` too small."""
    if distribution.infinite:
        raise TooLongError
    step = ball((order - 1) * distribution.width)
    moment = arb_poly([arb(int(mass)) for mass in distribution.masses])(step.exp())
    scaled = moment.log() - distribution.bits * arb(2).log()
    return scaled + (distribution.first + ball(SLACK)) * step


def _largest_quotient(moments: _SummedMoments, aim: Fraction) -> Fraction | None:
    """Return a bound of K(a) / (a (a - 1)) over all orders a."""
    goal = ball(aim)
    last = Fraction(2)
    # Only orders up to `last` are searched: a bound in closed form covers all others.
    while last < LAST and not moments.bound_from_order(last) <= goal:
        last *= 2
    # Divergences increase with their order: the divergence of the first order bounds lower orders.
    ends = [moments.bound_from_order(last).upper(), (moments.at(FIRST) / ball(FIRST - 1)).upper()]
    waiting = [_Interval(FIRST, last, moments)]
    enough = max(goal, *ends)
    while not waiting[0].bound <= enough and len(moments.known) < MOST_ORDERS:
        if any(part.least > enough for part in waiting):
            break  # finer chords can't be lower than the values at their ends
        wide = heapq.heappop(waiting)
        # The geometric mean, because a - 1 reaches from 2^-16 to 2^20.
        middle = 1 + Fraction(math.sqrt((wide.low - 1) * (wide.high - 1)))
        for low, high in ((wide.low, middle), (middle, wide.high)):
            heapq.heappush(waiting, _Interval(low, high, moments))
    top = max(waiting[0].bound, *ends)
    return upper_end(top) if top.is_finite() else None


class _Interval:
    """An interval of orders a, and the maximum in it of the chord of K divided by a (a - 1)."""

    def __init__(self, low: Fraction, high: Fraction, moments: _SummedMoments) -> None:
        self.low, self.high = low, high
        self.bound = _max_chord_quotient(low, high, moments.at(low), moments.at(high))
        ends = (moments.at(order) / ball(order * (order - 1)) for order in (low, high))
        self.least = max(end.lower() for end in ends)

    def __lt__(self, other: _Interval) -> bool:
        """Return whether this interval has the larger bound, so that it is split first."""
        return bool(self.bound > other.bound)


def _max_chord_quotient(low: Fraction, high: Fraction, at_low: arb, at_high: arb) -> arb:
    """Return the maximum of (c + s a) / (a (a - 1)) between two orders; c + s a is the chord.

    The maximum is at an end, or where the derivative is zero: s a^2 + 2 c a - c = 0.
    """
    slope = (at_high - at_low) / ball(high - low)
    start = at_low - slope * ball(low)
    if slope.contains(0):  # the ball does not show where the derivative is zero
        return (at_low.max(at_high) / ball(low * (low - 1))).upper()
    values = [at_low / ball(low * (low - 1)), at_high / ball(high * (high - 1))]
    # If the derivative has no zero, this is the value at another point of the chord: no harm.
    root = (start * (start + slope)).max(arb(0)).sqrt()
    for sign in (-1, 1):
        order = (sign * root - start) / slope
        # A ball that reaches over an end may contain the zero, so only balls outside are left out.
        if not (order < ball(low) or order > ball(high)):
            order = order.max(ball(low)).min(ball(high))
            values.append((start + slope * order) / (order * (order - 1)))
    return max(value.upper() for value in values)


ADDED = "largest losses, added up (Dwork, McSherry, Nissim and Smith 2006)"
NORMAL = "normal losses, whose squares of mu add up (Balle and Wang 2018, Theorem 8)"
SMOOTHED = f"{NORMAL}: discrete Gaussian noise has their densities at integers, by Poisson's sum"
JOINED = "of these, normal ones as one, and discrete Gaussian noise, by densities at integers"
COMPOSED = "losses of all parts, composed in whole numbers (Zhu, Dong and Wang 2022, Theorem 10)"
DIVERGENCES = "Rényi divergences, added up (Canonne, Kamath and Steinke 2020, Corollary 13)"
APART = "these at a part of delta, losses composed in whole numbers at the rest"

PARTS = (Fraction(1, 2), Fraction(1, 64))
"""The shares of delta that are tried for vectors of which only Rényi divergences are known."""


UNBOUNDED = Fraction(2**2000)
"""The cost that stands for no bound: it is larger than any float."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven upper bound of a cost, and the theorem that proves it."""

    at_most: Fraction
    by: str
    delta: Fraction | None = None
    """An upper bound of delta at the claimed epsilon, if the method gives one."""


def pure_bounds(kinds: Sequence[VectorKind]) -> Iterator[Bound]:
    """Yield the sum of the largest losses of all kinds, as a bound of pure epsilon."""
    largest = sum_if_known([kind.largest_loss for kind in kinds])
    yield Bound(UNBOUNDED if largest is None else largest, ADDED)


def exempt_probability(kinds: Sequence[VectorKind]) -> Fraction:
    """Return the probability of the outputs for which a rho of all vectors does not hold.

    If this probability is delta, the vectors are delta-approximately zero-concentrated. Source: Bun
    and Steinke 2016, arXiv 1605.02065v1, Definition 8.1 and Lemma 8.2.
    """
    return sum((kind.exempt for kind in kinds), Fraction(0))


def rho_bounds(kinds: Sequence[VectorKind], delta: Fraction, aim: Fraction) -> Iterator[Bound]:
    """Yield bounds of a rho that holds except with probability delta, from ever finer grids."""
    if exempt_probability(kinds) > delta:
        yield Bound(UNBOUNDED, DIVERGENCES)
        return
    for resolution in loss_resolutions(len(kinds)):
        try:
            rho = rho_of_vectors(kinds, aim, resolution)
        except TooLongError:  # says nothing of the claim, which a larger grid might prove
            return
        if rho is None:
            yield Bound(UNBOUNDED, DIVERGENCES)
            return
        yield Bound(rho, DIVERGENCES)
        if not any(kind.is_bounded_by_moments for kind in kinds) or _is_out_of_reach(
            rho, aim, resolution
        ):
            return


def epsilon_bounds(
    kinds: Sequence[VectorKind], delta: Fraction, aim: Fraction, rho: Fraction | None
) -> Iterator[Bound]:
    """Yield bounds of epsilon at a delta above 0; `rho` is a proven bound for all vectors.

    The bound from rho holds at the rest of delta, without `exempt_probability` (Bun and Steinke
    2016, Lemma 8.8).
    """
    yield from pure_bounds(kinds)
    together = vectors_with_gaussian_noise(kinds, ANY)
    if together is not None and not together.others:
        yield from _normal_bounds(together, delta)
    if rho is not None:
        yield from _bounds_from_rho(rho, delta - exempt_probability(kinds))
    curves = [kind for kind in kinds if kind.parts_can_meet and kind.largest_loss is None]
    if curves:
        yield from _divergence_bounds(kinds, curves, delta, aim)
    # Noise that is narrower loses less by its own losses than by those of normal noise.
    close = vectors_with_gaussian_noise(kinds, CLOSE)
    if close is not None and close.others:
        yield from _with_normal_vectors(close, delta, aim)
    if not curves:  # otherwise some vectors have no losses to compose
        yield from _composition_bounds(kinds, delta, aim)


def _normal_bounds(normals: NormalVectors, delta: Fraction) -> Iterator[Bound]:
    """Yield the bound in closed form if all vectors are normal, apart from their smoothing."""
    smooth = normals.smoothing
    found = normal_epsilon(normals.mu_squared, delta / smooth.raised)
    if found is not None:
        yield Bound(found + smooth.slack, SMOOTHED if smooth.slack else NORMAL)


def _with_normal_vectors(normals: NormalVectors, delta: Fraction, aim: Fraction) -> Iterator[Bound]:
    """Yield bounds with all normal vectors composed as one, and the cost of smoothing added."""
    smooth = normals.smoothing
    for bound in _composition_bounds(normals.all_kinds, delta / smooth.raised, aim - smooth.slack):
        near = None if bound.delta is None else bound.delta * smooth.raised
        yield Bound(bound.at_most + smooth.slack, f"{COMPOSED}; {JOINED}", near)


def _divergence_bounds(
    kinds: Sequence[VectorKind], curves: Sequence[VectorKind], delta: Fraction, aim: Fraction
) -> Iterator[Bound]:
    """Yield bounds if only Rényi divergences are known of some vectors (`curves`).

    One bound uses the divergences of all vectors. The others use the divergences of `curves` at a
    share of delta, and the losses of the other vectors at the rest of delta (basic composition:
    Dwork and Roth 2014, Theorem 3.16).
    """
    alone = sum_if_known([kind.rho for kind in curves])
    if alone is None:
        return
    others = [kind for kind in kinds if kind not in curves]
    try:
        coarse = loss_resolutions(len(kinds))[0]
        together = rho_of_vectors(kinds, alone, coarse) if others else alone
    except TooLongError:
        together = None
    if together is not None:
        yield from _bounds_from_rho(together, delta - exempt_probability(kinds))
    for part in PARTS if others else ():
        of_few = concentrated_epsilon(alone, delta * part)
        if of_few is not None:
            for bound in _composition_bounds(others, delta * (1 - part), aim - of_few):
                yield Bound(bound.at_most + of_few, f"{DIVERGENCES}: {APART}")


def _bounds_from_rho(rho: Fraction, delta: Fraction) -> Iterator[Bound]:
    """Yield the bound of epsilon that follows from rho, if there is one."""
    found = concentrated_epsilon(rho, delta) if delta > 0 else None
    if found is not None:
        yield Bound(found, DIVERGENCES)


def _is_out_of_reach(found: Fraction, aim: Fraction, resolution: LossResolution) -> bool:
    """Return whether a bound is so far above a claim that finer grids can't prove it."""
    return found * Fraction(1 - resolution.gains) > aim


def _composition_bounds(
    kinds: Sequence[VectorKind], delta: Fraction, aim: Fraction
) -> Iterator[Bound]:
    """Yield bounds from composed losses, with increasingly fine grids."""
    for resolution in loss_resolutions(len(kinds)):
        try:
            with ctx.workprec(64):  # every step inside sets the precision that it needs
                composed = composed_losses(kinds, delta, resolution)
                found = composed.epsilon_at(delta)
                near = None if found is None else composed.delta_at(aim)
        except TooLongError:
            return
        yield Bound(UNBOUNDED if found is None else found, COMPOSED, near)
        if found is None or _is_out_of_reach(found, aim, resolution):
            return
