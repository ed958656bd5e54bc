"""The candidates of `auto`, and of a family with open shapes: families with shapes in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.planning.auto.ledger_cost import LedgerCost
from dprelease.planning.calibration import Shape
from dprelease.planning.noise_requests import NoiseRequest, Options
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Sensitivity

FEW_CELLS = 8
"""Maximum number of cells for which mechanisms that spend a delta of their own can be the best."""

ALONE = Fraction(1, 10**10)
"""Least delta at which the accountant's allowance for its own errors is well below 1/1024 of it."""


SOLVED_SHIFT = 512
"""Maximum shift in steps for mechanisms that are found by linear programs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A family with a shape."""

    family: str
    shape: tuple[tuple[str, str | float], ...] = ()

    @classmethod
    def of(cls, family: str, shape: Shape) -> Candidate:
        """Return the candidate from a mapping."""
        return cls(family, tuple(sorted(shape.items())))

    def but(self, name: str, value: float) -> Candidate:
        """Return the candidate with another value of one shape parameter."""
        return Candidate.of(self.family, {**dict(self.shape), name: value})

    def numbers(self) -> list[float]:
        """Return the numbers of the shape, by which candidates are ordered."""
        return [float(value) for _, value in self.shape if _is_number(value)]

    @property
    def twin(self) -> Candidate | None:
        """Return the rounded variant of a mechanism on the integers."""
        twins = (n for n in registry.names() if registry.get(n).auto.integers == self.family)
        return next((Candidate(name, self.shape) for name in twins), None)


@dataclass
class Group:
    """Open columns of one kind, which get the same candidate."""

    columns: list[int]
    families: tuple[str, ...]
    request: NoiseRequest

    @property
    def is_auto(self) -> bool:
        """Return whether the family is open, not only its shape."""
        return self.request.is_auto


def line_of(family: str, request: NoiseRequest, delta: Fraction) -> list[Candidate]:
    """Return a family's candidates for a request, good ones first; `delta` is that of a cell."""
    kind = registry.randomizer(family)
    declared = dict(request.shape)
    names = {shape.name for shape in kind.shapes}
    if "delta" in names and "delta" not in declared and delta:
        declared["delta"] = repr(float(delta))
    line = dict.fromkeys(Candidate.of(family, {**searched, **declared}) for searched in kind.search)
    return list(line)


def open_number(line: Sequence[Candidate]) -> str | None:
    """Return the one number in which the candidates differ; None if there is none."""
    if len(line) < 3:
        return None
    differing = [
        name
        for name, value in line[0].shape
        if len({dict(candidate.shape)[name] for candidate in line}) > 1
    ]
    return differing[0] if len(differing) == 1 else None


def families_of(
    request: NoiseRequest,
    budget: Budget,
    cells: int,
    *,
    charged: LedgerCost | None = None,
    all_of_them: bool = False,
) -> tuple[str, ...]:
    """Return the families that a request, a budget and the ledger's measure admit.

    `cells`: number of cells that one privacy unit moves in all open columns; `all_of_them`: include
    families that are hardly ever the best.
    """
    if not request.is_auto:
        return (request.measurement.mechanism.name,)
    kinds = [registry.get(name) for name in registry.names()]
    kinds = [kind for kind in kinds if request.may_take(kind)]
    keeping = [kind for kind in kinds if _is_admissible(request.options, kind, budget, charged)]
    return tuple(
        kind.name
        for kind in keeping
        if request.options.allowed
        or all_of_them
        or _is_promising(request.options, kind, cells, pure=charged is None and not budget.delta)
    )


def _is_admissible(
    options: Options, kind: type[Randomizer], budget: Budget, charged: LedgerCost | None
) -> bool:
    """Return whether a family meets the constraints, and has a finite cost."""
    pure = budget.needs_pure_noise or charged is LedgerCost.EPSILON
    concentrated = budget.needs_concentration or charged is LedgerCost.RHO
    if not options.admit(kind) or (pure and not kind.pure):
        return False
    return not (concentrated and kind.bounded)


def _is_promising(options: Options, kind: type[Randomizer], cells: int, *, pure: bool) -> bool:
    if kind.bounded and not (cells <= FEW_CELLS or "bounded" in options.constraints):
        return False
    return not kind.auto.last_resort and not (pure and kind.auto.composed)


def kind_of(request: NoiseRequest) -> object:
    """Return what columns of a kind have in common, so that one candidate serves all of them."""
    sensitivity = request.measurement.sensitivity
    largest = sensitivity.largest_shift
    moves = tuple((move.cells, move.shift == largest) for move in sensitivity.moves)
    declared = tuple(sorted(request.measurement.mechanism.shape.items()))
    accurate = request.measurement.wanted is not None
    name = request.measurement.mechanism.name
    takes = tuple(n for n in registry.names() if request.may_take(registry.get(n)))
    # The weight is left out: among columns of one shape, it only scales the noise.
    return name, declared, takes, sensitivity.slots, moves, _fineness(largest), accurate


def _fineness(largest: int) -> int:
    """Return how fine the steps are: one or two steps are distinguished, finer ones are not."""
    if largest <= 2:
        return largest
    return 3 if largest <= SOLVED_SHIFT else 4


def cells_of(sensitivity: Sensitivity) -> int:
    """Return the maximum number of cells that one privacy unit moves."""
    return sensitivity.slots * max(move.cells for move in sensitivity.moves)


def delta_share(requests: Sequence[NoiseRequest], budget: Budget) -> Fraction:
    """Return the delta of one cell for mechanisms that need one: equal shares of the budget's."""
    cells = sum(
        cells_of(request.measurement.sensitivity)
        for request in requests
        if request.is_auto
        or any(
            s.name == "delta"
            for s in registry.randomizer(request.measurement.mechanism.name).shapes
        )
    )
    return delta_of_cell(budget.delta, cells) if cells else Fraction(0)


def delta_of_cell(delta: Fraction, cells: int) -> Fraction:
    """Return the delta of one cell's mechanism; composing the cells needs the rest."""
    if cells == 1 and delta >= ALONE:
        return delta * Fraction(1023, 1024)
    return delta / (2 * cells)


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True
