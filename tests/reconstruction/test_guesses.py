"""What is guessed, beside all that somebody could draw: enumerated with their probabilities."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dprelease.reconstruction.cell_likelihoods import exact_cells
from dprelease.reconstruction.certain_records import guess_baseline
from dprelease.reconstruction.guesses import apportion, expected_rates, guess_records
from tests.reconstruction import worlds

RECORDS = np.array([1, 0, 1, 0, 0, 2, 0, 0])


def test_expected_guesses_equal_the_mean_of_all_draws(tmp_path: Path) -> None:
    """Expected right records exactly; their variance from above; those alone."""
    _, combinations = worlds.tables(worlds.write(tmp_path))
    block = np.arange(8)
    found = guess_records(combinations, block, RECORDS)
    total = int(RECORDS.sum())
    parts = np.ones(8)
    for i in range(3):
        column = combinations.values[:, i]
        parts *= np.array([RECORDS[column == value].sum() / total for value in column])
    means, squares, alone = 0.0, 0.0, 0.0
    for drawn in product(range(8), repeat=total):
        chance = math.prod(parts[one] for one in drawn)
        counts = np.bincount(drawn, minlength=8)
        right = int(np.minimum(counts, RECORDS).sum())
        means += chance * right
        squares += chance * right**2
        alone += chance * int(((counts > 0) & (RECORDS == 1)).sum())
    told = guess_baseline([found], [RECORDS])
    assert told.drawn == pytest.approx(means, rel=1e-12)
    assert told.alone == pytest.approx(alone, rel=1e-12)
    variance = squares - means**2
    assert variance <= told.deviation**2 * (1 + 1e-12)
    assert told.deviation**2 < 2 * variance  # a bound that says something
    assert told.apportioned == np.minimum(apportion(total * parts, total), RECORDS).sum()


def test_guesses_fit_exact_marginals(tmp_path: Path) -> None:
    """Up to the tenth of a row that no value falls below."""
    found, combinations = worlds.tables(worlds.write(tmp_path))
    records = RECORDS + 20
    cells = worlds.cells(found, combinations, records)
    told = {name: exact_cells(counted.astype(float)) for name, counted in cells.items()}
    rates = expected_rates(combinations, np.arange(8), found.used, told)
    assert rates.sum() == pytest.approx(records.sum())
    for i in range(3):
        column = combinations.values[:, i]
        for value in (0, 1):
            there = column == value
            assert rates[there].sum() == pytest.approx(records[there].sum(), rel=1e-9)


@pytest.mark.parametrize(("expected", "total"), [([0.5, 0.6, 0.9], 2), ([1.5, 2.5], 4), ([], 0)])
def test_apportioned_numbers_have_their_sum(expected: list[float], total: int) -> None:
    held = apportion(np.array(expected), total)
    assert held.sum() == total
    assert (np.abs(held - expected) < 1).all()
