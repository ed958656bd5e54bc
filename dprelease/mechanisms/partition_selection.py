"""Optimal selection of keys that are not public.

Release    whether a key is selected, with a probability that depends on the number of units with
           it: the largest that (epsilon, delta) allows, for every number of units at once.
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
from dprelease.mechanisms.common.shape import Shape
from dprelease.mechanisms.randomizer import ONE_STEP, Randomizer
from dprelease.numerics.balls import ball
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.numerics.lazy_uniform import LazyUniform
from dprelease.numerics.rounding import round_down
from dprelease.privacy.losses.pure import ApproximateLoss
from dprelease.privacy.unit import Sensitivity

FLOAT_ERROR = 2.0**-30
"""Conservative bound on the relative error of a float probability."""


@dataclass(frozen=True)
class PartitionSelection(Randomizer):
    """Randomized selection of keys, by the number of privacy units with each key.

    Let e = exp(epsilon). The probability p(n) of selecting a key with n privacy units is
    delta (e^n - 1) / (e - 1) up to n = `turn`. Above, 1 - p(n) falls by the factor 1 / e, and by
    delta, with each further unit, until p is 1. p(0) is 0, so a key without a privacy unit is never
    selected. As errors, the class reports the numbers of privacy units at which keys are selected.
    """

    name: ClassVar[str] = "partition_selection"
    summary: ClassVar[str] = (
        "tells keys that enough privacy units have, optimally; (epsilon, delta)"
    )
    use: ClassVar[str] = "keys that are not public"
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 1
    shapes: ClassVar[tuple[Shape, ...]] = (
        Shape("delta", "chance that a key of one unit is selected", "above 0, below 1/2"),
    )
    domains = {"delta": (1e-300, 0.5), "scale": (0.01, 1e6)}  # noqa: RUF012

    delta: float = 0.0

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - one unit is one step for each key
        place: Place | None = None,
        /,
        **shape: str | float,
    ) -> Self:
        """Return the selection of a scale and a delta for each key, rounded down."""
        delta = round_down(Fraction(str(shape["delta"])))
        return cls.of(place, scale=scale, delta=delta)

    @property
    def epsilon(self) -> Fraction:
        """Return the exact epsilon of one key."""
        return 1 / Fraction(self.scale)

    @property
    def turn(self) -> int:
        """Return the number of privacy units up to which p grows by about the factor e."""
        epsilon, delta = 1.0 / self.scale, self.delta
        ratio = (math.expm1(epsilon) + 2 * delta) / (delta * (math.exp(epsilon) + 1))
        return 1 + math.floor(math.log(ratio) / epsilon)

    def probability(self, n: int) -> arb:
        """Return a ball around p(n), at the precision of the flint context.

        p is the smaller of its two branches, which cross at `turn`. A float error may change `turn`
        by one, so the neighbours of `turn` are tried as well.
        """
        if n <= 0:
            return arb(0)
        turn = max(1, self.turn)
        candidates = [self._branch(n, max(1, turn + move)) for move in (-1, 0, 1)]
        least = candidates[0]
        for other in candidates[1:]:
            least = least.min(other)
        return least.min(arb(1))

    def _branch(self, n: int, turn: int) -> arb:
        """Return p(n) if its branches change at `turn`."""
        epsilon, delta = ball(self.epsilon), ball(self.delta)
        grow = epsilon.expm1()
        if n <= turn:
            return delta * (n * epsilon).expm1() / grow
        last = delta * (turn * epsilon).expm1() / grow
        fall = (-(n - turn) * epsilon).exp()
        return (1 - fall) * (1 + delta / grow) + fall * last

    def select(self, units: Integers, bits: BitSource) -> Flags:
        """Return flags (n,) of the selected keys, from one random word for each key."""
        words = bits.words(len(units))
        counts, places = np.unique(units, return_inverse=True)
        p = np.array([float(self.probability(n).mid()) for n in counts.tolist()])[places]
        u: Floats = words.astype(np.float64) * 2.0**-64
        selected = u < p
        close = np.abs(u - p) <= np.maximum(p * FLOAT_ERROR, 2.0**-62)
        for i in np.flatnonzero(close & (units > 0)).tolist():
            selected[i] = self._decide_exactly(int(units[i]), LazyUniform(bits, int(words[i])))
        return selected & (units > 0)

    def _decide_exactly(self, n: int, uniform: LazyUniform) -> bool:
        return uniform.place(lambda: [self.probability(n), arb(1)]) == 0

    def losses(self, shift: int) -> tuple[ApproximateLoss, ...]:
        """Return the loss of one key whose number of units moves by `shift` = 1."""
        if shift != 1:
            raise ValueError("a unit counts once for each key")
        return (ApproximateLoss(self.epsilon, Fraction(self.delta)),)

    def _least_units(self, probability: float) -> int:
        """Return the least number of units whose key is selected with at least a probability."""
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
        """Return the number of units at which a key is selected with probability 1/2."""
        return float(self._least_units(0.5))

    @property
    def standard_deviation(self) -> float:
        """Return infinity, because a selection has no standard deviation."""
        return math.inf

    def half_width(self, confidence: float) -> int:
        """Return the number of units at which a key is selected with at least this probability."""
        return self._least_units(confidence)
