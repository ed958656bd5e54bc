"""Find the scales of noisy vectors that spend a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import NoReturn, TypeVar

from dprelease.errors import BudgetError, Place
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.rounding import round_down, round_up
from dprelease.privacy.accounting import FINE, ROUGH, pure_epsilon
from dprelease.privacy.budget import Budget, Variant
from dprelease.privacy.calibrate import least_factor, near_factor, nearer_factor
from dprelease.privacy.priced_vector import PricedVector, priced_vector
from dprelease.privacy.renyi import has_rho
from dprelease.privacy.unit import Sensitivity

ROOM = 1.0 + 2.0**-40
"""A pure split leaves this margin, so that rounded shares never exceed the budget."""

NO_MEAN = 1000.0

Shape = Mapping[str, str | float]
Made = TypeVar("Made")

Factors = dict[object, tuple[float, float]]
"""Solved factors of noises, by their families and shapes: where to start the next search.

With each, the approximate slope of the cost there, in logarithms.
"""


@dataclass(frozen=True, slots=True)
class UnscaledNoise:
    """One vector with its family and shape; only the scale is open."""

    kind: type[Randomizer]
    shape: Shape
    sensitivity: Sensitivity
    weight: Fraction
    place: Place
    width: Fraction | None = None
    """Declared margin of error, in steps: it determines the scale, whatever the budget."""
    confidence: float = 0.95

    @property
    def base(self) -> Fraction:
        """Return the norm of the sensitivity over the weight: the scale at factor one."""
        if self.kind.norm == 1:
            return self.sensitivity.l1 / self.weight
        return Fraction(math.isqrt(self.sensitivity.l2_squared * 4**40)) / 2**40 / self.weight

    @property
    def law(self) -> object:
        """Return a value that is equal for noises with the same distribution at every factor."""
        return self.kind, tuple(sorted(self.shape.items())), self.sensitivity, self.weight

    def at(self, factor: float) -> Randomizer:
        """Return the mechanism whose scale is factor x base.

        Raises
        ------
        BudgetError
            DP-MECH-001 to 005 if there is no such mechanism, or its numbers can't be certified.
        """
        scale = round_up(self.base * Fraction(factor))
        return self.kind.design(scale, self.sensitivity, self.place, **self.shape)

    def admits(self, factor: float) -> bool:
        """Return False where certainly no mechanism has scale factor x base; constructs none."""
        scale = round_up(self.base * Fraction(factor))
        return self.kind.admits(scale, self.sensitivity, **self.shape)

    def accurate(self) -> Randomizer:
        """Return the mechanism with the most noise whose margin of error is at most `width`.

        Raises
        ------
        BudgetError
            DP-BUDGET-008 if none is that accurate; DP-MECH-001 to 005 as `at`, if there is no
            mechanism at any scale.
        """
        width = self.width or Fraction(0)
        built_any = False
        problem: BudgetError | None = None

        @cache
        def fits(factor: float) -> bool:
            nonlocal built_any, problem
            try:
                mechanism = self.at(factor)
            except BudgetError as error:
                problem = problem or error
                return False
            built_any = True
            return mechanism.half_width(self.confidence) <= width

        start = float(width / self.base)
        largest = _largest_factor(fits, start)
        if largest is not None:
            return self.at(largest)
        # If there are mechanisms with more noise, the accuracy is what is impossible.
        built_any = built_any or any(self.admits(start * 2.0**i) for i in range(1, 60))
        if problem is not None and not built_any:
            raise problem
        raise BudgetError(
            "DP-BUDGET-008",
            place=self.place,
            column=self.place.key.rpartition(".")[2],
            moe=f"{float(width):.6g} steps",
        )


def _largest_factor(fits: Callable[[float], bool], start: float) -> float | None:
    """Return nearly the largest factor that fits, to a part in 4096; None if there is none."""
    low = start
    for _ in range(80):
        if fits(low):
            break
        low /= 2
    else:
        return None
    high = low * 2
    while fits(high) and high < start * 2.0**40:
        low, high = high, high * 2
    while high / low > 1 + 2.0**-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def make_accounting_input(mechanism: Randomizer, sensitivity: Sensitivity) -> PricedVector:
    """Return the accountant's input for one vector."""
    law = mechanism
    return priced_vector(law, law.losses, sensitivity, by_squares=law.by_squares)


def typical_error(mechanism: Randomizer) -> float:
    """Return the mean absolute error; a thousand times the median error if there is no mean.

    So mechanisms with a mean come first, and those without one can still be compared.
    """
    mean = mechanism.mean_absolute_error
    return mean if math.isfinite(mean) else NO_MEAN * mechanism.half_width(0.5)


def solve(
    noises: Sequence[UnscaledNoise],
    budget: Budget,
    fixed: Sequence[PricedVector] = (),
    *,
    known: Factors | None = None,
    rough: bool = False,
) -> list[Randomizer]:
    """Return mechanisms that with `fixed` spend the budget to within 0.1 %, and never more.

    Pure budgets: each noise spends its share of the rest, its weight over the sum of weights.
    Otherwise one common factor for all: each noise's scale is factor x base. The search starts from
    `known`, and stores its result there. `rough`: only near the budget, on either side, for
    comparing candidates.

    Raises
    ------
    BudgetError
        DP-BUDGET-004 if no noise that can be certified fits; DP-MECH-001 to 005 for a shape without
        a mechanism.
    """
    known = {} if known is None else known
    if budget.variant is Variant.PURE:
        left = budget.amount - (pure_epsilon(fixed) or 0)
        total = sum((noise.weight for noise in noises), Fraction(0))
        return _each_once(noises, lambda noise: _pure(noise, left * noise.weight / total, known))

    @cache
    def cost_of(factor: float) -> float:
        try:
            vectors = _each_once(
                noises, lambda each: make_accounting_input(each.at(factor), each.sensitivity)
            )
        except BudgetError:
            return math.inf  # outside the certified scales
        return budget.price([*fixed, *vectors], ROUGH if rough else FINE)

    families = (budget, tuple(noise.kind.name for noise in noises))
    exact = (families, tuple(tuple(sorted(noise.shape.items())) for noise in noises))
    goal = round_down(budget.amount)
    start = known.get(exact) or known.get(families) or _start(noises, budget, known)
    if budget.needs_concentration:
        _check_concentration(noises, start[0])
    if rough:
        solved = near_factor(cost_of, goal, *start)
    else:
        # Upper bounds of rho are above the approximate costs.
        nudge = 1.0 + 2.0**-12 if budget.needs_concentration else 1.0
        solved = _fine_factor(cost_of, goal, start[0] * nudge, searched=exact in known)
    if solved is None:
        _explain(noises, start[0])
    known[exact] = known[families] = solved
    return _each_once(noises, lambda noise: noise.at(solved[0]))


def _each_once(
    noises: Sequence[UnscaledNoise], make: Callable[[UnscaledNoise], Made]
) -> list[Made]:
    """Apply a function to each noise; noises that differ only in their place share the result.

    In releases of many queries, most noises are equal.
    """
    built: dict[object, Made] = {}
    for noise in noises:
        if noise.law not in built:
            built[noise.law] = make(noise)
    return [built[noise.law] for noise in noises]


def _fine_factor(
    cost_of: Callable[[float], float], goal: float, start: float, *, searched: bool
) -> tuple[float, float] | None:
    """Return a factor that fits; if a search ended near the budget, one that spends it."""
    factor = least_factor(cost_of, goal, start)
    if factor is None:
        return None
    return nearer_factor(cost_of, goal, factor) if searched else factor, -1.0


def _start(noises: Sequence[UnscaledNoise], budget: Budget, known: Factors) -> tuple[float, float]:
    """Return where to start; for mixed families, at the largest factor of a single family.

    Costs of too much noise are the fastest to compute.
    """
    alone = ((budget, (name,) * len(noises)) for name in {noise.kind.name for noise in noises})
    factors = [known[families][0] for families in alone if families in known]
    return (max(factors) if factors else _guess(noises, budget)), -1.0


def _guess(noises: Sequence[UnscaledNoise], budget: Budget) -> float:
    """Return an approximate factor: losses of weight / factor, added up like normal ones."""
    amount = float(budget.amount)
    squares = float(sum((noise.weight**2 for noise in noises), Fraction(0)))
    if budget.variant is Variant.ZERO_CONCENTRATED:
        return math.sqrt(squares / (2 * amount))
    start = math.sqrt(squares * (amount + 2 * math.log(1 / float(budget.delta)))) / amount
    if any(noise.kind.norm != 1 for noise in noises):
        return start
    # At this factor, losses of shift / scale add up to epsilon.
    total = sum((noise.weight for noise in noises), Fraction(0))
    return min(float(total / budget.amount), start)


def _pure(noise: UnscaledNoise, share: Fraction, known: Factors) -> Randomizer:
    """Return the mechanism that spends a share; earlier results are reused."""
    found = known.get((noise.law, share))
    if found is not None:
        return noise.at(found[0])
    mechanisms: dict[float, Randomizer] = {}

    def cost_of(factor: float) -> float:
        try:
            mechanisms[factor] = noise.at(factor)
            epsilon = pure_epsilon([make_accounting_input(mechanisms[factor], noise.sensitivity)])
        except BudgetError:
            return math.inf
        return math.inf if epsilon is None else round_up(epsilon)

    goal = round_down(share / Fraction(ROOM))
    start = round_up(noise.weight / Fraction(goal)) * ROOM
    factor = least_factor(cost_of, goal, start)
    if factor is None:
        _explain([noise], start)
    known[noise.law, share] = factor, -1.0
    return mechanisms[factor]


def _check_concentration(noises: Sequence[UnscaledNoise], factor: float) -> None:
    """Raise BudgetError DP-BUDGET-010 for noise that has no rho at any scale."""
    kinds = {(noise.kind, tuple(sorted(noise.shape.items()))): noise for noise in noises}
    for noise in kinds.values():
        if noise.kind.pure:
            continue
        try:
            mechanism = noise.at(factor)
        except BudgetError:
            continue  # another scale may have a mechanism
        if not has_rho(make_accounting_input(mechanism, noise.sensitivity)):
            column = noise.place.key.rpartition(".")[2]
            raise BudgetError(
                "DP-BUDGET-010", place=noise.place, column=column, mechanism=mechanism.name
            )


def _explain(noises: Sequence[UnscaledNoise], factor: float) -> NoReturn:
    """Raise the reason why no factor fits: a mechanism's own one if there is one."""
    for noise in noises:
        noise.at(factor)
    reason = "delta is too small for the composition to certify, or epsilon is too small"
    raise BudgetError("DP-BUDGET-004", place=noises[0].place, reason=reason)
