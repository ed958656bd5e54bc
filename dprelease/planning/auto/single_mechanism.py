"""Calibrate mechanisms for a budget without a release: the scale and shape of one, or of all.

A comparison of all mechanisms also computes how close each of them comes to the least possible
error for its guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from dprelease.errors import BudgetError, Place, UsageError
from dprelease.errors.argument_types import checked_arguments
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.optimal import LARGEST_EPSILON, LEAST_DELTA, least_error
from dprelease.numerics.rounding import Number, finite, round_down
from dprelease.planning.auto.candidates import delta_of_cell
from dprelease.planning.calibration import Shape, UnscaledNoise, solve_scales, typical_error
from dprelease.planning.guarantees import budget_of, release_budget
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move, Sensitivity

GOLDEN = (math.sqrt(5) - 1) / 2
REFINEMENTS = 9
"""Golden-section steps between grid points, after which 1 % of the spacing remains."""


@checked_arguments
def calibrate(
    mechanism: str,
    epsilon: Number,
    delta: Number = 0,
    *,
    sensitivity: int = 1,
    answers: int = 1,
    **shape: str | float,
) -> Mechanism:
    """Return the mechanism that spends a budget on answers with the least mean absolute error.

    One privacy unit moves each of `answers` integers by at most `sensitivity` steps. All answers
    together cost at most (epsilon, delta), and little less. Parameters that `shape` does not set
    are optimized, as by `dprelease mechanisms compare`.

    Raises
    ------
    BudgetError
        DP-BUDGET-001 or 002 for a budget out of range, DP-BUDGET-003 for noise without a pure
        guarantee at delta 0, DP-BUDGET-004 if nothing fits, DP-MECH-001 to 005 for the shape.
    UsageError
        DP-SESSION-016 for arguments of other types or below 1.
    """
    for name, number in (("sensitivity", sensitivity), ("answers", answers)):
        if number < 1:
            wanted = "a whole number above 0"
            raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=str(number))
    budget = parse_budget(epsilon, delta)
    kind = registry.get(mechanism, Place())
    if "scale" in shape:
        known = ", ".join(one.name for one in kind.shape_parameters) or "none"
        raise BudgetError(
            "DP-MECH-002", place=Place(), mechanism=kind.name, name="scale", known=known
        )
    moves = Sensitivity(1, (Move(sensitivity, answers),))
    if budget.needs_pure_noise and not kind.pure:
        pure = ", ".join(registry.pure_names())
        raise BudgetError(
            "DP-BUDGET-003", place=Place(), column="this answer", mechanism=kind.name, pure=pure
        )
    if kind.required_shapes:
        return solve_mechanism(kind, shape, budget, moves)
    pair = best_mechanism(kind, budget, moves, shape)
    if pair:
        return pair[0]
    first = next(shapes_of(kind, budget.delta, moves))
    return solve_mechanism(kind, {**first, **shape}, budget, moves)  # raises the error


def parse_budget(epsilon: Number, delta: Number) -> Budget:
    """Return the budget of an epsilon and a delta.

    Raises
    ------
    BudgetError
        DP-BUDGET-001 or 002 for a value that is not a number, or out of range.
    """
    return budget_of(release_budget(Place(), epsilon=epsilon, delta=delta))


def solve_mechanism(
    kind: type[Mechanism], shape: Shape, budget: Budget, sensitivity: Sensitivity
) -> Mechanism:
    """Return the mechanism of one shape that spends the budget; raise errors of `solve_scales`."""
    noise = UnscaledNoise(kind, shape, sensitivity, Fraction(1), Place())
    (mechanism,) = solve_scales([noise], budget)
    if not isinstance(mechanism, Mechanism):
        raise TypeError("only noise is calibrated alone")
    return mechanism


def best_mechanism(
    kind: type[Mechanism],
    budget: Budget,
    sensitivity: Sensitivity,
    declared: Shape = MappingProxyType({}),
) -> tuple[Mechanism, Shape] | None:
    """Return the mechanism of least error and its shape; None if no mechanism fits the budget.

    The parameters in `declared` are fixed, and the others are searched.
    """
    mechanisms: dict[tuple[tuple[str, str | float], ...], Mechanism] = {}

    def error(shape: Shape) -> float:
        """Return the typical error of the mechanism with this shape; infinity if there is none."""
        try:
            mechanism = solve_mechanism(kind, shape, budget, sensitivity)
        except BudgetError:
            return math.inf
        mechanisms[tuple(shape.items())] = mechanism
        return typical_error(mechanism)

    open_shapes = shapes_of(kind, budget.delta, sensitivity)
    candidates = [{**shape, **declared} for shape in open_shapes]
    if declared:
        candidates = [shape for i, shape in enumerate(candidates) if shape not in candidates[:i]]
    _, start = min(((error(shape), shape) for shape in candidates), key=lambda pair: pair[0])
    if not declared:
        _try_shapes_between(error, start, kind.searched_shapes)
    if not mechanisms:
        return None
    key, mechanism = min(mechanisms.items(), key=lambda item: typical_error(item[1]))
    return mechanism, dict(key)


def shapes_of(kind: type[Mechanism], delta: Fraction, sensitivity: Sensitivity) -> Iterator[Shape]:
    """Yield the shapes to search; examples for a family whose shape must be declared."""
    names = {shape.name for shape in kind.shape_parameters}
    if "delta" in names:
        cells = sensitivity.slots * max(move.cells for move in sensitivity.moves)
        yield {"delta": repr(round_down(delta_of_cell(delta, cells)))}
        return
    yield from kind.example_shapes if kind.required_shapes else kind.searched_shapes


def _try_shapes_between(
    error: Callable[[Shape], float], start: Shape, grid: tuple[Mapping[str, float], ...]
) -> None:
    """Try shapes between the neighbours of the best shape, if the shape is a single number."""
    if len(grid) < 3 or len(start) != 1:
        return
    ((name, _),) = start.items()
    values = sorted(shape[name] for shape in grid)
    position = values.index(float(start[name]))
    low, high = values[max(0, position - 1)], values[min(len(values) - 1, position + 1)]
    points = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    errors = [error({name: x}) for x in points]
    # Each step uses one of the two earlier errors again, so only one new shape is solved.
    for _ in range(REFINEMENTS - 2):
        if errors[0] < errors[1]:
            high, points[1], errors[1] = points[1], points[0], errors[0]
            points[0] = high - GOLDEN * (high - low)
            errors[0] = error({name: points[0]})
        else:
            low, points[0], errors[0] = points[0], points[1], errors[1]
            points[1] = low + GOLDEN * (high - low)
            errors[1] = error({name: points[1]})


BISECTION_STEPS = 40
"""Bisection steps for epsilon; the remaining uncertainty moves the efficiency by less than 1e-9."""


def efficiency(mechanism: Mechanism, shift: int, delta: float) -> float | None:
    """Return the least possible mean absolute error, divided by the error of the mechanism.

    The least error is the least of all noise with the (epsilon, delta) of the mechanism for one
    cell, moved by up to `shift` steps, whose distribution on the integers is symmetric and never
    rises away from 0. The efficiency is 0 for noise without a mean absolute error. It is None if
    the optimum is not computed: for epsilon above 20, delta between 0 and 1e-20, or no guarantee.
    """
    losses = mechanism.losses(shift)
    largest = max(loss.pure_epsilon for loss in losses)
    if delta:
        largest = _epsilon_at(lambda e: max(loss.delta(e) for loss in losses), delta, largest)
    if not 0 < largest <= LARGEST_EPSILON or 0 < delta < LEAST_DELTA:
        return None
    error = mechanism.mean_absolute_error
    return 0.0 if math.isinf(error) else least_error(largest, delta, shift) / error


def _epsilon_at(curve: Callable[[float], float], delta: float, largest: float) -> float:
    """Return an epsilon, up to 20, whose delta is at most `delta`; infinity if none exists."""
    low, high = 0.0, min(largest, float(LARGEST_EPSILON))
    # Even the largest epsilon does not reach the delta.
    if curve(high) > delta:
        return math.inf
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class MechanismComparison:
    """One mechanism under the budget, with the errors of one answer, in the answer's unit.

    `efficiency` is the least mean absolute error of any noise with the guarantee of one answer,
    divided by the mean absolute error of this noise; None if the optimum can't be computed.
    """

    mechanism: Mechanism
    shape: Mapping[str, str | float]
    efficiency: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the mechanism as JSON values; an error that does not exist is null."""
        mechanism = self.mechanism
        return {
            "mechanism": mechanism.name,
            "shape": {name: str(value) for name, value in self.shape.items()},
            "scale": repr(mechanism.scale),
            "pure": mechanism.pure,
            "mean_absolute_error": finite(mechanism.mean_absolute_error),
            "root_mean_square_error": finite(mechanism.root_mean_square_error),
            "error_95": mechanism.half_width(0.95),
            "error_99.9": mechanism.half_width(0.999),
            "efficiency": self.efficiency,
        }


def compare(budget: Budget, sensitivity: int, answers: int) -> list[MechanismComparison]:
    """Return every mechanism that fits the budget, sorted by mean absolute error.

    One privacy unit moves each of `answers` integers by at most `sensitivity` steps; all answers
    together spend the budget. Mechanisms that can't meet the budget are left out. A mechanism whose
    shape a release file must declare gets the best of its example shapes.
    """
    moves = Sensitivity(1, (Move(sensitivity, answers),))
    fitting = []
    for name in registry.names():
        kind = registry.get(name)
        if (budget.delta or kind.pure) and (found := best_mechanism(kind, budget, moves)):
            mechanism, shape = found
            own_efficiency = efficiency(mechanism, sensitivity, round_down(budget.delta))
            fitting.append(MechanismComparison(mechanism, shape, own_efficiency))
    return sorted(fitting, key=lambda row: (typical_error(row.mechanism), row.mechanism.name))
