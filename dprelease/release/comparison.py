"""All mechanisms side by side: each at the shape of its least error, under one budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.efficiency import efficiency
from dprelease.numerics.rounding import exact, finite, round_down
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.release.choice import delta_of_cell
from dprelease.release.draft import Draft, Shape, solve, typical_error
from dprelease.release.plan import check_budget
from dprelease.schema.release import BudgetSpec

GOLDEN = (math.sqrt(5) - 1) / 2
REFINEMENTS = 9
"""Steps of golden section between grid points: what they leave is 1 % of the grid's spacing."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One mechanism under the budget; errors of one answer, in the answer's unit.

    `efficiency`: the least mean absolute error that any noise could have with the guarantee that
    one answer has here, over this noise's; None where that optimum can't be computed.
    """

    mechanism: Mechanism
    shape: Mapping[str, str | float]
    efficiency: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values; an error that does not exist is null."""
        law = self.mechanism
        return {
            "mechanism": law.name,
            "shape": {name: str(value) for name, value in self.shape.items()},
            "scale": repr(law.scale),
            "pure": law.pure,
            "mean_absolute_error": finite(law.mean_absolute_error),
            "root_mean_square_error": finite(law.root_mean_square_error),
            "error_95": law.half_width(0.95),
            "error_99.9": law.half_width(0.999),
            "efficiency": self.efficiency,
        }


def requested(epsilon: str, delta: str) -> BudgetSpec:
    """Return the budget that two decimal texts ask for.

    Raises
    ------
    BudgetError
        DP-BUDGET-001 or 002 for what is no number.
    """
    found = []
    limits = ((epsilon, "001", "1e-9", "100"), (delta, "002", "1e-300", "0.01"))
    for text, code, least, largest in limits:
        try:
            found.append(exact(text))
        except ValueError:
            place = Place(key="epsilon" if code == "001" else "delta")
            raise BudgetError(
                f"DP-BUDGET-{code}", place=place, found="not a number", least=least, largest=largest
            ) from None
    return BudgetSpec(epsilon=found[0], delta=found[1])


def compare(budget: BudgetSpec, sensitivity: int, answers: int) -> list[Compared]:
    """Return every mechanism that fits, the least mean absolute error first.

    One privacy unit moves each of `answers` integers by at most `sensitivity` steps; all answers
    together spend the budget. A mechanism that has no noise for it is left out; one whose shape a
    release file has to declare is shown at the best of its examples.

    Raises
    ------
    BudgetError
        DP-BUDGET-001 or 002 for a budget out of range.
    """
    check_budget(budget, Place())
    moves = Sensitivity(1, (Move(sensitivity, answers),))
    found = [row for name in registry.names() if (row := _best(name, budget, moves)) is not None]
    return sorted(found, key=lambda row: (typical_error(row.mechanism), row.mechanism.name))


def _best(name: str, budget: BudgetSpec, sensitivity: Sensitivity) -> Compared | None:
    kind = registry.get(name)
    if budget.delta == 0 and not kind.pure:
        return None
    laws: dict[tuple[tuple[str, str | float], ...], Mechanism] = {}

    def error(shape: Shape) -> float:
        draft = Draft(kind, shape, sensitivity, Fraction(1), Place())
        try:
            law = solve([draft], budget.epsilon, budget.delta)[0]
        except BudgetError:
            return math.inf
        laws[tuple(shape.items())] = law
        return typical_error(law)

    errors = [(error(shape), shape) for shape in shapes_of(kind, budget.delta, sensitivity)]
    _, start = min(errors, key=lambda pair: pair[0])
    _refine(error, start, kind.search)
    if not laws:
        return None
    key, law = min(laws.items(), key=lambda item: typical_error(item[1]))
    shift = sensitivity.largest_shift
    return Compared(law, dict(key), efficiency(law, shift, round_down(budget.delta)))


def shapes_of(kind: type[Mechanism], delta: Fraction, sensitivity: Sensitivity) -> Iterator[Shape]:
    """Yield the shapes that are searched, or examples where a release file has to declare one."""
    names = {shape.name for shape in kind.shapes}
    if "delta" in names:
        cells = sensitivity.slots * max(move.cells for move in sensitivity.moves)
        yield {"delta": repr(round_down(delta_of_cell(delta, cells)))}
        return
    needed = names & {field.name for field in fields(kind) if field.default is MISSING}
    searched = [shape for shape in kind.search if needed <= shape.keys()]
    yield from searched or kind.examples


def _refine(
    error: Callable[[Shape], float], start: Shape, grid: tuple[Mapping[str, float], ...]
) -> None:
    """Try shapes between the best one's neighbors, where one number is what is searched."""
    if len(grid) < 3 or len(start) != 1:
        return
    ((name, _),) = start.items()
    values = sorted(shape[name] for shape in grid)
    place = values.index(float(start[name]))
    low, high = values[max(0, place - 1)], values[min(len(values) - 1, place + 1)]
    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    errors = [error({name: x}) for x in inner]
    for _ in range(REFINEMENTS - 2):
        if errors[0] < errors[1]:
            high, inner[1], errors[1] = inner[1], inner[0], errors[0]
            inner[0] = high - GOLDEN * (high - low)
            errors[0] = error({name: inner[0]})
        else:
            low, inner[0], errors[0] = inner[0], inner[1], errors[1]
            inner[1] = low + GOLDEN * (high - low)
            errors[1] = error({name: inner[1]})
