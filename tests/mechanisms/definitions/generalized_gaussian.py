"""Generalized Gaussian, rounded: integrals of the density by balls."""

from flint import acb, arb

from dprelease.mechanisms.base import Mechanism


def mass(law: Mechanism, k: int) -> arb:
    p = arb(float(dict(law.parameters)["p"]))
    low, high = (arb(2 * abs(k) + side) / (2 * arb(law.scale)) for side in (-1, 1))
    height = 1 / (2 * (1 + 1 / p).gamma())
    if k == 0:  # the integral from 0 by parts of the series of exp: sum of (-1)^n y^(pn+1) / ...
        total, term, n = arb(0), arb(1), 0
        size = high**p
        while abs(term) > arb(2) ** -250 or n < 3 * size:
            total += term * high / (p * n + 1)
            n += 1
            term *= -size / n
        return 2 * height * (total + arb(0, 2**-200))
    found = acb.integral(lambda z, _: (-((z.log() * p).exp())).exp(), acb(low), acb(high))
    return height * found.real
