"""Compare all mechanisms under one budget, each with the shape of its least error.

It also computes how close a mechanism comes to the least possible error for its guarantee.
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
from dprelease.planning.auto.single_mechanism import best
from dprelease.planning.calibration import typical_error
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move, Sensitivity

STEPS = 40
"""Bisection steps for epsilon; the remaining uncertainty moves the efficiency by less than 1e-9."""


def efficiency(mechanism: Mechanism, shift: int, delta: float) -> float | None:
    """Return the least mean absolute error at one cell's (epsilon, delta), divided by its own.

    epsilon is that of one cell, moved by up to `shift` steps, at `delta`; the least error is that
    of all symmetric distributions on the integers that never rise away from 0. 0 for noise without
    a mean absolute error. None where no such optimum is computed: epsilon above 20, delta between 0
    and 1e-20, or no guarantee at all.
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
    """Return an epsilon, up to 20, whose delta is at most `delta`; infinity if there is none."""
    low, high = 0.0, min(largest, float(LARGEST_EPSILON))
    if curve(high) > delta:
        return math.inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class MechanismComparison:
    """One mechanism under the budget; errors of one answer, in the answer's unit.

    `efficiency`: the least mean absolute error of any noise with the guarantee of one answer,
    divided by that of this noise; None where that optimum can't be computed.
    """

    mechanism: Mechanism
    shape: Mapping[str, str | float]
    efficiency: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values; an error that does not exist is null."""
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
    """Return every mechanism that fits, the least mean absolute error first.

    One privacy unit moves each of `answers` integers by at most `sensitivity` steps; all answers
    together spend the budget. A mechanism that can't meet it is left out; one whose shape a release
    file must declare is listed with the best of its examples.

    """
    moves = Sensitivity(1, (Move(sensitivity, answers),))
    fitting = []
    for name in registry.names():
        kind = registry.get(name)
        if (budget.delta or kind.pure) and (pair := best(kind, budget, moves)):
            near = efficiency(pair[0], sensitivity, round_down(budget.delta))
            fitting.append(MechanismComparison(*pair, near))
    return sorted(fitting, key=lambda row: (typical_error(row.mechanism), row.mechanism.name))
