"""Base class of noise and selection mechanisms: parameters, privacy loss and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, NoReturn, Self

import numpy as np

from dprelease.errors import BudgetError, Place
from dprelease.numerics.rounding import exact
from dprelease.privacy.loss import PrivacyLoss
from dprelease.privacy.unit import Move, Sensitivity

# Shape parameters that a release file may declare for a mechanism.


@dataclass(frozen=True, slots=True)
class ShapeParameter:
    """One shape parameter of a mechanism, as written in a release file.

    `choices` are the allowed texts of a parameter that is not a number. `in_units` is whether the
    parameter is a length in the unit of the column, which the plan converts to steps.
    """

    name: str
    meaning: str
    admissible: str
    choices: tuple[str, ...] = ()
    in_units: bool = False


DEBIAS = ShapeParameter(
    "debias",
    "whether the mean of the noise, to the nearest step, is taken away (the default)",
    "true or false",
    choices=("true", "false"),
)

LEAST_SCALE, LARGEST_SCALE = 1e-3, 2.0**50
"""Smallest and largest admissible scale; some mechanisms admit only a part of this range."""

ONE_STEP = Sensitivity(slots=1, moves=(Move(1, 1),))
"""The sensitivity of a vector of which a privacy unit moves one cell by one step."""


@dataclass(frozen=True, slots=True)
class AutoRule:
    """The conditions under which `auto` tries a mechanism.

    A mechanism with `last_resort` is tried only if `allowed` names it, or if no other mechanism is
    possible. `integer_variant` is the name of the same mechanism on the integers, which is at least
    as good unless the noise is only a few steps. A mechanism with `only_with_delta` is not tried
    under pure budgets, because it is better than others only if many answers are composed at a
    delta. `auto` searches the other shapes of a mechanism if the error of its first shape is at
    most `largest_error_ratio` times the least error of all mechanisms.
    """

    last_resort: bool = False
    integer_variant: str | None = None
    only_with_delta: bool = False
    largest_error_ratio: float = 5.0


@dataclass(frozen=True)
class Randomizer(ABC):
    """The random procedure that answers one cell: it adds noise or selects one of the candidates.

    The fields of a mechanism are floats, which are exact rational numbers, so the manifest names
    exactly the distribution that is sampled. A larger `scale` means larger errors. The module of a
    mechanism, YAML files and the attribute `name` all use the same name.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """A description of the mechanism, its guarantee and its tails, in one line."""
    use_case: ClassVar[str]
    """The situation in which the mechanism is useful, in one line."""
    pure: ClassVar[bool]
    """Whether the privacy loss of one cell is bounded."""
    sensitivity_norm: ClassVar[int]
    """The norm of the sensitivity that determines the scale if columns share a budget: 1 or 2."""
    renyi_from_l2_norm: ClassVar[bool] = False
    """Whether the Rényi divergences of a noisy vector depend only on the L2 norm of its shift."""
    costs_most_in_few_cells: ClassVar[bool] = False
    """Whether changes of many cells cost at most as much as the same sum of changes in few cells.

    This holds for selections, and for noise with a symmetric and log-concave distribution, also
    after it is rounded to steps. `Sensitivity` has the proof."""
    has_bounded_noise: ClassVar[bool] = False
    """Whether the noise never exceeds a fixed bound."""
    has_variance: ClassVar[bool] = True
    """Whether the noise has a variance, so that a sum of n cells has sqrt(n) times the noise."""
    has_integer_noise: ClassVar[bool] = False
    """Whether the noise is defined on the integers, instead of being rounded to integers."""
    shape_parameters: ClassVar[tuple[ShapeParameter, ...]] = ()
    """Shape parameters that a release file may declare in addition to the name."""
    auto_rule: ClassVar[AutoRule] = AutoRule()
    """The conditions under which `auto` tries the mechanism."""
    required_shapes: ClassVar[frozenset[str]] = frozenset()
    """Names of shape parameters that a release file must declare, because no value is the best."""
    searched_shapes: ClassVar[tuple[Mapping[str, float], ...]] = ({},)
    """Shapes of which the best is searched if no shape is declared, the most promising first."""
    example_shapes: ClassVar[tuple[Mapping[str, str | float], ...]] = ({},)
    """Representative shapes for the documentation and for the tests of all mechanisms."""
    parameter_ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Minimum and maximum of each field other than `scale`."""

    scale: float

    @classmethod
    def has_variance_bound(cls) -> bool:
        """Return whether noise of this mechanism has a certified bound of its variance."""
        return False

    def __post_init__(self) -> None:
        """Raise BudgetError DP-MECH-001 or 005 unless the parameters can be certified."""
        # The manifest must show the text of a float, even if a number of another type was passed.
        values = {field.name: float(getattr(self, field.name)) for field in fields(self)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._require_admissible(values)

    @classmethod
    def _require_admissible(cls, values: Mapping[str, float], place: Place | None = None) -> None:
        """Raise BudgetError for parameters outside their ranges; some mechanisms check more."""
        if not LEAST_SCALE <= values["scale"] <= LARGEST_SCALE:
            raise BudgetError(
                "DP-MECH-001", place=place, mechanism=cls.name, least=LEAST_SCALE, largest="2^50"
            )
        for name, (least, most) in cls.parameter_ranges.items():
            if not least <= values[name] <= most:
                cls._refuse(name, f"{least!r} to {most!r}", place)

    @classmethod
    def _refuse(cls, name: str, admissible: str, place: Place | None = None) -> NoReturn:
        """Raise the error of a parameter that is not admissible."""
        raise BudgetError(
            "DP-MECH-005", place=place, mechanism=cls.name, name=name, admissible=admissible
        )

    @classmethod
    def of(cls, place: Place | None = None, /, **parameters: str | float) -> Self:
        """Return the mechanism with these parameters, passed as floats or as their decimal texts.

        Raises BudgetError: DP-MECH-001 and 005 for a value outside its range, DP-MECH-002 for a
        parameter that does not exist, DP-MECH-003 for a parameter that is missing or not a number.
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
        cls._require_admissible(values, place)
        return cls(**values)

    @classmethod
    def design(
        cls,
        scale: float,
        sensitivity: Sensitivity = ONE_STEP,  # noqa: ARG003 - for subclasses that need it
        place: Place | None = None,
        /,
        **shape: str | float,
    ) -> Self:
        """Return the mechanism with a scale and the `shape` that a release file declares.

        `shape` has the values of `shape_parameters` by name, with lengths in steps. A mechanism
        whose parameters depend on the shift of a cell takes the shift from `sensitivity`.

        Raises BudgetError: the errors of `of`; each mechanism defines its admissible ranges.
        """
        return cls.of(place, scale=scale, **shape)

    @classmethod
    def admits(
        cls, scale: float, sensitivity: Sensitivity = ONE_STEP, /, **shape: str | float
    ) -> bool:
        """Return False if `design` certainly fails, and True if it may succeed.

        Mechanisms that are expensive to construct check only the ranges of their parameters.
        """
        try:
            cls.design(scale, sensitivity, **shape)
        except BudgetError:
            return False
        return True

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Return the name and the decimal text of every field, sorted by name.

        The mechanism `of(**dict(parameters))` is equal to this mechanism.
        """
        texts = ((field.name, repr(getattr(self, field.name))) for field in fields(self))
        return tuple(sorted(texts))

    @abstractmethod
    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return the privacy losses of a cell whose true value moves by up to `shift` >= 1 steps.

        The value may move up or down. If the curve delta(epsilon) of one loss bounds all moves, the
        result has only this loss. Otherwise the result has several losses, and the pointwise
        maximum of their curves bounds all moves.
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
        """Return the root mean square error, in steps, from the mean and the standard deviation."""
        return float(np.hypot(self.mean, self.standard_deviation))

    @abstractmethod
    def half_width(self, confidence: float) -> int:
        """Return a number of steps w with P(|error| <= w) >= confidence."""
