"""Special neighbours, runs and claims: each finds its planted fault.

Where `without` removes the special case, no other check finds the fault.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from dprelease.auditing import sensitivities
from dprelease.auditing.failures import (
    EMPTY_SITUATION,
    MOST_FAILING,
    GroupReport,
    answer_without_failures,
)
from dprelease.auditing.neighbours import worst_units
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stored_values import (
    AS_DECLARED,
    DECIMALS,
    FLOAT_IDS,
    FLOATS,
    OTHER_CODE,
    PACKED,
    TEXTS,
    stored_array,
)
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.sensitivities import GroupResult, compare_pairs, query_groups
from dprelease.auditing.stage import AuditedRelease, EngineFailure
from dprelease.auditing.whole_audit import check_composed_claims
from dprelease.errors import DataError, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_table import ExactTable
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn, IntegerColumn
from dprelease.statements import meanings
from tests.auditing.build import COLUMNS, IDS, read_release

CODES = {**COLUMNS, "sex": {"type": "category", "values": ["01", "02", "10"], "others": "10"}}
ASKED: dict[str, Any] = {
    "q": {
        "from": "people", "group_by": ["sex"], "where": "pay > 1",
        "columns": {"n": {"count": "*"}, "gain": {"sum": "gain"}, "real": {"sum": "pay"}},
    }
}  # fmt: skip
TOTAL: dict[str, Any] = {"q": {"from": "people", "columns": {"n": {"count": "*"}}}}


def done_of(folder: Path, queries: dict[str, Any] = ASKED) -> GroupResult:
    stage = AuditedRelease.of(read_release(folder, queries, IDS, mechanism="discrete_laplace"))
    few = {
        "STORAGES": (AS_DECLARED, TEXTS, FLOATS),
        "EQUAL_STORAGES": (TEXTS, FLOATS),
        "RANDOM_SITUATIONS": 1,
        "SEPARATE_PAIRS": 1,
    }
    with mock.patch.multiple(sensitivities, MOST_SITUATIONS=56, **few):
        (group,) = query_groups(stage, stage.queries, ReplayedBits("tests"))
        return compare_pairs(group, time.monotonic() + 600)


def failures_of(done: GroupResult) -> set[str]:
    """Return the words of pairs that move farther than claimed, and of failures of the engine."""
    worst = {held.description for held in done.worst.values() if not held.share.holds}
    return worst | {failure.finding.seen for failure in done.report.failures.values()}


def _codes_as_floats() -> Any:
    """Return a planted fault: a code that is stored as a float is no declared one."""
    true = meanings.CONVERSIONS["category", "floats"]
    other = {**meanings.CONVERSIONS, ("category", "floats"): lambda held: f"({true(held)}) || '.0'"}
    return mock.patch.object(meanings, "CONVERSIONS", other)


def _large_float_ids() -> Any:
    """Return a planted fault: ids that are floats are not refused."""
    plants = ExitStack()
    plants.enter_context(mock.patch("dprelease.exact.inputs.is_no_id", return_value=False))
    plants.enter_context(mock.patch.object(meanings, "_is_inexact", return_value=False))
    return plants


def _occupied_counts_one_more() -> Any:
    """Return a planted fault: occupied cells count one more."""
    true = Engine.run

    def run(engine: Engine, query: Query) -> ExactTable:
        found = true(engine, query)
        vectors = {m.name: found.vector(m.name) for m in query.measurements}
        held = {name: vector + (vector != 0) for name, vector in vectors.items()}
        return ExactTable(query.name, found.size, held, {})

    return mock.patch.object(Engine, "run", run)


def _fails_without_an_id() -> Any:
    """Return a planted fault: a row that has no id makes the engine fail."""
    true = Engine.open.__func__  # type: ignore[attr-defined]

    @contextmanager
    def opened(kind: Any, declared: Any, frame: Any = None, *more: Any) -> Iterator[Engine]:
        if frame is not None and frame["id"].null_count:
            raise ArithmeticError("SECRET-4711")
        with true(kind, declared, frame, *more) as engine:
            yield engine

    return mock.patch.object(Engine, "open", classmethod(opened))


def _fails_always() -> Any:
    def run(_engine: Engine, _query: Query) -> ExactTable:
        raise DataError("DP-DATA-006", state=State.READ, table="people", format="frame")

    return mock.patch.object(Engine, "run", run)


@dataclass(frozen=True)
class Spot:
    """A planted fault, how it is told, and without what nothing else of an audit sees it."""

    plant: Callable[[], Any]
    told: str
    without: Callable[[], Any] | None = None
    queries: dict[str, Any] = field(default_factory=lambda: ASKED)


def _no_float_ids() -> Any:
    return mock.patch.object(sensitivities, "FLOAT_IDS", AS_DECLARED)


def _nobody_alone() -> Any:
    return mock.patch.object(worst_units, "TRIED_ALONE", 0)


SEEN_TWICE = ("ids that are floats",)
"""What is refused by two checks."""

SPOTS = {
    "codes that are floats": Spot(_codes_as_floats, "stored as floats on one side alone"),
    "ids that are floats": Spot(_large_float_ids, FLOAT_IDS, _no_float_ids),
    "a unit alone": Spot(_occupied_counts_one_more, "alone in its groups", _nobody_alone, TOTAL),
    "an engine that fails on one side": Spot(
        _fails_without_an_id, "ArithmeticError on one of them alone"
    ),
    "an engine that fails on both": Spot(_fails_always, "DP-DATA-006 on both"),
}


@pytest.mark.share(0.2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.audit) if one in SEEN_TWICE else one for one in SPOTS],
)
def test_faults_visible_to_special_pairs_only_are_found(name: str, tmp_path: Path) -> None:
    spot = SPOTS[name]
    with mock.patch("tests.auditing.build.COLUMNS", CODES), spot.plant():
        words = failures_of(done_of(tmp_path / "with", spot.queries))
        assert any(spot.told in told for told in words), words
        assert "SECRET" not in str(words)
        if spot.without is not None:
            with spot.without():
                assert not failures_of(done_of(tmp_path / "without", spot.queries))


def test_joint_changes_of_measurements_are_tested(tmp_path: Path) -> None:
    """One row is at the bounds of all that is measured, and a unit of such rows uses all claims."""
    done = done_of(tmp_path)
    assert not failures_of(done)
    assert {**done.most.parts} == dict.fromkeys(done.worst, 1.0)
    assert {pair.other["people"].num_rows for pair in done.joint_pairs} > {0}


def test_stack_skips_failing_situations() -> None:
    situations = [Situation(f"{i}", {"t": [{"i": i}]}) for i in range(40)]

    def ask(some: Any, bad: tuple[int, ...] = (7, 31)) -> list[str]:
        if any(one is situations[i] for one in some for i in bad):
            raise EngineFailure(ArithmeticError("SECRET-4711"))
        return [one.description for one in some if one is not EMPTY_SITUATION]

    found, failing = answer_without_failures(ask, situations)
    assert (sorted(failing), len(found or ())) == ([7, 31], 38)
    many, failing = answer_without_failures(
        lambda some: ask(some, tuple(range(0, 40, 3))), situations
    )
    assert (many, len(failing)) == (None, MOST_FAILING)


CLAIMS: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "an epsilon beside loss distributions": (
        {"budget": {"epsilon": 1, "delta": "1e-6"}, "mechanism": "discrete_laplace"},
        lambda held: replace(held, epsilon=held.epsilon * 0.97),
    ),
    "a rho": (
        {"budget": {"rho": "0.5", "delta": "1e-6"}, "mechanism": "discrete_gaussian"},
        lambda held: replace(held, rho=held.rho * 0.999),
    ),
    "an epsilon beside a rho": (
        {"budget": {"rho": "0.5", "delta": "1e-6"}, "mechanism": "discrete_gaussian"},
        lambda held: replace(held, epsilon=held.epsilon * 0.9),
    ),
    "a pure epsilon": (
        {"budget": {"epsilon": 1}, "mechanism": "discrete_laplace"},
        lambda held: replace(held, epsilon=held.epsilon * 0.999, pure_epsilon=0.999),
    ),
}  # fmt: skip


LONG = ("a rho", "an epsilon beside a rho")
"""Claims that are looked at more and more finely before they are refused."""


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.audit) if one in LONG else one for one in CLAIMS]
)
def test_false_composed_claims_are_found(name: str, tmp_path: Path) -> None:
    more, lowered = CLAIMS[name]
    stage = AuditedRelease.of(read_release(tmp_path, ASKED, IDS, **more))
    told = GroupReport()
    assert check_composed_claims(stage, math.inf, told) == ([], [])
    assert told.tried
    assert all(": proved" in words for words in told.tried)
    plan = replace(stage.plan, guarantee=lowered(stage.plan.guarantee))
    ((found, *_), _) = check_composed_claims(replace(stage, plan=plan), math.inf, GroupReport())
    assert found.check == "composition"


def test_values_are_tried_in_other_storage_types() -> None:
    region = CategoryColumn(type="category", values=("01", "02", "10"))
    values = ["01", "10", None, "", "undeclared", " 2 "]
    held = [1, 10, None, None, OTHER_CODE, 2]
    for way, kind in (
        (FLOATS, pa.float64()),
        (DECIMALS, pa.decimal128(38, 6)),
        (PACKED, pa.int32()),
    ):
        column = stored_array(values, "region", region, way)
        assert (column.type, [v if v is None else int(v) for v in column.to_pylist()]) == (
            kind,
            held,
        )
    assert stored_array(values, "region", region, AS_DECLARED).to_pylist() == values
    words = CategoryColumn(type="category", values=("a", "1"))
    assert stored_array(["a"], "region", words, FLOATS).type == pa.string()
    number = IntegerColumn(type="integer")
    assert stored_array([2**60 + 1], "id", number, FLOAT_IDS, is_id=True).type == pa.float64()
    assert stored_array([1], "id", number, FLOATS, is_id=True).type == pa.int64()
