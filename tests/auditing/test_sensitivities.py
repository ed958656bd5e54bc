"""Neighbours against claims: releases of every kind hold exactly; planted faults don't."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from dprelease.auditing import sensitivities
from dprelease.auditing.claims import LargestChange
from dprelease.auditing.neighbours.stored_values import AS_DECLARED, TEXTS, stored_array
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.sensitivities import compare_pairs, query_groups
from dprelease.auditing.single_records import compare_record_pairs
from dprelease.auditing.stage import AuditedRelease
from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_table import ExactTable
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.sum import Sum
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from tests.auditing.build import (
    FEDERATED,
    IDS,
    INVARIANTS,
    OF_IDS,
    QUERIES,
    TREE,
    UNITS,
    VECTORS,
    read_local_release,
    read_release,
)
from tests.exact.build import ask, declare, exact

FAR = float("inf")
LESS = {"mechanism": "discrete_laplace"}
REPLACED: dict[str, Any] = {"budget": {"epsilon": 3, "delta": "1e-6", "neighbours": "replace"}}
OF_PARTIES = {"q": {"from": "people", "columns": {"n": {"count": "*"}, "t": {"sum": "gain"}}}}
MADE: dict[str, Callable[[Path], Declaration]] = {
    "vectors of ids, replaced": lambda f: read_release(f, QUERIES["vectors"], IDS, **REPLACED, **LESS),
    "forms of rows": lambda f: read_release(f, QUERIES["forms"], **LESS),
    "choices of ids, replaced": lambda f: read_release(f, QUERIES["choices"], IDS, **REPLACED),
    "a tree": lambda f: read_release(f, TREE["tree"], UNITS["single"]),
    "joined and where": lambda f: read_release(
        f, {"q": QUERIES["joined"]["q"], "w": QUERIES["where"]["q"]}, **LESS
    ),
    "two tables of ids": lambda f: read_release(f, OF_IDS["both"], IDS, **LESS),
    "private keys of ids, replaced": lambda f: read_release(f, QUERIES["private"], IDS, **REPLACED),
    "invariants": lambda f: read_release(f, INVARIANTS["invariants"], IDS, **REPLACED),
    "tables that agree": lambda f: read_release(f, QUERIES["agree"], IDS, **LESS),
    "marginals, replaced": lambda f: read_release(f, QUERIES["marginals"], **REPLACED, **LESS),
    "keys by noise": lambda f: read_release(f, OF_IDS["private noise"], IDS),
    "parties": lambda f: read_release(f, OF_PARTIES, IDS, **FEDERATED),
}  # fmt: skip
QUICK = ("vectors of ids, replaced", "choices of ids, replaced", "joined and where", "invariants")
"""Those that are tried each time."""


@pytest.fixture(autouse=True)
def _few_situations() -> Iterator[None]:
    ways = {"STORAGES": (AS_DECLARED, TEXTS), "EQUAL_STORAGES": (TEXTS,)}
    with mock.patch.multiple(
        sensitivities, RANDOM_SITUATIONS=12, MOST_SITUATIONS=40, SEPARATE_PAIRS=1, **ways
    ):
        yield


def worst_of(declaration: Declaration, *, forgiving: bool = False) -> dict[str, LargestChange]:
    """Return the worst pair of every measurement, by its name."""
    stage = AuditedRelease.of(declaration)
    found: dict[str, LargestChange] = {}
    for group in query_groups(stage, stage.queries, ReplayedBits("tests")):
        one = compare_pairs(group, time.monotonic() + 600)
        assert one.complete
        found |= {f"{query}.{name}": held for (query, name), held in one.worst.items()}
    return found


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "made",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.audit) for name in MADE],
)
def test_releases_reach_their_claims_exactly(made: str, tmp_path: Path) -> None:
    """All claims hold, and nearly all are reached: the pairs are as bad as pairs can be."""
    worst = worst_of(MADE[made](tmp_path))
    for name, held in worst.items():
        if not held.measurement.exact:
            assert held.share.holds, (name, held.share, held.description)
    if made == "invariants":  # pairs that agree in them come as far as half of what is claimed
        assert max(held.share.ratio for held in worst.values()) >= 0.5
        assert worst["q_state.n"].measurement.exact == "declared"
        return
    reached = [held.share.ratio == 1.0 for held in worst.values() if not held.measurement.exact]
    assert sum(reached) >= 0.7 * len(reached)


def test_local_releases_reach_their_claims_exactly(tmp_path: Path) -> None:
    stage = AuditedRelease.of(read_local_release(tmp_path))
    for part in stage.records:
        found = compare_record_pairs(stage, part, ReplayedBits("tests"))
        assert {held.share.ratio for held in found.worst.values()} == {1.0}


ASKED = {
    "q": {
        "from": "people", "group_by": ["sex"],
        "columns": {**VECTORS, "middle": {"median": "gain"}, "spread": {"variance": "gain"}},
    }
}  # fmt: skip


def claim_less(kind: type[Any], by: float) -> Any:
    """Return a planted fault: an aggregate claims less of every move than is true."""
    true = kind.sensitivity

    def sensitivity(
        self: Any, unit: PrivacyUnit, neighbours: Neighbours, cells: int
    ) -> Sensitivity:
        claim = true(self, unit, neighbours, cells)
        less = tuple(replace(move, shift=max(1, int(move.shift * by))) for move in claim.moves)
        return replace(claim, moves=less)

    return mock.patch.object(kind, "sensitivity", sensitivity)


def answer_other_query(change: Callable[[Query], Query]) -> Any:
    """Return a planted fault: the engine runs another query than the planned one."""
    true = Engine.run

    def run(self: Engine, query: Query) -> ExactTable:
        return true(self, change(query))

    return mock.patch.object(Engine, "run", run)


def _more_groups(query: Query) -> Query:
    unit = query.unit
    return replace(query, unit=replace(unit, max_groups=unit.max_groups + 1))


def _more_rows(query: Query) -> Query:
    unit = query.unit
    return replace(query, unit=replace(unit, max_rows_per_group=unit.max_rows_per_group + 1))


def _wider(query: Query) -> Query:
    """Return the query with sums whose values may be larger than was declared."""
    table = query.table
    gain = table.columns["gain"].model_copy(update={"upper": 55})
    view = table.model_copy(update={"columns": {**table.columns, "gain": gain}})
    wide = tuple(
        replace(m, aggregate=replace(m.aggregate, upper=55))
        if isinstance(m.aggregate, Sum) and m.aggregate.column == "gain"
        else m
        for m in query.measurements
    )
    return replace(query, view=view, measurements=wide)


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a sum that claims a tenth less": (lambda: claim_less(Sum, 0.9), "q.total.sum"),
    "a count that claims a row less": (lambda: claim_less(Count, 0.7), "q.n"),
    "a quantile that claims a tenth less": (lambda: claim_less(Quantile, 0.9), "q.middle"),
    "a group more than is claimed": (lambda: answer_other_query(_more_groups), "q.n"),
    "a row more than is claimed": (lambda: answer_other_query(_more_rows), "q.n"),
    "bounds wider than declared": (lambda: answer_other_query(_wider), "q.total.sum"),
}


@pytest.mark.share(0.15)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_sensitivity_faults_are_found(fault: str, tmp_path: Path) -> None:
    plant, where = FAULTS[fault]
    declaration = read_release(tmp_path, ASKED, {**IDS, "max_groups": 2}, **LESS)
    with plant():
        worst = worst_of(declaration)
    assert not worst[where].share.holds
    assert worst[where].description


@pytest.mark.parametrize(
    "layout", ["days since 1960-01-01", "seconds since 1582-10-14", "%d.%m.%Y"]
)
def test_times_are_stored_in_their_declared_format(layout: str) -> None:
    """Otherwise, the audit reports a false loss."""
    column = {"type": "timestamp", "lower": "2023-01-01", "upper": "2025-01-01", "format": layout}
    if layout.startswith("%"):
        column |= {"type": "date"}
    table = declare({"t": column})
    moment = datetime(2024, 2, 29, 13, 30) if column["type"] == "timestamp" else date(2024, 2, 29)
    stored = stored_array([moment, None], "t", table.table.columns["t"], TEXTS)
    where = f"t = {column['type'].upper()} '{moment}'"
    query = ask(table, {"n": {"count": "*"}}, where=where)
    assert exact(query, pa.table({"t": stored}))["n"][0] == 1
