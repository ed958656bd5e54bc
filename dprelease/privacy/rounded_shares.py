"""The privacy cost of a sum of stable noise, if every party rounds its share of the noise.

Each of n parties draws Y_i independently, with the density f, and sends q_i + K_i, where K_i is Y_i
rounded to whole steps. An attacker who sees only the sum of these messages sees q + V, with
V = K_1 + ... + K_n. V is not the rounded sum of the Y_i, so V is no post-processing of this sum,
and the guarantee of the rounded sum does not hold for V. But the distribution of V is close to that
of the rounded sum:

    exp(-a) F'(v) <= P(V = v) <= exp(a) F'(v)    for every v,    a = (3 n + 1) / 2 * slope,

where F' is the distribution of Y_1 + ... + Y_n, rounded once, and `slope` bounds |(ln f)'| per
step.

Proof. By the definition of `slope`, f(y + t) <= exp(slope |t|) f(y). Let g(v) be the sum of
f(k_1) ... f(k_n) over all integers k_1, ..., k_n whose sum is v.
1. P(V = v) is the integral, over |r_i| <= 1/2, of the sum of f(k_1 + r_1) ... f(k_n + r_n) over the
   same integers. So P(V = v) is g(v) up to a factor exp(+-n slope / 2).
2. g(v + j) is g(v) up to a factor exp(+-slope |j|), because j can be added to k_1 alone.
3. The density F of Y_1 + ... + Y_n at v is the same integral over r_1, ..., r_n and integers w with
   w + r_1 + ... + r_n = v. Up to a factor exp(+-n slope / 2), it is an average of g(w) over
   |w - v| <= n / 2, whose weights are values of the uniform spline and add up to one. So by step 2,
   F(v) is g(v) up to a factor exp(+-n slope).
4. ln F is no steeper than ln f, so F'(v) is F(v) up to a factor exp(+-slope / 2).
Together the exponents are (n / 2 + n + 1 / 2) slope = a.

Suppose that a privacy unit can move `moved` coordinates, and that rounded stable noise with
n^(1/alpha) times the scale of a share is (epsilon, delta)-private for these moves. Then the sums of
messages are (epsilon + 2 a moved, exp(a moved) delta)-private, because the probabilities of unmoved
coordinates cancel. Finer steps of the parties make `slope`, and so a, arbitrarily small. Messages
of parties that add no noise, or that reveal their noise, are constants. So n is the number of
parties that add noise and keep it secret.

The sum of all messages modulo 2^64 is a function of their sum, so it is post-processing.
"""

from __future__ import annotations

from functools import lru_cache

from dprelease.privacy.losses.stable import LEAST_SHIFT, THIRD_DERIVATIVE, largest_loss

FLOAT_MARGIN = 1.0 + 2.0**-40
"""Factor that exceeds the relative error of a few float operations."""


@lru_cache(maxsize=256)
def log_slope_bound(alpha: float) -> float:
    """Return an upper bound of |(ln p)'| for the density p of the standard stable distribution.

    If s is the largest slope, the largest loss for a short shift h is at least
    h (s - THIRD_DERIVATIVE h^2 / 24), which yields a bound of s.
    """
    h = LEAST_SHIFT
    return (largest_loss(alpha, h) / h + THIRD_DERIVATIVE * h * h / 24) * FLOAT_MARGIN


def rounding_exponent(alpha: float, share: float, parties: int) -> float:
    """Return a, rounded up, such that rounding changes probabilities by at most a factor exp(a).

    The probabilities are those of the sum of the noise of all parties. `share` is the scale of the
    noise of one party, in the steps to which the noise is rounded. `parties` is the number of
    parties that add noise. A single party rounds the sum itself, so a is 0.
    """
    if parties == 1:
        return 0.0
    return (3 * parties + 1) / 2 * log_slope_bound(alpha) / share * FLOAT_MARGIN
