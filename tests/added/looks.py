"""What every stage makes of the aggregates that were added."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.planning.federated_plan import resolve_federated
from dprelease.privacy.unit import Move, Neighbours, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.resolve import Query, resolve
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.schema.json_schema import render_schema
from dprelease.schema.load import read_declaration
from dprelease.schema.release import ReleaseSpec
from tests.exact.build import ask, declare, exact
from tests.exact.reference import cell, steps
from tests.exact.test_reference import as_table, breaches, claims, units_of

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "k": {"type": "category", "values": ["a", "b", "c"], "others": "c"},
    "m": {"type": "category", "values": ["x", "y"]},
    "n": {"type": "integer", "lower": -7, "upper": 4, "unit": "m"},
    "s": {"type": "integer", "lower": 3, "upper": 31, "step": 4, "fill": 5},
    "x": {"type": "number", "lower": -3, "upper": 1, "step": 0.25},
    "flag": {"type": "boolean"},
}
ASKED: dict[str, Any] = {
    f"{name}_{column}": spec
    for column in ("n", "s", "x")
    for name, spec in {
        "all": {"absolute_sum": column},
        "some": {"at_least": {"of": column, "value": {"n": 1, "s": 10, "x": "-0.6"}[column]}},
    }.items()
}
RELEASE: dict[str, Any] = {
    "title": "Added",
    "tables": ["t.yaml"],
    "budget": {"epsilon": 1},
    "mechanism": "discrete_laplace",
    "queries": {
        "by_k": {
            "from": "t",
            "group_by": ["k"],
            "columns": {
                "moved": {"absolute_sum": "n", "margin": "true", "non_negative": "true"},
                "tall": {"at_least": {"of": "x", "value": "-0.6"}, "moe": 40},
                "rows": {"count": "*"},
                "mean": {"mean": "n"},
            },
        }
    },
    "output": "out",
}


def all_of(folder: Path) -> dict[str, Any]:
    """Return what was found, by what was looked at."""
    rows = some_rows(random.Random(1), 60)
    pd.DataFrame(rows).convert_dtypes().to_csv(folder / "t.csv", index=False)
    return {
        "release": release(folder),
        "schema": render_schema("release", ReleaseSpec).count("absolute_sum"),
        "refused": [refused(folder, spec) for spec in WRONG],
        "parties": parties(folder),
        "groups": groups(rows),
        "wrong": [list(wrong) for wrong in values()],
        "neighbours": neighbours(),
        "reached": reached(),
    }


def some_rows(chance: random.Random, number: int) -> list[dict[str, Any]]:
    """Return rows with values within the bounds, at them, beyond them, and missing."""
    return [
        {
            "id": chance.choice([None, 1, 1, 2, 3]),
            "k": chance.choice(["a", "b", "zz", None]),
            "m": chance.choice(["x", "y", None]),
            "n": chance.choice([None, -(2**31), -7, -1, 0, 1, 4, 9]),
            "s": chance.choice([None, -(2**63), 3, 9, 10, 11, 31, 2**63 - 1]),
            "x": chance.choice([None, float("-inf"), -3.0, -0.625, -0.5, 0.0, 1.0, 1e300]),
            "flag": None,
        }
        for _ in range(number)
    ]


def write(folder: Path, **more: Any) -> Path:
    """Return a release file beside its table."""
    table = {"table": "t", "source": "t.csv", "columns": COLUMNS}
    (folder / "t.yaml").write_text(json.dumps(table))
    (folder / "release.yaml").write_text(json.dumps({**RELEASE, **more}))
    return folder / "release.yaml"


def release(folder: Path) -> dict[str, Any]:
    """Return what a published manifest says of them, and whether it is verified."""
    path = write(folder)
    plan = dprelease.read_release(path).plan().to_json()
    out = run(read_declaration(path))
    record = json.loads((out / "manifest.json").read_text())
    told = {
        m["column"]: [m[key] for key in ("aggregate", "sensitivity_derivation", "unit", "step")]
        for m in record["measurements"]
    }
    ok = dprelease.verify(out).ok
    told_so = [c["aggregate"] for c in plan["columns"]] == [v[0] for v in told.values()]
    treated = record["treatments"][0]["columns"]
    (out / "manifest.json").write_text(
        (out / "manifest.json").read_text().replace("0 to 7", "0 to 6")
    )
    forged = dprelease.verify(out).ok
    return {"told": told, "verified": ok, "planned": told_so, "treated": treated, "forged": forged}


WRONG: list[dict[str, Any]] = [
    {"absolute_sum": "k"},
    {"absolute_sum": "nobody"},
    {"absolute_sum": "n", "count": "*"},
    {"absolute_sum": "n", "mechanism": "exponential"},
    {"at_least": {"of": "n", "valeu": 1}},
    {"at_least": "n"},
]


def refused(folder: Path, spec: dict[str, Any]) -> list[str]:
    """Return where and why a wrong declaration is refused."""
    query = {"from": "t", "columns": {"wrong": spec}}
    path = write(folder, queries={"q": query})
    try:
        resolve(read_declaration(path))
    except DpReleaseError as error:
        first = error.errors[0] if hasattr(error, "errors") else error
        return [first.code, str(first.place.key)]
    return []


def parties(folder: Path) -> list[str]:
    """Return what parties can add up."""
    columns = {"moved": {"absolute_sum": "n"}}
    more = {"federated": {"parties": 3}, "mechanism": "symmetric_alpha_stable"}
    path = write(folder, queries={"q": {"from": "t", "columns": columns}}, **more)
    (query,) = resolve_federated(with_party(read_declaration(path), 1))
    return [measurement.name for measurement in query.measurements]


def groups(rows: list[dict[str, Any]]) -> list[str]:
    """Return the columns that groups of a frame answer."""
    frame = pd.DataFrame(rows).convert_dtypes()
    session = dprelease.Session({"table": "t", "columns": COLUMNS}, epsilon=10)
    frame.dp.use(session)
    found = frame.dp.groupby("k").agg({"n": ["absolute_sum", "mean"]}, epsilon=1)
    return [str(name) for name in found.columns]


PLAIN: dict[str, Callable[[Aggregate, int], int]] = {
    "AbsoluteSum": lambda _, step: abs(step),
    "CountAtLeast": lambda aggregate, step: int(step >= aggregate.least),
}
UNITS: list[dict[str, Any]] = [
    {},
    {"id": "id", "max_groups": 1, "max_rows_per_group": 1},
    {"id": "id", "max_groups": 2, "max_rows_per_group": 2},
]


def query_of(unit: dict[str, Any], by: list[str], relation: Neighbours) -> Query:
    more = {"privacy_unit": unit} if unit else {}
    return ask(declare(COLUMNS, **more), ASKED, by, neighbours=relation)


def values() -> list[tuple[str, int, int]]:
    """Return cells that differ from what plain Python makes of the rows."""
    found = []
    for by, seed in product(([], ["k"], ["k", "m"]), range(4)):
        query, rows = query_of({}, by, Neighbours.REPLACE), some_rows(random.Random(seed), 30)
        vectors = exact(query, as_table(rows))
        for measurement in query.measurements:
            wanted = [0] * query.keys.size
            for row in rows:
                at, step = cell(query, row), steps(query, Lattice.of(measurement.aggregate), row)
                if at is not None and step is not None:
                    plain = PLAIN[type(measurement.aggregate).__name__]
                    wanted[at] += plain(measurement.aggregate, step)
            pairs = zip(vectors[measurement.name].tolist(), wanted, strict=True)
            found += [(measurement.name, *pair) for pair in pairs if pair[0] != pair[1]]
    return found


class Lattice:
    """A column and its lattice, as the reference has them together."""

    column: str
    lower: int
    upper: int
    step: Fraction

    @classmethod
    def of(cls, aggregate: Aggregate) -> Lattice:
        found, lattice = cls(), aggregate.lattice
        found.column, found.step = aggregate.column, lattice.step
        found.lower, found.upper = lattice.lower, lattice.upper
        return found


def neighbours() -> list[int]:
    """Return how many neighbours were compared, and how many differ by more than is claimed."""
    compared = beyond = 0
    for unit, by, relation in product(UNITS, ([], ["k"]), Neighbours):
        query, chance = query_of(unit, by, relation), random.Random(5)
        rows = some_rows(chance, 8)
        whole = exact(query, as_table(rows))
        for gone in units_of(query, rows):
            rest = [row for i, row in enumerate(rows) if i not in gone]
            new = some_rows(chance, 3 if unit else 1) if relation is Neighbours.REPLACE else []
            other = exact(query, as_table(rest + [{**row, "id": 99} for row in new]))
            beyond += breaches(query, whole, other, claims(query))
            compared += 1
    return [compared, beyond]


def reached() -> dict[str, list[bool]]:
    """Return of each measurement whether its claim is broken, and whether one step less would be."""
    query = query_of(UNITS[2], ["k"], Neighbours.ADD_REMOVE)
    row = {"id": 1, "m": None, "n": -7, "s": 31, "x": -3.0, "flag": None}
    rows = [{**row, "k": k, **high} for k in "abc" for high in ({}, {}) for _ in range(2)]
    tall = [{**one, "n": 4, "x": 1.0} for one in rows]
    found = {}
    for measurement in query.measurements:
        name, claim = measurement.name, measurement.sensitivity
        table = as_table(tall if name.startswith("some") else rows)
        one, other = ({name: exact(query, held)[name]} for held in (table, table[:0]))
        less = Sensitivity(claim.slots, tuple(replace(m, shift=m.shift - 1) for m in claim.moves))
        assert isinstance(less.moves[0], Move)
        found[name] = [breaches(query, one, other, {name: claimed}) for claimed in (claim, less)]
    return found
