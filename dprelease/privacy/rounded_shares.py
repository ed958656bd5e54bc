"""Privacy cost of a sum of stable noise shares, where every party rounds its share.

n parties draw Y_i, independently, with density f, and send q_i + K_i, where K_i is Y_i rounded to
whole steps. An attacker who sees only the sum of these messages sees q + V, with V = K_1 + ... +
K_n. V is not the rounded sum of the Y_i, so the guarantee of the rounded sum does not carry over by
post-processing. But V is close to the rounded sum:

    exp(-a) F'(v) <= P(V = v) <= exp(a) F'(v)    for every v,    a = (3 n + 1) / 2 * slope,

where F' is the distribution of Y_1 + ... + Y_n, rounded once, and `slope` bounds |(ln f)'| per
step.

Proof. f(y + t) <= exp(slope |t|) f(y). Let g(v) be the sum of f(k_1) ... f(k_n) over all whole k
with the sum v.
1. P(V = v) integrates the sum of all f(k_1 + r_1) ... f(k_n + r_n) over |r_i| <= 1/2: it lies
   within exp(+-n slope / 2) of g(v).
2. g(v + j) lies within exp(+-slope |j|) of g(v): move k_1 by j.
3. The density F of Y_1 + ... + Y_n at v is the same integral over those r and whole w with
   w + r_1 + ... + r_n = v: within exp(+-n slope / 2) of an average of g(w) over |w - v| <= n / 2,
   whose weights are values of the uniform spline and add up to one; so by 2 within
   exp(+-n slope) of g(v).
4. F is as steep as f at most, so F'(v) lies within exp(+-slope / 2) of F(v).
Together: (n / 2 + n + 1 / 2) slope.

So if a privacy unit can move `moved` coordinates, and rounded stable noise of n^(1/alpha) times the
scale of a share is (epsilon, delta)-private for them, then the sums are (epsilon + 2 a moved, exp(a
moved) delta)-private: the probabilities of unmoved coordinates cancel. Finer steps of the parties
make `slope`, and so a, arbitrarily small. Messages of parties that add no noise, or reveal their
noise, are constants, so n is the number of parties that add noise and keep it secret.

The sum of all messages modulo 2^64 is a function of the sum, so it is post-processing.
"""

from __future__ import annotations

from functools import lru_cache

from dprelease.privacy.losses.stable import LEAST_SHIFT, THIRD_DERIVATIVE, largest_loss

FLOAT_MARGIN = 1.0 + 2.0**-40
"""Factor above the float error of a few operations."""


@lru_cache(maxsize=256)
def steepest(alpha: float) -> float:
    """Return an upper bound of |(ln p)'| of the standard stable distribution.

    With s the steepest slope, the largest loss for a short shift h is at least h (s -
    THIRD_DERIVATIVE h^2 / 24).
    """
    h = LEAST_SHIFT
    return (largest_loss(alpha, h) / h + THIRD_DERIVATIVE * h * h / 24) * FLOAT_MARGIN


def rounding_exponent(alpha: float, share: float, parties: int) -> float:
    """Return a, rounded up, where rounding may change a probability of the sum by a factor exp(a).

    `share` is the scale of the noise of one party, in the steps to which the noise is rounded.
    `parties` is the number of parties that add noise. A single party rounds once, so a is 0.
    """
    if parties == 1:
        return 0.0
    return (3 * parties + 1) / 2 * steepest(alpha) / share * FLOAT_MARGIN
