"""Means, ratios and centred sums of a family, from the estimates of the sums and counts in them.

Different vectors have independent noise, so that their estimates are uncorrelated. With estimates
s, c of standard errors e_s, e_c:

- s + m c has the error sqrt(e_s^2 + m^2 e_c^2), exactly;
- r = s / c has, to first order (the delta method), sqrt(e_s^2 + r^2 e_c^2) / |c|. Its margin is
  Fieller's: the farther end of all r with |s - r c| <= q sqrt(e_s^2 + r^2 e_c^2), which is an
  interval where |c| > q e_c. If c may be 0 the quotient has no bounded interval and is missing.

Integer tables have no such columns: they are biased, and a quotient of biased numbers has no known
error. Each operation is one correctly rounded float, so results are the same on all machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.postprocess.consistent.family_columns import (
    DERIVED,
    FamilyColumn,
    Vector,
    consistent_columns,
)
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.sum import Sum
from dprelease.query.forms.centred_moments import MEAN, SUM
from dprelease.query.measurement import OutputColumn

Estimates = Mapping[str, tuple[Floats, Floats]]
"""Estimates and their standard errors by measurement, in its unit."""

_ROUNDING_FACTOR = 1 + 2.0**-40


@dataclass(frozen=True)
class DerivedColumn:
    """One column computed from two vectors of a family."""

    column: OutputColumn
    parts: tuple[Vector, Vector]
    quantile: float
    """Number of standard errors of a margin of the column."""

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
        if self.column.margin is not None:
            by = "standard errors" if self.column.form == SUM else "Fieller's interval"
            words = f"its margin of error at {float(self.column.margin):g}, {by}"
            descriptions[f"{name}_moe"] = f"{words} with {self.quantile:.4f}"
        return descriptions

    def values(self, estimates: Estimates) -> dict[str, Floats]:
        """Return the published values of some cells."""
        found = self.with_margin(estimates)
        return {name: found[name] for name in self.descriptions}

    def with_margin(self, estimates: Estimates) -> dict[str, Floats]:
        """Return value, standard error and margin of some cells, published or not."""
        dividend, divisor_part = (estimates[part.measurement.name] for part in self.parts)
        compute = self._sum if self.column.form == SUM else self._quotient
        value, error, margin = compute(dividend, divisor_part)
        return {self.name: value, f"{self.name}_se": error, f"{self.name}_moe": margin}

    def within(self, estimates: Estimates, rounding: Mapping[str, float]) -> dict[str, Floats]:
        """Return `with_margin` for estimates with fixed-point errors.

        Its margin uses wider errors E instead of e. With a_s, a_c the `rounding` by measurement,
        the truth has to lie within q sqrt(e_s^2 + r^2 e_c^2) + a_s + |r| a_c. Of that the square
        is, for every t > 0, at most the sum over both parts of (1 + t) (q e)^2 + 2 (1 + 1/t) a^2,
        those of c times r^2.
        """
        found = self.with_margin(estimates)
        names = [part.measurement.name for part in self.parts]
        added_errors = {name: rounding[name] / self.quantile for name in names}
        if not any(added_errors.values()):
            return found
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
        descriptions = {name: np.where(unknown, np.nan, values) for name, values in found.items()}
        published = found if self.column.form == SUM else descriptions
        return {**published, f"{self.name}_moe": wider}

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
        known = np.abs(divisor_part[0]) > divisor_width
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
        """Return a mean around the middle of its bounds, and within them; a ratio as it is."""
        if self.column.form != MEAN:
            return ratio
        total = narrow_aggregate(self.parts[0].measurement.aggregate, Sum)
        ends = float(total.lower * total.step), float(total.upper * total.step)
        clipped: Floats = np.clip(ratio + float(total.center * total.step), *ends)
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
    return DerivedColumn(column, (dividend.vector, divisor_part.vector), quantile)
