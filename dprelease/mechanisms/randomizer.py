"""The base of noise and selection mechanisms: parameters, privacy loss and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, NoReturn, Self

import numpy as np

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms.common.shape import Shape
from dprelease.numerics.rounding import exact
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.unit import Move, Sensitivity

LEAST_SCALE, LARGEST_SCALE = 1e-3, 2.0**50

ONE_STEP = Sensitivity(slots=1, moves=(Move(1, 1),))


@dataclass(frozen=True, slots=True)
class PlaceInAuto:
    """The conditions under which `auto` tries a family.

    A family with `last_resort` is tried only if `allowed` names it, or no other family is possible.
    `integers` is the name of the family's variant on the integers, which is at least as good unless
    the noise is only a few steps. A family with `composed` is not tried under pure budgets, because
    it is better than others only by composition. `auto` searches the other shapes of a family if
    the error of its first shape is at most `within` times the least error.
    """

    last_resort: bool = False
    integers: str | None = None
    composed: bool = False
    within: float = 5.0


@dataclass(frozen=True)
class Randomizer(ABC):
    """The random procedure for the answer of one cell: noise, or a selection among candidates.

    Fields are floats, which are exact dyadic rationals, so the distribution in the manifest is
    exactly the sampled one. A larger `scale` means larger errors. The name of the module, the name
    in YAML files and `name` are equal.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """The mechanism, its guarantee and its tail, in one line."""
    use: ClassVar[str]
    """When to use it, in a line."""
    pure: ClassVar[bool]
    """Whether the privacy loss of one cell is bounded."""
    norm: ClassVar[int]
    """1 or 2: the norm of the sensitivity that determines the scale when a budget is shared."""
    by_squares: ClassVar[bool] = False
    """Whether the L2 norm of its shift alone determines the Rényi divergences of a vector."""
    bounded: ClassVar[bool] = False
    """Whether the noise is bounded."""
    integers: ClassVar[bool] = False
    """Whether the noise has a distribution on the integers, and not a rounded continuous one."""
    shapes: ClassVar[tuple[Shape, ...]] = ()
    """Keys that a release file may declare in addition to the name."""
    auto: ClassVar[PlaceInAuto] = PlaceInAuto()
    """The conditions under which `auto` tries the family."""
    needed: ClassVar[frozenset[str]] = frozenset()
    """Names of the shape parameters that must be declared, because none of their values is best."""
    search: ClassVar[tuple[Mapping[str, float], ...]] = ({},)
    """Shapes among which the best one is searched if none is declared, good ones first."""
    examples: ClassVar[tuple[Mapping[str, str | float], ...]] = ({},)
    """Representative shapes, for documentation and for the conformance suite."""
    domains: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Minimum and maximum of the fields other than `scale`."""

    scale: float

    @classmethod
    def tells_moments(cls) -> bool:
        """Return whether the family has distributions with a certified variance."""
        return False

    def __post_init__(self) -> None:
        """Raise BudgetError DP-MECH-001 or 005 unless the parameters can be certified."""
        # The text in the manifest must be the text of a float, also if another type was passed.
        values = {field.name: float(getattr(self, field.name)) for field in fields(self)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._certify(values)

    @classmethod
    def _certify(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Raise BudgetError for parameters outside the domain; some mechanisms check more."""
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
        """Return the mechanism with these parameters, passed as floats or as their decimal texts.

        Raises
        ------
        BudgetError
            DP-MECH-001 and 005 for a value outside the domain, DP-MECH-002 for a parameter that
            does not exist, DP-MECH-003 for one that is missing or not a number.
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
        arguments = {**defaults, **parameters}
        try:
            values = {name: float(exact(str(arguments[name]))) for name in known}
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
        """Return the mechanism of one scale for the `shape` of a release file.

        `shape` has the values of the parameters in `shapes`, with lengths in steps. A mechanism
        whose parameters depend on the shift of a cell takes the shift from `sensitivity`.

        Raises
        ------
        BudgetError
            The errors of `of`; each mechanism defines its admissible ranges.
        """
        return cls.of(place, scale=scale, **shape)

    @classmethod
    def admits(
        cls, scale: float, sensitivity: Sensitivity = ONE_STEP, /, **shape: str | float
    ) -> bool:
        """Return False if `design` certainly fails, and True if it may succeed.

        For mechanisms that are expensive to construct, only the ranges of parameters are checked.
        """
        try:
            cls.design(scale, sensitivity, **shape)
        except BudgetError:
            return False
        return True

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Return (name, decimal text) of every field; `of(**dict(parameters))` is equal to self."""
        texts = ((field.name, repr(getattr(self, field.name))) for field in fields(self))
        return tuple(sorted(texts))

    @abstractmethod
    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return the privacy losses of a cell that moves by up to `shift` >= 1 steps, up or down.

        If one curve delta(epsilon) bounds all moves, the result is one loss. Otherwise it has
        several losses, and the pointwise maximum of their curves bounds all moves.
        """

    @property
    def mean(self) -> float:
        """Return the mean error, in steps."""
        return 0.0

    @property
    @abstractmethod
    def mean_absolute_error(self) -> float:
        """Return the mean absolute error, in steps; infinity if it does not exist."""

    @property
    @abstractmethod
    def standard_deviation(self) -> float:
        """Return the standard deviation of the error, in steps; infinity if it does not exist."""

    @property
    def root_mean_square_error(self) -> float:
        """Return the root mean square error, in steps: spread and bias together."""
        return float(np.hypot(self.mean, self.standard_deviation))

    @abstractmethod
    def half_width(self, confidence: float) -> int:
        """Return a w, in steps, with P(|error| <= w) >= confidence."""
