"""Compose Rényi divergences, and convert zero-concentrated guarantees to (epsilon, delta)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from flint import arb

from dprelease.numerics.balls import LEAST_FLOAT, ball, least_above
from dprelease.privacy.priced_vector import Kind, PricedVector, kinds_of

FIRST, LAST = 1.0 + 2.0**-12, 1e6
CLOSE = 3e-4
"""Largest relative distance of the bound of rho above a value of the curve."""

MOST_ORDERS = 300
NEAR, SPACING, REFINEMENTS = 2.0**-9, math.log(8.0), 5
"""Rough search: start and step for values of order - 1, then halvings around the best."""
MOST_LN = 700.0
"""Largest absolute value of ln(a - 1) over the orders a of the search: exp of it is a float."""

UNSEEN = 800.0
"""exp of minus this exponent, or of less, is below the least float."""

SAFE = 1.0 + 2.0**-40
"""Bound on the float error of the sums here; each term is rounded up already."""


def renyi_of(vectors: Sequence[PricedVector], order: float) -> float:
    """Return an upper bound of the Rényi divergence of an order above 1 of all vectors together.

    Divergences of one order add up, also for adaptive composition (Mironov 2017, arXiv
    1702.07476v3, Proposition 1). Infinity if one has no bound.
    """
    return _divergence(kinds_of(vectors), order)


def _divergence(kinds: Sequence[Kind], order: float) -> float:
    total = 0.0
    for vector, slots in kinds:
        worst = max(
            move.cells * loss.renyi(order)
            for move in vector.sensitivity.moves
            for loss in vector.losses(move.shift)
        )
        total += slots * worst
    return total * SAFE


def rho_of(vectors: Sequence[PricedVector], *, rough: bool = False) -> float:
    """Return a rho for which all vectors are rho-zCDP together, rounded up; infinity if unknown.

    rho bounds D_a / a over all orders a > 1 (Bun and Steinke 2016, arXiv 1605.02065v1, Definition
    1.1 and Lemma 1.7). (a - 1) D_a is the logarithm of a moment generating function, so it is
    convex: between two orders the chord bounds it, and D_a / a with it. Intervals are halved where
    that bound is largest, until it lies within `CLOSE` of a value of the curve. `rough`: return the
    largest of some values of the curve, about `CLOSE` below the bound. It is no bound, and serves
    to compare candidates.
    """
    return _rho(tuple(kinds_of(vectors)), rough)


@lru_cache(maxsize=256)
def _rho(kinds: tuple[Kind, ...], rough: bool) -> float:
    known = 0.0
    rest: list[Kind] = []
    for vector, slots in kinds:
        exact = _closed_form_rho(vector)
        known += 0.0 if exact is None else slots * exact
        if exact is None:
            rest.append((vector, slots))
    # Constant D_a / a of some vectors adds to the largest value of the others.
    return (known + (_largest_ratio(rest, rough) if rest else 0.0)) * SAFE


def has_rho(vector: PricedVector) -> bool:
    """Return whether a vector has a zero-concentrated guarantee; the scale is irrelevant."""
    return _closed_form_rho(vector) is not None or math.isfinite(_ratio_bound([(vector, 1)], LAST))


def _closed_form_rho(vector: PricedVector) -> float | None:
    """Return the rho of one slot if all losses of the vector have a closed form; else None."""
    worst = 0.0
    for move in vector.sensitivity.moves:
        for loss in vector.losses(move.shift):
            if loss.rho is None:
                return None
            worst = max(worst, move.cells * loss.rho)
    return worst


def _largest_ratio(kinds: Sequence[Kind], rough: bool) -> float:
    """Return a bound of D_a / a over all orders, by branch and bound; if `rough`, a value of it."""
    if math.isinf(_ratio_bound(kinds, LAST)):
        return math.inf
    curve = _Curve(kinds)
    best = curve.ratio(1.0 + NEAR if rough else FIRST)
    last, beyond = _far_enough(kinds, best)
    if rough:
        return max(beyond, _peak(curve, last))
    best = max(best, curve.ratio(last))
    heap = [(-curve.bound(FIRST, last), FIRST, last)]
    # Up to the first order: D_a <= D_FIRST.
    ends = max(beyond, curve.divergence(FIRST))
    while -heap[0][0] > max(best * (1 + CLOSE), ends) and len(curve.known) < MOST_ORDERS:
        _, low, high = heapq.heappop(heap)
        middle = 1.0 + math.sqrt((low - 1.0) * (high - 1.0))
        best = max(best, curve.ratio(middle))
        for part in ((low, middle), (middle, high)):
            heapq.heappush(heap, (-curve.bound(*part), *part))
    return max(ends, -heap[0][0])


def _peak(curve: _Curve, last: float) -> float:
    """Return about the largest D_a / a: from a coarse grid of orders, then around its best."""
    ends = [math.log(NEAR), math.log(last - 1.0)]
    count = max(2, math.ceil((ends[1] - ends[0]) / SPACING))
    places = [ends[0] + (ends[1] - ends[0]) * i / count for i in range(count + 1)]

    def ratio(place: float) -> float:
        return curve.ratio(1.0 + math.exp(place))

    best = max(places, key=ratio)
    step = (ends[1] - ends[0]) / count
    for _ in range(REFINEMENTS):
        step /= 2
        near = (place for place in (best - step, best + step) if ends[0] <= place <= ends[1])
        best = max((best, *near), key=ratio)
    return ratio(best)


@dataclass
class _Curve:
    kinds: Sequence[Kind]

    def __post_init__(self) -> None:
        self.known: dict[float, float] = {}

    def divergence(self, order: float) -> float:
        if order not in self.known:
            self.known[order] = _divergence(self.kinds, order)
        return self.known[order]

    def ratio(self, order: float) -> float:
        return self.divergence(order) / order

    def bound(self, low: float, high: float) -> float:
        """Return the largest value on the interval of the chord of (a - 1) D_a over a (a - 1)."""
        ends = [(order - 1.0) * self.divergence(order) for order in (low, high)]
        if math.isinf(ends[1]):
            return math.inf
        slope = (ends[1] - ends[0]) / (high - low)
        start = ends[0] - slope * low

        def over(order: float) -> float:
            return (start + slope * order) / (order * (order - 1.0))

        highest = max(over(low), over(high))
        # Where the derivative is zero: slope a^2 + 2 start a - start = 0.
        inside = start * (start + slope)
        if slope > 0.0 and inside >= 0.0:
            for sign in (-1.0, 1.0):
                order = (-start + sign * math.sqrt(inside)) / slope
                if low < order < high:
                    highest = max(highest, over(order))
        return highest


def _far_enough(kinds: Sequence[Kind], ratio: float) -> tuple[float, float]:
    """Return the order above which D_a / a stays below a value of the curve, and its bound there.

    The order is the least such power of two, or `LAST`. The search stops there, because high orders
    take long and seldom have the largest ratio.
    """
    order = 2.0
    while order < LAST and _ratio_bound(kinds, order) > ratio * (1 + CLOSE):
        order *= 2.0
    order = min(order, LAST)
    return order, _ratio_bound(kinds, order)


def _ratio_bound(kinds: Sequence[Kind], order: float) -> float:
    """Return a bound of D_a / a for all orders >= `order`; infinity if there is none."""
    total = 0.0
    for vector, slots in kinds:
        worst = max(
            move.cells * loss.concentration_beyond(order)
            for move in vector.sensitivity.moves
            for loss in vector.losses(move.shift)
        )
        total += slots * worst
    return total * SAFE


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta that every rho-zCDP mechanism has at `epsilon`, rounded up.

    The least over a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1): Canonne, Kamath and
    Steinke 2020, arXiv 2004.00010v5, Corollary 13; within a factor 1 + 2**-30 of the least, and
    never below the least float unless rho is 0. Every order yields a valid delta: an order is
    searched in floats, and its delta is computed in balls. With x = a - 1 the logarithm is x
    ((1 + x) rho - epsilon) - ln(1 + x) - x ln(1 + 1/x), whose derivative rises.
    """
    if math.isinf(rho) and epsilon < math.inf:
        return 1.0
    if rho == 0.0 or math.isinf(epsilon):
        # The distributions are equal or epsilon is infinite: delta is max(0, 1 - exp(epsilon)).
        return min(1.0, -math.expm1(min(epsilon, 0.0)) * SAFE)
    low, high = -MOST_LN, MOST_LN
    for _ in range(64):
        middle = (low + high) / 2
        x = math.exp(middle)
        slope = (rho - epsilon) + 2 * x * rho - math.log1p(1 / x)
        low, high = (middle, high) if slope < 0 else (low, middle)
    order = math.exp(high)

    def value() -> arb:
        x, r, e = ball(order), ball(rho), ball(epsilon)
        exponent = x * ((1 + x) * r - e) - x.log1p() - x * (1 / x).log1p()
        return exponent.min(arb(0)).exp()

    # Far from 0, the logarithm is too large for the exponent of a ball.
    start = order * ((rho - epsilon) + order * rho)
    return LEAST_FLOAT if start < -UNSEEN else min(1.0, least_above(value))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon that every rho-zCDP mechanism has at `delta`, rounded up by bisection.

    Within a factor 1 + 2**-40 of the least whose `zcdp_delta` is `delta`; 0 if `zcdp_delta` at 0 is
    at most `delta`, and infinity if no float is large enough.
    """
    if zcdp_delta(rho, 0.0) <= delta:
        return 0.0
    if delta == 0.0 or math.isinf(rho):
        return math.inf
    # Bun and Steinke 2016, Proposition 1.3.
    high = (rho + 2.0 * math.sqrt(rho) * math.sqrt(-math.log(delta))) * SAFE + LEAST_FLOAT
    low = 0.0
    while high - low > 2.0**-44 * high and low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if zcdp_delta(rho, middle) > delta else (low, middle)
    return high
