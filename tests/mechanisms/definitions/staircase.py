"""Staircase, rounded: the density's stairs, cut by every cell."""

from fractions import Fraction

from flint import arb, fmpq

from dprelease.mechanisms.base import Mechanism


def _ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def mass(law: Mechanism, k: int) -> arb:
    fields = {name: Fraction(float(text)) for name, text in law.parameters}
    width, gamma = fields["width"], fields["gamma"]
    b = (-_ball(width / fields["scale"])).exp()
    height = (1 - b) / (2 * _ball(width) * (_ball(gamma) + b * _ball(1 - gamma)))

    def density(y: Fraction) -> arb:
        whole, part = divmod(abs(y) / width, 1)
        return height * b ** (int(whole) + (part >= gamma))

    low, high = Fraction(2 * k - 1, 2), Fraction(2 * k + 1, 2)
    cuts = {low, high}
    for i in range(int((abs(k) + 1) / width) + 2):
        for edge in (i * width, (i + gamma) * width):
            cuts |= {side for side in (edge, -edge) if low < side < high}
    ends = sorted(cuts)
    parts = zip(ends, ends[1:], strict=False)
    return sum((_ball(b - a) * density((a + b) / 2) for a, b in parts), arb(0))
