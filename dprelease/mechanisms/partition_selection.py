"""Optimal selection of private keys.

Release    Whether a key is selected. The probability depends on the number of privacy units with
           the key. For every number of units, it is the largest probability that (epsilon, delta)
           allows.
Guarantee  (epsilon, delta) for each key that a privacy unit may have, with epsilon = 1 / scale.
Source     Desfontaines, Voss, Gipson and Mandayam 2020, "Differentially private partition
           selection", arXiv 2006.03684v2, Theorem 1 and section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from flint import arb

from dprelease.errors import Place
from dprelease.mechanisms.randomizer import ONE_STEP, Randomizer, ShapeParameter
from dprelease.numerics.balls import ball
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers, LazyUniform
from dprelease.numerics.rounding import round_down
from dprelease.privacy.losses.pure import ApproximateLoss
from dprelease.privacy.unit import Sensitivity

FLOAT_ERROR = 2.0**-30
"""Conservative bound on the relative error of a probability that is computed in floats."""


@dataclass(frozen=True)
class PartitionSelection(Randomizer):
    """Random selection of keys, from the number of privacy units with each key.

    Let e = exp(epsilon). The probability p(n) of selecting a key with n privacy units is
    delta (e^n - 1) / (e - 1) up to n = `turning_point`. Above this number, each further unit
    multiplies 1 - p(n) by 1 / e and reduces it by delta / e, until p(n) is 1. The probability p(0)
    is 0, so a key without a privacy unit is never selected. The properties for errors return
    numbers of privacy units at which a key is selected.
    """

    name: ClassVar[str] = "partition_selection"
    summary: ClassVar[str] = (
        "tells keys that enough privacy units have, optimally; (epsilon, delta)"
    )
    use_case: ClassVar[str] = "keys that are not public"
    pure: ClassVar[bool] = False
    sensitivity_norm: ClassVar[int] = 1
    shape_parameters: ClassVar[tuple[ShapeParameter, ...]] = (
        ShapeParameter("delta", "chance that a key of one unit is selected", "above 0, below 1/2"),
    )
    parameter_ranges = {"delta": (1e-300, 0.5), "scale": (0.01, 1e6)}  # noqa: RUF012

    delta: float = 0.0

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - each unit counts once for each key
        place: Place | None = None,
        /,
        **shape: str | float,
    ) -> Self:
        """Return the selection with a scale and a delta for each key; delta is rounded down."""
        delta = round_down(Fraction(str(shape["delta"])))
        return cls.of(place, scale=scale, delta=delta)

    @property
    def epsilon(self) -> Fraction:
        """Return the exact epsilon of the selection of one key."""
        return 1 / Fraction(self.scale)

    @property
    def turning_point(self) -> int:
        """Return the number of privacy units up to which p grows by about the factor e."""
        epsilon, delta = 1.0 / self.scale, self.delta
        ratio = (math.expm1(epsilon) + 2 * delta) / (delta * (math.exp(epsilon) + 1))
        return 1 + math.floor(math.log(ratio) / epsilon)

    def probability(self, n: int) -> arb:
        """Return an interval (ball) around p(n), at the precision of the flint context.

        p(n) is the smaller of two functions of n, which cross at `turning_point`. A float error may
        change `turning_point` by one, so the method also tries the numbers before and after it.
        """
        if n <= 0:
            return arb(0)
        turning_point = max(1, self.turning_point)
        candidates = [
            self._probability_with_turning_point(n, max(1, turning_point + move))
            for move in (-1, 0, 1)
        ]
        # Near the true turning point, a formula that turns too early or too late is never below
        # p(n): in each step p grows by the smaller of two functions, and such a formula takes the
        # larger one once.
        least = candidates[0]
        for other in candidates[1:]:
            least = least.min(other)
        return least.min(arb(1))

    def _probability_with_turning_point(self, n: int, turning_point: int) -> arb:
        """Return p(n) for a given number of units at which its formula changes."""
        epsilon, delta = ball(self.epsilon), ball(self.delta)
        grow = epsilon.expm1()
        if n <= turning_point:
            return delta * (n * epsilon).expm1() / grow
        last = delta * (turning_point * epsilon).expm1() / grow
        fall = (-(n - turning_point) * epsilon).exp()
        return (1 - fall) * (1 + delta / grow) + fall * last

    def select(self, units: Integers, bits: BitSource) -> Flags:
        """Return flags (n,) of the selected keys, from the numbers of privacy units of n keys.

        One random word is drawn for every key, and further words if floats can't decide.
        """
        words = bits.words(len(units))
        counts, count_of_key = np.unique(units, return_inverse=True)
        p = np.array([float(self.probability(n).mid()) for n in counts.tolist()])[count_of_key]
        u: Floats = words.astype(np.float64) * 2.0**-64
        selected = u < p
        # The second bound covers the interval of a word, 2^-64, and the rounding of u for the
        # smallest p.
        close = np.abs(u - p) <= np.maximum(p * FLOAT_ERROR, 2.0**-62)
        for i in np.flatnonzero(close & (units > 0)).tolist():
            selected[i] = self._decide_exactly(int(units[i]), LazyUniform(bits, int(words[i])))
        # A key without any unit must never be published, for any random word.
        return selected & (units > 0)

    def _decide_exactly(self, n: int, uniform: LazyUniform) -> bool:
        """Return whether a partition with n units is kept."""
        return uniform.interval_index(lambda: [self.probability(n), arb(1)]) == 0

    def losses(self, shift: int) -> tuple[ApproximateLoss, ...]:
        """Return the loss of the selection of one key; the only valid `shift` is 1.

        Raises ValueError if `shift` is not 1.
        """
        if shift != 1:
            raise ValueError("a unit counts once for each key")
        return (ApproximateLoss(self.epsilon, Fraction(self.delta)),)

    def _least_units(self, probability: float) -> int:
        """Return the least number of units with which a key has at least this probability."""
        low, high = 0, 1
        while not float(self.probability(high).mid()) >= probability:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            reached = float(self.probability(middle).mid()) >= probability
            low, high = (low, middle) if reached else (middle, high)
        return high

    @property
    def mean_absolute_error(self) -> float:
        """Return the least number of units with which the selection probability is 1/2 or more."""
        return float(self._least_units(0.5))

    @property
    def standard_deviation(self) -> float:
        """Return infinity, because a selection has no standard deviation."""
        return math.inf

    def half_width(self, confidence: float) -> int:
        """Return the least number of units with which the probability is `confidence` or more."""
        return self._least_units(confidence)
