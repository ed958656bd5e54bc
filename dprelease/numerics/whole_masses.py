"""Symmetric distributions on finitely many integers, given by integer weights called masses.

The module writes masses as text, parses such texts, rounds floats to masses, and computes their
hockey-stick divergence exactly. `masses[k]` is P(K = k) = P(K = -k) times the sum of the masses of
all integers, and masses never rise with k. In the text, masses are in base 16 and separated by
spaces, and "*n" follows a mass that occurs n times in a row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby, pairwise

from flint import ctx

from dprelease.numerics.balls import ball
from dprelease.numerics.least_noise import OptimalNoise

MOST_MASSES = 8192
NEGLIGIBLE_MASS = 2**8
"""Mass below which masses at the far end are dropped, because they result from rounding up.

A mass of about 2**40 would correspond to delta."""
MOST_DIGITS = 64
ADMISSIBLE_TEXT = (
    f"1 to {MOST_MASSES} whole numbers in base 16, of at most {MOST_DIGITS} digits, above 0 and "
    "none above the one before"
)
_MASS = re.compile(r"([0-9a-f]{1,64})(?:\*([0-9]{1,4}))?")


def masses_text(masses: Sequence[int]) -> str:
    """Return the text of masses, which `parse_masses` parses."""
    runs = ((mass, sum(1 for _ in run)) for mass, run in groupby(masses))
    return " ".join(f"{mass:x}" if n == 1 else f"{mass:x}*{n}" for mass, n in runs)


def parse_masses(text: str) -> tuple[int, ...] | None:
    """Return the masses in a text, or None if the text has no admissible masses."""
    masses: list[int] = []
    for part in text.split(" "):
        match = _MASS.fullmatch(part)
        if match is None:
            return None
        masses += [int(match[1], 16)] * int(match[2] or 1)
        if len(masses) > MOST_MASSES:
            return None
    return tuple(masses) if are_admissible(masses) else None


def are_admissible(masses: Sequence[int]) -> bool:
    """Return whether masses are positive integers that never rise, and are not too many."""
    if not 1 <= len(masses) <= MOST_MASSES or any(type(mass) is not int for mass in masses):
        return False
    is_non_increasing = all(a >= b for a, b in pairwise(masses))
    return is_non_increasing and masses[-1] > 0 and masses[0] < 16**MOST_DIGITS


def mass_sum(masses: Sequence[int]) -> int:
    """Return the sum of the masses of all integers."""
    return 2 * sum(masses) - masses[0]


def hockey_stick_divergence(masses: Sequence[int], factor: Fraction, shift: int) -> Fraction:
    """Return the sum over k of max(0, masses[k] - factor masses[k + shift]) / mass_sum(masses).

    For masses that never rise and a factor >= 1, only the terms of k > -shift / 2 are positive.
    """
    n, d = factor.numerator, factor.denominator
    total_excess = 0
    # For k = -shift / 2 both masses are equal, and the term is not positive for a factor of 1 or
    # more.
    for k in range(-((shift - 1) // 2), len(masses)):
        after = masses[k + shift] if k + shift < len(masses) else 0
        total_excess += max(0, d * masses[abs(k)] - n * after)
    return Fraction(total_excess, d * mass_sum(masses))


def rational_exp(x: Fraction) -> Fraction:
    """Return a rational number >= exp(x), with a relative error below 2**-110, for |x| <= 100."""
    with ctx.workprec(256):
        bits = (ball(x).exp() * 2**128).ceil()
        # The ball is far narrower than 1, so the next integer is an upper bound.
        return Fraction(int(bits.upper().ceil().unique_fmpz() or 0) + 1, 2**128)


def round_masses(noise: OptimalNoise, epsilon: Fraction, delta: float) -> tuple[int, ...]:
    """Return integer masses near a solution of the linear program, with nearly the same privacy.

    For each k for which the solution spends no delta, masses[k + shift] is rounded up to at least
    e^-epsilon masses[k].
    """
    bits = math.ceil(-math.log2(delta) + 1.5 * float(epsilon)) + 40
    fall = rational_exp(-epsilon)
    shift = len(noise.first)

    def least_follower(mass: int) -> int:
        """Return the least integer that is at least e^-epsilon times this mass."""
        return -(-mass * fall.numerator // fall.denominator)

    masses = [round(Fraction(float(p)) * 2**bits) for p in noise.first]
    if noise.last_period:
        for k in range(1, (shift - 1) // 2 + 1):
            # The neighbours -k and shift - k must satisfy the inequality as well.
            masses[shift - k] = max(masses[shift - k], least_follower(masses[k]))
        masses[-1] = max(masses[-1], least_follower(masses[0]))
    _make_non_increasing(masses)
    for _ in range(noise.last_period * shift):
        masses.append(least_follower(masses[-shift]))
    spent = [math.floor(Fraction(float(t)) * 2**bits) for t in noise.spent]
    for i, p in enumerate(noise.window):
        # The part of delta that is spent is rounded down, so a mass never falls farther than the
        # solution allows.
        least = least_follower(max(0, masses[-shift] - spent[i]))
        masses.append(max(least, round(Fraction(float(p)) * 2**bits)))
    _make_non_increasing(masses)
    while masses and masses[-1] < NEGLIGIBLE_MASS:
        masses.pop()
    return tuple(masses)


def _make_non_increasing(masses: list[int]) -> None:
    """Raise each mass to the largest one after it, in place."""
    for k in range(len(masses) - 2, -1, -1):
        masses[k] = max(masses[k], masses[k + 1])
