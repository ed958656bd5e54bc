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
from dprelease.privacy.calibrate import approximate_factor, improved_factor, least_factor
from dprelease.privacy.priced_vector import PricedVector, priced_vector
from dprelease.privacy.renyi import has_rho
from dprelease.privacy.unit import Sensitivity

PURE_MARGIN = 1.0 + 2.0**-40
"""The shares of a pure budget are divided by this factor, so that their rounded sum never exceeds
the budget."""

MEDIANS_WITHOUT_MEAN = 1000.0
"""Median errors that stand for the mean error of a mechanism without a mean."""

Shape = Mapping[str, str | float]
Result = TypeVar("Result")

Factors = dict[object, tuple[float, float]]
"""Solved factors of noises, by noise family and shape, from which the next search starts.

Each factor comes with the approximate slope of the cost at this factor, in logarithms.
"""


@dataclass(frozen=True, slots=True)
class UnscaledNoise:
    """The noise of one vector, with its noise family and shape, but without a scale."""

    kind: type[Randomizer]
    shape: Shape
    sensitivity: Sensitivity
    weight: Fraction
    place: Place
    width: Fraction | None = None
    """Declared margin of error, in steps, which determines the scale without the budget."""
    confidence: float = 0.95

    @property
    def base(self) -> Fraction:
        """Return the scale at factor one: the norm of the sensitivity over the weight."""
        if self.kind.sensitivity_norm == 1:
            return self.sensitivity.l1 / self.weight
        # Rounded down, which is safe: the cost is computed for the scale that results.
        return Fraction(math.isqrt(self.sensitivity.l2_squared * 4**40)) / 2**40 / self.weight

    @property
    def distribution_key(self) -> object:
        """Return a value that is equal for noises with the same distribution at every factor."""
        return self.kind, tuple(sorted(self.shape.items())), self.sensitivity, self.weight

    def at(self, factor: float) -> Randomizer:
        """Return the mechanism whose scale is factor x base.

        Raises BudgetError: DP-MECH-001 to 005 if no such mechanism exists, or its numbers can't be
        certified.
        """
        scale = round_up(self.base * Fraction(factor))
        return self.kind.design(scale, self.sensitivity, self.place, **self.shape)

    def admits(self, factor: float) -> bool:
        """Return False if certainly no mechanism has the scale factor x base.

        The check constructs no mechanism, so True does not prove that one exists.
        """
        scale = round_up(self.base * Fraction(factor))
        return self.kind.admits(scale, self.sensitivity, **self.shape)

    def with_declared_accuracy(self) -> Randomizer:
        """Return the mechanism with the most noise whose margin of error is at most `width`.

        Raises BudgetError: DP-BUDGET-008 if no mechanism is that accurate; DP-MECH-001 to 005, as
        from `at`, if no mechanism exists at any scale.
        """
        width = self.width or Fraction(0)
        built_any = False
        problem: BudgetError | None = None

        @cache
        def fits(factor: float) -> bool:
            """Return whether noise at this factor is at most as wide as declared."""
            nonlocal built_any, problem
            try:
                mechanism = self.at(factor)
            except BudgetError as error:
                problem = problem or error
                return False
            built_any = True
            return mechanism.half_width(self.confidence) <= width

        # A first guess: at this factor the scale is as large as the declared margin.
        start = float(width / self.base)
        largest = _largest_factor(fits, start)
        if largest is not None:
            return self.at(largest)
        # If mechanisms with more noise exist, only the declared accuracy is impossible.
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
    """Return nearly the largest factor that fits, up to a 1/4096 of it; None if no factor fits."""
    low = start
    # Bounded, because noise may be too wide at every factor that exists.
    for _ in range(80):
        if fits(low):
            break
        low /= 2
    else:
        return None
    high = low * 2
    # Bounded, too, because noise of bounded width may fit at every factor.
    while fits(high) and high < start * 2.0**40:
        low, high = high, high * 2
    while high / low > 1 + 2.0**-12:
        # The geometric middle, because the first guess may be wrong by powers of two.
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def make_accounting_input(mechanism: Randomizer, sensitivity: Sensitivity) -> PricedVector:
    """Return the accountant's input for one vector."""
    return priced_vector(
        mechanism,
        mechanism.losses,
        sensitivity,
        renyi_from_l2_norm=mechanism.renyi_from_l2_norm,
        costs_most_in_few_cells=mechanism.costs_most_in_few_cells,
    )


def typical_error(mechanism: Randomizer) -> float:
    """Return the mean absolute error, or a thousand times the median error if no mean exists.

    So mechanisms with a mean come first, and mechanisms without a mean can still be compared.
    """
    mean = mechanism.mean_absolute_error
    return mean if math.isfinite(mean) else MEDIANS_WITHOUT_MEAN * mechanism.half_width(0.5)


def solve_scales(
    noises: Sequence[UnscaledNoise],
    budget: Budget,
    fixed: Sequence[PricedVector] = (),
    *,
    known: Factors | None = None,
    rough: bool = False,
) -> list[Randomizer]:
    """Return mechanisms that, together with `fixed`, spend between 99.9 % and 100 % of the budget.

    Under a pure budget, each noise spends its share of what `fixed` leaves: its weight over the sum
    of weights. Under other budgets, one common factor is solved, and each noise gets the scale
    factor x base. The search starts from the factors in `known`, and stores its result in them.
    With `rough`, the cost is only near the budget, above or below, for comparisons of candidates.

    Raises BudgetError: DP-BUDGET-004 if no noise that can be certified fits; DP-MECH-001 to 005 for
    a shape without a mechanism.
    """
    known = {} if known is None else known
    if budget.variant is Variant.PURE:
        # Pure epsilons add up, so that each noise can be solved alone.
        left = budget.amount - (pure_epsilon(fixed) or 0)
        total = sum((noise.weight for noise in noises), Fraction(0))
        return _map_distinct(
            noises,
            lambda noise: _mechanism_of_pure_share(noise, left * noise.weight / total, known),
        )

    @cache
    def cost_of(factor: float) -> float:
        """Return the cost of all vectors at this factor, in the measure of the budget."""
        try:
            vectors = _map_distinct(
                noises, lambda noise: make_accounting_input(noise.at(factor), noise.sensitivity)
            )
        except BudgetError:
            return math.inf  # the scale is outside the certified range
        return budget.cost_of([*fixed, *vectors], ROUGH if rough else FINE)

    families = (budget, tuple(noise.kind.name for noise in noises))
    exact = (families, tuple(tuple(sorted(noise.shape.items())) for noise in noises))
    # Rounded down, so that no float below the goal exceeds the exact budget.
    goal = round_down(budget.amount)
    start = known.get(exact) or known.get(families) or _start_of_search(noises, budget, known)
    if budget.needs_concentration:
        _require_rho(noises, start[0])
    if rough:
        solved = approximate_factor(cost_of, goal, *start)
    else:
        # Upper bounds of rho are above the approximate costs.
        start_margin = 1.0 + 2.0**-12 if budget.needs_concentration else 1.0
        solved = _fine_factor(cost_of, goal, start[0] * start_margin, searched=exact in known)
    if solved is None:
        _raise_reason(noises, start[0])
    # Other shapes of the same families have similar factors, so their searches start here.
    known[exact] = known[families] = solved
    return _map_distinct(noises, lambda noise: noise.at(solved[0]))


def _map_distinct(
    noises: Sequence[UnscaledNoise], make: Callable[[UnscaledNoise], Result]
) -> list[Result]:
    """Return the results of a function for all noises, computed once for equal noises.

    In releases of many queries, most noises differ only in their place.
    """
    built: dict[object, Result] = {}
    for noise in noises:
        if noise.distribution_key not in built:
            built[noise.distribution_key] = make(noise)
    return [built[noise.distribution_key] for noise in noises]


def _fine_factor(
    cost_of: Callable[[float], float], goal: float, start: float, *, searched: bool
) -> tuple[float, float] | None:
    """Return a factor that fits, with a slope; None if no factor fits.

    If `start` was already searched, one more evaluation tries a factor that spends more.
    """
    factor = least_factor(cost_of, goal, start)
    if factor is None:
        return None
    return improved_factor(cost_of, goal, factor) if searched else factor, -1.0


def _start_of_search(
    noises: Sequence[UnscaledNoise], budget: Budget, known: Factors
) -> tuple[float, float]:
    """Return the factor and slope from which a search without earlier results starts.

    For noises of several noise families, the search starts at the largest factor that was solved
    for one of these noise families alone, because the cost of too much noise is the fastest to
    compute.
    """
    alone = ((budget, (name,) * len(noises)) for name in {noise.kind.name for noise in noises})
    factors = [known[families][0] for families in alone if families in known]
    return (max(factors) if factors else _approximate_factor(noises, budget)), -1.0


def _approximate_factor(noises: Sequence[UnscaledNoise], budget: Budget) -> float:
    """Return an approximate factor, as if losses of weight / factor added up like normal losses."""
    amount = float(budget.amount)
    squares = float(sum((noise.weight**2 for noise in noises), Fraction(0)))
    if budget.variant is Variant.ZERO_CONCENTRATED:
        # The rho of normal noise is weight^2 / (2 factor^2) for each vector.
        return math.sqrt(squares / (2 * amount))
    # Epsilon is rho + 2 sqrt(rho ln(1 / delta)), solved approximately for the factor.
    start = math.sqrt(squares * (amount + 2 * math.log(1 / float(budget.delta)))) / amount
    if any(noise.kind.sensitivity_norm != 1 for noise in noises):
        return start
    # At this factor, losses of shift / scale add up to epsilon.
    total = sum((noise.weight for noise in noises), Fraction(0))
    return min(float(total / budget.amount), start)


def _mechanism_of_pure_share(noise: UnscaledNoise, share: Fraction, known: Factors) -> Randomizer:
    """Return the mechanism that spends a share of a pure budget, from `known` if it has one."""
    found = known.get((noise.distribution_key, share))
    if found is not None:
        return noise.at(found[0])
    mechanisms: dict[float, Randomizer] = {}

    def cost_of(factor: float) -> float:
        """Return the pure epsilon of noise at this factor; infinity if it has none."""
        try:
            mechanisms[factor] = noise.at(factor)
            epsilon = pure_epsilon([make_accounting_input(mechanisms[factor], noise.sensitivity)])
        except BudgetError:
            return math.inf
        return math.inf if epsilon is None else round_up(epsilon)

    goal = round_down(share / Fraction(PURE_MARGIN))
    start = round_up(noise.weight / Fraction(goal)) * PURE_MARGIN
    factor = least_factor(cost_of, goal, start)
    if factor is None:
        _raise_reason([noise], start)
    known[noise.distribution_key, share] = factor, -1.0
    return mechanisms[factor]


def _require_rho(noises: Sequence[UnscaledNoise], factor: float) -> None:
    """Raise BudgetError DP-BUDGET-010 for a noise that has no rho at any scale."""
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


def _raise_reason(noises: Sequence[UnscaledNoise], factor: float) -> NoReturn:
    """Raise the error of a mechanism at this factor, or else DP-BUDGET-004: no factor fits."""
    for noise in noises:
        noise.at(factor)
    reason = "delta is too small for the composition to certify, or epsilon is too small"
    raise BudgetError("DP-BUDGET-004", place=noises[0].place, reason=reason)
