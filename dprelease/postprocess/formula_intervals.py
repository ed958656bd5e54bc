"""Intervals of arithmetic on noisy columns of one table: post-processing only.

A quotient of two linear forms N / D of counts and sums has the interval of Fieller (1954), as in
`margins`: for the true quotient t, the noise of N - t D is known exactly, also if both share noise.
Linear forms are quotients by 1. Everything else is computed by interval arithmetic from intervals
of its columns, which all hold at once with the confidence (`confidence_of_each`). That is wider
than necessary, but holds for any noise that columns share. So are all intervals at a confidence
that is too close to 1 for quantiles of draws.

All that depends on the noise is computed by `FormulaInterval.of`, before anything is charged.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.derived_values import (
    FRACTIONS,
    WHOLE,
    noise_weights,
    whole_margin,
)
from dprelease.postprocess.estimates import Mechanisms
from dprelease.postprocess.margins import FARTHEST, PLACES, Pivot, compatible_ratios
from dprelease.postprocess.noise_table import spread_draws
from dprelease.postprocess.variance_margins import LEAST_TAIL_DRAWS
from dprelease.query.measurement import OutputColumn
from dprelease.query.outer_sql.formulas import (
    GREATEST,
    LEAST,
    SQUARE_ROOT,
    Formula,
    confidence_of_each,
)

DRAWS = 2**16
"""The number of evenly spread joint draws of the noise of a formula."""

DRAWS_SLACK = Fraction(1, 50)
"""The part of the miss probability that is left for the error of quantiles of these draws."""

Numbers = Callable[[str], Floats]
"""Returns a published column (n,) by its name; NaN where it is empty."""
Ends = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Linear:
    """A constant plus a weighted sum of columns."""

    constant: Fraction
    weights: Mapping[str, Fraction]

    def plus(self, other: Linear, factor: Fraction) -> Linear:
        """Return the sum of this form and a multiple of another one."""
        names = dict.fromkeys([*self.weights, *other.weights])
        weights = {
            name: self.weights.get(name, Fraction(0)) + factor * other.weights.get(name, 0)
            for name in names
        }
        nonzero = {name: weight for name, weight in weights.items() if weight}
        return Linear(self.constant + factor * other.constant, nonzero)

    def times(self, other: Linear) -> Linear | None:
        """Return the product with another form; None unless one of both is a constant."""
        if self.weights and other.weights:
            return None
        form, factor = (self, other.constant) if self.weights else (other, self.constant)
        return Linear(Fraction(0), {}).plus(form, factor)

    def values(self, numbers: Numbers, size: int) -> Floats:
        """Return the form (n,) of published columns."""
        total = np.full(size, _float(self.constant))
        for name, weight in self.weights.items():
            total += _float(weight) * numbers(name)
        return total


ONE = Linear(Fraction(1), {})
Quotient = tuple[Linear, Linear]


def quotient_of(formula: Formula) -> Quotient | None:
    """Return a formula as a quotient of two linear forms; None if it is none."""
    if formula.column:
        return Linear(Fraction(0), {formula.column: Fraction(1)}), ONE
    if not formula.operator:
        return Linear(formula.number, {}), ONE
    if formula.operator in (SQUARE_ROOT, GREATEST, LEAST):
        return None
    left, right = (quotient_of(part) for part in formula.parts)
    if left is None or right is None:
        return None
    if formula.operator in "*/":
        over, under = right if formula.operator == "*" else right[::-1]
        products = left[0].times(over), left[1].times(under)
    else:
        sign = Fraction(1 if formula.operator == "+" else -1)
        if left[1] == right[1]:
            return left[0].plus(right[0], sign), left[1]
        crossed = left[0].times(right[1]), right[0].times(left[1])
        if crossed[0] is None or crossed[1] is None:
            return None
        products = crossed[0].plus(crossed[1], sign), left[1].times(right[1])
    if products[0] is None or products[1] is None:
        return None
    return (products[0], products[1]) if products[1] != Linear(Fraction(0), {}) else None


@dataclass(frozen=True)
class FormulaInterval:
    """The interval of a formula in each cell, with the widths that follow from the noise."""

    formula: Formula
    columns: Mapping[str, OutputColumn]
    quotient: Quotient | None
    pivot: Pivot | None
    """The quantiles of the noise of N - t D for a quotient."""
    margin: float
    """The margin of the divisor of a quotient, or of a linear form."""
    widths: Mapping[str, float]
    """Margins of the counts and sums, which hold at once with the other intervals."""

    @classmethod
    def of(
        cls,
        formula: Formula,
        columns: Mapping[str, OutputColumn],
        mechanisms: Mechanisms,
        confidence: Fraction,
    ) -> FormulaInterval:
        """Return the interval of a formula over published columns with this noise.

        The published intervals of means and the like have the confidence of `confidence_of_each`.
        """
        names = formula.columns
        used = {name: columns[name] for name in names}
        vectors = [name for name, column in used.items() if _is_noised(column)]
        is_drawn = (1 - confidence) * DRAWS >= LEAST_TAIL_DRAWS
        quotient = quotient_of(formula) if is_drawn and len(vectors) == len(names) else None
        if quotient is not None:
            with np.errstate(all="ignore"):  # constants may be too large for floats
                noise = _JointNoise(used, mechanisms, confidence)
                over, under = (noise.of(form) for form in quotient)
                margin = noise.quantile(under if quotient[1].weights else over)
                pivot = noise.pivot(over, under, margin) if quotient[1].weights else None
            return cls(formula, used, quotient, pivot, margin, {})
        each = float(confidence_of_each(len(names), confidence))
        widths = {name: _margin(used[name], mechanisms, each) for name in vectors}
        return cls(formula, used, None, None, math.inf, widths)

    def ends(self, numbers: Numbers, size: int) -> Ends:
        """Return the ends (n,) of the intervals, both NaN where every number is possible."""
        with np.errstate(all="ignore"):
            if self.quotient is None:
                low, high = self._by_arithmetic(self.formula, numbers, size)
            else:
                low, high = self._of_quotient(self.quotient, numbers, size)
            unknown = ~(np.isfinite(low) & np.isfinite(high))
        return np.where(unknown, math.nan, low), np.where(unknown, math.nan, high)

    def _of_quotient(self, quotient: Quotient, numbers: Numbers, size: int) -> Ends:
        """Return the ends of the intervals of a quotient of linear forms."""
        over, under = (form.values(numbers, size) for form in quotient)
        if self.pivot is None:
            low, high = (over - self.margin) / under, (over + self.margin) / under
            return np.minimum(low, high), np.maximum(low, high)
        low, high = compatible_ratios(over, under, self.pivot, (-math.inf, math.inf))
        unsure = ~(np.abs(under) > self.margin)
        return np.where(unsure, math.nan, low), np.where(unsure, math.nan, high)

    def _by_arithmetic(self, formula: Formula, numbers: Numbers, size: int) -> Ends:
        if formula.column in self.widths:
            width, values = self.widths[formula.column], numbers(formula.column)
            return values - width, values + width
        if formula.column:
            return numbers(f"{formula.column}_lower"), numbers(f"{formula.column}_upper")
        if not formula.operator:
            constant = np.full(size, _float(formula.number))
            return constant, constant
        if formula.operator == SQUARE_ROOT:
            return _square_root(self._by_arithmetic(formula.parts[0], numbers, size))
        left, right = (self._by_arithmetic(part, numbers, size) for part in formula.parts)
        if formula.operator == "*" and formula.parts[0] == formula.parts[1]:
            return _square(left)
        return _interval_of_operation(formula.operator, left, right)


class _JointNoise:
    """Evenly spread joint draws of the noise of all measurements of some columns."""

    def __init__(
        self, columns: Mapping[str, OutputColumn], mechanisms: Mechanisms, confidence: Fraction
    ) -> None:
        self.weights = {name: noise_weights(column) for name, column in columns.items()}
        names = dict.fromkeys(name for weights in self.weights.values() for name in weights)
        known = {name: mechanisms[name] for name in names}
        noise = {name: one for name, one in known.items() if isinstance(one, Mechanism)}
        self.position = math.ceil((1 - (1 - confidence) * (1 - DRAWS_SLACK)) * DRAWS) - 1
        draws = spread_draws(tuple(noise.values()), DRAWS)
        self.draws = dict(zip(noise, draws, strict=True))

    def of(self, form: Linear) -> Floats:
        """Return the noise of a linear form in each draw."""
        total = np.zeros(DRAWS)
        for column, weight in form.weights.items():
            for name, scale in self.weights[column].items():
                total += _float(weight * scale) * self.draws[name]
        return total

    def quantile(self, noise: Floats) -> float:
        """Return a number that the absolute noise exceeds as rarely as the confidence says."""
        least = float(np.partition(np.abs(noise), self.position)[self.position])
        return least * (1.0 + 1e-9)  # equal sums of noise may differ by rounding

    def pivot(self, over: Floats, under: Floats, margin: float) -> Pivot:
        """Return the quantiles of the noise of over - t under at several t."""
        scale = (self.quantile(over) or margin) / margin if margin else 1.0
        end = math.asinh(FARTHEST)
        places = scale * np.sinh(np.linspace(-end, end, PLACES))
        places[PLACES // 2] = 0.0
        widths = [self.quantile(over - t * under) for t in places.tolist()]
        return Pivot(places, np.array(widths))


def _is_noised(column: OutputColumn) -> bool:
    """Return whether a column is a count or a sum, with the same margin in all cells."""
    is_vector = all(part.is_vector and not part.is_choice for part in column.parts)
    return is_vector and column.form not in FRACTIONS


def _margin(column: OutputColumn, mechanisms: Mechanisms, confidence: float) -> float:
    """Return the margin of a count or a sum, in the column's unit."""
    if column.form in WHOLE:
        steps = float(whole_margin(column, mechanisms, confidence))
    else:
        steps = float(mechanisms[column.parts[0].name].half_width(confidence))
    return steps * float(column.step or 1)


def _interval_of_operation(name: str, left: Ends, right: Ends) -> Ends:
    """Return the ends of an operation on two intervals; NaN for a divisor that may be 0."""
    if name == "-":
        return left[0] - right[1], left[1] - right[0]
    if name == "+":
        return left[0] + right[0], left[1] + right[1]
    if name in (GREATEST, LEAST):
        extreme = np.maximum if name == GREATEST else np.minimum
        return extreme(left[0], right[0]), extreme(left[1], right[1])
    compute = operator.mul if name == "*" else operator.truediv
    corners = [compute(one, other) for one in left for other in right]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    if name == "/":
        crosses: Flags = ~((right[0] > 0.0) | (right[1] < 0.0))
        low, high = np.where(crosses, math.nan, low), np.where(crosses, math.nan, high)
    return low, high


def _square(ends: Ends) -> Ends:
    """Return the ends of the square of one value, which is not negative."""
    ones, others = ends[0] ** 2, ends[1] ** 2
    least: Floats = np.where((ends[0] < 0.0) & (ends[1] > 0.0), 0.0, np.minimum(ones, others))
    return least, np.maximum(ones, others)


def _square_root(ends: Ends) -> Ends:
    """Return the ends of a square root; NaN where no number of the interval has one."""
    # The number without noise has a root, so it is not among the negative numbers.
    return np.sqrt(np.where(ends[0] < 0.0, 0.0, ends[0])), np.sqrt(ends[1])


def _float(number: Fraction) -> float:
    """Return a number as a float, which is infinite if the number is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
