"""Random columns, as a table file declares them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from hypothesis import strategies as st

Spec = dict[str, Any]
Columns = dict[str, Spec]
Draw = Callable[[st.SearchStrategy[Any]], Any]

BOUNDS = [("0", "4", "0.5"), ("-2.5", "10", "0.25"), ("-1000", "1000", "10"), ("0", "1", "0.001")]
"""Lower and upper bounds of numbers, and their steps."""

LISTS = [
    ["a", "b", "c"], ["1", "2", "3"], ["01", "02", "10"], ["x", "y", ""], ["1.5", "2"],
    ["true", "false"],
]  # fmt: skip
"""Values of categories: words, codes, and texts that other types hold as well."""

FIRST = date(2024, 2, 27)


def _integer(draw: Draw) -> Spec:
    lower = draw(st.sampled_from([0, -5, 1, -(2**40)]))
    upper = lower + draw(st.sampled_from([3, 1, 0, 20, 2**33]))
    spec = {"type": "integer", "lower": lower, "upper": upper}
    step = draw(st.sampled_from([1, 1, 2, 7]))
    step = step if upper - lower >= step else 1
    return spec | ({"step": step} if step > 1 else {}) | _nulls(draw, [lower])


def _number(draw: Draw) -> Spec:
    lower, upper, step = draw(st.sampled_from(BOUNDS))
    return {"type": "number", "lower": lower, "upper": upper, "step": step} | _nulls(draw, [lower])


def _category(draw: Draw) -> Spec:
    values = draw(st.sampled_from(LISTS))
    spec = {"type": "category", "values": values, **_nulls(draw, values)}
    if draw(st.booleans()):
        spec["others"] = draw(st.sampled_from(values))
    return spec


def _boolean(draw: Draw) -> Spec:
    return {"type": "boolean"} | _nulls(draw, ["true", "false"])


def _day(draw: Draw) -> Spec:
    last = FIRST + timedelta(days=draw(st.sampled_from([2, 0, 5])))
    bounds = {"lower": str(FIRST), "upper": str(last)}
    return {"type": "date", **bounds} | _nulls(draw, [str(last)])


def _text(draw: Draw) -> Spec:
    return {"type": "text"}


def _nulls(draw: Draw, values: list[Any]) -> Spec:
    """Return the fill value for missing values, if there is one."""
    return {"fill": draw(st.sampled_from(values))} if draw(st.booleans()) else {}


KINDS: dict[str, Callable[[Draw], Spec]] = {
    "k": _category,
    "m": _category,
    "n": _integer,
    "x": _number,
    "flag": _boolean,
    "day": _day,
    "word": _text,
}
"""By the name of the column."""


@st.composite
def columns(draw: st.DrawFn) -> Columns:
    """Draw some columns by name: one at least, and a cut of a number where there is one."""
    names = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=5, unique=True))
    found = {name: KINDS[name](draw) for name in names}
    numbers = of(found, "number", "integer")
    if numbers and draw(st.booleans()):
        spec = found[numbers[0]]
        low, high = float(spec["lower"]), float(spec["upper"])
        edges = [str(edge) for edge in sorted({low, (low + high) / 2, high + 1})]
        found["band"] = {"cut": numbers[0], "edges": edges}
    if draw(st.sampled_from([False, False, True])):
        found |= _computed(draw, found)
    return found


def _computed(draw: Draw, found: Columns) -> Columns:
    """Return a column that is computed from others, or none: its values may be missing."""
    numbers = of(found, "number", "integer")
    ways = [f"{one} / {other}" for one in numbers for other in numbers]
    ways += [f"ln({one}) + coalesce({other}, 1)" for one in numbers for other in numbers]
    ways += [f"length({name}) % 4" for name in of(found, "text")]
    ways += [f"CASE WHEN {name} THEN 3 ELSE 1 END" for name in of(found, "boolean")]
    if not ways:
        return {}
    bounds = {"type": "number", "lower": "0", "upper": "3", "step": "0.5"}
    return {"made": {**bounds, "expression": draw(st.sampled_from(ways)), **_nulls(draw, ["3"])}}


def of(columns: Columns, *kinds: str) -> list[str]:
    """Return the names of the columns of some types; a cut has none."""
    return [name for name, spec in columns.items() if spec.get("type", "cut") in kinds]
