"""Companions of a published value: margin or interval, and quality."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flint import arb

from dprelease.errors import DpReleaseError
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import sample
from dprelease.planning.plan import make_plan
from dprelease.postprocess.derived_values import FRACTIONS
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query
from dprelease.schema.release import BudgetSpec
from dprelease.tables.published_columns import published_arrays
from tests.exact.build import ask, declare, exact
from tests.replay import Keyed

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "x": {"type": "number", "lower": -20, "upper": 100, "step": 0.5},
    "h": {"type": "integer", "lower": 0, "upper": 60},
    "k": {"type": "category", "values": ["a", "b", "c"]},
}
ASKED: dict[str, Any] = {
    "rows": {"count": "*"},
    "held": {"count": "x", "mechanism": {"name": "symmetric_alpha_stable", "alpha": 1.6}},
    "kinds": {"count_distinct": "k"},
    "years": {"sum": "h", "mechanism": "laplace"},
    "total": {"sum": "x"},
    "mean": {"mean": "x"},
    "var": {"variance": "x"},
    "sd": {"stddev": "x"},
    "rate": {"ratio": ["x", "h"]},
}
ROWS = 60_000
RELEASES = 20_000
LEVELS = ("0.8", "0.95", "0.99")


def build_query(**more: Any) -> Query:
    """Return a query whose columns all have `more`."""
    return ask(declare(COLUMNS), {name: {**spec, **more} for name, spec in ASKED.items()})


@cache
def mechanisms(epsilon: str) -> dict[str, Mechanism]:
    """Return the mechanisms of a budget, which do not depend on companion columns."""
    plan = make_plan(
        [build_query()], BudgetSpec(epsilon=Fraction(epsilon), delta=Fraction(1, 10**6))
    )
    return {column.measurement.name: column.mechanism for column in plan.columns}


@cache
def true_vectors() -> tuple[dict[str, Any], dict[str, float]]:
    """Return the exact vectors, and the true values."""
    i = np.arange(ROWS)
    x, h = np.floor((i * 0.6180339887 % 1) ** 2 * 180) / 2 - 10, (i * 7) % 61
    frame = pd.DataFrame({"id": i, "x": x, "h": np.minimum(h, 60), "k": ["a"] * ROWS})
    true = {
        "rows": ROWS, "held": ROWS, "kinds": 1, "years": frame["h"].sum(), "total": x.sum(),
        "mean": x.mean(), "var": x.var(ddof=1), "sd": x.std(ddof=1), "rate": x.sum() / h.sum(),
    }  # fmt: skip
    return exact(build_query(), frame), true


def release(
    epsilon: str = "1", **more: Any
) -> tuple[Query, dict[str, Mechanism], dict[str, Any], dict[str, float]]:
    """Return a query whose columns all have `more`, its mechanisms, vectors, and true values."""
    return build_query(**more), mechanisms(epsilon), *true_vectors()


def arrays(
    query: Query, column: OutputColumn, vectors: dict[str, Any], laws: dict[str, Mechanism]
) -> dict[str, np.ndarray]:
    return {
        name: np.array(array.to_pylist(), dtype=object)
        for name, array in published_arrays(query, column, vectors, laws).items()
    }


def numbers(values: np.ndarray) -> np.ndarray:
    return np.array([np.nan if value is None else float(value) for value in values])


@pytest.mark.parametrize("level", LEVELS)
def test_margins_are_half_widths_times_steps(level: str) -> None:
    """To the step: the margin suffices for the exact tails, and one step less does not."""
    query, laws, vectors, _ = release(margin=level)
    seen = 0
    for column in query.columns:
        if column.form in FRACTIONS or len(column.parts) > 1:
            continue
        law, name = laws[column.parts[0].name], column.name
        (moe,) = arrays(query, column, vectors, laws)[f"{name}_moe"]
        steps = Fraction(str(moe)) / column.step
        assert steps.denominator == 1
        miss = 1 - arb(level)

        def beyond(steps: Fraction, law: Mechanism = law) -> arb:
            """Return P(|K| > steps)."""
            return law.tail(int(steps) + 1, True) + law.tail(-int(steps) - 1, False)

        assert beyond(steps) <= miss * (1 + arb(2) ** -30), name
        # Where a law has no short formula its half width may be a little too wide.
        narrower = Fraction(int(steps * Fraction(99, 100)) - 1)
        assert narrower < 0 or beyond(narrower) > miss, name
        seen += 1
    assert seen == 4


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_of_computed_columns_cover_the_truth(level: str) -> None:
    """With the declared confidence: a margin changed by 5 % would be rejected."""
    query, laws, vectors, true = release(margin=level)
    bits = Keyed(f"intervals {level}")
    noisy = {
        name: sample(law.noise_distribution, RELEASES, bits) + vectors[name]
        for name, law in laws.items()
    }
    asked = float(level)
    for column in query.columns:
        found = arrays(query, column, noisy, laws)
        values = numbers(found[column.name])
        if column.form in FRACTIONS:
            ends = [numbers(found[f"{column.name}_{end}"]) for end in ("lower", "upper")]
        else:
            margins = numbers(found[f"{column.name}_moe"])
            ends = [values - margins, values + margins]
        truth = true[column.name]
        share = float(np.mean((ends[0] <= truth + 1e-9) & (truth - 1e-9 <= ends[1])))
        slack = 5 * np.sqrt(asked * (1 - asked) / RELEASES)
        if column.form in FRACTIONS or len(column.parts) > 1:
            most = asked + slack + (0.1 if column.name in ("var", "sd") else 0.03) * (1 - asked)
            assert asked - slack <= share <= most, column.name
        else:
            assert share >= asked - slack


SIZES = np.unique(np.concatenate(([0], np.geomspace(1, ROWS, 60).astype(np.int64))))


def test_quality_follows_from_the_published_numbers() -> None:
    """For cells of every size in one table, with many codes."""
    for epsilon in ("0.3", "3"):
        query, laws, vectors, _ = release(epsilon, margin="0.95")
        scaled = {name: (held[0] * SIZES) // ROWS for name, held in vectors.items()}
        for sign in (1, -1):
            noisy = {name: sign * held for name, held in scaled.items()}
            for column in query.columns:
                found = arrays(query, column, noisy, laws)
                codes = found[f"{column.name}_quality"]
                values = numbers(found[column.name])
                if column.form in FRACTIONS:
                    ends = [numbers(found[f"{column.name}_{end}"]) for end in ("lower", "upper")]
                    width = np.maximum(values - ends[0], ends[1] - values)
                else:
                    width = numbers(found[f"{column.name}_moe"])
                for value, margin, code in zip(values, width, codes, strict=True):
                    if np.isnan(value):
                        assert code == "unsure_divisor"
                    elif code != "at_bound":
                        part = margin / abs(value) if value else np.inf
                        assert code == "ABCD"[np.searchsorted([0.05, 0.15, 0.3], part - 1e-9)]
                if sign == 1 and column.name not in ("kinds", "held"):
                    assert {"A", "D"} <= set(codes), (column.name, epsilon)
                if sign == -1 and column.form in FRACTIONS and column.name != "rate":
                    assert set(codes) == {"unsure_divisor"}


def test_quality_always_uses_95_percent() -> None:
    """Another confidence changes margins and intervals, but no quality code."""
    codes = {}
    for level in LEVELS:
        query, laws, vectors, _ = release("3", margin=level)
        scaled = {name: (held[0] * SIZES) // ROWS for name, held in vectors.items()}
        for column in query.columns:
            found = arrays(query, column, scaled, laws)[f"{column.name}_quality"]
            known = found != "unsure_divisor"  # a value needs a divisor above its own margin
            codes.setdefault(column.name, []).append(np.where(known, found, ""))
    for name, several in codes.items():
        for one in several:
            both = (one != "") & (several[1] != "")
            assert both.sum() > 20
            assert np.array_equal(one[both], several[1][both]), name


def test_cells_with_a_wide_margin_are_suppressed() -> None:
    query, laws, vectors, _ = release("0.3", suppress_above="20 %")
    plain, _, _, _ = release("0.3")
    scaled = {name: (held[0] * SIZES) // ROWS for name, held in vectors.items()}
    for column, other in zip(query.columns, plain.columns, strict=True):
        found, before = (
            arrays(one, each, scaled, laws) for one, each in ((query, column), (plain, other))
        )
        values, held = numbers(found[column.name]), numbers(before[column.name])
        emptied = np.isnan(values) & ~np.isnan(held)
        assert set(found[f"{column.name}_quality"][emptied]) <= {"unreliable"}
        shown = ~np.isnan(values)
        assert np.array_equal(values[shown], held[shown])
        assert not set(before[f"{column.name}_quality"][emptied]) & {"A", "B"}
        assert not set(found[f"{column.name}_quality"][shown]) & {"D"}
        assert emptied.any() == (column.name != "kinds") or column.name == "kinds"
        for end in ("lower", "upper"):  # the interval would show where the value is
            if column.form in FRACTIONS:
                ends = np.where(emptied, None, before[f"{column.name}_{end}"])
                assert np.array_equal(found[f"{column.name}_{end}"], ends)


def test_cells_with_few_people_are_suppressed() -> None:
    """By the count of a mean, or by another column that counts all rows."""
    query, laws, _, _ = release(suppress_below={"people": 50})
    assert {column.name: column.people for column in query.columns} == {
        "rows": "rows", "held": "held", "kinds": "rows", "years": "rows", "total": "total.count",
        "mean": "total.count", "var": "total.count", "sd": "total.count", "rate": "rows",
    }  # fmt: skip
    noisy = {name: np.array([10**6, 10**6]) for name in laws}
    for column in query.columns:
        few = {**noisy, column.people: np.array([49, 50 if column.name == "rows" else 10**6])}
        found = arrays(query, column, few, laws)
        assert found[column.name][0] is None
        assert found[column.name][1] is not None
        assert found[f"{column.name}_quality"][0] == "few_people"
        assert found[f"{column.name}_quality"][1] not in ("few_people", "unsure_divisor")
        if column.form in FRACTIONS:
            for end in ("lower", "upper"):
                first, second = found[f"{column.name}_{end}"]
                assert first is None
                assert second is not None


def test_suppression_by_people_needs_a_count() -> None:
    """The message names the column to add; with it, the rule is accepted."""
    people = {"people": 5}
    unit = {"id": "id", "max_groups": 1, "max_rows_per_group": 3}
    table = declare(COLUMNS, privacy_unit=unit)
    asked = {"rows": {"count": "*"}, "mean": {"mean": "x", "suppress_below": people}}
    with pytest.raises(DpReleaseError) as caught:
        ask(table, asked)
    assert "DP-QUERY-015" in str(caught.value)
    assert "count_distinct: id" in str(caught.value)
    query = ask(table, {**asked, "persons": {"count_distinct": "id"}})
    assert query.columns[1].people == "persons"


def test_suppressed_values_have_a_reason() -> None:
    query = ask(declare(COLUMNS), {"rows": {"count": "*", "suppress_below": 50}})
    found = arrays(query, query.columns[0], {"rows": np.array([3, 10**6])}, mechanisms("1"))
    assert found["rows"].tolist() == [None, 10**6]
    assert found["rows_quality"].tolist() == ["few_people", "A"]
