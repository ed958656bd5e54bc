"""Tails of the discrete Gaussian law: sums of exp(-k^2 / (2 scale^2)) over the integers.

Rigorous balls, by direct summation for small scales and by the Euler-Maclaurin formula with its
remainder bound for large ones; floats by the same two ways.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx, fmpq
from scipy import special

from dprelease.numerics.lattice import Floats

DIRECT_BELOW = 8.0
TABLE_BELOW = 1024.0
MOST_TERMS = 1000
REACH = 41.0
"""Scales covered by tables: the mass beyond is below 1e-365, so below the least float."""


def upper_tail(scale: float, k: int) -> arb:
    """Return a ball around P(K >= k) for k >= 1, at the precision of the flint context."""
    return _upper_tail(scale, k, ctx.prec)


@lru_cache(maxsize=4096)
def _upper_tail(scale: float, k: int, precision: int) -> arb:  # noqa: ARG001
    # `precision` only tells cached balls apart; a ball of any precision encloses the tail.
    if scale < DIRECT_BELOW:
        return _direct_sum(scale, k) / (1 + 2 * _direct_sum(scale, 1))
    # Poisson summation: all integers sum to scale sqrt(2 pi) (1 + 2 exp(-2 pi^2 scale^2) + ...).
    twice = 2 * (-2 * (arb.pi() * arb(scale)) ** 2).exp()
    return _euler_maclaurin(scale, k) / (1 + _within(twice, 2 * twice))


def _within(low: arb, high: arb) -> arb:
    return (low + high) / 2 + arb(0, (high - low).abs_upper())


def _direct_sum(scale: float, k: int) -> arb:
    """Return a ball around the sum over j >= k >= 1 of exp(-j^2 / (2 scale^2))."""
    rate = -1 / (2 * arb(scale) ** 2)
    last = k + int(scale * math.sqrt(1.4 * (ctx.prec + 32))) + 2
    total = arb(0)
    for j in range(k, last):
        total += (rate * (j * j)).exp()
    # Ratios of terms beyond fall below exp(rate (2 last + 1)): a geometric series bounds the rest.
    rest = (rate * (last * last)).exp() / (1 - (rate * (2 * last + 1)).exp())
    return total + _within(arb(0), rest)


def _euler_maclaurin(scale: float, k: int) -> arb:
    """Return a ball around sum over j >= k of h phi(j h), h = 1 / scale, phi the normal density.

    Midpoint form: Q(a) + sum over i of b_i h^(2i) phi^(2i-1)(a), a = (k - 1/2) h, with
    b_i = -B_2i(1/2) / (2i)!. Remainder after p terms: at most |B_2p| / (2p)! h^(2p) times
    sqrt((2p)! Q(a)), a bound of the integral of |phi^(n)| = |He_n| phi from a on (Cauchy-Schwarz).
    """
    h = 1 / arb(scale)
    a = (arb(2 * k - 1) / 2) * h
    total = (a / arb(2).sqrt()).erfc() / 2
    spread = total.abs_upper().sqrt()
    density = (-(a * a) / 2).exp() / (2 * arb.pi()).sqrt()
    target = spread * arb(2) ** -(ctx.prec + 8)
    hermite = [arb(1), a]  # phi^(n) = (-1)^n He_n phi
    power, order = h * h, 1
    while True:
        coefficient = -_bernoulli_at_half(2 * order) / math.factorial(2 * order)
        total -= _ball(coefficient) * power * hermite[2 * order - 1] * density
        bound = (
            _ball(_bernoulli_size(2 * order))
            * power
            * spread
            * arb(math.factorial(2 * order)).sqrt()
        )
        if bound <= target or order > MOST_TERMS:
            return total + arb(0, bound.abs_upper())
        for n in (2 * order - 1, 2 * order):
            hermite.append(a * hermite[n] - n * hermite[n - 1])
        power *= h * h
        order += 1


@lru_cache(maxsize=2048)
def _bernoulli(n: int) -> Fraction:
    number = fmpq.bernoulli(n)
    return Fraction(int(number.p), int(number.q))


def _bernoulli_at_half(n: int) -> Fraction:
    return (Fraction(2) ** (1 - n) - 1) * _bernoulli(n)


def _bernoulli_size(n: int) -> Fraction:
    return abs(_bernoulli(n)) / math.factorial(n)


def _ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


@lru_cache(maxsize=64)
def weights(scale: float) -> Floats:
    """Return P(K = k) for k = 0 .. 41 scales, scale < 1024; relative error below 2**-38."""
    k = np.arange(int(REACH * scale) + 2, dtype=np.float64)
    mass = np.exp(-0.5 * (k / scale) ** 2)
    mass /= 1.0 + 2.0 * float(np.sum(mass[:0:-1]))
    mass.setflags(write=False)
    return mass


@lru_cache(maxsize=64)
def tails(scale: float) -> Floats:
    """Return P(K >= k) for k = 0 .. 41 scales, scale < 1024; relative error below 2**-37.

    Summed from the far end: all terms are positive, so n of them cost at most n 2**-53.
    """
    mass = weights(scale)
    table = np.cumsum(mass[::-1])[::-1].copy()
    table.setflags(write=False)
    return table


def large_scale_quantile(scale: float, u: Floats) -> Floats:
    """Return the real x at which the tail, continued by Euler-Maclaurin, is u; scale >= 1024.

    x = scale (z - z h^2 / 24) + 1/2 with z the normal quantile: the next term is of order h^3.
    """
    z = special.ndtri(u)
    z *= -(scale - 1.0 / (24.0 * scale))
    z += 0.5
    return z
