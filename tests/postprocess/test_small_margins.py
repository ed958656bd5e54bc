"""Intervals of cells of 1 to 10,000 rows contain the truth, for extreme data, too.

Streams are keyed, so every run is the same one; the longer version tries more releases and budgets.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import sample
from dprelease.postprocess.derived_values import ends_of, estimates_of
from dprelease.postprocess.margins import Estimates
from dprelease.query.resolve import Query
from tests.exact.build import ask, declare, exact
from tests.replay import Keyed

LOW, HIGH = -20, 100
COLUMNS = {
    "x": {"type": "number", "lower": LOW, "upper": HIGH, "step": 0.5},
    "h": {"type": "integer", "lower": 0, "upper": 60},
    "g": {"type": "integer", "lower": 1, "upper": 10},
}
ASKED: dict[str, Any] = {
    "mean": {"mean": "x"},
    "var": {"variance": "x"},
    "sd": {"stddev": "x"},
    "rate": {"ratio": ["h", "g"]},
    "free": {"ratio": ["x", "h"]},
}
SIZES = (1, 3, 10, 30, 100, 1000, 10_000)
RELEASES = 800

LAWS = {
    "laplace": ("discrete_laplace", 1.0, {}),
    "loud laplace": ("discrete_laplace", 5.0, {}),
    "gaussian": ("discrete_gaussian", 3.0, {}),
    "stable": ("symmetric_alpha_stable", 1.5, {"alpha": 1.6}),
}
CORNERS = {
    "all at the lower bound": lambda n: [LOW] * n,
    "all at the upper bound": lambda n: [HIGH] * n,
    "all in the middle": lambda n: [(LOW + HIGH) / 2] * n,
    "half at each": lambda n: [LOW] * (n // 2) + [HIGH] * (n - n // 2),
    "one at the upper bound": lambda n: [LOW] * (n - 1) + [HIGH],
    "one at the lower bound": lambda n: [HIGH] * (n - 1) + [LOW],
    "evenly spread": lambda n: np.linspace(LOW, HIGH, n).round().tolist(),
}


@cache
def truth(corner: str, rows: int) -> tuple[Query, dict[str, int], dict[str, float]]:
    """Return the query, its true vectors, and the true values; without those that do not exist."""
    x = np.array(CORNERS[corner](rows), dtype=float)
    h, g = (np.arange(rows) * 7 + 3) % 61, 1 + (np.arange(rows) * 3) % 10
    query = ask(declare(COLUMNS), ASKED)
    vectors = exact(query, pd.DataFrame({"x": x, "h": h, "g": g}))
    true = {"mean": x.mean(), "rate": h.sum() / g.sum(), "free": x.sum() / h.sum()}
    if rows > 1:
        true |= {"var": x.var(ddof=1), "sd": x.std(ddof=1)}
    return query, {name: int(held[0]) for name, held in vectors.items()}, true


def laws_of(query: Query, name: str) -> dict[str, Mechanism]:
    family, scale, shape = LAWS[name]
    kind = registry.get(family)
    return {
        m.name: kind.design(scale * m.sensitivity.largest_shift, m.sensitivity, **shape)
        for m in query.measurements
    }


def noisy_vectors(
    query: Query, vectors: dict[str, int], laws: dict[str, Mechanism], key: str, releases: int
) -> dict[str, Any]:
    """Return many noisy results, as if they were cells."""
    bits = Keyed(key)
    return {
        name: sample(law.noise_distribution, releases, bits) + vectors[name]
        for name, law in laws.items()
    }


def at_both_bounds(found: Estimates, ends: tuple[float, float]) -> np.ndarray:
    """Return which intervals are as wide as the bounds."""
    both: np.ndarray = (found.lower <= ends[0] + 1e-9) & (found.upper >= ends[1] - 1e-9)
    return both


def covers(found: Estimates, true: float) -> np.ndarray:
    """Return which intervals contain the truth."""
    held: np.ndarray = (found.lower <= true + 1e-9) & (true - 1e-9 <= found.upper)
    return held


def check_coverage(name: str, confidence: float, corner: str, rows: int, releases: int) -> None:
    """Check every interval of one size, also those without a value or with low quality."""
    query, vectors, true = truth(corner, rows)
    laws = laws_of(query, name)
    noisy = noisy_vectors(query, vectors, laws, f"{name} {corner} {rows}", releases)
    # 6 standard errors: a chance below 1e-9 for each of the cases, if they have the coverage.
    least = confidence - 6 * math.sqrt(confidence * (1 - confidence) / releases)
    for column in query.columns:
        if column.name not in true:
            continue
        found = estimates_of(column, noisy, laws, confidence)
        shown = np.isfinite(found.values)
        assert (found.lower <= found.upper).all()
        assert (found.lower - 1e-9 <= found.values)[shown].all()
        assert (found.values <= found.upper + 1e-9)[shown].all()
        assert covers(found, true[column.name]).mean() >= least, (corner, rows, column.name)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("name", "confidence"),
    [*((name, 0.95) for name in LAWS), ("laplace", 0.8), ("laplace", 0.99), ("laplace", 0.9999)],
)
def test_small_cell_intervals_cover_the_truth(name: str, confidence: float) -> None:
    for corner in CORNERS:
        for rows in (1, 3, 10, 30):
            check_coverage(name, confidence, corner, rows, RELEASES)
    for rows in (100, 1000, 10_000):
        check_coverage(name, confidence, "evenly spread", rows, RELEASES)


@pytest.mark.audit
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_small_cell_intervals_of_many_releases_cover(name: str, confidence: float) -> None:
    for corner in CORNERS:
        for rows in SIZES:
            check_coverage(name, confidence, corner, rows, 20_000)


@pytest.mark.parametrize("name", LAWS)
def test_intervals_are_not_too_wide(name: str) -> None:
    """At 95 %, they contain the truth in at most 99 % of cells, if they are not the bounds.

    At a bound only one side can miss, and variances allow for all means: at most 99 %.
    """
    for rows in SIZES[3:]:
        query, vectors, true = truth("evenly spread", rows)
        laws = laws_of(query, name)
        noisy = noisy_vectors(query, vectors, laws, f"wide {name} {rows}", 4000)
        for column in query.columns:
            found = estimates_of(column, noisy, laws, 0.95)
            if at_both_bounds(found, ends_of(column)).mean() < 0.01:
                most = 0.99 + 6 * math.sqrt(0.99 * 0.01 / 4000)
                assert covers(found, true[column.name]).mean() <= most, (rows, column.name)


def test_wrong_intervals_are_rejected() -> None:
    """The check can fail: for ends at half the distance, and for ends of smaller noise."""
    query, vectors, true = truth("evenly spread", 30)
    laws = laws_of(query, "laplace")
    noisy = noisy_vectors(query, vectors, laws, "planted", 4000)
    least = 0.95 - 6 * math.sqrt(0.95 * 0.05 / 4000)
    smaller = {name: type(law)(scale=law.scale * 0.7) for name, law in laws.items()}
    for column in query.columns:
        found = estimates_of(column, noisy, laws, 0.95)
        half = replace(
            found,
            lower=(found.lower + found.values) / 2,
            upper=(found.upper + found.values) / 2,
        )
        assert covers(found, true[column.name]).mean() >= least
        assert covers(half, true[column.name]).mean() < least, column.name
        wrong = estimates_of(column, noisy, smaller, 0.95)
        assert covers(wrong, true[column.name]).mean() < least or column.name in ("var", "sd")


def test_only_the_divisor_decides_whether_there_is_a_value() -> None:
    """A value is published if the divisor is above its own margin, for any numerator."""
    query, _, _ = truth("evenly spread", 30)
    laws = laws_of(query, "loud laplace")
    for column in query.columns:
        if column.name == "free":
            continue
        divisor, less = column.parts[-1].name, 1 if column.name in ("var", "sd") else 0
        width = laws[divisor].half_width(0.95)
        counts = np.arange(-2, width + 20, dtype=np.int64)
        for size in (-(10**6), 0, 10**6):
            noisy = {name: np.full(len(counts), size, dtype=np.int64) for name in laws}
            noisy[divisor] = counts
            found = estimates_of(column, noisy, laws, 0.95)
            assert np.array_equal(found.unsure, counts - less <= width)
            assert np.isfinite(found.values[~found.unsure]).all()


def test_higher_confidence_gives_wider_intervals() -> None:
    """From quantiles of draws to sums of bounds, for the highest confidences."""
    query, vectors, _ = truth("evenly spread", 30)
    laws = laws_of(query, "laplace")
    held = {key: np.array([value, 40 * value]) for key, value in vectors.items()}
    for column in query.columns[1:3]:
        levels = (0.5, 0.8, 0.95, 0.99, 0.9989, 0.9991, 0.9999, 1 - 1e-9)
        several = [estimates_of(column, held, laws, level) for level in levels]
        widths = np.stack([one.upper - one.lower for one in several])
        assert (np.diff(widths, axis=0) >= 0).all()
        assert (np.diff(widths[:, 1]) > 0).all()
        # In a large cell a chance a fifth as large takes less than twice the width.
        assert (widths[2:5, 1] < 2 * widths[1:4, 1]).all()


def test_intervals_do_not_depend_on_other_cells() -> None:
    """Batches of cells give the same intervals as single cells."""
    query, _, _ = truth("evenly spread", 30)
    laws = laws_of(query, "gaussian")
    rng = np.random.default_rng(4)
    noisy = {name: rng.integers(-50, 3000, 700) for name in laws}
    for column in query.columns:
        whole = estimates_of(column, noisy, laws, 0.95)
        for i in range(0, 700, 100):
            cell = {key: held[i : i + 1] for key, held in noisy.items()}
            alone = estimates_of(column, cell, laws, 0.95)
            assert alone.lower[0] == whole.lower[i]
            assert alone.upper[0] == whole.upper[i]
            assert alone.unsure[0] == whole.unsure[i]
