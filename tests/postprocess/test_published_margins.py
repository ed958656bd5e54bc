"""What stands beside a published value: its margin at the declared confidence, and its flag."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flint import arb

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


def asked(**more: Any) -> Query:
    """Return a query whose columns all have `more`."""
    return ask(declare(COLUMNS), {name: {**spec, **more} for name, spec in ASKED.items()})


@cache
def planned(epsilon: str) -> dict[str, Mechanism]:
    """Return the laws of a budget, which are the same whatever stands beside the values."""
    plan = make_plan([asked()], BudgetSpec(epsilon=Fraction(epsilon), delta=Fraction(1, 10**6)))
    return {column.measurement.name: column.mechanism for column in plan.columns}


@cache
def true_vectors() -> tuple[dict[str, Any], dict[str, float]]:
    """Return the exact vectors, and what is true."""
    i = np.arange(ROWS)
    x, h = np.floor((i * 0.6180339887 % 1) ** 2 * 180) / 2 - 10, (i * 7) % 61
    frame = pd.DataFrame({"id": i, "x": x, "h": np.minimum(h, 60), "k": ["a"] * ROWS})
    true = {
        "rows": ROWS, "held": ROWS, "kinds": 1, "years": frame["h"].sum(), "total": x.sum(),
        "mean": x.mean(), "var": x.var(ddof=1), "sd": x.std(ddof=1), "rate": x.sum() / h.sum(),
    }  # fmt: skip
    return exact(asked(), frame), true


def released(
    epsilon: str = "1", **more: Any
) -> tuple[Query, dict[str, Mechanism], dict[str, Any], dict[str, float]]:
    """Return a query whose columns all have `more`, its laws, true vectors, and what is true."""
    return asked(**more), planned(epsilon), *true_vectors()


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
    """To the step: the law's own tails leave out no more, and one step less would leave out more."""
    query, laws, vectors, _ = released(margin=level)
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
def test_intervals_of_what_is_computed_hold_the_truth(level: str) -> None:
    """The declared confidence, not another: a share within 5 % of a margin's change of it."""
    query, laws, vectors, true = released(margin=level)
    bits = Keyed(f"intervals {level}")
    noisy = {
        name: sample(law.noise_distribution, RELEASES, bits) + vectors[name]
        for name, law in laws.items()
    }
    asked = float(level)
    for column in query.columns:
        found = arrays(query, column, noisy, laws)
        values, margins = numbers(found[column.name]), numbers(found[f"{column.name}_moe"])
        share = float(np.mean(np.abs(values - true[column.name]) <= margins + 1e-9))
        slack = 5 * np.sqrt(asked * (1 - asked) / RELEASES)
        if column.form in FRACTIONS or len(column.parts) > 1:
            most = asked + slack + (0.1 if column.name in ("var", "sd") else 0.03) * (1 - asked)
            assert asked - slack <= share <= most, column.name
        else:
            assert share >= asked - slack


def test_flags_are_where_the_margin_is_above_the_declared_part() -> None:
    """Cells of every size in one table: both answers occur, and each is that of its own numbers."""
    sizes = np.unique(np.concatenate(([0], np.geomspace(1, ROWS, 60).astype(np.int64))))
    for epsilon in ("0.3", "3"):
        query, laws, vectors, _ = released(epsilon, margin="0.9", flag_above="20 %")
        scaled = {name: (held[0] * sizes) // ROWS for name, held in vectors.items()}
        for sign in (1, -1):
            noisy = {name: sign * held for name, held in scaled.items()}
            for column in query.columns:
                found = arrays(query, column, noisy, laws)
                flags = found[f"{column.name}_unreliable"]
                values, margins = found[column.name], found[f"{column.name}_moe"]
                for value, margin, flag in zip(values, margins, flags, strict=True):
                    known = value is not None and margin is not None
                    assert flag is not (known and float(margin) <= 0.2 * abs(float(value)))
                if sign == 1 and column.name not in ("kinds", "held"):
                    assert set(flags) == {True, False}, (column.name, epsilon)


def test_a_suppressed_value_is_flagged() -> None:
    query, laws, _, _ = released(flag_above="20 %", suppress_below=50)
    column = query.columns[0]
    found = arrays(query, column, {"rows": np.array([3, 10**6])}, laws)
    assert found["rows"].tolist() == [None, 10**6]
    assert found["rows_unreliable"].tolist() == [True, False]
