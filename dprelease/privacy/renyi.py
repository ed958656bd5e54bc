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

FIRST_ORDER, LAST_ORDER = 1.0 + 2.0**-12, 1e6
RELATIVE_GAP = 3e-4
"""Largest relative gap between the bound of rho and a value of the curve."""

MOST_ORDERS = 300
ROUGH_START, SPACING, REFINEMENTS = 2.0**-9, math.log(8.0), 5
"""Rough search over orders: the least order - 1, the step of its logarithm, and the number of
halvings around the best order."""
MOST_LOG_ORDER = 700.0
"""Largest absolute value of ln(a - 1) in the search for an order a, whose exp is a float."""

UNDERFLOW_EXPONENT = 800.0
"""exp(-x) is below the least float for every x from this exponent on."""

FLOAT_MARGIN = 1.0 + 2.0**-40
"""Factor above the float error of the sums in this module, whose terms are already rounded up."""


def renyi_of(vectors: Sequence[PricedVector], order: float) -> float:
    """Return an upper bound of the Rényi divergence of an order above 1 of all vectors together.

    Divergences of one order add up, also for adaptive composition (Mironov 2017, arXiv
    1702.07476v3, Proposition 1). The result is infinite if a divergence has no bound.
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
    return total * FLOAT_MARGIN


def rho_of(vectors: Sequence[PricedVector], *, rough: bool = False) -> float:
    """Return a rho for which all vectors are rho-zCDP together, rounded up; infinity if unknown.

    rho bounds D_a / a over all orders a > 1 (Bun and Steinke 2016, arXiv 1605.02065v1, Definition
    1.1 and Lemma 1.7). (a - 1) D_a is the logarithm of a moment generating function, so it is
    convex: between two orders it lies below its chord, which also bounds D_a / a. The search halves
    the interval with the largest bound until this bound is within `RELATIVE_GAP` of a value of the
    curve. With `rough`, the result is the largest of some values of the curve. Such a value may lie
    below rho by about `RELATIVE_GAP`, and serves to compare candidates.
    """
    return _cached_rho(tuple(kinds_of(vectors)), rough)


@lru_cache(maxsize=256)
def _cached_rho(kinds: tuple[Kind, ...], rough: bool) -> float:
    known = 0.0
    rest: list[Kind] = []
    for vector, slots in kinds:
        exact = _closed_form_rho(vector)
        known += 0.0 if exact is None else slots * exact
        if exact is None:
            rest.append((vector, slots))
    # The ratios D_a / a of vectors with a closed form are constant, so they simply add up.
    return (known + (_largest_ratio(rest, rough) if rest else 0.0)) * FLOAT_MARGIN


def has_rho(vector: PricedVector) -> bool:
    """Return whether a vector has a zero-concentrated guarantee, at any scale."""
    return _closed_form_rho(vector) is not None or math.isfinite(
        _ratio_bound([(vector, 1)], LAST_ORDER)
    )


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
    """Return a bound of D_a / a over all orders, by branch and bound.

    With `rough`, the result is about the largest value of D_a / a instead.
    """
    if math.isinf(_ratio_bound(kinds, LAST_ORDER)):
        return math.inf
    curve = _DivergenceCurve(kinds)
    best = curve.ratio(1.0 + ROUGH_START if rough else FIRST_ORDER)
    last, bound_beyond = _last_order_to_search(kinds, best)
    if rough:
        return max(bound_beyond, _approximate_maximum(curve, last))
    best = max(best, curve.ratio(last))
    heap = [(-curve.bound(FIRST_ORDER, last), FIRST_ORDER, last)]
    # For lower orders than the first one, D_a is at most the divergence of the first order.
    ends = max(bound_beyond, curve.divergence(FIRST_ORDER))
    while (
        -heap[0][0] > max(best * (1 + RELATIVE_GAP), ends) and len(curve.divergences) < MOST_ORDERS
    ):
        _, low, high = heapq.heappop(heap)
        middle = 1.0 + math.sqrt((low - 1.0) * (high - 1.0))
        best = max(best, curve.ratio(middle))
        for part in ((low, middle), (middle, high)):
            heapq.heappush(heap, (-curve.bound(*part), *part))
    return max(ends, -heap[0][0])


def _approximate_maximum(curve: _DivergenceCurve, last: float) -> float:
    """Return about the largest D_a / a: the best of a coarse grid of orders, and nearby orders."""
    ends = [math.log(ROUGH_START), math.log(last - 1.0)]
    count = max(2, math.ceil((ends[1] - ends[0]) / SPACING))
    log_orders = [ends[0] + (ends[1] - ends[0]) * i / count for i in range(count + 1)]

    def ratio(log_order: float) -> float:
        return curve.ratio(1.0 + math.exp(log_order))

    best = max(log_orders, key=ratio)
    step = (ends[1] - ends[0]) / count
    for _ in range(REFINEMENTS):
        step /= 2
        near = (
            log_order for log_order in (best - step, best + step) if ends[0] <= log_order <= ends[1]
        )
        best = max((best, *near), key=ratio)
    return ratio(best)


@dataclass
class _DivergenceCurve:
    kinds: Sequence[Kind]

    def __post_init__(self) -> None:
        self.divergences: dict[float, float] = {}

    def divergence(self, order: float) -> float:
        if order not in self.divergences:
            self.divergences[order] = _divergence(self.kinds, order)
        return self.divergences[order]

    def ratio(self, order: float) -> float:
        return self.divergence(order) / order

    def bound(self, low: float, high: float) -> float:
        """Return a bound of D_a / a between two orders a, from the chord of (a - 1) D_a."""
        ends = [(order - 1.0) * self.divergence(order) for order in (low, high)]
        if math.isinf(ends[1]):
            return math.inf
        slope = (ends[1] - ends[0]) / (high - low)
        start = ends[0] - slope * low

        def chord_ratio(order: float) -> float:
            return (start + slope * order) / (order * (order - 1.0))

        highest = max(chord_ratio(low), chord_ratio(high))
        # Where the derivative is zero: slope a^2 + 2 start a - start = 0.
        discriminant = start * (start + slope)
        if slope > 0.0 and discriminant >= 0.0:
            for sign in (-1.0, 1.0):
                order = (-start + sign * math.sqrt(discriminant)) / slope
                if low < order < high:
                    highest = max(highest, chord_ratio(order))
        return highest


def _last_order_to_search(kinds: Sequence[Kind], ratio: float) -> tuple[float, float]:
    """Return the last order that must be searched, and a bound of D_a / a for higher orders.

    The order is the least power of two above which D_a / a stays below a known value, or
    `LAST_ORDER`. Higher orders take long to compute, and seldom have the largest ratio.
    """
    order = 2.0
    while order < LAST_ORDER and _ratio_bound(kinds, order) > ratio * (1 + RELATIVE_GAP):
        order *= 2.0
    order = min(order, LAST_ORDER)
    return order, _ratio_bound(kinds, order)


def _ratio_bound(kinds: Sequence[Kind], order: float) -> float:
    """Return a bound of D_a / a for all orders a >= `order`; infinity if no bound is known."""
    total = 0.0
    for vector, slots in kinds:
        worst = max(
            move.cells * loss.concentration_beyond(order)
            for move in vector.sensitivity.moves
            for loss in vector.losses(move.shift)
        )
        total += slots * worst
    return total * FLOAT_MARGIN


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta that every rho-zCDP mechanism has at `epsilon`, rounded up.

    It is the least over a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1) (Canonne,
    Kamath and Steinke 2020, arXiv 2004.00010v5, Corollary 13), up to a factor 1 + 2**-30, and never
    below the least float unless rho is 0. Every order yields a valid delta, so the search for an
    order uses floats, and its delta is computed in balls. With x = a - 1 the logarithm of delta is
    x ((1 + x) rho - epsilon) - ln(1 + x) - x ln(1 + 1/x), whose derivative rises.
    """
    if math.isinf(rho) and epsilon < math.inf:
        return 1.0
    if rho == 0.0 or math.isinf(epsilon):
        # The distributions are equal or epsilon is infinite: delta is max(0, 1 - exp(epsilon)).
        return min(1.0, -math.expm1(min(epsilon, 0.0)) * FLOAT_MARGIN)
    low, high = -MOST_LOG_ORDER, MOST_LOG_ORDER
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
    return LEAST_FLOAT if start < -UNDERFLOW_EXPONENT else min(1.0, least_above(value))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon that every rho-zCDP mechanism has at `delta`, rounded up by bisection.

    It is within a factor 1 + 2**-40 of the least epsilon whose `zcdp_delta` is `delta`. It is 0 if
    `zcdp_delta` at 0 is at most `delta`, and infinite if no float is large enough.
    """
    if zcdp_delta(rho, 0.0) <= delta:
        return 0.0
    if delta == 0.0 or math.isinf(rho):
        return math.inf
    # Bun and Steinke 2016, Proposition 1.3.
    high = (rho + 2.0 * math.sqrt(rho) * math.sqrt(-math.log(delta))) * FLOAT_MARGIN + LEAST_FLOAT
    low = 0.0
    while high - low > 2.0**-44 * high and low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if zcdp_delta(rho, middle) > delta else (low, middle)
    return high
