"""Selection of private keys by discrete Gaussian noise and a threshold.

Release    The keys whose noisy number of privacy units n + K is at least `threshold`, for all keys
           with n >= 1, and these noisy numbers. K is discrete Gaussian noise with the scale
           `scale`, independent for every key. A key that nobody has is never selected.
Guarantee  For one key that a privacy unit may have: delta-approximately rho-zCDP, with rho =
           1 / (2 scale^2) and delta = P(K >= threshold - 1). For a unit with m keys, both are
           multiplied by m.
Source     Bun and Steinke 2016, arXiv 1605.02065v1, section 8 (approximate zCDP); Canonne, Kamath
           and Steinke 2020, arXiv 2004.00010v5, Theorem 4; the idea is that of Korolova,
           Kenthapadi, Mishra and Ntoulas 2009, with other noise.

Proof. Let x and x' be neighbours, between which the numbers of at most m keys differ, each by 1
(`Sensitivity`). Let j of these keys be present in only one of the two tables, so that n = 1 there.
Let E be the event that none of these j keys is selected. Each of them is selected if K >=
threshold - 1, so the probability of E is at least (1 - P(K >= threshold - 1))^j, for x and for x',
which is at least 1 - m P(K >= threshold - 1). Given E, none of these keys is in the output of x or
of x'. The noise of all other keys is independent of E. At most m - j of them have different
numbers, so their Rényi divergences of order a add up to at most a (m - j) / (2 scale^2), and
leaving out numbers below the threshold is post-processing. So the mechanism is (m delta)-
approximately (m rho)-zCDP, whatever j is.

**Rejected.** To use that a key costs either its part of rho or its part of delta: this would be
sharper only for units with several keys, and only slightly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from dprelease.errors import Place
from dprelease.mechanisms.base import parse_shape_number
from dprelease.mechanisms.discrete_gaussian import DiscreteGaussian
from dprelease.mechanisms.randomizer import LARGEST_SCALE, LEAST_SCALE, ONE_STEP, ShapeParameter
from dprelease.numerics.balls import float_upper_bound
from dprelease.numerics.lattice import largest_true
from dprelease.numerics.rounding import round_down
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.losses.pure import ApproximateLoss
from dprelease.privacy.unit import Sensitivity

LARGEST_THRESHOLD = 2.0**50


@dataclass(frozen=True)
class GaussianThreshold(DiscreteGaussian):
    """Discrete Gaussian noise on numbers of privacy units, and the least number that is published.

    `design` computes the threshold from the delta of one key.
    """

    name: ClassVar[str] = "gaussian_threshold"
    summary: ClassVar[str] = "Gaussian noise on the units of a key, and a threshold; rho and delta"
    use_case: ClassVar[str] = "keys that are not public, under a budget in rho"
    renyi_from_l2_norm: ClassVar[bool] = False
    shape_parameters: ClassVar[tuple[ShapeParameter, ...]] = (
        ShapeParameter("delta", "chance that a key of one unit is selected", "above 0, below 1/2"),
    )
    parameter_ranges = {"threshold": (2.0, LARGEST_THRESHOLD)}  # noqa: RUF012

    threshold: float = 2.0

    @classmethod
    def _require_admissible(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Refuse inadmissible parameters, such as a threshold that is not a whole number."""
        super()._require_admissible(values, place)
        if values["threshold"] != math.floor(values["threshold"]):
            cls._refuse("threshold", "a whole number", place)

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - each unit counts once for each key
        place: Place | None = None,
        /,
        **shape: str | float,
    ) -> Self:
        """Return the selection with the least threshold for a scale and a delta for each key.

        Raises BudgetError: DP-MECH-001, 003 or 005 for a scale or a delta that is out of range or
        not a number.
        """
        cls.of(place, scale=scale)
        delta = parse_shape_number(cls, shape.get("delta"), "delta", place)
        if not 0 < delta < Fraction(1, 2):
            cls._refuse("delta", "above 0, below 1/2", place)
        noise, limit = DiscreteGaussian(scale), round_down(delta)

        def is_too_likely(k: int) -> bool:
            """Return whether the noise is k or more with a probability that may exceed delta."""
            # The upper end of the probability is compared with a delta that is rounded down, so the
            # threshold errs on the high side.
            return k < 1 or float_upper_bound(lambda: noise.upper_tail(k)) > limit

        # P(K >= k) is about exp(-(k / scale)^2 / 2), from which the search starts.
        start = math.ceil(scale * math.sqrt(-2.0 * math.log(max(limit, 5e-324))))
        last = largest_true(is_too_likely, min(start, int(LARGEST_THRESHOLD)))
        assert last is not None  # the predicate is never undecided
        # Noise of last + 1 is unlikely enough, and one person with this noise reaches last + 2.
        return cls.of(place, scale=scale, threshold=float(last + 2))

    @classmethod
    def admits(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - as in `design`
        /,
        **shape: str | float,  # noqa: ARG003 - every delta has a threshold
    ) -> bool:
        """Return whether the scale is in range, without computing the threshold."""
        return LEAST_SCALE <= scale <= LARGEST_SCALE

    @property
    def single_unit_probability(self) -> Fraction:
        """Return the probability of selecting a key of one unit, rounded up to a float."""
        return Fraction(float_upper_bound(lambda: self.upper_tail(int(self.threshold) - 1)))

    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return the losses of a key of several units, and of a key of one unit.

        Raises ValueError if `shift` is not 1, the only valid value.
        """
        if shift != 1:
            raise ValueError("a unit counts once for each key")
        found_or_not = ApproximateLoss(Fraction(0), self.single_unit_probability)
        return (*super().losses(shift), found_or_not)
