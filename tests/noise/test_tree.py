"""Quantiles read from a tree of counts: exact without noise, ascending with it, bounded for a unit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.mechanisms.asymmetric_laplace import AsymmetricLaplace
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.noise.noised_answers import answer_query
from dprelease.noise.selections import _RangeCounter, quantile_vector_name, tree_quantiles
from dprelease.numerics.lattice import sample
from dprelease.planning.plan import PlannedColumn, make_plan
from dprelease.planning.quantile_target import path_width
from dprelease.postprocess.quantile_order import quantile_steps
from dprelease.privacy.unit import Move, Neighbours, PrivacyUnit
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.tree_of_counts import Tree
from dprelease.query.forms.single_part import READ_FROM_TREE
from dprelease.query.resolve import Query
from dprelease.schema.release import BudgetSpec
from tests.exact.build import ask, declare
from tests.noise import test_quantiles
from tests.noise.test_quantiles import rank_errors
from tests.replay import Keyed

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "x": {"type": "integer", "lower": -3, "upper": 900},
    "k": {"type": "boolean"},
}
TENTHS = {f"d{i}": {"quantile": {"of": "x", "at": f"0.{i}"}} for i in range(1, 10)}


def query(by: list[str] | None = None, **more: Any) -> Query:
    return ask(declare(COLUMNS, **more), TENTHS, by)


def tree_without_noise(asked: Query, scale: float = 1e-3) -> PlannedColumn:
    """Return the tree with next to no noise."""
    return PlannedColumn(asked, asked.measurements[0], DiscreteLaplace(scale=scale), "test")


def test_when_a_tree_is_used() -> None:
    assert [type(m.aggregate) for m in query().measurements] == [Tree]
    assert {column.form for column in query().columns} == {READ_FROM_TREE}
    bare = {name: {**spec, "interval": False} for name, spec in TENTHS.items()}
    for columns, most in ((TENTHS, 3), (bare, 8)):
        for number, kind in ((most, Quantile), (most + 1, Tree)):
            few = ask(declare(COLUMNS), dict(list(columns.items())[:number]))
            assert {type(m.aggregate) for m in few.measurements} == {kind}
    several = {"id": "id", "max_groups": 1, "max_rows_per_group": 2}
    assert {type(m.aggregate) for m in query(privacy_unit=several).measurements} == {Quantile}
    with pytest.raises(ValueError, match="one row"):
        query().measurements[0].aggregate.sensitivity(
            PrivacyUnit("id", 1, 2), Neighbours.REPLACE, 3
        )
    ends = ask(declare(COLUMNS), {**TENTHS, "low": {"min": "x"}})
    assert {type(m.aggregate) for m in ends.measurements} == {Tree, Quantile}


def test_quantiles_without_noise_are_exact() -> None:
    """The least value below which, or at which, the part of the values lies."""
    frame = pd.DataFrame({"x": np.arange(2000) ** 2 % 883 - 3, "k": np.arange(2000) % 3 == 0})
    asked = query(["k"])
    with Engine.open(asked.declared, frame) as engine:
        found = answer_query(engine, [tree_without_noise(asked)], Keyed("none")).noisy.columns
    for cell, group in frame.groupby("k"):
        values = np.sort(group["x"].to_numpy())
        for i in range(1, 10):
            name = quantile_vector_name(asked.measurements[0].name, Fraction(i, 10))
            true = values[int(np.ceil(len(values) * i / 10)) - 1]
            assert found[name][int(cell)] == true


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 903)), max_size=60),
    st.sampled_from([0.5, 5.0, 500.0]),
    st.integers(0, 10**6),
)
def test_quantiles_ascend_for_any_noise(
    pairs: list[tuple[int, int]], scale: float, key: int
) -> None:
    asked = query()
    cells, values = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    profile = Profile.of(cells, values, np.ones(len(pairs), dtype=np.int64), 3)
    exact = ExactTable("q", 3, {}, {asked.measurements[0].name: profile})
    found = tree_quantiles(exact, tree_without_noise(asked, scale), Keyed(str(key)))
    rows = np.stack(
        [
            found[quantile_vector_name(asked.measurements[0].name, Fraction(i, 10))]
            for i in range(1, 10)
        ]
    )
    assert (np.diff(rows, axis=0) >= 0).all()
    assert rows.min() >= -3
    assert rows.max() <= 900


@given(st.lists(st.integers(0, 903), min_size=1, max_size=12), st.integers(0, 903))
def test_one_row_is_in_one_node_of_each_level(values: list[int], other: int) -> None:
    """All nodes of all levels, with a row and without it, or with another in its place (claims)."""
    tree = query().measurements[0].aggregate
    width = 1 << tree.levels

    def nodes(held: list[int]) -> list[np.ndarray]:
        ones = np.ones(len(held), dtype=np.int64)
        zeros = np.zeros(len(held), dtype=np.int64)
        counter = _RangeCounter(Profile.of(zeros, np.array(held, dtype=np.int64), ones, 1), width)
        found = []
        for level in range(1, tree.levels + 1):
            size = width >> level
            first = np.arange(0, width, size)
            found.append(counter.count_between(np.zeros_like(first), first, first + size))
        return found

    whole, rest, changed = nodes(values), nodes(values[1:]), nodes([*values[1:], other])
    for neighbours, after in ((Neighbours.ADD_REMOVE, rest), (Neighbours.REPLACE, changed)):
        claim = tree.sensitivity(PrivacyUnit(), neighbours, 5)
        assert claim.slots == tree.levels
        assert claim.moves == (Move(1, 1 if neighbours is Neighbours.ADD_REMOVE else 2),)
        for a, b in zip(whole, after, strict=True):
            assert np.abs(a - b).max() <= 1
            assert np.abs(a - b).sum() <= claim.moves[0].cells


@pytest.mark.parametrize(("number", "interval"), [(9, False), (4, True)])
def test_tree_is_better_above_the_set_number_of_quantiles(number: int, interval: bool) -> None:
    """Errors in ranks, or widths of intervals in ranks, at one budget: a tree against choices."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.integers(0, 900, 20_000)})
    ordered = np.sort(frame["x"].to_numpy())
    budget = BudgetSpec(epsilon=Fraction(1, 10))
    errors = {}
    tenths = {n: {**spec, "interval": interval} for n, spec in list(TENTHS.items())[:number]}
    own = {name: {**spec, "mechanism": "exponential"} for name, spec in tenths.items()}
    for way, columns in (("tree", tenths), ("choices", own)):
        asked = ask(declare(COLUMNS), columns)
        plan = make_plan([asked], budget)
        total = 0.0
        for run in range(12):
            with Engine.open(asked.declared, frame) as engine:
                noisy = answer_query(engine, plan.columns, Keyed(f"{way}{run}")).noisy.columns
            for i, column in enumerate(asked.columns, 1):
                found = quantile_steps(asked, column, noisy)
                if interval:
                    ends = [np.searchsorted(ordered, x[0]) for x in (found.lower, found.upper)]
                    total += float(ends[1] - ends[0])
                else:
                    rank = np.searchsorted(ordered, found.values[0], side="right")
                    total += abs(float(rank) - 2000 * i)
        errors[way] = total
    assert errors["tree"] < errors["choices"]


@pytest.mark.each
@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplace(scale=0.3),
        DiscreteLaplace(scale=9.0),
        SymmetricAlphaStable(20.0, 1.6),
        AsymmetricLaplace(8.0, 1.4),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [0, 1, 3, 10, 100, 1000])
def test_ends_read_from_a_tree_miss_rarely(law: Mechanism, rows: int) -> None:
    """In 3000 cells, fewer than `enough` are covered with a probability below 1e-9."""
    asked, cells = query(), 3000
    values = np.sort(np.random.default_rng(rows).integers(0, 904, rows) ** 2 // 904)
    held, counts = np.unique(values, return_counts=True)
    many = Profile(
        np.arange(cells + 1) * len(held), np.tile(held, cells), np.tile(counts, cells).astype(int)
    )
    exact = ExactTable("q", cells, {}, {asked.measurements[0].name: many})
    planned = PlannedColumn(asked, asked.measurements[0], law, "test")
    found = tree_quantiles(exact, planned, Keyed(f"{law}{rows}"))
    enough = cells * 0.95 - 6.2 * np.sqrt(cells * 0.95 * 0.05)
    for i in range(1, 10):
        name, at = asked.measurements[0].name, Fraction(i, 10)
        lower, upper = (found[quantile_vector_name(name, at, side)] for side in (-1, 1))
        least, most = (
            (x - 3 for x in test_quantiles.true_quantiles(values + 0, at)) if rows else (-3, 900)
        )
        assert ((lower <= least) & (most <= upper)).sum() >= enough


@pytest.mark.parametrize("levels", [1, 2, 7, 18])
@pytest.mark.parametrize(
    "law",
    [
        DiscreteLaplace(scale=0.05),
        DiscreteLaplace(scale=3.0),
        DiscreteLaplace(scale=4e4),
        SymmetricAlphaStable(20.0, 1.6),
    ],
    ids=str,
)
def test_width_of_path_noise(law: Mechanism, levels: int) -> None:
    """Sums of draws are as wide as is told, and not narrower."""
    draws = np.abs(
        sample(law.noise_distribution, levels * 40_000, Keyed("path"))
        .reshape(levels, -1)
        .sum(axis=0)
    )
    for confidence in (0.8, 0.95, 0.99):
        width = path_width(law, levels, confidence)
        slack = 5 * np.sqrt(confidence * (1 - confidence) / draws.size)
        assert np.mean(draws <= width) >= confidence - slack
        assert np.mean(draws <= 0.95 * width - 1) <= confidence + slack


@pytest.mark.parametrize("name", ["zero-inflated", "every value once", "ages", "incomes", "likert"])
def test_rank_margins_of_trees_cover(name: str) -> None:
    values, lower, upper = test_quantiles.columns()[name]
    declared = declare({"x": {"type": "integer", "lower": lower, "upper": upper}})
    asked, runs = ask(declared, TENTHS), 200
    for epsilon in ("0.5", "5"):
        (planned,) = make_plan([asked], BudgetSpec(epsilon=Fraction(epsilon))).columns
        with Engine.open(declared, pd.DataFrame({"x": values})) as engine:
            held = engine.run(asked).profile("d1.tree")
        held = held.pairs() if isinstance(held, DenseProfile) else held
        many = Profile(
            np.arange(runs + 1) * len(held.values),
            np.tile(held.values, runs),
            np.tile(held.counts, runs),
        )
        exact = ExactTable("q", runs, {}, {"d1.tree": many})
        found, true = tree_quantiles(exact, planned, Keyed(name)), np.sort(values)
        for i in range(1, 10):
            rows = rank_errors(
                found[quantile_vector_name("d1.tree", Fraction(i, 10))], true, f"0.{i}"
            )
            assert np.mean(rows > float(planned.margin())) <= 0.05
