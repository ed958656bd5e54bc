"""Random releases over random tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from dprelease.auditing.neighbours.stored_values import AS_DECLARED, EQUAL_STORAGES
from tests.fuzzing.columns import Columns, columns, of

RELEASE, TABLE = "release.yaml", "t.yaml"
"""What the files of a case are called; other tables have names of this form, too."""

PURE = ("discrete_laplace", "laplace", "staircase", "auto")
AGREEING = ("discrete_gaussian", "gaussian", *PURE)
APPROXIMATE = ("truncated_laplace", *AGREEING)
IDS = ("integer", "text")
CONCENTRATED = ("discrete_gaussian", "gaussian", "auto")
BUDGETS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "pure": ({"epsilon": "2"}, PURE),
    "approximate": ({"epsilon": "2", "delta": "1e-6"}, APPROXIMATE),
    "concentrated": ({"rho": "0.5", "delta": "1e-6"}, CONCENTRATED),
}
"""Budgets with the mechanisms that they may be spent on."""

LIMITS = [(1, 1, 0), (2, 1, 0), (2, 2, 0), (1, 3, 0), (50, 2, 0), (0, 0, 3), (2, 2, 3), (50, 2, 5)]
"""Groups, rows in a group, and rows in all groups that count of a unit; 0 stands for no limit."""

FEW = 40
"""Values of a number up to which it is a key."""

PUBLIC: dict[str, Any] = {
    "table": "codes",
    "public": True,
    "source": "codes.parquet",
    "columns": {"code": {"type": "text"}, "area": {"type": "category", "values": ["u", "v"]}},
}
"""A public table, whose codes are compared with texts."""


@dataclass(frozen=True)
class Case:
    """A release and its tables; which invented neighbours it is tried with, and how they are stored.

    `others` are the tables that queries join, by name.
    """

    table: dict[str, Any]
    release: dict[str, Any]
    pair: int
    ways: tuple[str, str]
    others: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the release and its tables, which have no rows yet."""
        folder.mkdir(parents=True, exist_ok=True)
        others = {f"{name}.yaml": held for name, held in self.others.items()}
        for name, held in {RELEASE: self.release, TABLE: self.table, **others}.items():
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


def _weights(of_table: Columns) -> list[str]:
    """Return the numbers that may be weights."""
    ends = {
        n: (float(of_table[n]["lower"]), float(of_table[n]["upper"])) for n in _numbers(of_table)
    }
    return [name for name, (lower, upper) in ends.items() if lower >= 0 and upper > 0]


def _numbers(of_table: Columns) -> list[str]:
    return of(of_table, "integer", "number")


def _words(of_table: Columns, *, has_id: bool) -> list[dict[str, Any]]:
    """Return all that a column of a query may ask for."""
    numbers, listed = _numbers(of_table), of(of_table, "category", "boolean")
    ways: list[dict[str, Any]] = [
        {"count": "*"},
        {"share": "*"},
        *({"count": name} for name in of_table),
    ]
    for name in numbers:
        ways += [{word: name} for word in ("sum", "mean", "variance", "median", "min", "max")]
        ways += [{"quantile": {"of": name, "at": "0.25"}}, {"ratio": [name, numbers[-1]]}]
        ways += [{"sum": name, "max_sum": most} for most in (7, 70)] * has_id
        if float(of_table[name]["lower"]) >= 0:
            ways += [{"quantile_ratio": {"of": name, "over": "0.8", "under": "0.25"}}]
        pairs = [(name, other) for other in numbers if other != name]
        ways += [{word: [*pair]} for pair in pairs for word in ("correlation", "covariance")]
        ways += [{"slope": {"of": one, "on": other}} for one, other in pairs]
    for weight in _weights(of_table)[-1:]:
        ways += [{"weighted_mean": {"of": name, "weight": weight}} for name in numbers]
        ways += [{"weighted_count": weight}, {"effective_size": weight}]
        ways += [*_design_errors(numbers, weight)]
    for name in listed:
        ways += [{"mode": name}, {"top_k": name, "k": 2}, {"count_distinct": name}]
    return ways + [{"count_distinct": "id"}] * has_id


def _design_errors(numbers: list[str], weight: str) -> Iterator[dict[str, Any]]:
    """Yield design errors of counts and sums, whose replicate weights are any numbers."""
    replicates = [name for name in numbers if name != weight]
    for more in ({}, {"max_difference": "3.5"}, {"of": numbers[0]}):
        spec = {"weight": weight, "replicates": replicates, "scale": "1/2", **more}
        yield from [{"design_error": spec}] * bool(replicates)


def _conditions(of_table: Columns) -> list[str]:
    """Return conditions on rows."""
    found = [f"{name} IS NOT NULL" for name in of_table]
    found += [f"{name} > 0" for name in of(of_table, "integer", "number")]
    found += [f"NOT {name}" for name in of(of_table, "boolean")]
    found += [f"{name} <> 'a' OR {name} IS NULL" for name in of(of_table, "text")]
    codes = {name: of_table[name]["values"][0] for name in of(of_table, "category")}
    found += [f"{name} <> '{code}' OR {name} IS NULL" for name, code in codes.items()]
    found += [f"{name} >= DATE '2024-02-28'" for name in of(of_table, "date")]
    return found


def _limits(draw: st.DrawFn) -> dict[str, int]:
    """Draw contribution limits."""
    names = ("max_groups", "max_rows_per_group", "max_rows")
    limits = zip(names, draw(st.sampled_from(LIMITS)), strict=True)
    return {name: most for name, most in limits if most}


def _join(draw: st.DrawFn, of_table: Columns, *, has_id: bool) -> tuple[dict[str, Any], Columns]:
    """Draw a join, or none; return its keys in a query, and the columns that it adds."""
    ways, texts = [""] * 4, of(of_table, "category", "text")
    way = draw(st.sampled_from([*ways, *["codes"] * bool(texts), *["visits"] * has_id]))
    if way == "codes":
        unmatched = draw(st.sampled_from(["keep", "drop"]))
        join = {"table": way, "on": {draw(st.sampled_from(texts)): "code"}, "unmatched": unmatched}
        return {"join": join}, {"area": PUBLIC["columns"]["area"]}
    if way:
        return {"join": {"table": way, "on_unit": True, **_limits(draw)}}, _visits("", {})[
            "columns"
        ]
    return {}, {}


def _visits(kind: str, limits: dict[str, int]) -> dict[str, Any]:
    """Return another table about the same people, or without a type of ids its other columns."""
    columns: Columns = {
        "reason": {"type": "category", "values": ["c", "d"]},
        "hours": {"type": "integer", "lower": -2, "upper": 6},
    }
    ids: Columns = {"id": {"type": kind}} if kind else {}
    unit = {"id": "id", **limits}
    table = {"table": "visits", "source": "visits.parquet", "privacy_unit": unit}
    return {**table, "columns": {**ids, **columns}}


@st.composite
def queries(draw: st.DrawFn, of_table: Columns, *, has_id: bool, is_pure: bool) -> dict[str, Any]:
    """Draw one query: a plain one, one of keys that are not public, or a family that agrees."""
    keys, found = _keys(of_table), dict[str, Any]({"from": "t"})
    plain = ["plain", "plain", "plain", "rollup", "agrees"]
    way = draw(st.sampled_from(plain if is_pure else [*plain, "private"]))
    if way == "agrees":
        few = [key for key in keys if key in of(of_table, "category", "boolean")][:2]
        sums = [{"sum": name} for name in _numbers(of_table)]
        asked = {"c0": dict(draw(st.sampled_from([{"count": "*"}, *sums])))}
        return {**found, "cube": few, "columns": asked, "consistent": True}
    join, joined = _join(draw, of_table, has_id=has_id)
    of_table, found = {**of_table, **joined}, {**found, **join}
    keys += [name for name in joined if name in ("area", "reason")]
    listed = of(of_table, "category", "boolean", "date", "integer", "text")
    listed = [name for name in listed if "expression" not in of_table[name]]
    if way == "private" and listed:
        keys, found["private_keys"] = listed, True
    least = 1 if "private_keys" in found else 0
    some = st.lists(st.sampled_from(keys), min_size=least, max_size=2, unique=True)
    some = some if keys else st.just([])
    asked = st.sampled_from(_words(of_table, has_id=has_id)).map(dict)
    several = draw(st.lists(asked, min_size=1, max_size=3))
    found |= {"rollup" if way == "rollup" else "group_by": draw(some)}
    found["columns"] = {f"c{i}": one for i, one in enumerate(several)}
    if draw(st.sampled_from([False, False, False, True])):
        found["where"] = draw(st.sampled_from(_conditions(of_table)))
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a release, its tables, and which neighbours it is tried with."""
    of_table = draw(columns())
    table: dict[str, Any] = {"table": "t", "source": "t.parquet", "size": 1000}
    table["columns"] = dict(of_table)
    kind = draw(st.sampled_from([None, *IDS]))
    if kind is not None:
        table["privacy_unit"] = {"id": "id", **_limits(draw)}
        table["columns"] = {"id": {"type": kind}, **of_table}
    budget, laws = BUDGETS[draw(st.sampled_from([*BUDGETS]))]
    one = queries(of_table, has_id=kind is not None, is_pure="delta" not in budget)
    several = draw(st.lists(one, min_size=1, max_size=3))
    if laws is APPROXIMATE and any("consistent" in query for query in several):
        laws = AGREEING
    others = {"codes": PUBLIC, "visits": _visits(kind or "", _limits(draw))}
    joined = {query["join"]["table"] for query in several if "join" in query}
    others = {name: held for name, held in others.items() if name in joined}
    neighbours = draw(st.sampled_from(["add_remove", "replace"]))
    release = {
        "title": "At random",
        "tables": [TABLE, *(f"{name}.yaml" for name in others)],
        "budget": {**budget, "neighbours": neighbours},
        "mechanism": draw(st.sampled_from(laws)),
        "queries": {f"q{i}": query for i, query in enumerate(several)},
        "output": "out",
    }
    ways = st.sampled_from([AS_DECLARED, *EQUAL_STORAGES])
    return Case(table, release, draw(st.integers(0, 63)), (draw(ways), draw(ways)), others)
