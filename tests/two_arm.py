"""Sampled law against claimed law, with a stated error rate and a planted mistake on either side."""

from __future__ import annotations

import numpy as np
from flint import ctx
from scipy import stats

from dprelease.mechanisms.base import Mechanism

ERROR_RATE = 1e-10
"""Chance that one comparison rejects draws of the very law that is claimed."""

BINS = 60


def bin_edges(law: Mechanism) -> list[int]:
    """Return whole numbers that cut the upper side into bins, 1 first."""
    least = max(1, law.half_width(0.5) // (BINS // 3))
    return [1 + least * i for i in range(BINS)]


def bin_masses(law: Mechanism, edges: list[int]) -> np.ndarray:
    """Return the exact masses of the lower bins, of zero, and of the upper bins."""
    before, ctx.prec = ctx.prec, 128
    try:
        tails = np.array([float(law.upper_tail(k)) for k in edges])
    finally:
        ctx.prec = before
    upper = np.append(tails[:-1] - tails[1:], tails[-1])
    return np.concatenate((upper[::-1], [1.0 - 2.0 * tails[0]], upper))


def p_value(draws: np.ndarray, law: Mechanism) -> float:
    """Return the chi-square p-value of draws against a law; bins below 20 expected are merged."""
    edges = bin_edges(law)
    cuts = np.concatenate((-np.array(edges[::-1]), [0], np.array(edges))).astype(float)
    cuts = np.concatenate((cuts[: len(edges)] + 0.5, cuts[len(edges) + 1 :] - 0.5))
    counts = np.histogram(draws, np.concatenate(([-np.inf], cuts, [np.inf])))[0]
    expected = bin_masses(law, edges) * len(draws)
    keep = expected >= 20
    observed = np.append(counts[keep], counts[~keep].sum())
    wanted = np.append(expected[keep], expected[~keep].sum())
    statistic = float(np.sum((observed - wanted) ** 2 / np.maximum(wanted, 1e-9)))
    return float(stats.chi2.sf(statistic, max(1, int(keep.sum()) - 1)))
