"""Margins of cells of 3 to 30 rows: the intervals that are shown hold the truth, at every corner."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import sample
from dprelease.postprocess.derived_values import fractions_of, margins_of
from dprelease.query.resolve import Query
from tests.exact.build import ask, declare, exact
from tests.replay import Keyed

LOW, HIGH = -20, 100
COLUMNS = {
    "x": {"type": "number", "lower": LOW, "upper": HIGH, "step": 0.5},
    "h": {"type": "integer", "lower": 0, "upper": 60},
}
ASKED = {"mean": {"mean": "x"}, "var": {"variance": "x"}, "sd": {"stddev": "x"}}
RELEASES = 800
"""Few for a case, and enough for all: streams are keyed, so every run is the same one."""

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
    """Return the query, its true vectors, and what is true."""
    x = np.array(CORNERS[corner](rows), dtype=float)
    query = ask(declare(COLUMNS), ASKED)
    vectors = exact(query, pd.DataFrame({"x": x, "h": np.zeros(rows, dtype=int)}))
    true = {"mean": x.mean(), "var": x.var(ddof=1), "sd": x.std(ddof=1)}
    return query, {name: int(held[0]) for name, held in vectors.items()}, true


def laws_of(query: Query, name: str) -> dict[str, Mechanism]:
    family, scale, shape = LAWS[name]
    kind = registry.get(family)
    return {
        m.name: kind.design(scale * m.sensitivity.largest_shift, m.sensitivity, **shape)
        for m in query.measurements
    }


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("name", "confidence"),
    [*((name, 0.95) for name in LAWS), ("laplace", 0.8), ("laplace", 0.99), ("laplace", 0.9999)],
)
def test_shown_intervals_hold_the_truth(name: str, confidence: float) -> None:
    """Of the cells that show a margin alone: hidden ones must not make up for others."""
    for corner in CORNERS:
        for rows in (3, 8, 30):
            query, vectors, true = truth(corner, rows)
            laws = laws_of(query, name)
            bits = Keyed(f"{name} {corner} {rows}")
            noisy = {
                key: sample(law.noise_distribution, RELEASES, bits) + vectors[key]
                for key, law in laws.items()
            }
            for column in query.columns:
                values, margins = (
                    fractions_of(column, noisy),
                    margins_of(column, noisy, laws, confidence),
                )
                shown = np.isfinite(margins)
                assert np.array_equal(shown, np.isfinite(values))
                held = np.abs(values - true[column.name])[shown] <= margins[shown] + 1e-9
                least = confidence - 4 * math.sqrt(confidence * (1 - confidence) / RELEASES)
                assert held.mean() >= least, (corner, rows, column.name)


def test_more_confidence_never_takes_less() -> None:
    """From quantiles of draws to bounds that are added up, for the most certain ones."""
    query, vectors, _ = truth("evenly spread", 30)
    laws = laws_of(query, "laplace")
    held = {key: np.array([value, 40 * value]) for key, value in vectors.items()}
    for column in query.columns[1:]:
        levels = (0.5, 0.8, 0.95, 0.99, 0.9989, 0.9991, 0.9999, 1 - 1e-9)
        found = np.stack([margins_of(column, held, laws, level) for level in levels])
        assert (np.diff(found, axis=0) >= 0).all()
        assert (np.diff(found[:, 1]) > 0).all()
        # In a large cell a chance a fifth as large takes less than twice the width.
        assert (found[2:5, 1] < 2 * found[1:4, 1]).all()


def test_a_margin_is_that_of_its_own_cell() -> None:
    """No cell's margin depends on those that are looked at with it."""
    query, _, _ = truth("evenly spread", 30)
    laws = laws_of(query, "gaussian")
    rng = np.random.default_rng(4)
    noisy = {name: rng.integers(-50, 3000, 700) for name in laws}
    for column in query.columns:
        whole = margins_of(column, noisy, laws, 0.95)
        alone = [
            margins_of(column, {key: held[i : i + 1] for key, held in noisy.items()}, laws, 0.95)[0]
            for i in range(0, 700, 100)
        ]
        assert np.array_equal(whole[::100], alone, equal_nan=True)
