"""Random releases over random tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from dprelease.auditing.neighbours.stored_values import AS_DECLARED, EQUAL_STORAGES
from tests.fuzzing.columns import Columns, columns, of

RELEASE, TABLE, SOURCE = "release.yaml", "t.yaml", "t.parquet"
"""What the files of a case are called; the source is either of both tables."""

PURE = ("discrete_laplace", "laplace", "staircase", "auto")
AGREEING = ("discrete_gaussian", "gaussian", *PURE)
APPROXIMATE = ("truncated_laplace", *AGREEING)
IDS = ("integer", "text")
UNITS = ((1, 1), (2, 1), (2, 2), (1, 3), (50, 2))
"""Groups and rows that count of a unit with an id."""

FEW = 40
"""Values of a number up to which it is a key."""


@dataclass(frozen=True)
class Case:
    """A release and its table; which invented neighbours it is tried with, and how they are stored."""

    table: dict[str, Any]
    release: dict[str, Any]
    pair: int
    ways: tuple[str, str]

    def write(self, folder: Path) -> None:
        """Write the release and its table, which has no rows yet."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, held in ((RELEASE, self.release), (TABLE, self.table)):
            plain = json.loads(json.dumps(held))  # of what stands there twice, no aliases
            text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
            (folder / name).write_text(text, encoding="utf-8")


def _keys(of_table: Columns) -> list[str]:
    """Return the columns by which a table may be grouped."""
    few = [
        name
        for name in of(of_table, "integer")
        if of_table[name]["upper"] - of_table[name]["lower"] < FEW
    ]
    return [*of(of_table, "category", "boolean", "date", "cut"), *few]


def _words(of_table: Columns, *, has_id: bool) -> list[dict[str, Any]]:
    """Return all that a column of a query may ask for."""
    numbers, listed = of(of_table, "integer", "number"), of(of_table, "category", "boolean")
    ways: list[dict[str, Any]] = [
        {"count": "*"},
        {"share": "*"},
        *({"count": name} for name in of_table),
    ]
    for name in numbers:
        ways += [{word: name} for word in ("sum", "mean", "variance", "median", "min", "max")]
        ways += [{"quantile": {"of": name, "at": "0.25"}}, {"ratio": [name, numbers[-1]]}]
        if float(of_table[name]["lower"]) >= 0:
            ways += [{"quantile_ratio": {"of": name, "over": "0.8", "under": "0.25"}}]
        ways += [{"correlation": [name, other]} for other in numbers if other != name]
        weights = [
            w
            for w in numbers
            if float(of_table[w]["lower"]) >= 0 and float(of_table[w]["upper"]) > 0
        ]
        ways += [{"weighted_mean": {"of": name, "weight": w}} for w in weights[-1:]]
        ways += [{"effective_size": w} for w in weights[-1:]]
    for name in listed:
        ways += [{"mode": name}, {"top_k": name, "k": 2}, {"count_distinct": name}]
    return ways + [{"count_distinct": "id"}] * has_id


def _conditions(of_table: Columns) -> list[str]:
    """Return conditions on rows."""
    found = [f"{name} IS NOT NULL" for name in of_table]
    found += [f"{name} > 0" for name in of(of_table, "integer", "number")]
    found += [f"NOT {name}" for name in of(of_table, "boolean")]
    found += [f"{name} <> 'a' OR {name} IS NULL" for name in of(of_table, "category", "text")]
    found += [f"{name} >= DATE '2024-02-28'" for name in of(of_table, "date")]
    return found


@st.composite
def queries(draw: st.DrawFn, of_table: Columns, *, has_id: bool, is_pure: bool) -> dict[str, Any]:
    """Draw one query: a plain one, one of keys that are not public, or a family that agrees."""
    keys, found = _keys(of_table), {"from": "t"}
    plain = ["plain", "plain", "plain", "agrees"]
    way = draw(st.sampled_from(plain if is_pure else [*plain, "private"]))
    if way == "agrees":
        few = [key for key in keys if key in of(of_table, "category", "boolean")][:2]
        sums = [{"sum": name} for name in of(of_table, "integer", "number")]
        asked = {"c0": dict(draw(st.sampled_from([{"count": "*"}, *sums])))}
        return {**found, "cube": few, "columns": asked, "consistent": True}
    listed = of(of_table, "category", "boolean", "date", "integer", "text")
    if way == "private" and listed:
        keys, found["private_keys"] = listed, True
    least = 1 if "private_keys" in found else 0
    some = st.lists(st.sampled_from(keys), min_size=least, max_size=2, unique=True)
    some = some if keys else st.just([])
    asked = st.sampled_from(_words(of_table, has_id=has_id)).map(dict)
    several = draw(st.lists(asked, min_size=1, max_size=3))
    found |= {"group_by": draw(some), "columns": {f"c{i}": one for i, one in enumerate(several)}}
    if draw(st.sampled_from([False, False, False, True])):
        found["where"] = draw(st.sampled_from(_conditions(of_table)))
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a release, its table, and which neighbours it is tried with."""
    of_table = draw(columns())
    table: dict[str, Any] = {"table": "t", "source": SOURCE, "size": 1000}
    table["columns"] = dict(of_table)
    unit = draw(st.sampled_from([None, *IDS]))
    if unit is not None:
        groups, rows = draw(st.sampled_from(UNITS))
        table["privacy_unit"] = {"id": "id", "max_groups": groups, "max_rows_per_group": rows}
        table["columns"] = {"id": {"type": unit}, **of_table}
    is_pure = draw(st.booleans())
    one = queries(of_table, has_id=unit is not None, is_pure=is_pure)
    several = draw(st.lists(one, min_size=1, max_size=3))
    delta = {} if is_pure else {"delta": "1e-6"}
    laws = AGREEING if any("consistent" in query for query in several) else APPROXIMATE
    neighbours = draw(st.sampled_from(["add_remove", "replace"]))
    release = {
        "title": "At random",
        "tables": [TABLE],
        "budget": {"epsilon": "2", **delta, "neighbours": neighbours},
        "mechanism": draw(st.sampled_from(PURE if is_pure else laws)),
        "queries": {f"q{i}": query for i, query in enumerate(several)},
        "output": "out",
    }
    ways = st.sampled_from([AS_DECLARED, *EQUAL_STORAGES])
    return Case(table, release, draw(st.integers(0, 63)), (draw(ways), draw(ways)))
