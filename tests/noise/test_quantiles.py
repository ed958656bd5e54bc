"""Quantiles of tied values: accurate at any epsilon, within the planned ranks and sensitivity."""

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
from dprelease.noise.selections import quantile_runs, select_quantiles
from dprelease.planning.plan import PlannedColumn, make_plan
from dprelease.planning.quantile_target import RankTarget, least_rows_inside, rank_shift
from dprelease.postprocess.quantile_order import quantile_steps
from dprelease.privacy.unit import Neighbours, PrivacyUnit
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.measurement import OutputColumn, quantile_vector_name
from dprelease.schema.release import BudgetSpec
from tests.covering import thinned
from tests.exact.build import ask, declare
from tests.exact.reference import scores
from tests.replay import Keyed

PARTS = ("0", "0.05", "0.25", "0.5", "0.75", "0.9", "1")


def quantile(at: str | Fraction, upper: int, side: int = 0) -> Quantile:
    """Return a quantile or an end of its interval; a minimum or maximum is always such an end."""
    sides = {0: 1, 1: -1}
    return Quantile("v", 0, upper, Fraction(1), Fraction(at), 1, sides.get(Fraction(at), side))


def profile(held: list[int]) -> Profile:
    values, counts = np.unique(np.array(held, dtype=np.int64), return_counts=True)
    return Profile.of(np.zeros_like(values), values, counts.astype(np.int64), 1)


def points(aggregate: Quantile, held: list[int], shift: int = 0) -> np.ndarray:
    """Return the score of every candidate, and of the additional one of an end."""
    (found,) = quantile_runs(profile(held), aggregate, RankTarget.of(aggregate, shift))
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


@cache
def all_points(aggregate: Quantile, shift: int) -> dict[tuple[int, ...], np.ndarray]:
    """Return the scores of all candidates in all tables."""
    return {held: points(aggregate, list(held), shift) for held in contributions(5)}


def farthest(aggregate: Quantile, rows: int, neighbours: Neighbours, shift: int) -> int:
    """Return how far one unit of up to `rows` rows moves two scores apart, in the worst tables."""
    known = all_points(aggregate, shift)
    worst = 0
    for rest in contributions(5 - rows):
        mine = np.stack([known[tuple(sorted((*rest, *own)))] for own in contributions(rows)])
        others = mine[:1] if neighbours is Neighbours.ADD_REMOVE else mine
        worst = max(worst, int(np.ptp(mine[:, None] - others, axis=2).max()))
    return worst


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("side", [-1, 0, 1])
@pytest.mark.parametrize("at", ["0", "1", "1/2", "1/3", "1/4", "3/4", "9/10"])
def test_score_sensitivity_by_enumeration(
    at: str, side: int, neighbours: Neighbours, rows: int
) -> None:
    """As far as is claimed for one row, and never farther; of ends for every shift that matters."""
    aggregate = quantile(at, 3, side)
    unit = PrivacyUnit("id" if rows > 1 else None, 1, rows)
    claim = aggregate.sensitivity(unit, neighbours, 1).largest_shift
    each = [aggregate.side * shift for shift in (1, 2, 3, 5, 9)] if aggregate.side else [0]
    found = [farthest(aggregate, rows, neighbours, shift) for shift in each]
    assert max(found) <= claim
    if rows == 1 and at != "9/10":  # five rows are too few for the worst of these
        assert max(found) == claim


@pytest.mark.parametrize("side", [-1, 0, 1])
@pytest.mark.parametrize("at", ["0", "1", "1/2", "1/3", "9/10"])
def test_scores_equal_rank_distances(at: str, side: int) -> None:
    aggregate = quantile(at, 3, side)
    for held in contributions(5):
        for by in (1, 2, 4) if aggregate.side else (0,):
            shift = aggregate.side * by
            assert points(aggregate, list(held), shift).tolist() == scores(
                None, aggregate, list(held), shift
            )


def test_dense_and_sparse_profiles_give_the_same_choice() -> None:
    """One word decides both, whatever the scale, the part and the number of values."""
    rng = np.random.default_rng(11)
    for run in range(600):
        aggregate = quantile(PARTS[run % len(PARTS)], int(rng.integers(0, 40)), run % 3 - 1)
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
def test_dense_profile_equals_its_counts(kind: type, own: bool) -> None:
    counts = np.random.default_rng(5).poisson(0.7, (7, 40)).astype(kind)
    given = counts.copy()
    found = DenseProfile.of(given, own=own)
    assert found.upto.dtype == kind
    assert (given == (found.upto if own else counts)).all()  # only its own is written over
    pairs = found.pairs()
    assert (pairs.dense(40) == counts).all()
    assert pairs.counts.dtype == np.int64


@pytest.mark.parametrize("at", PARTS)
def test_skipped_candidates_are_far_below_the_best(at: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(400):
        counts = rng.poisson(rng.choice([0.0, 0.3, 9.0]), int(rng.integers(1, 30)))
        aggregate, upto = quantile(at, len(counts) - 1), np.cumsum(counts)
        target = RankTarget.of(aggregate, int(rng.integers(-60, 60)))
        reach = int(rng.integers(1, 40))
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
    query = ask(declared, {"q": {"quantile": {"of": "v", "at": at}, "interval": False}})
    (planned,) = make_plan([query], BudgetSpec(epsilon=Fraction(epsilon))).columns
    with Engine.open(declared, pd.DataFrame({"v": values})) as engine:
        held = engine.run(query).profile("q")
    held = held.pairs() if isinstance(held, DenseProfile) else held
    many = Profile(
        np.arange(runs + 1) * len(held.values), np.tile(held.values, runs), np.tile(held.counts, runs)
    )  # fmt: skip
    found = perturb(ExactTable("q", runs, {}, {"q": many}), [planned], Keyed(f"{name} {at}"))
    return planned, found.columns["q"], np.sort(values[~np.isnan(values)])


def rank_errors(published: np.ndarray, true: np.ndarray, at: str) -> np.ndarray:
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
        assert rank_errors(found, true, at).max() <= few
        rank = float(Fraction(at)) * len(true)
        if at in ("0", "1"):
            assert set(found.tolist()) == {true[0 if at == "0" else -1]}
        elif few < rank < len(true) - few:
            first, last = (true[math.ceil(rank + by) - 1] for by in (-few, few))
            if first == last:
                assert set(found.tolist()) == {np.quantile(true, float(Fraction(at)))}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", [name for name in columns() if len(columns()[name][0]) >= 100])
def test_rank_margins_of_selections_cover(name: str) -> None:
    """300 releases: one in twenty may lie outside; streams are keyed, so every run is the same."""
    for at, epsilon in itertools.product(PARTS, ("0.5", "2")):
        planned, found, true = released(name, at, epsilon, 300)
        assert np.mean(rank_errors(found, true, at) > float(planned.margin())) <= 0.05, at


def law_of(
    aggregate: Quantile, law: Exponential, held: list[int], shift: int | None = None
) -> np.ndarray:
    """Return the probability of every candidate, to within float rounding.

    The additional candidate of an end counts as the first or the last candidate.
    """
    shift = rank_shift(aggregate, law) if shift is None else shift
    weights = np.exp(points(aggregate, held, shift) / law.scale)
    if aggregate.side:
        weights[0 if aggregate.side < 0 else -2] += weights[-1]
        weights = weights[:-1]
    return weights / weights.sum()


@pytest.mark.parametrize("at", ["0.5", "0.9"])
def test_margins_hold_in_the_worst_table(at: str) -> None:
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


# Ends of intervals: they miss the quantile as rarely as is claimed, in any cell of any size.


def missing(aggregate: Quantile, held: list[int], law: Exponential, shift: int | None) -> float:
    """Return the probability that an end lies on the wrong side of a true quantile."""
    p = law_of(aggregate, law, held, shift)
    least, most = true_quantiles(np.sort(held), aggregate.at)
    return float(p[least + 1 :].sum() if aggregate.side < 0 else p[:most].sum())


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("at", ["0", "1/4", "1/2", "9/10", "1"])
def test_interval_ends_hold_in_all_small_tables(at: str, side: int) -> None:
    """All tables of 1 to 5 rows on 4 candidates, exactly; half the shift is found out."""
    aggregate, worst, planted = quantile(at, 3, side), 0.0, 0.0
    for scale in (0.1, 0.4, 1.0, 6.0):
        law = Exponential(scale=scale * aggregate.at.denominator, candidates=4.0)
        shift = rank_shift(aggregate, law)
        for held in contributions(5)[1:]:
            worst = max(worst, missing(aggregate, list(held), law, None))
            planted = max(planted, missing(aggregate, list(held), law, shift // 2))
    assert worst <= float(aggregate.miss)
    assert planted > float(aggregate.miss)


@pytest.mark.each
@pytest.mark.parametrize("at", ["0", "1"])
@pytest.mark.parametrize("rows", [*range(1, 31), 50, 75, 100])
def test_minimum_is_rarely_below_all_values(at: str, rows: int) -> None:
    """In at most one of twenty cells of any size, wherever the values are, alone or tied."""
    for upper, scale in itertools.product((1, 4, 115, 4000), (0.05, 0.7, 10.0)):
        aggregate, law = quantile(at, upper), Exponential(scale=scale, candidates=upper + 1.0)
        for end, other in itertools.product((0, upper // 2, upper), repeat=2):
            for ties in {1, rows // 2, rows}:
                held = [end] * ties + [other] * (rows - ties)
                p = law_of(aggregate, law, held)
                beyond = p[max(held) + 1 :] if at == "1" else p[: min(held)]
                assert beyond.sum() <= 0.05


@pytest.mark.each
@pytest.mark.parametrize("scale", [0.05, 0.3, 0.7, 2.0, 10.0])
@pytest.mark.parametrize("upper", [1, 4, 115, 4000])
@pytest.mark.parametrize("at", ["0", "1"])
def test_minimum_is_within_values_from_planned_rows_on(at: str, upper: int, scale: float) -> None:
    """With as many rows as the plan says; with one row less, it doesn't in the worst cell."""
    aggregate, law = quantile(at, upper), Exponential(scale=scale, candidates=upper + 1.0)
    least = least_rows_inside(aggregate, law)

    def outside(held: list[int]) -> float:
        """Return the probability of a value below or above all values."""
        return 1.0 - float(law_of(aggregate, law, held)[min(held) : max(held) + 1].sum())

    for rows in (least, least + 1, 3 * least):
        for value in {0, 1, upper // 2, upper}:
            assert outside([value] * rows) <= 0.05 + 1e-12
            assert outside((np.arange(rows) * (value + 1) // rows).tolist()) <= 0.05 + 1e-12
    far = upper if at == "1" else 0
    if least > 1:
        assert outside([far] * (least - 1)) > 0.05


SIZES = (0, 1, 3, 10, 30, 100, 1000)


@pytest.mark.parametrize(
    ("names", "shape"),
    thinned(
        [("0.5",), ("0.25", "0.9", "0", "1"), ("0.1", "0.3", "0.5", "0.7")],
        ["spread", "two values", "one value", "skewed"],
        together=1,
    ),
)
def test_published_intervals_cover(names: tuple[str, ...], shape: str) -> None:
    """Cells of 0 to 1000 rows, with selections and with a tree; 1500 cells of each size.

    With 95 % coverage, fewer than `enough` cells are covered with a probability below 1e-10. The
    same test rejects intervals whose ends have no shift.
    """
    rng, runs = np.random.default_rng(7), 1500
    columns = {f"q{i}": {"quantile": {"of": "v", "at": at}} for i, at in enumerate(names)}
    query = ask(declare({"v": {"type": "integer", "lower": 0, "upper": 500}}), columns)
    plan = make_plan([query], BudgetSpec(epsilon=Fraction(2)))
    enough = 0.95 * runs - 6.5 * math.sqrt(runs * 0.95 * 0.05)
    for rows in SIZES:
        values = np.sort({
            "spread": rng.integers(0, 501, rows), "one value": np.full(rows, 37),
            "two values": np.where(np.arange(rows) % 2, 120, 400),
            "skewed": np.minimum(rng.lognormal(3, 1, rows).astype(int), 500),
        }[shape])  # fmt: skip
        held = profile(values.tolist())
        many = Profile(
            np.arange(runs + 1) * len(held.values), np.tile(held.values, runs),
            np.tile(held.counts, runs),
        )  # fmt: skip
        exact = ExactTable("q", runs, {}, {m.name: many for m in query.measurements})
        drawn = perturb(exact, plan.columns, Keyed(f"{shape} {rows} {names}")).columns
        for column, at in zip(query.columns, names, strict=True):
            found = quantile_steps(query, column, drawn)
            true = true_quantiles(values, Fraction(at)) if rows else (0, 500)  # the bounds
            assert ((found.lower <= true[0]) & (true[1] <= found.upper)).sum() >= enough
            assert ((found.lower <= found.values) | found.empty).all()
            assert ((found.values <= found.upper) | found.empty).all()


def true_quantiles(values: np.ndarray, at: Fraction) -> tuple[int, int]:
    """Return the least and the largest of the sorted values that hold a rank."""
    rank, last = at * len(values), len(values) - 1
    first = max(math.ceil(rank) - 1, 0)
    return int(values[first]), int(values[min(math.floor(rank), last) if 0 < at < 1 else first])


@pytest.mark.parametrize("tree", [False, True])
def test_coverage_test_rejects_unshifted_ends(tree: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dprelease.noise.selections.rank_shift", lambda aggregate, _: aggregate.side
    )
    monkeypatch.setattr("dprelease.noise.selections.end_width", lambda *_: 0)
    names = ("0.1", "0.3", "0.5", "0.7") if tree else ("0.5",)
    with pytest.raises(AssertionError):
        test_published_intervals_cover(names, "spread")


def test_quantiles_of_a_column_are_sorted() -> None:
    """All orders of draws, measured or read from a tree, with ends that contradict them."""
    rng = np.random.default_rng(2)
    for tree in (False, True):
        parts = {"low": "0", "q1": "0.2", "q2": "0.5", "q3": "0.9", "high": "1"}
        parts |= {f"t{i}": f"0.{i}1" for i in range(tree * 9)}
        asked: dict[str, Any] = {n: {"quantile": {"of": "v", "at": at}} for n, at in parts.items()}
        asked["q2"]["interval"] = False
        query = ask(declare({"v": {"type": "integer", "lower": 0, "upper": 9}}), asked)
        names = {name for column in query.columns for name in vectors_of(column)}
        vectors = {name: rng.integers(0, 10, 4000) for name in sorted(names)}
        found = {c.name: quantile_steps(query, c, vectors) for c in query.columns}
        for one in found.values():
            assert ((one.lower <= one.values) & (one.values <= one.upper) | one.empty).all()
            assert ((one.lower >= 0) & (one.upper <= 9)).all()
        order = [found[name] for name in sorted(parts, key=lambda name: Fraction(parts[name]))]
        for one, other in itertools.pairwise(order):
            held = ~one.empty & ~other.empty
            assert (one.values <= other.values)[held].all()
        low, high = found["low"], found["high"]
        crossed = vectors["low"] > vectors["high"]
        above, below = order[1].values < vectors["low"], order[-2].values > vectors["high"]
        assert (low.empty == (crossed | above | (vectors["low"] == 9))).all()
        assert (high.empty == (crossed | below | (vectors["high"] == 0))).all()
        wide = {name: np.zeros_like(low.values) for name in vectors_of(query.columns[0])}
        wide |= {name: np.full_like(low.values, 9) for name in vectors_of(query.columns[4])}
        for column in query.columns[1:4]:  # a minimum or a maximum moves no other quantile
            alone = quantile_steps(query, column, vectors | wide)
            assert (alone.values == found[column.name].values).all()
        assert (low.lower == 0).all()
        assert (low.upper == vectors["low"]).all()
        assert (high.upper == 9).all()
        assert (high.lower == vectors["high"]).all()
        for column in query.columns:  # no end comes nearer to what it has to contain
            _, *ends = vectors_of(column)
            if ends and column.interval is not None:
                both = np.stack([vectors[end] for end in ends])
                assert (found[column.name].lower <= both.min(axis=0)).all()
                assert (found[column.name].upper >= both.max(axis=0)).all()


def vectors_of(column: OutputColumn) -> list[str]:
    """Return the names of the vectors of a column: of its values, then of its ends."""
    first = column.parts[0].name
    if column.at is None:
        return [part.name for part in column.parts]
    return [quantile_vector_name(first, column.at, side) for side in (0, -1, 1)]


@pytest.mark.parametrize("at", ["0", "1"])
def test_frequent_extreme_value_is_published(at: str) -> None:
    """A largest age of 95 that 31 have comes out as 95, a smallest one of 5 as 5."""
    planned, found, _ = released("tied at the ends", at, "1", 2000)
    assert np.mean(found == (95 if at == "1" else 5)) > 0.98
    planned, found, true = released("every value once", at, "1", 2000)
    assert np.mean(rank_errors(found, true, at) <= float(planned.margin())) >= 0.95
    assert np.mean((found < 0) | (found > 2000)) <= 0.05
