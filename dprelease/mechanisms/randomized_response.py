"""k-ary randomized response, which publishes the value of each record or another value at random.

Release    (v + K) mod k, where v in 0..k-1 is the number of the value; P(K = 0) = p and P(K = j) =
           q for j in 1..k-1, with p = exp(epsilon) / (exp(epsilon) + k - 1) and
           q = exp(-epsilon) p.
Guarantee  Pure: replacing a record's value by any other has a privacy loss of at most epsilon,
           which is the exact ratio p / q.
Source     Warner 1965 for k = 2; Kairouz, Oh and Viswanath 2014, arXiv 1407.1338v3, eq. (10).
Units      scale is 1 / epsilon, so a larger scale means more noise, as for every other mechanism.

`registry.names` excludes this mechanism, because it adds no noise to an aggregate: only local
releases can use it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.balls import ball, float_upper_bound
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Integers, sample
from dprelease.numerics.rounding import round_up
from dprelease.privacy.loss import Floats, MonotoneLoss, epsilon_lower_bound

MOST_VALUES = 2**20

INVERSION_ERROR = 2.0**-41
"""Relative error of a float quantile, from the error 2**-43 of u and from rounding of p and q."""


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Randomized response with `values` possible values and the privacy loss 1 / `scale`."""

    name: ClassVar[str] = "randomized_response"
    summary: ClassVar[str] = "the value itself, or any other one of the declared; pure"
    use_case: ClassVar[str] = "categories of single records in the local model"
    pure: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 1
    has_bounded_noise: ClassVar[bool] = True
    has_integer_noise: ClassVar[bool] = True
    parameter_ranges = {"values": (2.0, float(MOST_VALUES))}  # noqa: RUF012

    values: float

    @property
    def is_symmetric(self) -> bool:
        """Return False, because K is never negative."""
        return False

    @property
    def true_value_probability(self) -> float:
        """Return p, the probability of the true value, accurate to a few units of a float."""
        return 1.0 / (1.0 + (self.values - 1.0) * math.exp(-1.0 / self.scale))

    @property
    def false_value_probability(self) -> float:
        """Return q, the probability of each false value, accurate to a few units of a float."""
        # At scales below 1/745 the product is 0, by which the quantile would divide. Balls decide
        # such draws.
        return max(math.exp(-1.0 / self.scale) * self.true_value_probability, 1e-300)

    def respond(self, codes: Integers, bits: BitSource) -> Integers:
        """Return (n,) randomized codes for (n,) true codes in 0..values-1.

        K is drawn independently of the value, so the time depends only on the random bits.
        """
        # A draw of the answer that depends on the value would take a time that depends on it.
        answers: Integers = (codes + sample(self, len(codes), bits)) % int(self.values)
        return answers

    def integer_quantile(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return the integer quantiles of tail probabilities, and flags of the certain quantiles.

        Both tails are linear functions of k.
        """
        p, q = self.true_value_probability, self.false_value_probability
        # Upper: the largest k with u < (values - k) q, or 0. Lower: the least k with u < p + k q.
        position = self.values - u / q if upper else (u - p) / q + 1.0
        error = ((u + p) / q + self.values) * INVERSION_ERROR
        inside = np.maximum(position, 0.5)  # positions below 1 stand for the true value
        k = np.minimum(np.floor(inside), self.values - 1.0)
        rest = inside - np.floor(inside)
        sure = (rest > error) & (rest < 1.0 - error)
        return k, sure | (position + error < 1.0)

    def tail(self, k: int, upper: bool) -> arb:
        """Return an interval (ball) around P(K >= k) if `upper`, else around P(K <= k).

        The first is (values - k) q, the second p + k q.
        """
        count = int(self.values)
        if k <= 0 if upper else k >= count - 1:
            return arb(1)
        if k >= count if upper else k < 0:
            return arb(0)
        exp_epsilon = (1 / ball(self.scale)).exp()
        return (count - k if upper else exp_epsilon + k) / (exp_epsilon + (count - 1))

    def losses(self, shift: int) -> tuple[RandomizedResponseLoss, ...]:
        """Return the exact loss, which is the same for any two different values."""
        return (RandomizedResponseLoss(1 / Fraction(self.scale), int(self.values)),)

    @property
    def mean(self) -> float:
        """Return E K, where K is the difference of the two value numbers modulo `values`."""
        return self.false_value_probability * self.values * (self.values - 1.0) / 2.0

    @property
    def mean_absolute_error(self) -> float:
        """Return E |K|, which is E K because K is never negative."""
        return self.mean

    @property
    def standard_deviation(self) -> float:
        """Return the standard deviation of K."""
        k = self.values
        square = self.false_value_probability * (k - 1.0) * k * (2.0 * k - 1.0) / 6.0
        return math.sqrt(max(0.0, square - self.mean**2))


@dataclass(frozen=True)
class RandomizedResponseLoss(MonotoneLoss):
    """The loss of the response to one true value against the response to another true value.

    With k values, the loss is epsilon with probability p, 0 with probability (k - 2) q, and
    -epsilon with probability q.
    """

    epsilon: Fraction
    values: int

    @property
    def pure_epsilon(self) -> float:
        """Return epsilon, rounded up."""
        return round_up(self.epsilon)

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return the sum of P - exp(epsilon) Q over all outputs with a loss above epsilon."""
        if epsilon >= self.epsilon:
            return 0.0
        edge = epsilon_lower_bound(epsilon)
        if edge < -self.epsilon:
            return min(1.0, float_upper_bound(lambda: -ball(edge).expm1()))

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            exp_epsilon = ball(self.epsilon).exp()
            gain = -exp_epsilon * ball(edge - self.epsilon).expm1()
            if edge < 0:
                gain -= (self.values - 2) * ball(edge).expm1()
            return gain / (exp_epsilon + (self.values - 1))

        return min(1.0, float_upper_bound(delta_interval))

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence of an order above 1, rounded up, from the three losses."""
        a = Fraction(order) - 1

        def divergence_interval() -> arb:
            """Return an interval (ball) that contains the Rényi divergence."""
            exp_epsilon = ball(self.epsilon).exp()
            # E exp(a loss) is divided by exp(a epsilon), so that no term overflows.
            last = (-ball((2 * a) * self.epsilon)).exp()
            middle = (self.values - 2) * (-ball(a * self.epsilon)).exp()
            total = (exp_epsilon + middle + last) / (exp_epsilon + (self.values - 1))
            return ball(self.epsilon) + total.log() / ball(a)

        return min(self.pure_epsilon, float_upper_bound(divergence_interval, 256))

    def interval_probabilities(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of loss intervals, from the three losses."""
        fall = math.exp(-float(self.epsilon))
        p = 1.0 / (1.0 + (self.values - 1) * fall)
        q = fall * p
        p_probabilities, q_probabilities = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        top = self.pure_epsilon
        rest = (self.values - 2) * q
        for loss, own, other in ((top, p, q), (0.0, rest, rest), (-top, q, p)):
            interval = int(np.searchsorted(edges, loss))
            p_probabilities[interval] += own
            q_probabilities[interval] += other
        return p_probabilities, q_probabilities


RECORD_MECHANISM = RandomizedResponse
