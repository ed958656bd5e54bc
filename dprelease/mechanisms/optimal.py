"""Optimal integer noise: noise with the least error for one cell, found by linear programming.

Release    q + K, where K takes finitely many integer values and P(K = k) is masses[|k|] divided by
           the sum of the masses of all integers.
Guarantee  (epsilon, delta) with epsilon = D / scale for one cell that moves by at most D steps,
           which `design` proves in rational arithmetic before it returns a mechanism. The
           accountant uses only the masses, and ignores the recorded scale.
Source     The linear program is in `numerics.least_noise`. Geng and Viswanath 2013, arXiv
           1305.1330v3, bound its value; for delta 0 the staircase (arXiv 1212.1186v3) is optimal.
Units      q, K and scale in steps; masses are whole numbers without a unit.

The last digits of a solver depend on the machine. So the masses themselves are a parameter: an
event records them, and nobody solves the linear program again. The masses never rise with |k|. For
such distributions delta(epsilon) grows with the shift (see `least_noise`), so the curve of a shift
bounds the curves of smaller shifts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np
from flint import arb

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms.base import SymmetricMechanism
from dprelease.mechanisms.randomizer import ONE_STEP, ShapeParameter
from dprelease.mechanisms.staircase import ERROR_MEASURES, Staircase
from dprelease.numerics import least_noise
from dprelease.numerics.balls import ball, float_upper_bound
from dprelease.numerics.lattice import Flags
from dprelease.numerics.rounding import exact, round_down
from dprelease.privacy.loss import Floats, Pieces, PrivacyLoss, epsilon_lower_bound
from dprelease.privacy.unit import Move, Sensitivity

LARGEST_SHIFT = 512
LARGEST_SOLVED_SHIFT = 256
LARGEST_EPSILON = 20
LEAST_DELTA, LARGEST_DELTA = Fraction(1, 10**20), Fraction(1, 2)
ADMISSIBLE_COUNT_TEXT = "more than one: noise that is always 0 publishes the truth"
LOSS_BOUND = Fraction(3 * least_noise.MOST_DIGITS)
"""Upper bound of all finite losses.

A loss is the logarithm of the ratio of two masses, which is at most ln 16 < 3 for each hexadecimal
digit of the larger mass."""

TABLE_ERROR = 2.0**-40
"""Bound on the relative error of a tabulated tail probability, with the interval of a word."""


@dataclass(frozen=True)
class Optimal(SymmetricMechanism):
    """Noise whose probabilities are proportional to integers that never rise with |k|."""

    name: ClassVar[str] = "optimal"
    summary: ClassVar[str] = "least error at epsilon and delta, by linear program; bounded"
    use_case: ClassVar[str] = (
        "one answer with small shifts under an (epsilon, delta) budget; yardstick"
    )
    has_integer_noise: ClassVar[bool] = True
    has_bounded_noise: ClassVar[bool] = True
    pure: ClassVar[bool] = False
    sensitivity_norm: ClassVar[int] = 1
    shape_parameters: ClassVar[tuple[ShapeParameter, ...]] = (
        ShapeParameter("delta", "delta of one cell", "1e-20 to 0.5"),
        ShapeParameter("optimise", "error that is made least", "mae or mse", ERROR_MEASURES),
    )
    example_shapes: ClassVar[tuple[Mapping[str, str | float], ...]] = (
        {"delta": "1e-9"},
        {"delta": "1e-6", "optimise": "mse"},
    )

    masses: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise BudgetError DP-MECH-001 or 005 unless the parameters can be certified."""
        object.__setattr__(self, "scale", float(self.scale))
        self._require_admissible({"scale": self.scale})
        if not least_noise.are_admissible(self.masses):
            self._refuse("masses", least_noise.ADMISSIBLE_TEXT)
        if len(self.masses) == 1:
            self._refuse("masses", ADMISSIBLE_COUNT_TEXT)

    @classmethod
    def of(cls, place: Place | None = None, /, **parameters: str | float) -> Self:
        """Return the noise with a scale and masses, both passed as the texts in `parameters`.

        Raises BudgetError: DP-MECH-001 to 003 and 005 for invalid parameters.
        """
        known = "masses, scale"
        for name in parameters.keys() - {"scale", "masses"}:
            raise BudgetError(
                "DP-MECH-002", place=place, mechanism=cls.name, name=name, known=known
            )
        try:
            scale, text = float(exact(str(parameters["scale"]))), str(parameters["masses"])
        except (KeyError, ValueError, OverflowError):
            raise BudgetError("DP-MECH-003", place=place, mechanism=cls.name, known=known) from None
        cls._require_admissible({"scale": scale}, place)
        masses = least_noise.parse_masses(text)
        if masses is not None and len(masses) == 1:
            cls._refuse("masses", ADMISSIBLE_COUNT_TEXT, place)
        if masses is None:
            cls._refuse("masses", least_noise.ADMISSIBLE_TEXT, place)
            raise AssertionError
        return cls(scale, masses)

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,
        place: Place | None = None,
        /,
        **shape: str | float,
    ) -> Self:
        """Return the noise with the least error at epsilon = largest shift / scale and `delta`.

        Raises BudgetError: DP-MECH-001 for a scale whose distribution would have too many masses,
        or whose epsilon is above 20; DP-MECH-005 for a delta out of range, a shift above 512, an
        unknown error measure, or a scale for which the linear program has no certified solution.
        """
        scale, delta, power = cls._checked_arguments(scale, sensitivity, place, **shape)
        try:
            return cls(scale, _private_masses(scale, delta, sensitivity.largest_shift, power))
        except ArithmeticError:
            cls._refuse("scale", "one at which the linear program is solved to its digits", place)

    @classmethod
    def admits(
        cls, scale: float, sensitivity: Sensitivity = ONE_STEP, /, **shape: str | float
    ) -> bool:
        """Return whether scale, shift and shape are in range, without solving a linear program."""
        try:
            cls._checked_arguments(scale, sensitivity, None, **shape)
        except BudgetError:
            return False
        return True

    @classmethod
    def _checked_arguments(
        cls,
        scale: float,
        sensitivity: Sensitivity,
        place: Place | None,
        /,
        **shape: str | float,
    ) -> tuple[float, float, int]:
        """Return the scale, delta, and the power of the error measure.

        Raises BudgetError: the errors of `design`, except a linear program without a certified
        solution.
        """
        scale = float(scale)
        cls._require_admissible({"scale": scale}, place)
        for name in shape.keys() - {"delta", "optimise"}:
            raise BudgetError(
                "DP-MECH-002",
                place=place,
                mechanism=cls.name,
                name=name,
                known="delta, optimise",
            )
        delta = cls._delta_of_text(shape.get("delta", "1e-9"), place)
        measure = shape.get("optimise", "mae")
        if measure not in ERROR_MEASURES:
            cls._refuse("optimise", " or ".join(ERROR_MEASURES), place)
        shift = sensitivity.largest_shift
        if shift > LARGEST_SHIFT:
            coarser = -(-shift // LARGEST_SHIFT)
            cls._refuse(
                "largest shift",
                f"at most {LARGEST_SHIFT} steps, but is {shift:,}: declare a `step` for "
                f"the column that is {coarser:,} times as large (finer lattices gain next to "
                "nothing), or use the staircase or a truncated Laplace mechanism",
                place,
            )
        # Masses reach about scale ln(1 + (e^epsilon - 1) / (2 delta)) steps, with some periods of
        # the shift beyond. With 1 in place of e^epsilon - 1 these are at most `shift` steps fewer.
        longest = (least_noise.MOST_MASSES - 4 * shift) / math.log1p(1 / (2 * delta))
        if not shift / LARGEST_EPSILON <= scale <= longest:
            raise BudgetError(
                "DP-MECH-001",
                place=place,
                mechanism=cls.name,
                least=shift / LARGEST_EPSILON,
                largest=f"{longest:.6g}",
            )
        return scale, delta, 1 if measure == "mae" else 2

    @classmethod
    def _delta_of_text(cls, value: str | float, place: Place | None) -> float:
        """Return the declared delta, rounded down; refuse a delta outside of its range."""
        try:
            delta = exact(str(value))
        except ValueError:
            delta = Fraction(0)
        if not LEAST_DELTA <= delta <= LARGEST_DELTA:
            admissible = "1e-20 to 0.5; with delta 0 the staircase has the least error"
            cls._refuse("delta", admissible, place)
        return round_down(delta)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Return the names and the texts of masses and scale.

        The mechanism `of(**dict(parameters))` is equal to this mechanism.
        """
        return (("masses", least_noise.masses_text(self.masses)), ("scale", repr(self.scale)))

    @cached_property
    def _mass_sum(self) -> int:
        return least_noise.mass_sum(self.masses)

    @cached_property
    def _upper_sums(self) -> tuple[int, ...]:
        """Return the sum of the masses from k on, for each k from 0 to the number of masses."""
        sums = [0]
        for mass in reversed(self.masses):
            sums.append(sums[-1] + mass)
        return tuple(reversed(sums))

    @cached_property
    def _ascending_tails(self) -> Floats:
        return np.array([float(Fraction(part, self._mass_sum)) for part in self._upper_sums])[::-1]

    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return the largest k with u < P(K >= k), and flags of the k that are certain."""
        ascending = self._ascending_tails
        index = np.searchsorted(ascending, u, side="right")
        at, beyond = ascending[np.minimum(index, len(ascending) - 1)], ascending[index - 1]
        sure = (u < at * (1 - TABLE_ERROR)) & (u > beyond * (1 + TABLE_ERROR))
        # An index beyond the end stands for a u above P(K >= 0), which rounding may cause. It is
        # not certain.
        k = np.maximum(len(ascending) - 1.0 - index, 0.0)
        return k, sure

    def upper_tail(self, k: int) -> arb:
        """Return P(K >= k), a ratio of whole numbers, at the precision of the flint context."""
        part = self._upper_sums[k] if k < len(self._upper_sums) else 0
        return arb(part) / self._mass_sum

    def losses(self, shift: int) -> tuple[OptimalLoss, ...]:
        """Return the exact loss of the integer noise."""
        return (OptimalLoss(self, shift),)

    def _moment(self, power: int) -> float:
        """Return the mean of |K| to this power, for a power of 1 or more."""
        parts = sum(k**power * mass for k, mass in enumerate(self.masses))
        return float(Fraction(2 * parts, self._mass_sum))

    @property
    def mean_absolute_error(self) -> float:
        """Return E |K|, from the integer masses."""
        return self._moment(1)

    @property
    def standard_deviation(self) -> float:
        """Return the square root of E K^2, from the integer masses."""
        return math.sqrt(self._moment(2))


@lru_cache(maxsize=256)
def _private_masses(scale: float, delta: float, shift: int, power: int) -> tuple[int, ...]:
    """Return integer masses of noise that is proved (shift / scale, delta)-private for the shift.

    The function reserves a part of delta for the tolerance of the solver and for rounding. It tries
    a few parts in ascending order, and uses the first one that suffices.

    Raises ArithmeticError if no part of delta suffices.
    """
    # Two floats lower, so that epsilon is below every decimal that Python reads as shift / scale.
    ratio = math.nextafter(round_down(Fraction(shift) / Fraction(scale)), 0.0)
    epsilon = Fraction(math.nextafter(ratio, 0.0))
    # This factor is at most exp(epsilon), so the computed divergence is at least the true one.
    factor = 1 / least_noise.rational_exp(-epsilon)
    for reserved in (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        # Only the exact divergence below decides. What the solver finds, and how it rounds, is no
        # part of the proof.
        aimed_delta = delta * (1 - reserved)
        noise = least_noise.solve(float(epsilon), aimed_delta, shift, power)
        masses = least_noise.round_masses(noise, epsilon, aimed_delta)
        if not least_noise.are_admissible(masses):
            continue
        if least_noise.hockey_stick_divergence(masses, factor, shift) <= Fraction(delta):
            return masses
    raise ArithmeticError("the solver's digits do not suffice")


def least_error(epsilon: float, delta: float, shift: int, measure: str = "mae") -> float:
    """Return the least possible error of one cell, in steps.

    The error is the mean absolute error for the measure "mae", and the root mean square error for
    "mse". The minimum is over all symmetric distributions on the integers that never rise away from
    0 and are (epsilon, delta)-private for moves by up to `shift` steps. The relative accuracy of
    the result is about 1e-8. Shifts above 256 are scaled down, because finer steps change less than
    1e-5 of the error.
    """
    if measure not in ERROR_MEASURES:
        raise ValueError("the measure is mae or mse")
    if delta == 0:
        moves = Sensitivity(1, (Move(shift, 1),))
        mechanism = Staircase.design(shift / epsilon, moves, optimise=measure)
        return mechanism.mean_absolute_error if measure == "mae" else mechanism.standard_deviation
    # The result is only a yardstick for `plan`, so an approximation suffices.
    coarse = min(shift, LARGEST_SOLVED_SHIFT)
    error = least_noise.solve(
        float(epsilon), float(delta), coarse, 1 if measure == "mae" else 2
    ).error
    return (error if measure == "mae" else math.sqrt(error)) * (shift / coarse)


@dataclass(frozen=True)
class OptimalLoss(PrivacyLoss):
    """The loss of noise with integer masses against the same noise moved by `shift` steps."""

    noise: Optimal
    shift: int

    @property
    def largest_relevant_loss(self) -> float:
        """Return the largest finite loss."""
        pieces = self._pieces
        return float(np.max(pieces.high[np.isfinite(pieces.high)], initial=0.0))

    @property
    def infinite_loss_probability(self) -> float:
        """Return the probability of outputs that are impossible for the neighbour, rounded up."""
        return self.delta(LOSS_BOUND)

    @cached_property
    def _masses_by_loss(self) -> tuple[list[tuple[int, int]], list[int], list[int]]:
        """Return the P and Q masses of outputs with positive losses, and their cumulative sums.

        The outputs are in falling order of their losses.
        """
        masses = self.noise.masses + (0,) * self.shift
        ks = range(-((self.shift - 1) // 2), len(self.noise.masses))
        pairs = [(masses[abs(k)], masses[k + self.shift]) for k in ks]
        pairs.sort(key=lambda pair: -Fraction(*pair) if pair[1] else -math.inf)
        p, q = [0], [0]
        # Integers, so that sums and the order of losses are exact: floats would leave the event E
        # uncertain.
        for own, other in pairs:
            p.append(p[-1] + own)
            q.append(q[-1] + other)
        return pairs, p, q

    def _delta(self, epsilon: float | Fraction) -> float:
        """Return P(E) - exp(epsilon) Q(E) for the set E of outputs with a loss above epsilon.

        For an epsilon below 0, delta(-e) = 1 - exp(-e) + exp(-e) delta(e) by symmetry.
        """
        edge = min(epsilon_lower_bound(epsilon), LOSS_BOUND)
        pairs, p, q = self._masses_by_loss

        def delta_interval() -> arb:
            """Return an interval (ball) that contains delta."""
            factor = ball(abs(edge)).exp()
            low, high = 0, len(pairs)
            while low < high:
                middle = (low + high) // 2
                own, other = pairs[middle]
                # If balls can't decide, own almost equals factor * other, and adds almost nothing.
                low, high = (middle + 1, high) if own > factor * other else (low, middle)
            gain = (arb(p[low]) - factor * q[low]) / self.noise._mass_sum
            return gain if edge >= 0 else -ball(edge).expm1() + ball(edge).exp() * gain

        return min(1.0, float_upper_bound(delta_interval))

    @cached_property
    def _pieces(self) -> Pieces:
        count = len(self.noise.masses)
        size = 2 * count - 1
        half = np.array([float(Fraction(mass, self.noise._mass_sum)) for mass in self.noise.masses])
        probabilities = np.concatenate((half[:0:-1], half))
        p = np.concatenate((probabilities, np.zeros(min(self.shift, size))))
        q = np.concatenate((np.zeros(min(self.shift, size)), probabilities))
        with np.errstate(divide="ignore"):
            loss = np.log(p / np.where(q > 0, q, 1.0)) + np.where(q > 0, 0.0, np.inf)
        return Pieces(p, q, loss, loss)

    def pieces(self, width: float) -> Pieces:
        """Return one piece for every output."""
        return self._pieces

    def renyi(self, order: float) -> float:
        """Return infinity, because the support is bounded."""
        return math.inf


MECHANISM = Optimal
