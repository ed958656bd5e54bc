"""Compare all mechanisms under one budget, each with the shape of least error.

The comparison also computes how close each mechanism comes to the least possible error for its
guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.optimal import LARGEST_EPSILON, LEAST_DELTA, least_error
from dprelease.numerics.rounding import finite, round_down
from dprelease.planning.auto.single_mechanism import best_mechanism
from dprelease.planning.calibration import typical_error
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move, Sensitivity

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
