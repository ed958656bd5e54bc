"""Means, ratios and centred sums of a family, from the estimates of the sums and counts in them.

Different vectors have independent noise, so that their estimates are uncorrelated. With estimates
s, c of standard errors e_s, e_c:

- s + m c has the error sqrt(e_s^2 + m^2 e_c^2), exactly;
- r = s / c has, to first order (the delta method), sqrt(e_s^2 + r^2 e_c^2) / |c|. Its interval is
  Fieller's: all r with |s - r c| <= q sqrt(e_s^2 + r^2 e_c^2), which is bounded where |c| > q e_c.
  If c is not clearly above 0, no value is published, and the interval are the bounds of r. A value
  beyond a bound is moved to it; its interval is then that of an s which gives the bound, and so it
  contains all r within the bounds that the interval of s contains.

Integer tables have no such columns: they are biased, and a quotient of biased numbers has no known
error. Each operation is one correctly rounded float, so results are the same on all machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Flags, Floats
from dprelease.postprocess.consistent.family_columns import (
    DERIVED,
    FamilyColumn,
    Vector,
    consistent_columns,
)
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.derived_values import ends_of
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.centred_moments import MEAN, SUM
from dprelease.query.measurement import OutputColumn
from dprelease.query.quality import CONFIDENCE, UNSURE_DIVISOR, Codes, quality_codes

Estimates = Mapping[str, tuple[Floats, Floats]]
"""Estimates and their standard errors by measurement, in its unit."""

_ROUNDING_FACTOR = 1 + 2.0**-40


@dataclass(frozen=True)
class DerivedColumn:
    """One column computed from two vectors of a family."""

    column: OutputColumn
    parts: tuple[Vector, Vector]
    quantile: float
    """Number of standard errors of a margin or an interval of the column."""
    quality_quantile: float
    """Number of standard errors of the margins that decide the quality."""

    @property
    def name(self) -> str:
        """Return the column's name."""
        return self.column.name

    @property
    def descriptions(self) -> dict[str, str]:
        """Return its published columns, each with a text on how it is computed."""
        name = self.name
        descriptions = {
            name: f"{self.column.formula}, of estimates",
            f"{name}_se": "its standard error"
            if self.column.form == SUM
            else "its standard error to first order, where the divisor's interval is not around 0",
        }
        at = f"{float(self.column.margin or CONFIDENCE):g}"
        if self.column.form != SUM:
            ends = f"end of Fieller's interval at {at} with {self.quantile:.4f}, within the bounds"
            descriptions |= {f"{name}_lower": f"lower {ends}", f"{name}_upper": f"upper {ends}"}
        elif self.column.margin is not None:
            words = f"its margin of error at {at}, standard errors with {self.quantile:.4f}"
            descriptions[f"{name}_moe"] = words
        return descriptions

    def values(self, estimates: Estimates) -> dict[str, Floats | Codes]:
        """Return the published values of some cells."""
        found = self._companions(self.with_margin(estimates), estimates)
        return {name: found[name] for name in self.published_names}

    @property
    def published_names(self) -> tuple[str, ...]:
        """The names of its published columns."""
        return (*self.descriptions, *([f"{self.name}_quality"] if self.column.quality else ()))

    def _companions(
        self, found: Mapping[str, Floats], wider: Estimates
    ) -> dict[str, Floats | Codes]:
        """Return `found`, which has values and margins, with intervals and quality codes.

        `wider` are the estimates with the errors from which the intervals follow.
        """
        added: dict[str, Floats | Codes] = {}
        value, limits = found[self.name], self.column.quality
        if self.column.form != SUM:
            lower, upper = self._interval(wider, self.quantile)
            added = {f"{self.name}_lower": lower, f"{self.name}_upper": upper}
            if limits:
                added[f"{self.name}_quality"] = self._quality(wider, value)
        elif limits:
            width = found[f"{self.name}_moe"] * (self.quality_quantile / self.quantile)
            codes = quality_codes(value, value - width, value + width, limits)
            added[f"{self.name}_quality"] = codes
        return {**found, **added}

    def _quality(self, estimates: Estimates, values: Floats) -> Codes:
        """Return the quality of quotients, which depends on their interval at 95 %."""
        lower, upper = self._interval(estimates, self.quality_quantile)
        divisor, divisor_error = estimates[self.parts[1].measurement.name]
        nothing = (divisor == 0.0) & (divisor_error == 0.0)
        low, high = self.ends
        return quality_codes(
            values,
            lower,
            upper,
            self.column.quality,
            at_bound=((values <= low) | (values >= high)) & (lower < upper),
            emptied={UNSURE_DIVISOR: np.isnan(values) & ~nothing},
        )

    def _interval(self, estimates: Estimates, quantile: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of quotients, at worst their bounds."""
        (value, error), (divisor, divisor_error) = (
            estimates[part.measurement.name] for part in self.parts
        )
        low, high = self.ends
        known = self._is_known(divisor, quantile * divisor_error)
        divisor = np.where(known, divisor, np.nan)
        ratio = np.clip(value / divisor, low - self._middle, high - self._middle)
        part = (quantile * divisor_error / divisor) * (quantile * divisor_error / divisor)  # g < 1
        left = 1.0 - part
        root = np.sqrt(error * error * left + (ratio * divisor_error) * (ratio * divisor_error))
        half = quantile * root / (np.abs(divisor) * left) * _ROUNDING_FACTOR
        middle = ratio / left + self._middle
        ends = np.clip(middle - half, low, high), np.clip(middle + half, low, high)
        return np.where(known, ends[0], low), np.where(known, ends[1], high)

    def _is_known(self, divisor: Floats, width: Floats) -> Flags:
        """Return which divisors are clearly not 0, or above 0 if they can't be negative."""
        aggregate = self.parts[1].measurement.aggregate
        return (divisor if aggregate.least >= 0 else np.abs(divisor)) > width

    @property
    def _middle(self) -> float:
        """The middle of the bounds of a mean, around which values are summed; 0 for a ratio."""
        if self.column.form != MEAN:
            return 0.0
        total = narrow_aggregate(self.parts[0].measurement.aggregate, Sum)
        return float(total.center * total.step)

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds of a quotient, in its unit; an end is infinite if none follows."""
        return ends_of(self.column)

    def with_margin(self, estimates: Estimates) -> dict[str, Floats]:
        """Return value, standard error and margin of some cells, published or not."""
        dividend, divisor_part = (estimates[part.measurement.name] for part in self.parts)
        compute = self._sum if self.column.form == SUM else self._quotient
        value, error, margin = compute(dividend, divisor_part)
        return {self.name: value, f"{self.name}_se": error, f"{self.name}_moe": margin}

    def within(
        self, estimates: Estimates, rounding: Mapping[str, float]
    ) -> dict[str, Floats | Codes]:
        """Return values with margins, intervals and quality, for estimates with fixed-point errors.

        Margins and intervals use wider errors E instead of e. With a_s, a_c the `rounding` by
        measurement, the truth has to lie within q sqrt(e_s^2 + r^2 e_c^2) + a_s + |r| a_c. Of that
        the square is, for every t > 0, at most the sum over both parts of
        (1 + t) (q e)^2 + 2 (1 + 1/t) a^2, those of c times r^2.
        """
        found = self.with_margin(estimates)
        names = [part.measurement.name for part in self.parts]
        smallest = min(self.quantile, self.quality_quantile)
        added_errors = {name: rounding[name] / smallest for name in names}
        if not any(added_errors.values()):
            return self._companions(found, estimates)
        # The t that makes the bound nearly the least one; any t > 0 is valid.
        least = {name: float(np.nanmin(estimates[name][1], initial=math.inf)) for name in names}
        some = [added_errors[name] / least[name] for name in names if 0 < least[name] < math.inf]
        t = max(math.sqrt(2.0) * max(some, default=1.0), 2.0**-20)
        wider_estimates = {
            name: (
                value,
                np.sqrt((1 + t) * error * error + 2 * (1 + 1 / t) * added_errors[name] ** 2),
            )
            for name, (value, error) in ((name, estimates[name]) for name in names)
        }
        wider = self.with_margin(wider_estimates)[f"{self.name}_moe"]
        unknown = np.isnan(wider)  # the divisor may be 0
        blanked = {name: np.where(unknown, np.nan, values) for name, values in found.items()}
        published = found if self.column.form == SUM else blanked
        return self._companions({**published, f"{self.name}_moe": wider}, wider_estimates)

    def _sum(
        self, dividend: tuple[Floats, Floats], divisor_part: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats, Floats]:
        total = narrow_aggregate(self.parts[0].measurement.aggregate, Sum)
        center = float(total.center * total.step)
        value = dividend[0] + center * divisor_part[0]
        error = (
            np.sqrt(
                dividend[1] * dividend[1] + (center * divisor_part[1]) * (center * divisor_part[1])
            )
            * _ROUNDING_FACTOR
        )
        return value, error, error * self.quantile

    def _quotient(
        self, dividend: tuple[Floats, Floats], divisor_part: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats, Floats]:
        quantile = self.quantile
        divisor_width = quantile * divisor_part[1]
        known = self._is_known(divisor_part[0], divisor_width)
        divisor = np.where(known, divisor_part[0], np.nan)
        ratio = dividend[0] / divisor
        ratio_error = ratio * divisor_part[1]
        error = np.sqrt(dividend[1] * dividend[1] + ratio_error * ratio_error) / np.abs(divisor)
        part = (divisor_width / divisor) * (divisor_width / divisor)  # g < 1
        left = 1.0 - part
        root = np.sqrt(dividend[1] * dividend[1] * left + ratio_error * ratio_error)
        width = (quantile * root / np.abs(divisor) + np.abs(ratio) * part) / left
        return self._clip_to_bounds(ratio), error, width

    def _clip_to_bounds(self, ratio: Floats) -> Floats:
        """Return quotients within their bounds, means around the middle of these."""
        clipped: Floats = np.clip(ratio + self._middle, *self.ends)
        return clipped


def derived_columns(shape: Shape) -> tuple[DerivedColumn, ...]:
    """Return the columns of a family that are computed from others, in declared order."""
    of = {one.measurement.name: one for one in consistent_columns(shape)}
    return tuple(
        _make_quotient(column, of[column.parts[0].name], of[column.parts[1].name])
        for column in shape.placed[0].table.query.columns
        if column.form in DERIVED
    )


def _make_quotient(
    column: OutputColumn, dividend: FamilyColumn, divisor_part: FamilyColumn
) -> DerivedColumn:
    quantile = max(part.at(column.margin).quantile for part in (dividend, divisor_part))
    quality = max(part.at(CONFIDENCE).quantile for part in (dividend, divisor_part))
    return DerivedColumn(column, (dividend.vector, divisor_part.vector), quantile, quality)
