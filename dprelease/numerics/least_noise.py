"""Find the symmetric unimodal distribution with the least error under (epsilon, delta).

A small linear program finds the probabilities p_0 >= p_1 >= ... of a symmetric distribution on the
integers. The distribution is private for a shift D if the sum over k of max(0, p_k - e^epsilon
p_{k+D}) is at most delta. For unimodal distributions and every epsilon >= 0, the sum for a shift s
grows with s: a term differs from 0 only if |k| < |k + s|, which means k > -s/2. For s <= D, this
implies 0 < k + s <= k + D, so p_{k+D} <= p_{k+s}. So only the shift D needs constraints.

The least error results if delta is spent far from 0: reducing p_k also reduces p_{k+D}, p_{k+2D},
..., each by e^-epsilon times as much as the probability before it, and integers farther from 0
cause larger errors. So p_{k+D} = e^-epsilon p_k up to a window of the last few periods of D
integers. Only the first period and this window are unknown; tests also solve the program without
this shortcut. Probabilities in the window are in units of delta, so all numbers have similar
orders of magnitude, and a solver with tolerances near 1e-9 suffices.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
from flint import ctx

from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Floats

if TYPE_CHECKING:
    from scipy import sparse

TOLERANCE = 1e-10


@dataclass(frozen=True)
class OptimalNoise:
    """A solution of the linear program: a period of probabilities that repeats, and a window.

    `first` (shift,) are the probabilities of period 0, and period j, for j up to `last_period`, has
    the probabilities first * e^(-j epsilon). After the last period follow the probabilities in
    `window` (n,). `spent` (shift + n,) is the part of delta that each integer from the last period
    on spends. `error` is the mean absolute or mean square error, up to the tolerance of the solver.
    """

    first: Floats
    last_period: int
    window: Floats
    spent: Floats
    error: float


class _Inequalities:
    """The inequalities `coefficients x <= bound` of a linear program, added one at a time."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.bounds: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []
        self._value: list[float] = []

    def add(self, coefficients: dict[int, float], bound: float = 0.0) -> None:
        """Add one inequality; `coefficients` maps the number of a column to its coefficient."""
        self._row += [len(self.bounds)] * len(coefficients)
        self._column += coefficients.keys()
        self._value += coefficients.values()
        self.bounds.append(bound)

    def matrix(self) -> sparse.csr_array:
        """Return the matrix of coefficients, with a row for each inequality."""
        # SciPy is slow to load, and `auto` needs only the class of this noise.
        from scipy import sparse

        shape = (len(self.bounds), self.columns)
        return sparse.csr_array((self._value, (self._row, self._column)), shape=shape)


@lru_cache(maxsize=256)
def solve(epsilon: float, delta: float, shift: int, power: int) -> OptimalNoise:
    """Return the private distribution with the least E |K|^power, for a power of 1 or 2.

    The arguments must satisfy 0 < epsilon <= 20 and 1e-20 <= delta < 1. The running time depends on
    the shift only, and is 20 ms for a shift of 64.

    Raises ArithmeticError if the solver finds no solution.
    """
    from scipy.optimize import linprog

    program = _LinearProgram(epsilon, delta, shift)
    weights, errors = program.probability_and_error_columns(power)
    inequalities = program.inequalities()
    # The solver's tolerances are absolute, so its objective is scaled to at most 1.
    size = errors.max()
    result = linprog(
        errors / size,
        A_ub=cast("Floats", inequalities.matrix()),  # the type stubs know no sparse arrays
        b_ub=inequalities.bounds,
        A_eq=weights[None, :],
        b_eq=[1.0],
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if result.x is None or result.fun is None:
        raise ArithmeticError("the linear program has no solution")
    ends = [shift, program.spent, program.first_negative]
    # The solver's tolerance lets variables be slightly negative.
    first, window, spent, _ = np.split(np.maximum(result.x, 0.0), ends)
    error = float(result.fun) * float(size)
    return OptimalNoise(first, program.last_period, window * delta, spent * delta, error)


class _LinearProgram:
    """The linear program that `solve` passes to the solver.

    Its columns are the probabilities of the first period, the probabilities of the window divided
    by delta, and the part of delta that each integer spends.
    """

    def __init__(self, epsilon: float, delta: float, shift: int) -> None:
        self.epsilon, self.delta, self.shift = epsilon, delta, shift
        # The end of truncated Laplace noise with this epsilon and delta (Geng et al. 2018).
        end = math.ceil(math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon)
        self.last_period = max(0, end - 2)
        # One period more than the truncated Laplace noise, which is private but not optimal, needs.
        self.window = (end + 1 - self.last_period) * shift
        # Delta is spent from this integer on; without repeated periods, from about -shift / 2 on.
        self.start = self.last_period * shift
        self.negative = range(-((shift - 1) // 2), 0)
        self.spent = shift + self.window
        self.first_negative = self.spent + shift + self.window
        self.columns = self.first_negative + (len(self.negative) if self.last_period == 0 else 0)

    def probability_and_error_columns(self, power: int) -> tuple[Floats, Floats]:
        """Return what one unit of each column adds to the total probability and to the error."""
        total, error = np.zeros(self.columns), np.zeros(self.columns)
        k = np.arange(self.shift)
        for period in range(self.last_period + 1):
            share = 2.0 * math.exp(-period * self.epsilon)
            total[k] += share
            error[k] += share * (k + period * self.shift) ** float(power)
        # All integers but 0 occur with both signs.
        total[0] -= 1.0
        window = np.arange(self.shift, self.spent)
        total[window] = 2.0 * self.delta
        error[window] = 2.0 * self.delta * (window + self.start) ** float(power)
        return total, error

    def inequalities(self) -> _Inequalities:
        """Return all inequalities of the linear program."""
        inequalities = _Inequalities(self.columns)
        self._add_privacy_inequalities(inequalities)
        self._add_monotonicity_inequalities(inequalities)
        inequalities.add(dict.fromkeys(range(self.spent, self.columns), 1.0), 1.0)
        return inequalities

    def _add_privacy_inequalities(self, inequalities: _Inequalities) -> None:
        """Add the inequalities e^-epsilon (p_k - spent_k) <= p_{k + shift} of all integers k.

        For k >= 0 they are in units of delta.
        """
        fall = math.exp(-self.epsilon)
        last_period_unit = math.exp(-self.last_period * self.epsilon) / self.delta
        for i in range(self.spent):
            size = last_period_unit if i < self.shift else 1.0
            follower = {self.shift + i: -1.0} if self.shift + i < self.spent else {}
            inequalities.add({i: size * fall, self.spent + i: -fall, **follower})
        for n, k in enumerate(self.negative):
            spent = {self.first_negative + n: -self.delta * fall} if self.last_period == 0 else {}
            inequalities.add({-k: fall, k + self.shift: -1.0, **spent})

    def _add_monotonicity_inequalities(self, inequalities: _Inequalities) -> None:
        """Add the inequalities p_{k+1} <= p_k.

        They are needed within the first period, within the window, and at the ends of periods.
        """
        edge = self.shift - 1
        last_period_unit = math.exp(-self.last_period * self.epsilon) / self.delta
        for i in range(self.spent - 1):
            inequalities.add({i: -last_period_unit if i == edge else -1.0, i + 1: 1.0})
        if self.last_period and self.shift > 1:
            inequalities.add({0: math.exp(-self.epsilon), edge: -1.0})


# Symmetric distributions on finitely many integers, given by integer weights called masses.
#
# The module writes masses as text, parses such texts, rounds floats to masses, and computes their
# hockey-stick divergence exactly. `masses[k]` is P(K = k) = P(K = -k) times the sum of the masses
# of all integers, and masses never rise with k. In the text, masses are in base 16 and separated by
# spaces, and "*n" follows a mass that occurs n times in a row.

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
