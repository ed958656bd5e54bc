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
    """Return whole numbers that begin the bins, ascending, around the middle of the law."""
    middle = round(law.mean) if np.isfinite(law.mean) else 0
    least = max(1, law.half_width(0.5) // (BINS // 3))
    return [middle + least * i for i in range(-BINS, BINS + 1)]


def bin_masses(law: Mechanism, edges: list[int]) -> np.ndarray:
    """Return the exact masses below the first edge, between edges, and from the last one on."""
    with ctx.workprec(128):
        upper = np.array([float(law.tail(k, True)) for k in edges])
        lower = np.array([float(law.tail(k - 1, False)) for k in edges])
    between = np.where(upper[:-1] < 0.5, upper[:-1] - upper[1:], lower[1:] - lower[:-1])
    return np.concatenate(([lower[0]], between, [upper[-1]]))


def p_value(draws: np.ndarray, law: Mechanism) -> float:
    """Return the chi-square p-value of draws against a law; bins below 20 expected are merged."""
    edges = bin_edges(law)
    cuts = np.array(edges) - 0.5
    counts = np.histogram(draws, np.concatenate(([-np.inf], cuts, [np.inf])))[0]
    expected = bin_masses(law, edges) * len(draws)
    keep = expected >= 20
    observed = np.append(counts[keep], counts[~keep].sum())
    wanted = np.append(expected[keep], expected[~keep].sum())
    statistic = float(np.sum((observed - wanted) ** 2 / np.maximum(wanted, 1e-9)))
    return float(stats.chi2.sf(statistic, max(1, int(keep.sum()) - 1)))
