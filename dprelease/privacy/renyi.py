"""Compose Rényi divergences, and convert zero-concentrated guarantees to (epsilon, delta)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from flint import arb

from dprelease.numerics.balls import LEAST_FLOAT, ball, float_upper_bound
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.priced_vector import PricedVector, VectorCount, count_equal_vectors

FIRST_ORDER, LAST_ORDER = 1.0 + 2.0**-12, 1e6
RELATIVE_GAP = 3e-4
"""Largest relative gap between the bound of rho and the largest known value of D_a / a."""

MOST_ORDERS = 300
ROUGH_FIRST_EXCESS, ROUGH_SPACING, ROUGH_HALVINGS = 2.0**-9, math.log(8.0), 5
"""Settings of the rough search over orders a.

They are the least a - 1, the step of ln(a - 1), and the number of times that the step is halved
around the best order."""

MOST_LOG_ORDER = 700.0
"""Largest absolute value of ln(a - 1) in the search for an order a, so that a - 1 is a float."""

UNDERFLOW_EXPONENT = 800.0
"""Number x from which on exp(-x) is below the least float."""

FLOAT_MARGIN = 1.0 + 2.0**-40
"""Factor that exceeds the float errors of sums in this module, whose terms are rounded up."""


def renyi_of(vectors: Sequence[PricedVector], order: float) -> float:
    """Return an upper bound of the Rényi divergence of all vectors together, for an order above 1.

    Divergences of the same order add up, even in adaptive composition (Mironov 2017, arXiv
    1702.07476v3, Proposition 1). The result is infinite if a divergence has no bound.
    """
    return _divergence(count_equal_vectors(vectors), order)


def _divergence(kinds: Sequence[VectorCount], order: float) -> float:
    """Return an upper bound of the Rényi divergence of all vectors together."""
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
    """Return a rho, rounded up, for which all vectors together are rho-zCDP.

    The rho bounds the ratio D_a / a of every order a > 1, where D_a is the Rényi divergence (Bun
    and Steinke 2016, arXiv 1605.02065v1, Definition 1.1 and Lemma 1.7). The product (a - 1) D_a is
    the logarithm of a moment generating function, so it is convex: between two orders it lies below
    its chord, and the chord also yields a bound of D_a / a. The search halves the interval of
    orders with the largest bound until this bound is within `RELATIVE_GAP` of a known ratio.

    With `rough`, the result is the largest of some ratios, for comparing candidates. It may lie
    below rho by about `RELATIVE_GAP`. The result is infinite if no rho is known.
    """
    return _cached_rho(tuple(count_equal_vectors(vectors)), rough)


def approximate_rho_of(
    vectors: Sequence[PricedVector], *, rough: bool = False
) -> tuple[float, Fraction]:
    """Return a rho and a delta for which all vectors together are delta-approximately rho-zCDP.

    Both are rounded up. Without outputs that approximate zCDP leaves out, delta is 0, and the rho
    is that of `rho_of`. The rhos add up, and so do the deltas, also if later vectors depend on
    earlier answers (Bun and Steinke 2016, arXiv 1605.02065v1, Lemma 8.2; Whitehouse, Ramdas, Rogers
    and Wu 2023, arXiv 2203.05481, Theorem 1).
    """
    kinds = count_equal_vectors(vectors)
    delta = sum((slots * _exempt_probability(vector) for vector, slots in kinds), Fraction(0))
    rest = tuple((_without_exempt_outputs(vector), slots) for vector, slots in kinds)
    return _cached_rho(rest, rough), delta


def _exempt_probability(vector: PricedVector) -> Fraction:
    """Return the probability that approximate zCDP leaves out of one slot of a vector."""
    return max(
        move.cells * loss.exempt_probability
        for move in vector.sensitivity.moves
        for loss in vector.losses(move.shift)
    )


def _without_exempt_outputs(vector: PricedVector) -> PricedVector:
    """Return the vector with the losses of all outputs that approximate zCDP does not leave out."""
    if not _exempt_probability(vector):
        return vector
    losses = vector.losses

    def other_losses(shift: int) -> tuple[PrivacyLoss, ...]:
        """Return the losses of a shift, without the outputs that are left out."""
        return tuple(loss.without_exempt_outputs for loss in losses(shift))

    return replace(vector, key=("without exempt outputs", vector.key), losses=other_losses)


@lru_cache(maxsize=256)
def _cached_rho(kinds: tuple[VectorCount, ...], rough: bool) -> float:
    """Return an upper bound of the zCDP parameter rho of all vectors together."""
    known = 0.0
    rest: list[VectorCount] = []
    for vector, slots in kinds:
        exact = _closed_form_rho(vector)
        known += 0.0 if exact is None else slots * exact
        if exact is None:
            rest.append((vector, slots))
    # The ratios D_a / a of vectors with a closed formula do not depend on a, so they add up.
    return (known + (_largest_renyi_ratio(rest, rough) if rest else 0.0)) * FLOAT_MARGIN


def has_rho(vector: PricedVector) -> bool:
    """Return whether a vector has an approximate zero-concentrated guarantee.

    The result is the same for every scale of the noise.
    """
    vector = _without_exempt_outputs(vector)
    return _closed_form_rho(vector) is not None or math.isfinite(
        _renyi_ratio_bound([(vector, 1)], LAST_ORDER)
    )


def _closed_form_rho(vector: PricedVector) -> float | None:
    """Return the rho of one slot of a vector, or None if a loss has no closed formula."""
    worst = 0.0
    for move in vector.sensitivity.moves:
        for loss in vector.losses(move.shift):
            if loss.rho is None:
                return None
            worst = max(worst, move.cells * loss.rho)
    return worst


def _largest_renyi_ratio(kinds: Sequence[VectorCount], rough: bool) -> float:
    """Return a bound of D_a / a for all orders a, by branch and bound.

    With `rough`, the result is approximately the largest D_a / a instead.
    """
    if math.isinf(_renyi_ratio_bound(kinds, LAST_ORDER)):
        return math.inf
    curve = _DivergenceCurve(kinds)
    best = curve.ratio(1.0 + ROUGH_FIRST_EXCESS if rough else FIRST_ORDER)
    last, bound_beyond = _last_order_to_search(kinds, best)
    if rough:
        return max(bound_beyond, _approximate_maximum(curve, last))
    best = max(best, curve.ratio(last))
    heap = [(-curve.bound(FIRST_ORDER, last), FIRST_ORDER, last)]
    # For orders below the first order, D_a is at most the divergence of the first order.
    # The divergence rises with its order, and the ratio divides it by more than 1.
    ends = max(bound_beyond, curve.divergence(FIRST_ORDER))
    while (
        -heap[0][0] > max(best * (1 + RELATIVE_GAP), ends) and len(curve.divergences) < MOST_ORDERS
    ):
        _, low, high = heapq.heappop(heap)
        # Geometric in a - 1, because the curves are smooth in its logarithm.
        middle = 1.0 + math.sqrt((low - 1.0) * (high - 1.0))
        best = max(best, curve.ratio(middle))
        for part in ((low, middle), (middle, high)):
            heapq.heappush(heap, (-curve.bound(*part), *part))
    # The largest bound of all parts, not the best ratio found: the search may stop early and is
    # still an upper bound.
    return max(ends, -heap[0][0])


def _approximate_maximum(curve: _DivergenceCurve, last: float) -> float:
    """Return approximately the largest D_a / a, from a coarse grid of orders and nearby orders."""
    ends = [math.log(ROUGH_FIRST_EXCESS), math.log(last - 1.0)]
    count = max(2, math.ceil((ends[1] - ends[0]) / ROUGH_SPACING))
    log_orders = [ends[0] + (ends[1] - ends[0]) * i / count for i in range(count + 1)]

    def ratio(log_order: float) -> float:
        """Return D_a / a at the order a = 1 + exp(log_order)."""
        return curve.ratio(1.0 + math.exp(log_order))

    best = max(log_orders, key=ratio)
    step = (ends[1] - ends[0]) / count
    for _ in range(ROUGH_HALVINGS):
        step /= 2
        near = (
            log_order for log_order in (best - step, best + step) if ends[0] <= log_order <= ends[1]
        )
        best = max((best, *near), key=ratio)
    return ratio(best)


@dataclass
class _DivergenceCurve:
    """The Rényi divergences of several vectors together, by order."""

    kinds: Sequence[VectorCount]

    def __post_init__(self) -> None:
        self.divergences: dict[float, float] = {}

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence of this order, which is computed once."""
        if order not in self.divergences:
            self.divergences[order] = _divergence(self.kinds, order)
        return self.divergences[order]

    def ratio(self, order: float) -> float:
        """Return the Rényi divergence divided by its order."""
        return self.divergence(order) / order

    def bound(self, low: float, high: float) -> float:
        """Return a bound of D_a / a between two orders a, from the chord of (a - 1) D_a."""
        ends = [(order - 1.0) * self.divergence(order) for order in (low, high)]
        if math.isinf(ends[1]):
            return math.inf
        slope = (ends[1] - ends[0]) / (high - low)
        start = ends[0] - slope * low

        def chord_ratio(order: float) -> float:
            """Return the upper bound at this order that the chord gives for the ratio."""
            return (start + slope * order) / (order * (order - 1.0))

        highest = max(chord_ratio(low), chord_ratio(high))
        # The derivative is zero for slope a^2 + 2 start a - start = 0.
        discriminant = start * (start + slope)
        if slope > 0.0 and discriminant >= 0.0:
            for sign in (-1.0, 1.0):
                # Between its zeros the chord ratio is monotone, so that its ends and these points
                # suffice.
                order = (-start + sign * math.sqrt(discriminant)) / slope
                if low < order < high:
                    highest = max(highest, chord_ratio(order))
        return highest


def _last_order_to_search(kinds: Sequence[VectorCount], ratio: float) -> tuple[float, float]:
    """Return the last order that must be searched, and a bound of D_a / a for higher orders.

    The order is the least power of two above which D_a / a certainly stays below the known `ratio`,
    up to `RELATIVE_GAP`; it is at most `LAST_ORDER`. Higher orders take long to compute, and seldom
    have the largest ratio.
    """
    order = 2.0
    while order < LAST_ORDER and _renyi_ratio_bound(kinds, order) > ratio * (1 + RELATIVE_GAP):
        order *= 2.0
    order = min(order, LAST_ORDER)
    return order, _renyi_ratio_bound(kinds, order)


def _renyi_ratio_bound(kinds: Sequence[VectorCount], order: float) -> float:
    """Return a bound of D_a / a for all orders a >= `order`, or infinity if none is known."""
    total = 0.0
    for vector, slots in kinds:
        worst = max(
            move.cells * loss.renyi_ratio_bound(order)
            for move in vector.sensitivity.moves
            for loss in vector.losses(move.shift)
        )
        total += slots * worst
    return total * FLOAT_MARGIN


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta that every rho-zCDP mechanism has at `epsilon`, rounded up.

    It is the minimum over a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1) (Canonne,
    Kamath and Steinke 2020, arXiv 2004.00010v5, Corollary 13), up to a factor 1 + 2**-30. The
    result is never below the least float unless rho is 0. Every order a yields a valid delta, so
    the search for an order uses floats, and balls compute the delta of the order. With x = a - 1,
    the logarithm of delta is x ((1 + x) rho - epsilon) - ln(1 + x) - x ln(1 + 1/x), whose
    derivative rises with x.
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
    # Any order is valid; this one is nearly the best.
    order = math.exp(high)

    def delta_interval() -> arb:
        """Return an interval (ball) of the delta that follows from the chosen order."""
        x, r, e = ball(order), ball(rho), ball(epsilon)
        exponent = x * ((1 + x) * r - e) - x.log1p() - x * (1 / x).log1p()
        # No delta is above 1.
        return exponent.min(arb(0)).exp()

    # Far from 0, the logarithm is too large for the exponent of a ball.
    start = order * ((rho - epsilon) + order * rho)
    return (
        LEAST_FLOAT if start < -UNDERFLOW_EXPONENT else min(1.0, float_upper_bound(delta_interval))
    )


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon that every rho-zCDP mechanism has at `delta`, rounded up by bisection.

    The result is within a factor 1 + 2**-40 of the least epsilon for which `zcdp_delta` returns
    `delta`. It is 0 if `zcdp_delta` returns at most `delta` for an epsilon of 0, and infinite if no
    float is large enough.
    """
    if zcdp_delta(rho, 0.0) <= delta:
        return 0.0
    if delta == 0.0 or math.isinf(rho):
        return math.inf
    # This upper end is from Bun and Steinke 2016, Proposition 1.3.
    high = (rho + 2.0 * math.sqrt(rho) * math.sqrt(-math.log(delta))) * FLOAT_MARGIN + LEAST_FLOAT
    low = 0.0
    while high - low > 2.0**-44 * high and low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if zcdp_delta(rho, middle) > delta else (low, middle)
    return high
