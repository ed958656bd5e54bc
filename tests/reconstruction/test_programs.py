"""What is solved, beside all tables of people that can be: enumerated."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dprelease.mechanisms.base import Mechanism
from dprelease.query.post import NO_POST_PROCESSING
from dprelease.reconstruction.attack import (
    round_counts,
    round_randomly,
    suppress_small_counts,
    suppress_twice,
)
from dprelease.reconstruction.cell_likelihoods import (
    ObservedCells,
    exact_cells,
    likelihoods_from_noise,
    log_probability_segments,
)
from dprelease.reconstruction.certain_records import certain_records
from dprelease.reconstruction.programs import (
    SEGMENT_STARTS,
    Program,
    _unit_variables,
    likeliest_records,
    record_program,
)
from dprelease.rehearsal.column_values import Draws
from tests.reconstruction import worlds
from tests.replay import Keyed

WORLDS = {
    "alone": [1, 0, 0, 1, 0, 1, 0, 0],
    "several": [2, 1, 0, 1, 1, 0, 1, 2],
    "crowded": [3, 0, 0, 0, 0, 0, 0, 4],
    "either": [1, 0, 0, 1, 0, 1, 1, 0],
    "empty": [0] * 8,
}
LOGS = np.log(np.linspace(0.3, 1.4, 8))


def told(form: str, query: object, cells: np.ndarray) -> ObservedCells:
    draws = Draws(Keyed(f"{form}{cells.tolist()}"))
    if form == "rounded at random":
        return round_randomly(cells, draws)
    if form == "suppressed twice":
        return suppress_twice(cells, query.keys)  # type: ignore[attr-defined]
    forms = {
        "exact": lambda c: exact_cells(c.astype(float)),
        "rounded": round_counts,
        "suppressed": suppress_small_counts,
    }
    return forms[form](cells)


def asked(folder: Path, world: str, form: str) -> tuple[Program, np.ndarray]:
    found, combinations = worlds.tables(worlds.write(folder))
    assert len(combinations) == 8
    records = np.array(WORLDS[world])
    counted = worlds.cells(found, combinations, records)
    held = {one.name: told(form, one.query, counted[one.name]) for one in found.used}
    block = np.arange(8)
    return record_program(combinations, block, found.used, held, float(records.sum())), records


def cost(asked: Program, records: np.ndarray) -> float:
    """Return the negative logarithm of the posterior, up to a constant, term by term."""
    total = sum(math.lgamma(n + 1) - n * log for n, log in zip(records, LOGS, strict=True))
    counted = asked.matrix @ records
    for cells, below, above in asked.soft:
        for cell in cells:
            off = counted[cell] - asked.middle[cell]
            for width, slope in above if off > 0 else below:
                total += slope * min(abs(off), width)
                off = math.copysign(max(abs(off) - width, 0.0), off)
            if off:
                return math.inf
    return total


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("world", "form"),
    [
        *product(WORLDS, ["exact", "rounded", "suppressed", "suppressed twice"]),
        ("alone", "rounded at random"),  # there are many, and Python tries them one by one
    ],
)
def test_solution_equals_enumeration_of_all_populations(
    tmp_path: Path, world: str, form: str
) -> None:
    """The likeliest of them, what all of them have in common, and whether there is but one."""
    wanted, records = asked(tmp_path, world, form)
    if form.startswith("suppressed"):  # up to 9 of each, or any number: too many to be tried
        np.minimum(wanted.upper, 4.0, out=wanted.upper)
    every = worlds.admitted(wanted)
    assert any(np.array_equal(one, records) for one in every)
    solved = likeliest_records(wanted, LOGS, 100.0, gap=0.0)
    assert solved.proved
    assert solved.admitted
    best = min(cost(wanted, one) for one in every)
    assert solved.cost == pytest.approx(best, abs=1e-6)
    assert cost(wanted, solved.records) == pytest.approx(best, abs=1e-6)
    certain = certain_records(wanted, solved.records, 100.0)
    assert certain.decided
    assert certain.least.tolist() == np.min(every, axis=0).tolist()
    assert certain.only == (len(every) == 1)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_most_likely_population_behind_noise(tmp_path: Path, epsilon: float) -> None:
    """Of all numbers up to 2 none has a higher posterior; and nothing is certain."""
    found, combinations = worlds.tables(worlds.write(tmp_path, epsilon=epsilon))
    records = np.array(WORLDS["several"])
    counted = worlds.cells(found, combinations, records)
    shifts = np.random.default_rng(7)
    held = {}
    for one in found.used:
        assert isinstance(one.law, Mechanism)
        published = counted[one.name] + shifts.integers(-1, 2, len(counted[one.name]))
        held[one.name] = likelihoods_from_noise(
            published.astype(float), one.law, NO_POST_PROCESSING
        )
    wanted = record_program(combinations, np.arange(8), found.used, held, 8.0)
    solved = likeliest_records(wanted, LOGS, 100.0, gap=0.0)
    every = worlds.grid(2, 8)
    best = min(cost(wanted, one) for one in every)
    assert solved.cost <= best + 1e-6
    assert cost(wanted, solved.records) == pytest.approx(solved.cost, abs=1e-6)
    certain = certain_records(wanted, solved.records, 100.0)
    assert certain.least.tolist() == [0] * 8
    assert certain.decided


def test_asymmetric_likelihoods(tmp_path: Path) -> None:
    """What is told is too low for everybody: steep below, so that the answer lies above."""
    found, combinations = worlds.tables(worlds.write(tmp_path))
    records = np.array(WORLDS["several"])
    counted = worlds.cells(found, combinations, records)
    below, above = ((1.0, 3.0), (math.inf, 5.0)), ((2.0, 0.1), (math.inf, 0.4))
    held = {}
    for name, cells in counted.items():
        middle = cells - 1.0
        top = np.full(len(cells), math.inf)
        held[name] = ObservedCells(middle, np.zeros(len(cells)), top, middle, below, above)
    wanted = record_program(combinations, np.arange(8), found.used, held, 8.0)
    solved = likeliest_records(wanted, LOGS, 100.0, gap=0.0)
    best = min(cost(wanted, one) for one in worlds.grid(2, 8))
    assert solved.cost <= best + 1e-6
    assert cost(wanted, solved.records) == pytest.approx(solved.cost, abs=1e-6)


def test_factorials_are_piecewise_linear() -> None:
    """Their logarithms are met at the ends of all segments, and the slopes rise."""
    of, widths, costs = _unit_variables(np.array([720]), np.array([0.25]))
    assert (of == 0).all()
    ends = np.cumsum(widths)
    assert ends.tolist() == [*SEGMENT_STARTS[1:-1]]
    reached = np.cumsum(widths * costs)
    wanted = [math.lgamma(end + 1) - 0.25 * end for end in ends]
    assert reached == pytest.approx(wanted, rel=1e-12)
    assert (np.diff(costs) > 0).all()


def test_likelihoods_fall_like_probabilities(tmp_path: Path) -> None:
    """Straight lines of discrete Laplace noise, and convex ones of Gaussian: by balls."""
    found, _ = worlds.tables(worlds.write(tmp_path))
    law = found.used[0].law
    assert isinstance(law, Mechanism)
    slopes = {round(slope, 9) for _, slope in log_probability_segments(law, 1)}
    assert len(slopes) == 1
    mass = [float((law.tail(k, True) - law.tail(k + 1, True)).mid()) for k in (3, 4)]
    assert slopes.pop() == pytest.approx(math.log(mass[0] / mass[1]), rel=1e-6)
