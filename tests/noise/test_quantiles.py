"""Quantiles where values tie: right at any epsilon, within the plan's ranks, and never too sensitive."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.mechanisms.selection.exponential import Exponential
from dprelease.noise.noised_vectors import perturb
from dprelease.noise.quantiles import quantile_runs, select_quantiles
from dprelease.planning.plan import PlannedColumn, make_plan
from dprelease.planning.quantile_target import RankTarget, rank_from_end
from dprelease.postprocess.monotone import ascending
from dprelease.privacy.unit import Neighbours, PrivacyUnit
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.measurement import OutputColumn, quantile_vector_name
from dprelease.schema.release import BudgetSpec
from tests.exact.build import ask, declare
from tests.exact.reference import scores
from tests.replay import Keyed

PARTS = ("0", "0.05", "0.25", "0.5", "0.75", "0.9", "1")


def quantile(at: str | Fraction, upper: int) -> Quantile:
    return Quantile("v", 0, upper, Fraction(1), Fraction(at))


def profile(held: list[int]) -> Profile:
    values, counts = np.unique(np.array(held, dtype=np.int64), return_counts=True)
    return Profile.of(np.zeros_like(values), values, counts.astype(np.int64), 1)


def points(aggregate: Quantile, held: list[int], k: int = 1) -> np.ndarray:
    """Return the score of every candidate."""
    (found,) = quantile_runs(profile(held), aggregate, RankTarget.of(aggregate, k))
    return np.repeat(*found)


# How far one unit moves two scores apart: all tables of up to 5 rows on 4 candidates.


@cache
def contributions(rows: int) -> tuple[tuple[int, ...], ...]:
    """Return all multisets of up to `rows` rows."""
    return tuple(
        held
        for size in range(rows + 1)
        for held in itertools.combinations_with_replacement(range(4), size)
    )


def farthest(aggregate: Quantile, rows: int, neighbours: Neighbours, k: int) -> int:
    """Return how far one unit of up to `rows` rows moves two scores apart, in the worst tables."""
    known = {held: points(aggregate, list(held), k) for held in contributions(5)}
    worst = 0
    for rest in contributions(5 - rows):
        mine = [known[tuple(sorted((*rest, *own)))] for own in contributions(rows)]
        others = mine[:1] if neighbours is Neighbours.ADD_REMOVE else mine
        worst = max(worst, *(int(np.ptp(a - b)) for a in mine for b in others))
    return worst


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("at", ["0", "1", "1/2", "1/3", "1/4", "3/4", "9/10"])
def test_no_unit_moves_two_scores_farther_apart(at: str, neighbours: Neighbours, rows: int) -> None:
    """As far as is claimed for one row, and never farther; at the ends for every k that matters."""
    aggregate = quantile(at, 3)
    unit = PrivacyUnit("id" if rows > 1 else None, 1, rows)
    claim = aggregate.sensitivity(unit, neighbours, 1).largest_shift
    each = range(1, 7) if at in ("0", "1") else (1,)
    found = [farthest(aggregate, rows, neighbours, k) for k in each]
    assert max(found) <= claim
    if rows == 1 and at != "9/10":  # five rows are too few for the worst of these
        assert max(found) == claim


@pytest.mark.parametrize("at", ["0", "1", "1/2", "1/3", "9/10"])
def test_scores_are_distances_of_ranks(at: str) -> None:
    aggregate = quantile(at, 3)
    for held in contributions(5):
        for k in (1, 2, 4) if at in ("0", "1") else (1,):
            assert points(aggregate, list(held), k).tolist() == scores(None, aggregate, held, k)


def test_dense_and_sparse_profiles_are_chosen_from_alike() -> None:
    """One word decides both, whatever the scale, the part and the number of values."""
    rng = np.random.default_rng(11)
    for run in range(600):
        aggregate = quantile(PARTS[run % len(PARTS)], int(rng.integers(0, 40)))
        held = rng.integers(0, aggregate.candidates, int(rng.choice([0, 1, 2, 30, 3000])))
        held = np.where(rng.random(held.size) < 0.4, held.max(initial=0), held)
        law = Exponential(
            scale=float(rng.choice([0.02, 0.3, 4.0, 60.0])), candidates=float(aggregate.candidates)
        )
        counts = np.bincount(held, minlength=aggregate.candidates).astype(np.int64)
        sparse = select_quantiles(profile(held.tolist()), aggregate, law, Keyed(str(run)))
        for kind in (np.int64, np.int32):
            whole = DenseProfile.of(counts[None].astype(kind))
            dense = select_quantiles(whole, aggregate, law, Keyed(str(run)))
            assert sparse.tolist() == dense.tolist()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("own", [True, False])
def test_a_dense_profile_has_the_pairs_of_its_counts(kind: type, own: bool) -> None:
    counts = np.random.default_rng(5).poisson(0.7, (7, 40)).astype(kind)
    given = counts.copy()
    found = DenseProfile.of(given, own=own)
    assert found.upto.dtype == kind
    assert (given == (found.upto if own else counts)).all()  # only its own is written over
    pairs = found.pairs()
    assert (pairs.dense(40) == counts).all()
    assert pairs.counts.dtype == np.int64


@pytest.mark.parametrize("at", PARTS)
def test_what_is_not_looked_at_is_far_below_the_best(at: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(400):
        counts = rng.poisson(rng.choice([0.0, 0.3, 9.0]), int(rng.integers(1, 30)))
        aggregate, upto = quantile(at, len(counts) - 1), np.cumsum(counts)
        target, reach = RankTarget.of(aggregate, int(rng.integers(1, 60))), int(rng.integers(1, 40))
        found = target.scores(upto - counts, upto, int(upto[-1]))
        first, last = target.indexes_near_best(upto, int(upto[-1]), reach)
        inside = np.zeros(len(counts), dtype=bool)
        inside[first:last] = True
        assert (found[~inside] <= found.max() - reach).all()
        assert (found[inside] > found.max() - reach).all()  # and no more is looked at


# Columns whose values tie, as people's do.


@cache
def columns() -> dict[str, tuple[np.ndarray, int, int]]:
    """Return values with their bounds."""
    data = Path(__file__).parents[2] / "examples" / "nist_acs" / "data" / "national2019.csv"
    real = pd.read_csv(data, usecols=["PINCP", "AGEP", "EDU", "INDP"], na_values=["N"])
    i = np.arange(4500)
    return {
        "zero-inflated": (np.concatenate((np.zeros(5500), 1000 + i * 19)), 0, 100_000),
        "likert": (np.repeat([1, 2, 3, 4, 5], [300, 150, 450, 50, 50]), 1, 5),
        "two atoms": (np.repeat([7, 900], [600, 400]), 0, 1000),
        "all equal": (np.full(1000, 40), 0, 120),
        "all at the lower bound": (np.zeros(500), 0, 120),
        "tied at the ends": (np.concatenate((np.full(31, 5), i % 60 + 20, np.full(31, 95))), 0, 115),
        "every value once": (np.arange(2001), -5, 2500),
        "one row": (np.array([17]), 0, 100),
        "two rows": (np.array([17, 60]), 0, 100),
        "ages": (real["AGEP"].to_numpy(), 0, 120),
        "incomes": (real["PINCP"].dropna().clip(0, 150_000).round().to_numpy(), 0, 150_000),
        "schooling": (real["EDU"].dropna().to_numpy(), 1, 12),
        "with missing ones": (real["INDP"].to_numpy()[:4000], 0, 10_000),
    }  # fmt: skip


def released(
    name: str, at: str, epsilon: str, runs: int, **unit: Any
) -> tuple[PlannedColumn, np.ndarray, np.ndarray]:
    """Return the planned column, many published values, and the true ones that are there."""
    values, lower, upper = columns()[name]
    declared = declare({"v": {"type": "integer", "lower": lower, "upper": upper}}, **unit)
    query = ask(declared, {"q": {"quantile": {"of": "v", "at": at}}})
    (planned,) = make_plan([query], BudgetSpec(epsilon=Fraction(epsilon))).columns
    with Engine.open(declared, pd.DataFrame({"v": values})) as engine:
        held = engine.run(query).profile("q")
    held = held.pairs() if isinstance(held, DenseProfile) else held
    many = Profile(
        np.arange(runs + 1) * len(held.values), np.tile(held.values, runs), np.tile(held.counts, runs)
    )  # fmt: skip
    found = perturb(ExactTable("q", runs, {}, {"q": many}), [planned], Keyed(f"{name} {at}"))
    return planned, found.columns["q"], np.sort(values[~np.isnan(values)])


def missed(published: np.ndarray, true: np.ndarray, at: str) -> np.ndarray:
    """Return how many rows the rank wanted lies from those that published values hold."""
    below, upto = (np.searchsorted(true, published, side) for side in ("left", "right"))
    wanted = float(Fraction(at)) * len(true)
    return np.maximum(0.0, np.maximum(below - wanted, wanted - upto))


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", columns())
def test_exact_quantiles_at_epsilon_100(name: str) -> None:
    """What is published holds the rank; an atom that holds ranks around it is itself published."""
    for at in PARTS:
        planned, found, true = released(name, at, "100", 30)
        few = float(planned.margin(1 - 1e-10))
        assert few <= 1.0
        assert missed(found, true, at).max() <= few
        rank = float(Fraction(at)) * len(true)
        if at in ("0", "1"):
            assert set(found.tolist()) == {true[0 if at == "0" else -1]}
        elif few < rank < len(true) - few:
            first, last = (true[math.ceil(rank + by) - 1] for by in (-few, few))
            if first == last:
                assert set(found.tolist()) == {np.quantile(true, float(Fraction(at)))}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", [name for name in columns() if len(columns()[name][0]) >= 100])
def test_margins_in_ranks_cover(name: str) -> None:
    """300 releases: one in twenty may lie outside; streams are keyed, so every run is the same."""
    for at, epsilon in itertools.product(PARTS, ("0.5", "2")):
        planned, found, true = released(name, at, epsilon, 300)
        assert np.mean(missed(found, true, at) > float(planned.margin())) <= 0.05, at


def law_of(aggregate: Quantile, law: Exponential, held: list[int]) -> np.ndarray:
    """Return the probability of every candidate, to within float rounding."""
    weights = np.exp(points(aggregate, held, rank_from_end(aggregate, law)) / law.scale)
    return weights / weights.sum()


@pytest.mark.parametrize("at", ["0.5", "0.9"])
def test_margins_are_those_of_the_worst_table(at: str) -> None:
    """One atom, all else just outside the margin: 5 % at most, and nearly; less noise would show."""
    aggregate, law = quantile(at, 1000), Exponential(scale=30.0, candidates=1001.0)
    points_away = law.half_width(0.95) + 1
    rows = points_away // min(aggregate.at.numerator, (1 - aggregate.at).numerator)
    p = law_of(aggregate, law, [300] * rows)
    outside = points(aggregate, [300] * rows) < -law.half_width(0.95)
    assert outside.any()
    assert 0.01 < p[outside].sum() <= 0.05
    loud = Exponential(scale=36.0, candidates=1001.0)
    assert law_of(aggregate, loud, [300] * rows)[outside].sum() > 0.05


@pytest.mark.parametrize("scale", [0.05, 0.7, 2.0, 10.0])
@pytest.mark.parametrize("at", ["0", "1"])
def test_ends_are_hardly_ever_beyond(at: str, scale: float) -> None:
    """Once in twenty at most, wherever the last value is, alone or tied."""
    for upper in (4, 115, 4000):
        aggregate, law = quantile(at, upper), Exponential(scale=scale, candidates=upper + 1.0)
        k = rank_from_end(aggregate, law)
        for ties, end in itertools.product((1, k, 5 * k), (0, upper // 2, upper)):
            other = [upper - end] * (2 * k)
            held = [end] * ties + other
            p = law_of(aggregate, law, held)
            beyond = p[max(held) + 1 :] if at == "1" else p[: min(held)]
            assert beyond.sum() <= 0.05


def beyond_largest(
    aggregates: list[Quantile], law: Exponential, held: list[int]
) -> tuple[float, float]:
    """Return the chances that the largest of some draws lies beyond all values, and the first."""
    inside = [law_of(aggregate, law, held)[: max(held) + 1].sum() for aggregate in aggregates]
    return 1 - float(np.prod(inside)), 1 - float(inside[0])


@pytest.mark.parametrize("scale", [0.05, 0.3, 0.7, 2.0, 10.0])
@pytest.mark.parametrize("upper", [1, 4, 115, 4000])
def test_both_ends_are_hardly_ever_beyond_in_groups_as_large_as_is_promised(
    upper: int, scale: float
) -> None:
    """In twice as many rows as the plan's error, put in order or not; in fewer that is not so."""
    law = Exponential(scale=scale, candidates=upper + 1.0)
    ends = [quantile("1", upper), quantile("0", upper)]
    k = rank_from_end(ends[0], law)
    error = law.half_width(0.95) + k - 1
    for rows in (2 * error, 2 * error + 1, 3 * error, 20 * error):
        for top in {0, 1, upper // 2, upper - 1}:
            for spread in (np.full(rows, top), np.arange(rows) * (top + 1) // rows):
                both, alone = beyond_largest(ends, law, spread.tolist())
                assert alone <= 0.05
                assert both <= 0.05
    if k > 3 and upper > 4:
        assert beyond_largest(ends, law, [upper // 2] * 3)[0] > 0.05


def test_ends_and_quantiles_of_a_column_are_in_order() -> None:
    """All orders of draws, measured or read from a tree: ends among themselves, others within."""
    names = {"0": "low", "1": "high", "0.5": "middle", "0.9": "most"}
    for tree in (False, True):
        many = {f"q{i}": {"quantile": {"of": "v", "at": f"0.{i}1"}} for i in range(tree * 9)}
        asked = {name: {"quantile": {"of": "v", "at": at}} for at, name in names.items()}
        columns = {"v": {"type": "integer", "lower": 0, "upper": 9}}
        query = ask(declare(columns), {**asked, **many})
        published = {c.name: c for c in query.columns if c.name in asked}
        draws = list(itertools.product(range(4), repeat=4))
        drawn = dict(zip(("low", "middle", "most", "high"), np.array(draws).T, strict=True))
        vectors = {vector_of(c): np.full(len(draws), 1) for c in query.columns}
        vectors |= {vector_of(published[name]): values for name, values in drawn.items()}
        found = {name: ascending(query, c, vectors) for name, c in published.items()}
        assert (found["low"] == np.minimum(drawn["low"], drawn["high"])).all()
        assert (found["high"] == np.maximum(drawn["low"], drawn["high"])).all()
        order = np.stack([found[name] for name in ("low", "middle", "most", "high")])
        assert (np.diff(order, axis=0) >= 0).all()
        right = (np.diff(np.stack(list(drawn.values())), axis=0) >= 0).all(axis=0)
        for name in () if tree else drawn:
            assert (found[name][right] == drawn[name][right]).all()


def vector_of(column: OutputColumn) -> str:
    first = column.parts[0].name
    return first if column.at is None else quantile_vector_name(first, column.at)


@pytest.mark.parametrize("at", ["0", "1"])
def test_an_end_that_many_share_is_told(at: str) -> None:
    """A largest age of 95 that 31 have comes out as 95, a smallest one of 5 as 5."""
    planned, found, _ = released("tied at the ends", at, "1", 2000)
    assert np.mean(found == (95 if at == "1" else 5)) > 0.98
    planned, found, true = released("every value once", at, "1", 2000)
    assert np.mean(missed(found, true, at) <= float(planned.margin())) >= 0.95
    assert np.mean((found < 0) | (found > 2000)) <= 0.05
