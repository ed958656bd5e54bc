"""What is told where time runs out: nothing that was not shown."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

from dprelease.reconstruction.cell_likelihoods import exact_cells
from dprelease.reconstruction.certain_records import certain_records
from dprelease.reconstruction.programs import likeliest_records, record_program
from tests.reconstruction import worlds


@pytest.mark.parametrize("fractions", [True, False])
def test_no_certainty_is_claimed_without_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fractions: bool
) -> None:
    """HiGHS gives up on whole numbers, or on all: the answer is rounded, or nobody."""
    found, combinations = worlds.tables(worlds.write(tmp_path))
    records = np.array([1, 2, 1, 1, 3, 1, 1, 0])
    counted = worlds.cells(found, combinations, records)
    told = {name: exact_cells(cells.astype(float)) for name, cells in counted.items()}
    asked = record_program(combinations, np.arange(8), found.used, told, 10.0)
    real = optimize.milp

    def out_of_time(*given, **named):  # type: ignore[no-untyped-def]
        if fractions and "integrality" not in named:
            return real(*given, **named)
        return optimize.OptimizeResult(x=None, status=1, fun=None)

    monkeypatch.setattr(optimize, "milp", out_of_time)
    solved = likeliest_records(asked, np.log(np.full(8, 0.8)), 5.0)
    assert not solved.proved
    assert solved.cost == math.inf
    assert solved.records.sum() == (10 if fractions else 0)
    assert solved.admitted == asked.admits(solved.records)
    certain = certain_records(asked, records, 5.0)
    assert (certain.decided, certain.only) == (False, False)
    assert (certain.least <= records).all()
    if not fractions:
        assert certain.least.tolist() == [0] * 8
    late = certain_records(asked, records, -1.0)
    assert (late.least.tolist(), late.decided) == ([0] * 8, False)
