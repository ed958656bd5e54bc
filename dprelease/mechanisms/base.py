"""What a mechanism is: a law on the integers, its privacy loss and its errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from flint import arb, ctx

from dprelease.errors import BudgetError, Place
from dprelease.numerics.lattice import Flags, Floats, LatticeLaw, largest
from dprelease.numerics.rounding import exact
from dprelease.privacy.loss import PrivacyLoss

LEAST_SCALE, LARGEST_SCALE = 1e-3, 2.0**50

QUANTILE_ERROR = 2.0**-40
"""Claimed bound, in scales, on the error of a float quantile for tails above 2**-20.

An interval of 2**-64 at such a tail moves the quantile by less than 2**-43 scales; the library
functions behind the quantiles err by a few units in the last place. The tests compare densely with
balls.
"""


@dataclass(frozen=True)
class Mechanism(ABC):
    """Integer noise K, in lattice steps, added independently to every cell of a vector.

    Fields are floats, exact dyadic rationals: the law in the manifest is the law that was sampled,
    to the bit. `scale` is in lattice steps and grows with the noise. A mechanism is a symmetric
    `LatticeLaw` of mean zero. The file name, the YAML name and `name` are the same word.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    pure: ClassVar[bool]
    """Whether the privacy loss of one cell is bounded."""
    norm: ClassVar[int]
    """1 or 2: the norm of the sensitivity that the scale follows when a budget is shared."""
    examples: ClassVar[tuple[float, ...]] = (0.3, 1.0, 7.5, 1000.0, 2.0**21)

    scale: float

    def __post_init__(self) -> None:
        """Raise BudgetError DP-MECH-001 unless the scale is one that can be certified."""
        # Whatever number came in, its text in the manifest has to be that of a float.
        object.__setattr__(self, "scale", float(self.scale))
        self._certify(self.scale)

    @classmethod
    def _certify(cls, scale: float, place: Place | None = None) -> None:
        if not LEAST_SCALE <= scale <= LARGEST_SCALE:
            raise BudgetError(
                "DP-MECH-001", place=place, mechanism=cls.name, least=LEAST_SCALE, largest="2^50"
            )

    @classmethod
    def of(cls, place: Place | None = None, /, **parameters: str | float) -> Self:
        """Return the mechanism of these parameters, given as floats or as their decimal texts.

        Raises
        ------
        BudgetError
            DP-MECH-001 outside the domain, DP-MECH-002 for a parameter that does not exist,
            DP-MECH-003 for one that is missing or not a number.
        """
        known = [field.name for field in fields(cls)]
        for name in parameters:
            if name not in known:
                raise BudgetError(
                    "DP-MECH-002",
                    place=place,
                    mechanism=cls.name,
                    name=name,
                    known=", ".join(known),
                )
        try:
            values = {name: float(exact(str(parameters[name]))) for name in known}
        except (KeyError, ValueError, OverflowError):
            raise BudgetError(
                "DP-MECH-003", place=place, mechanism=cls.name, known=", ".join(known)
            ) from None
        cls._certify(values["scale"], place)
        return cls(**values)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Return (name, decimal text) of every field; `of(**dict(parameters))` is equal to self."""
        found = ((field.name, repr(getattr(self, field.name))) for field in fields(self))
        return tuple(sorted(found))

    @property
    def law(self) -> LatticeLaw:
        """Return the exact law of K."""
        return self

    @property
    def symmetric(self) -> bool:
        """Return True: K and -K have the same law."""
        return True

    @abstractmethod
    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return k and where it is sure; see `LatticeLaw.invert`."""

    @abstractmethod
    def upper_tail(self, k: int) -> arb:
        """Return a ball around P(K >= k) for k >= 1."""

    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or P(K <= k)."""
        j = k if upper else -k
        return self.upper_tail(j) if j >= 1 else 1 - self.upper_tail(1 - j)

    @abstractmethod
    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return the loss of one cell that moves by up to `shift` >= 1 steps.

        One object for a law whose directions agree; otherwise one for each direction.
        """

    @property
    def mean(self) -> float:
        """Return E K, lattice steps."""
        return 0.0

    @property
    @abstractmethod
    def mean_absolute_error(self) -> float:
        """Return E |K|, lattice steps; infinity if there is none."""

    @property
    @abstractmethod
    def standard_deviation(self) -> float:
        """Return the standard deviation of K, lattice steps; infinity if there is none."""

    def half_width(self, confidence: float) -> int:
        """Return the least w, lattice steps, with P(|K| <= w) >= confidence; never too small."""
        miss = Fraction(1) - exact(repr(float(confidence)))
        before = ctx.prec
        ctx.prec = 128
        try:
            bound = arb(miss.numerator) / (2 * arb(miss.denominator))

            def too_narrow(w: int) -> bool:
                return not self.upper_tail(w + 1) <= bound if w >= 0 else True

            guess = float(self.invert(np.array([float(miss) / 2]), True)[0][0])
            found = largest(too_narrow, int(guess))
        finally:
            ctx.prec = before
        return 0 if found is None else found + 1


def certain(position: Floats, error: float) -> tuple[Floats, Flags]:
    """Return floor(position), and where no number within `error` of it has another floor."""
    k = np.floor(position)
    rest = position - k
    return k, (rest > error) & (rest < 1.0 - error)
