"""Entry points of the share search: optimal shares for declared aims, with a certificate.

    least_mean      the least weighted sum of mean variances, perhaps under limits
    least_greatest  the least greatest ratio of a variance to its limit
    least_budget    the least budget that satisfies all limits, and a little more for other tables

Weights: a table's number of cells counts each published cell once (under a hierarchy nearly all of
them are those of the lowest level); a weight of 1 for each table at each level counts each table
once. A limit holds at every area of a level, not on average.

**Reproducible.** Shares are found in floats, by a search whose last bits may differ from one
version of NumPy or processor to the next. They are then rounded to few binary digits, as coarsely
as the certificate allows; tables that are hardly worth measuring come to 0. The rounded shares are
not guaranteed to be the same. A plan therefore records them, all published values follow from the
record, and `verify` reads them from the manifest. Any shares would be equally private, and errors
are computed from the noise (`variances`), not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.consistency.algebra import Table
from dprelease.consistency.fixed_point import Floats
from dprelease.consistency.shares.design import Design, Placed
from dprelease.consistency.shares.optimum import (
    Aim,
    EvaluatedShares,
    best_shares,
    cell_variances,
    evaluate_shares,
)

CLOSE = 1e-4
"""Largest gap of a certificate after rounding."""

_BINARY_DIGITS = (6, 8, 10, 12, 14, 16, 18, 20, 24, 30, 36)  # binary, of shares
_FLOAT_ERROR_FACTOR = 1 + 2.0**-30  # covers float errors


@dataclass(frozen=True)
class Allocation:
    """Shares of the budget, and a bound on their distance from optimal.

    - `shares`: for each level, tables to measure with their shares of the budget; together 1.
      Tables that are not worth measuring are left out.
    - `value`: the minimised value: the weighted sum of mean variances, or the greatest ratio of a
      variance to its limit (`least_greatest`).
    - `bound`: a lower bound of the value for all shares.
    - `parts`: for each limit, the greatest ratio of a variance at any area to it.
    """

    shares: list[dict[Table, Fraction]]
    value: float
    bound: float
    parts: dict[Placed, float]

    @property
    def gap(self) -> float:
        """Return the largest possible relative improvement of the value: value / bound - 1."""
        if self.value <= 0:
            return 0.0
        return self.value / self.bound - 1 if self.bound > 0 else math.inf

    @property
    def needs(self) -> Fraction:
        """Return the relative budget with which these shares satisfy all limits.

        Rounded upwards to 20 binary digits; 0 without limits.
        """
        greatest = max(self.parts.values(), default=0.0) * _FLOAT_ERROR_FACTOR
        if greatest <= 0:
            return Fraction(0)
        # Few digits, because a plan records the number, and upward, because it is a promise.
        digits = 20 - math.frexp(greatest)[1]
        return Fraction(math.ceil(math.ldexp(greatest, digits))) / Fraction(2) ** digits


class UnreachableTargetsError(ValueError):
    """No shares of the budget satisfy all limits.

    - `nearest`: the result of `least_greatest`: `nearest.needs` times the budget satisfies all
      limits. With this budget a limited table's variance is at most `nearest.parts[placed]` times
      its limit, and its margin the square root of that times the required one.
    """

    def __init__(self, nearest: Allocation) -> None:
        super().__init__("no shares of the budget keep all limits of variances")
        self.nearest = nearest


def margin_limit(margin: float, quantile: float) -> float:
    """Return the variance of a cell for a required margin.

    - `margin`: half the width of the interval.
    - `quantile`: the number of standard errors in the margin, as in `standard_errors.half_widths`.
    """
    return (margin / quantile) ** 2


def least_mean(
    design: Design,
    weights: Mapping[Placed, float],
    limits: Mapping[Placed, float] | None = None,
) -> Allocation:
    """Return the shares with the least weighted sum of mean variances.

    - `design`: what may be measured, with prices for the whole budget.
    - `weights`: for a level and a table, the weight of the variance of its cells, a mean over the
      areas of the level; above 0. Each table that is published needs one, or may be left
      unmeasured.
    - `limits`: for a level and a table, the largest allowed variance of a cell at any area.

    Raises NotEstimableError if a table with a weight or a limit can't be estimated whatever the
    shares are. Raises UnreachableTargetsError if no shares of the budget satisfy all limits, or if
    they do by less than the certificate's gap. Raises ValueError if there is no weight, or a weight
    or a limit is not positive and finite.
    """
    aim = Aim(weights, limits or {})
    if not weights:
        raise ValueError("a mean needs weights")
    if not limits:
        return _best_allocation(design, aim)
    nearest = least_greatest(design, limits)
    if nearest.value > 1:
        raise UnreachableTargetsError(nearest)
    found = _best_allocation(design, aim)
    if max(found.parts.values()) <= 1:
        return found
    shares = _share_vector(design, nearest.shares)  # hardly feasible: no other shares to try
    return replace(nearest, value=evaluate_shares(design, aim, shares).total, bound=found.bound)


def least_greatest(design: Design, limits: Mapping[Placed, float]) -> Allocation:
    """Return the shares with the least greatest ratio of a variance to its limit.

    The same shares are best for every budget. Equal limits make the greatest variance the least.

    - `design`: what may be measured, with prices for the whole budget.
    - `limits`: for a level and a table, the limit of the variance of a cell, at every area.

    Raises NotEstimableError if a table with a limit can't be estimated whatever the shares are.
    Raises ValueError if there is no limit, or one is not positive and finite.
    """
    if not limits:
        raise ValueError("a greatest variance needs limits")
    return _best_allocation(design, Aim({}, limits))


def least_budget(
    design: Design,
    weights: Mapping[Placed, float],
    limits: Mapping[Placed, float],
    more: Fraction = Fraction(1, 100),
) -> tuple[Fraction, Allocation]:
    """Return the least budget that satisfies all limits and a little more, and its shares.

    The rest is spent where it reduces the weighted sum of mean variances most, so that tables
    without a limit can be published too.

    - `design`, `weights`, `limits`: as for `least_mean`; the prices of the design may be for any
      budget.
    - `more`: the addition to the least budget, as a fraction of it; above 0.

    Returns the budget as a multiple of the budget of the design, and its shares. Values and bounds
    are those under the returned budget.

    Raises NotEstimableError or ValueError for the reasons of `least_mean`.
    """
    factor = least_greatest(design, limits).needs * (1 + more)
    if not factor:
        raise ValueError("exact tables keep every limit: there is no least budget")
    prices = [{t: float(k) / float(factor) for t, k in level.items()} for level in design.prices]
    return factor, least_mean(replace(design, prices=prices), weights, limits)


def _best_allocation(design: Design, aim: Aim) -> Allocation:
    """Return the allocation with the best shares for an aim, rounded."""
    numbers = [*aim.weights.values(), *aim.limits.values()]
    if not all(0 < number < math.inf for number in numbers):
        raise ValueError("weights and limits are positive and finite")
    equal = np.full(len(design.items), 1 / len(design.items))
    design.require_estimable([*aim.weights, *aim.limits], design.unknown(equal))
    doubtful = _without_exact_tables(design, aim, equal)
    if not doubtful.weights and not doubtful.limits:  # all of it is exact
        return _allocation(design, aim, _round_to_binary_digits(equal, _BINARY_DIGITS[-1]), 0.0)
    best, bound = best_shares(design, doubtful)
    return _allocation(design, aim, _round_shares(design, doubtful, best, bound), bound)


def _without_exact_tables(design: Design, aim: Aim, shares: Floats) -> Aim:
    """Return an aim without the tables that are known exactly, whatever is measured."""
    tables = [*aim.weights, *aim.limits]
    variances = cell_variances(design, shares, tables)
    doubtful = {placed for placed, each in zip(tables, variances, strict=True) if each.any()}
    return Aim(
        {placed: w for placed, w in aim.weights.items() if placed in doubtful},
        {placed: v for placed, v in aim.limits.items() if placed in doubtful},
    )


def _round_shares(design: Design, aim: Aim, best: EvaluatedShares, bound: float) -> Floats:
    """Return shares of as few binary digits as the certificate and the limits allow."""
    shares = best.shares
    for digits in _BINARY_DIGITS:
        shares = _round_to_binary_digits(best.shares, digits)
        here = evaluate_shares(design, aim, shares)
        in_bound = here.greatest <= 1 or not aim.weights
        if in_bound and here.merit <= bound * (1 + CLOSE):
            break
    return shares


def _round_to_binary_digits(shares: Floats, digits: int) -> Floats:
    """Return shares rounded to multiples of 2**-digits that sum to 1, by largest remainders."""
    scaled = np.ldexp(shares / shares.sum(), digits)
    units = np.floor(scaled)
    left = int(2.0**digits - units.sum())
    # The sum stays exactly 1: rounding each share alone could spend more than the budget.
    units[np.argsort(units - scaled, kind="stable")[:left]] += 1
    found: Floats = np.ldexp(units, -digits)
    return found


def _allocation(design: Design, aim: Aim, shares: Floats, bound: float) -> Allocation:
    """Return rounded shares as fractions, with the variances that they achieve on the tree."""
    here = evaluate_shares(design, aim, shares)
    by_level: list[dict[Table, Fraction]] = [{} for _ in design.prices]
    for (level, table), share in zip(design.items, shares.tolist(), strict=True):
        if share:
            by_level[level][table] = Fraction(share)
    value = here.total if aim.weights else here.greatest
    return Allocation(by_level, value, bound, here.parts)


def _share_vector(design: Design, shares: list[dict[Table, Fraction]]) -> Floats:
    return np.array([float(shares[level].get(table, 0)) for level, table in design.items])
