"""Directly standardised rates with intervals: post-processing only.

The rate of a group is R = sum of w_a E_a / P_a over the strata a, such as ages, with the events E,
the population P and the weights w of a public standard population, which add up to 1. The ratio r
of a stratum is compatible with the noisy E and P if

    (E - r P)^2 <= c_E^2 + r^2 c_P^2,

where c_E and c_P are the margins of `margin_factor` (Fieller 1954). The strata have independent
noise. Their intervals (l_a, u_a) are combined as by Zou and Donner (Statistics in Medicine 27,
2008, "MOVER"): the lower end is R - sqrt(sum of w_a^2 (r_a - l_a)^2), and the upper end likewise.
Without noise of P, this is the margin of a weighted sum. Below 0, a rate has no meaning, so the
lower end is at least 0.
"""

from __future__ import annotations

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.postprocess.margins import Estimates


def rate_estimates(
    events: Floats, population: Floats, weights: Floats, margins: tuple[float, float]
) -> Estimates:
    """Return the standardised rates of groups with their intervals.

    If the population of a stratum is not clearly above 0, the rate is unsure. Its interval then has
    no upper end, and the lower end is that of the other strata.

    - `events`, `population`: the noisy numbers (groups, strata), and the noisy or public ones.
    - `weights`: the weights (strata,), which add up to 1; strata with weight 0 don't count.
    - `margins`: the margins of one event count and of one population count; 0 for public numbers.
    """
    over, under = margins
    groups = len(events)
    values, below, above = (np.zeros(groups) for _ in range(3))
    unsure = np.zeros(groups, dtype=np.bool_)
    for e, p, w in zip(events.T, population.T, weights, strict=True):
        if w == 0.0:
            continue
        is_unsure = ~(p > under)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, a, half = e / p, p**2 - under**2, e * p
            root = np.sqrt(np.maximum(half**2 - a * (e**2 - over**2), 0.0))
            low, high = (half - root) / a, (half + root) / a
        sure = ~is_unsure
        values = values + np.where(sure, w * ratio, 0.0)
        below = below + np.where(sure, (w * (ratio - low)) ** 2, 0.0)
        above = above + np.where(sure, (w * (high - ratio)) ** 2, 0.0)
        unsure = unsure | is_unsure
    lower = np.maximum(values - np.sqrt(below), 0.0)
    upper = np.where(unsure, np.inf, np.maximum(values + np.sqrt(above), 0.0))
    values = np.maximum(values, 0.0)
    moved = ~unsure & (values == 0.0)
    return Estimates(np.where(unsure, np.nan, values), lower, upper, unsure, moved)
