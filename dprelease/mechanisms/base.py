"""What a mechanism is: a law on the integers, its privacy loss and its errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import ClassVar, NoReturn, Self

import numpy as np
from flint import arb, ctx

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms.shape import Shape
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Flags, Floats, LatticeLaw, largest
from dprelease.numerics.rounding import exact, round_up
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.unit import Move, Sensitivity

LEAST_SCALE, LARGEST_SCALE = 1e-3, 2.0**50
LARGEST_CENTER = 2.0**62

QUANTILE_ERROR = 2.0**-40
"""Claimed bound, in scales, on the error of a float quantile for tails above 2**-20.

An interval of 2**-64 at such a tail moves the quantile by less than 2**-43 scales; the library
functions behind the quantiles err by a few units in the last place. The tests compare densely with
balls.
"""

ONE_STEP = Sensitivity(slots=1, moves=(Move(1, 1),))


@dataclass(frozen=True)
class Mechanism(ABC):
    """Integer noise K, in lattice steps, added independently to every cell of a vector.

    Fields are floats, exact dyadic rationals: the law in the manifest is the law that was sampled,
    to the bit. `scale` is in lattice steps and grows with the noise. A mechanism is a `LatticeLaw`.
    The file name, the YAML name and `name` are the same word.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """What it is, its guarantee and its tail, in a line."""
    use: ClassVar[str]
    """When to use it, in a line."""
    pure: ClassVar[bool]
    """Whether the privacy loss of one cell is bounded."""
    norm: ClassVar[int]
    """1 or 2: the norm of the sensitivity that the scale follows when a budget is shared."""
    bounded: ClassVar[bool] = False
    """Whether the noise ends somewhere."""
    integers: ClassVar[bool] = False
    """Whether the law is one of the integers themselves, not a rounded continuous one."""
    shapes: ClassVar[tuple[Shape, ...]] = ()
    """What a release file may declare beside the name."""
    search: ClassVar[tuple[Mapping[str, float], ...]] = ({},)
    """Shapes among which the best is looked for when none is declared, good ones first."""
    examples: ClassVar[tuple[Mapping[str, str | float], ...]] = ({},)
    """Shapes that stand for all, for documentation and for the conformance suite."""
    domains: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Least and largest value of the fields other than `scale`."""

    scale: float

    def __post_init__(self) -> None:
        """Raise BudgetError DP-MECH-001 or 005 unless the parameters can be certified."""
        # Whatever number came in, its text in the manifest has to be that of a float.
        values = {field.name: float(getattr(self, field.name)) for field in fields(self)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._certify(values)

    @classmethod
    def _certify(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Raise BudgetError for parameters outside the domain; some laws have more conditions."""
        if not LEAST_SCALE <= values["scale"] <= LARGEST_SCALE:
            raise BudgetError(
                "DP-MECH-001", place=place, mechanism=cls.name, least=LEAST_SCALE, largest="2^50"
            )
        for name, (least, most) in cls.domains.items():
            if not least <= values[name] <= most:
                cls._refuse(name, f"{least!r} to {most!r}", place)

    @classmethod
    def _refuse(cls, name: str, admissible: str, place: Place | None = None) -> NoReturn:
        raise BudgetError(
            "DP-MECH-005", place=place, mechanism=cls.name, name=name, admissible=admissible
        )

    @classmethod
    def of(cls, place: Place | None = None, /, **parameters: str | float) -> Self:
        """Return the mechanism of these parameters, given as floats or as their decimal texts.

        Raises
        ------
        BudgetError
            DP-MECH-001 and 005 outside the domain, DP-MECH-002 for a parameter that does not exist,
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
        defaults = {f.name: f.default for f in fields(cls) if f.default is not MISSING}
        given = {**defaults, **parameters}
        try:
            values = {name: float(exact(str(given[name]))) for name in known}
        except (KeyError, ValueError, OverflowError):
            raise BudgetError(
                "DP-MECH-003", place=place, mechanism=cls.name, known=", ".join(known)
            ) from None
        cls._certify(values, place)
        return cls(**values)

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - for laws that need it
        place: Place | None = None,
        /,
        **shape: str | float,
    ) -> Self:
        """Return the mechanism of one scale that a release file's `shape` asks for.

        `shape` holds values of `shapes`, lengths in lattice steps. A law whose parameters depend on
        the shift of a cell finds it in `sensitivity`.

        Raises
        ------
        BudgetError
            As `of`; laws state their own admissible ranges.
        """
        return cls.of(place, scale=scale, **shape)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Return (name, decimal text) of every field; `of(**dict(parameters))` is equal to self."""
        found = ((field.name, repr(getattr(self, field.name))) for field in fields(self))
        return tuple(sorted(found))

    @property
    def law(self) -> LatticeLaw:
        """Return the exact law of K."""
        return self

    def federated(self, parties: int) -> Self:
        """Return the law that each of `parties` adds, so that the sum has this law's scale.

        Only of laws that are closed under sums before rounding; the sum of rounded shares is not
        the rounded sum: `privacy/federated.py` bounds the difference for stable noise.

        Raises
        ------
        ValueError
            If there is no party.
        BudgetError
            DP-FED-001 if shares of the law are not of its own kind, DP-MECH-001 if a share's scale
            can't be certified.
        """
        reason = "a sum of such noise is not of its own kind"
        raise BudgetError("DP-FED-001", mechanism=self.name, reason=reason)

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Return whether K and -K have the same law."""

    @abstractmethod
    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return k and where it is sure; see `LatticeLaw.invert`."""

    @abstractmethod
    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or P(K <= k), for any k."""

    @abstractmethod
    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return losses of which the worst, at each epsilon, is that of a cell.

        The cell moves by up to `shift` >= 1 steps, up or down. One object where one curve bounds
        all moves; otherwise several, whose pointwise largest delta(epsilon) counts.
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

    @property
    def root_mean_square_error(self) -> float:
        """Return the square root of E K^2, lattice steps: spread and bias together."""
        return float(np.hypot(self.mean, self.standard_deviation))

    def half_width(self, confidence: float) -> int:
        """Return the least w, lattice steps, with P(|K| <= w) >= confidence; never too small."""
        miss = Fraction(1) - exact(repr(float(confidence)))
        if not 0 < miss < 1:
            raise ValueError("a confidence lies between 0 and 1")
        u = np.array([float(miss) / 2])
        guess = max(abs(float(self.invert(u, upper)[0][0])) for upper in (True, False))
        with ctx.workprec(128):
            bound = ball(miss)

            def too_narrow(w: int) -> bool:
                # Where balls can't tell, the width counts as too narrow.
                return w < 0 or not self._beyond(w) <= bound

            found = largest(too_narrow, int(guess))
        return 0 if found is None else found + 1

    def _beyond(self, w: int) -> arb:
        """Return a ball around P(|K| > w)."""
        return self.tail(w + 1, True) + self.tail(-w - 1, False)


class Symmetric(Mechanism):
    """A mechanism whose noise has the same law as its negative."""

    @property
    def symmetric(self) -> bool:
        """Return True: K and -K have the same law."""
        return True

    @abstractmethod
    def upper_quantile(self, u: Floats) -> tuple[Floats, Flags]:
        """Return k with P(K >= k + 1) <= u < P(K >= k), and where it is sure; u in (0, 1/2]."""

    @abstractmethod
    def upper_tail(self, k: int) -> arb:
        """Return a ball around P(K >= k) for k >= 1."""

    def invert(self, u: Floats, upper: bool) -> tuple[Floats, Flags]:
        """Return k and where it is sure; see `LatticeLaw.invert`."""
        k, sure = self.upper_quantile(u)
        return (k if upper else -k), sure

    def tail(self, k: int, upper: bool) -> arb:
        """Return a ball around P(K >= k), or P(K <= k)."""
        j = k if upper else -k
        return self.upper_tail(j) if j >= 1 else 1 - self.upper_tail(1 - j)

    def _beyond(self, w: int) -> arb:
        return 2 * self.upper_tail(w + 1)


def certain(position: Floats, error: float | Floats) -> tuple[Floats, Flags]:
    """Return floor(position), and where no number within `error` of it has another floor."""
    k = np.floor(position)
    rest = position - k
    return k, (rest > error) & (rest < 1.0 - error)


def rounded_up(x: arb) -> float:
    """Return the least float that is certainly above what a ball encloses."""
    mantissa, exponent = (int(part) for part in x.upper().man_exp())
    return round_up(Fraction(mantissa) * Fraction(2) ** exponent)


def number(
    kind: type[Mechanism], value: str | float | None, name: str, place: Place | None
) -> Fraction:
    """Return the exact number of a declared shape parameter; raise DP-MECH-003 for a word."""
    try:
        return exact(str(value))
    except ValueError:
        raise BudgetError("DP-MECH-003", place=place, mechanism=kind.name, known=name) from None
