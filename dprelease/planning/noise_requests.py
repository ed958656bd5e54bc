"""The declared noise of one column: a mechanism and its shape, or the options of `auto`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import SymmetricMechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.rounding import exact_or_none
from dprelease.planning.calibration import Shape, UnscaledNoise, typical_error
from dprelease.privacy.budget import Budget
from dprelease.query.measurement import Measurement
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.schema.mechanism import AUTO

ERROR_MEASURES: dict[str, Callable[[Randomizer], float]] = {
    "mae": typical_error,
    "rmse": lambda mechanism: mechanism.root_mean_square_error,
    "p95": lambda mechanism: float(mechanism.half_width(0.95)),
    "p999": lambda mechanism: float(mechanism.half_width(0.999)),
}
"""Measures of the error of one cell, in steps, which `auto` can minimize."""

CONSTRAINTS = ("pure", "bounded", "integer", "unbiased")
AUTO_OPTIONS = ("measure", *CONSTRAINTS, "allowed")


@dataclass(frozen=True, slots=True)
class AutoOptions:
    """The options of `auto`: the error that it minimizes, and the mechanisms that it may use."""

    measure: str = "mae"
    constraints: frozenset[str] = frozenset()
    allowed: tuple[str, ...] = ()

    def admits(self, kind: type[Randomizer]) -> bool:
        """Return whether a noise family meets all constraints except `unbiased`.

        Whether a mechanism is unbiased depends on its parameters, so `error` checks its mean.
        """
        if self.allowed and kind.name not in self.allowed:
            return False
        required = {
            "pure": kind.pure,
            "bounded": kind.has_bounded_noise,
            "integer": kind.has_integer_noise,
        }
        return all(holds for name, holds in required.items() if name in self.constraints)

    def error(self, mechanism: Randomizer) -> float:
        """Return the error of one cell, in the declared measure; infinity for biased noise that
        `unbiased` excludes."""
        if "unbiased" in self.constraints and mechanism.mean != 0.0:
            return float("inf")
        return ERROR_MEASURES[self.measure](mechanism)


@dataclass(frozen=True)
class NoiseRequest:
    """The declared noise of one column."""

    measurement: Measurement
    place: Place
    place_in_mechanism: Callable[[str], Place] | None = None
    """Function that returns the position of a key of the mechanism; without it, all errors refer to
    `place`."""

    @property
    def is_auto(self) -> bool:
        """Return whether the plan chooses the noise family, because the declaration names none."""
        return self.measurement.mechanism.name == AUTO

    @cached_property
    def options(self) -> AutoOptions:
        """Return the options of `auto`.

        Raises BudgetError: DP-MECH-002 for an unknown option, DP-MECH-004 for an unknown mechanism,
        DP-MECH-005 for an invalid value of the option.
        """
        declared = self.measurement.mechanism.shape if self.is_auto else {}
        for name in declared:
            if name not in AUTO_OPTIONS:
                known = ", ".join(AUTO_OPTIONS)
                self._raise_error("DP-MECH-002", name=name, known=known)
        measure = declared.get("measure", "mae")
        if measure not in ERROR_MEASURES:
            self._raise_error("DP-MECH-005", name="measure", admissible=" or ".join(ERROR_MEASURES))
        constraints = set()
        for name in CONSTRAINTS:
            if declared.get(name, "false") not in ("true", "false"):
                self._raise_error("DP-MECH-005", name=name, admissible="true or false")
            if declared.get(name) == "true":
                constraints.add(name)
        allowed = tuple(part.strip() for part in declared.get("allowed", "").split(",") if part)
        for name in allowed:
            registry.get(name, self._place_of_key("allowed"))
        return AutoOptions(measure, frozenset(constraints), allowed)

    def _raise_error(self, code: str, **fields: str) -> NoReturn:
        """Raise an error about a key of the declared mechanism."""
        mechanism = self.measurement.mechanism.name
        named_fields: dict[str, Any] = {"mechanism": mechanism, **fields}
        raise BudgetError(code, place=self._place_of_key(fields["name"]), **named_fields)

    def _place_of_key(self, key: str) -> Place:
        """Return the position of a key of the declared mechanism."""
        return self.place if self.place_in_mechanism is None else self.place_in_mechanism(key)

    def determines(self, noise: UnscaledNoise) -> bool:
        """Return whether the declaration alone determines the family and shape of a noise."""
        searched = {name for shape in noise.kind.searched_shapes for name in shape}
        return not self.is_auto and searched <= set(self.measurement.mechanism.shape)

    def noise(self, family: str, shape: Shape) -> UnscaledNoise:
        """Return the noise with a noise family and a shape, without a scale."""
        measurement = self.measurement
        return UnscaledNoise(
            registry.randomizer_class(family, self.place),
            shape,
            measurement.sensitivity,
            measurement.weight,
            self.place,
            None if measurement.wanted is None else measurement.wanted / measurement.step,
            float(measurement.confidence or DEFAULT_CONFIDENCE),
        )

    def has_cost(self, kind: type[Randomizer]) -> bool:
        """Return whether the cost of a family is known for the changes that one unit can cause.

        Several changes may add up in one cell, or only the sum of all changes may be limited.
        """
        sensitivity = self.measurement.sensitivity
        if sensitivity.of_all_rows:
            return kind.costs_most_in_few_cells
        return sensitivity.meeting == 1 or kind.pure or kind.renyi_from_l2_norm

    def may_use(self, kind: type[Randomizer]) -> bool:
        """Return whether `auto` may use a noise family.

        The cost of the noise family must be known. For consistent tables and design errors, its
        variance must also be certified; for design errors, it must be symmetric, too. Where cells
        are added up, it must have a variance: one large draw would spoil the sum of all cells.
        """
        has_bound = not self.measurement.of_family or kind.has_variance_bound()
        fits = has_bound and self._is_addable(kind) and self._is_subtractable(kind)
        return fits and self.has_cost(kind)

    def _is_addable(self, kind: type[Randomizer]) -> bool:
        """Return whether noise has a variance, if cells are added up.

        A declared list of mechanisms without a variance leaves no choice, and is followed.
        """
        if kind.has_variance or not self.measurement.adds_cells:
            return True
        allowed = [registry.get(name) for name in self.options.allowed]
        return bool(allowed) and not any(one.has_variance for one in allowed)

    def _is_subtractable(self, kind: type[Randomizer]) -> bool:
        """Return whether the variance of noise can be subtracted, if the aggregate needs that.

        Intervals of the difference are computed for symmetric noise alone.
        """
        is_symmetric = issubclass(kind, SymmetricMechanism)
        needed = self.measurement.aggregate.subtracts_variance
        return not needed or (is_symmetric and kind.has_variance_bound())

    def check(self, budget: Budget) -> None:
        """Raise BudgetError for an impossible request; the plan never substitutes other noise.

        The codes are DP-BUDGET-003 and 011 to 013, DP-MECH-002 to 005, and DP-CONSIST-005.
        """
        if self.is_auto:
            _ = self.options
            return
        kind = registry.randomizer_class(self.measurement.mechanism.name, self.place)
        if not self.has_cost(kind):
            of_all = self.measurement.sensitivity.of_all_rows
            code, name = "DP-BUDGET-012" if of_all else "DP-CONSIST-005", self.measurement.name
            raise BudgetError(code, place=self.place, column=name, mechanism=kind.name)
        if not self._is_subtractable(kind):
            name = self.measurement.charged_column
            raise BudgetError("DP-BUDGET-013", place=self.place, column=name, mechanism=kind.name)
        if self.measurement.finds_keys and not budget.can_select_keys:
            raise BudgetError("DP-BUDGET-011", place=self.place)
        if budget.needs_pure_noise and not kind.pure:
            raise BudgetError(
                "DP-BUDGET-003",
                place=self.place,
                column=self.measurement.name,
                mechanism=kind.name,
                pure=", ".join(registry.pure_names()),
            )

    @cached_property
    def shape(self) -> Shape:
        """Return the declared shape, with valid keys and with lengths converted to steps.

        Raises BudgetError: DP-MECH-002 for a key that the mechanism does not have, DP-MECH-003 for
        a value that is not a number and for a missing key that `auto` can't optimize, DP-MECH-005
        for a text that is not among the allowed ones.
        """
        if self.is_auto:
            return {}
        spec = self.measurement.mechanism
        known = {
            shape.name: shape
            for shape in registry.randomizer_class(spec.name, self.place).shape_parameters
        }
        checked: dict[str, str | float] = {}
        for name, text in spec.shape.items():
            if name not in known:
                self._raise_error("DP-MECH-002", name=name, known=", ".join(known) or "none")
            shape = known[name]
            if shape.choices and text not in shape.choices:
                self._raise_error("DP-MECH-005", name=name, admissible=" or ".join(shape.choices))
            number = None if shape.choices else exact_or_none(text)
            if number is None and not shape.choices:
                place = self._place_of_key(name)
                raise BudgetError("DP-MECH-003", place=place, mechanism=spec.name, known=name)
            checked[name] = text
            if shape.in_units and number is not None:
                checked[name] = float(number / self.measurement.step)
        missing_keys = registry.randomizer_class(spec.name).required_shapes - checked.keys()
        if missing_keys:
            keys = ", ".join(sorted(missing_keys))
            raise BudgetError("DP-MECH-003", place=self.place, mechanism=spec.name, known=keys)
        return checked
