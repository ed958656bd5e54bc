"""Differences and ratios of two noisy values, with intervals.

The interval of a change has one of three sources:

- Counts and sums with independent noise that no later step changed: the quantile of the difference
  of both noises, from the mechanisms in the manifests. Ratios are those of Fieller (1954), as in
  `postprocess.margins`.
- Consistent tables: the standard errors of both estimates, which are independent in two releases;
  in one release their sum, which holds for every correlation.
- Other columns, such as means, medians and rounded counts: the differences between the ends of both
  intervals. If each misses its value with probability p, both hold with 1 - 2 p (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.margins import compatible_ratios, difference_width, pivot_of
from dprelease.postprocess.noise_table import noise_width
from dprelease.query.quality import CONFIDENCE

MOST_TERMS = 32
"""Number of equal terms from which on the shape of a sum of noise no longer changes much."""


@dataclass(frozen=True)
class Estimates:
    """Published values (n,) of one column, and what is known about their noise.

    `noise` is the noise of a value in steps of size `step`, if nothing else changed the value;
    `added` has the number of cells of which each value is the sum, if some are sums.
    `errors` are standard errors, and `quantile` is their number in a margin.
    """

    values: Floats
    lower: Floats
    upper: Floats
    confidence: Fraction
    """The confidence of the intervals from `lower` to `upper`."""
    noise: Mechanism | None = None
    step: float = 1.0
    added: Floats | None = None
    errors: Floats | None = None
    quantile: float = 0.0


@dataclass(frozen=True)
class Change:
    """The changes (n,) from one column to another: differences and ratios with intervals."""

    difference: tuple[Floats, Floats, Floats]
    ratio: tuple[Floats, Floats, Floats]
    confidence: Fraction


def change_between(
    old: Estimates, new: Estimates, *, is_same: bool, joint: Floats | None = None
) -> Change:
    """Return the change from one column to another.

    `is_same` says that both are of one release. The noise of different cells is independent there,
    too, but estimates of consistent tables are correlated; `joint` are the standard errors of their
    differences, if known.
    """
    difference = new.values - old.values
    if old.noise is not None and new.noise is not None:
        return _change_of_noise(old, new, old.noise, new.noise)
    if old.errors is not None and new.errors is not None:
        quantile = max(old.quantile, new.quantile)
        error = old.errors + new.errors if is_same else np.hypot(old.errors, new.errors)
        if joint is not None:
            error = np.where(np.isnan(error) | (error == 0), error, joint)
        width = quantile * error
        ends = difference - width, difference + width
        if joint is not None or not is_same:
            ratio = _fieller(old.values, new.values, old.errors, new.errors, error, quantile)
            return Change((difference, *ends), ratio, CONFIDENCE)
        return Change((difference, *ends), _ratio_of_ends(old, new), 2 * CONFIDENCE - 1)
    ends = new.lower - old.upper, new.upper - old.lower
    missed = (1 - old.confidence) + (1 - new.confidence)
    return Change((difference, *ends), _ratio_of_ends(old, new), 1 - missed)


def _change_of_noise(
    old: Estimates, new: Estimates, old_noise: Mechanism, new_noise: Mechanism
) -> Change:
    """Return the change between two values with independent noise."""
    at, difference = float(CONFIDENCE), new.values - old.values
    added = [np.ones(len(difference)) if s.added is None else s.added for s in (old, new)]
    if any((number > 1).any() for number in added):
        steps = np.array([[old.step], [new.step]])
        widths = sum_width([old_noise, new_noise], np.array(added), at, steps)
        ends = difference - widths, difference + widths
        return Change((difference, *ends), _ratio_of_ends(old, new), CONFIDENCE)
    scale = old.step / new.step
    width = difference_width(new_noise, old_noise, scale, at) * new.step
    under, over = old.values / old.step, new.values / new.step
    known = under > old_noise.half_width(at)
    lower, upper = compatible_ratios(
        over, under, pivot_of(new_noise, old_noise, at), (-np.inf, np.inf)
    )
    ratio = (
        np.where(known, x / scale, np.nan) for x in (over / np.where(known, under, 1), lower, upper)
    )
    value, low, high = ratio
    ends = difference - width, difference + width
    return Change((difference, *ends), (value, low, high), CONFIDENCE)


def sum_width(
    noises: Sequence[Mechanism], numbers: Floats, confidence: float, steps: Floats | None = None
) -> Floats:
    """Return quantiles (n,) of absolute sums of independent noise.

    Parameters
    ----------
    numbers
        (noises, n) numbers of terms with each noise.
    steps
        (noises, 1) sizes of the steps of each noise; by default 1.
    """
    cases, of = np.unique(numbers, axis=1, return_inverse=True)
    widths = np.empty(cases.shape[1])
    for i, case in enumerate(cases.T):
        terms = [
            one for one, n in zip(noises, case, strict=True) for _ in range(min(int(n), MOST_TERMS))
        ]
        bound = noise_width(tuple(terms), confidence)
        sizes = np.array([max(1.0, float(one.half_width(confidence))) for one in noises])
        scaled = sizes if steps is None else sizes * steps[:, 0]
        widths[i] = bound.factor * np.sqrt((case * scaled**2).sum())
    return widths[of.reshape(-1)]


def _fieller(
    old: Floats, new: Floats, old_error: Floats, new_error: Floats, error: Floats, quantile: float
) -> tuple[Floats, Floats, Floats]:
    """Return the ratios of estimates, with their intervals (Fieller 1954).

    `error` is the standard error of the differences, from which the covariances follow.
    """
    known = old > quantile * old_error
    under = np.where(known, old, np.nan)
    covariance = (old_error**2 + new_error**2 - error**2) / 2
    slope = np.divide(covariance, old_error**2, out=np.zeros(len(old)), where=old_error > 0)
    ratio, part = new / under, (quantile * old_error / under) ** 2
    rest = np.maximum(new_error**2 - slope * covariance, 0.0)  # given the divisor
    root = np.sqrt(rest * (1 - part) + ((ratio - slope) * old_error) ** 2)
    middle, half = (ratio - part * slope) / (1 - part), quantile * root / (under * (1 - part))
    return ratio, middle - half, middle + half


def _ratio_of_ends(old: Estimates, new: Estimates) -> tuple[Floats, Floats, Floats]:
    """Return the ratios of values, with the extreme ratios of the values in both intervals."""
    known = old.lower > 0
    lower, upper = (np.where(known, end, np.nan) for end in (old.lower, old.upper))
    with np.errstate(invalid="ignore"):  # an infinite end over another one is an unknown end
        least = np.minimum(new.lower / lower, new.lower / upper)
        most = np.maximum(new.upper / lower, new.upper / upper)
    return new.values / np.where(known, old.values, np.nan), least, most
