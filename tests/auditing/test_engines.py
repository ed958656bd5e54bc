"""Audits of engines: shared parts start once, and a failing engine does not end the audit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import dprelease
from dprelease.auditing import sensitivities
from dprelease.documents.audit_record import Audit
from dprelease.exact import duckdb_factory
from dprelease.exact.duckdb import Engine
from dprelease.exact.duckdb_factory import DuckDBKind
from dprelease.exact.results.true_table import ExactTable
from dprelease.query.resolve import Query
from tests.auditing.build import IDS, ROWS, read_release

FEW = {"RANDOM_SITUATIONS": 12, "MOST_SITUATIONS": 40, "SEPARATE_PAIRS": 2}
ASKED: dict[str, Any] = {
    "q": {
        "from": "people", "group_by": ["sex"],
        "columns": {"n": {"count": "*"}, "gain": {"sum": "gain"}},
    }
}  # fmt: skip


def outcome(folder: Path, unit: dict[str, Any] = ROWS, **more: Any) -> Audit:
    read_release(folder, ASKED, unit, mechanism="discrete_laplace")
    with mock.patch.multiple(sensitivities, **FEW):
        return dprelease.audit(folder / "release.yaml", draws=False, **more)


@pytest.mark.audit
def test_engines_are_kept_alive_for_a_whole_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class SharedKind(DuckDBKind):
        def open(self, *words: Any) -> Any:
            told.append("opened")
            return super().open(*words)

        @contextmanager
        def keep_alive(self, _spec: Any) -> Iterator[None]:
            told.append("begun")
            yield
            told.append("ended")

    monkeypatch.setattr(duckdb_factory, "ENGINE", SharedKind())
    assert outcome(tmp_path).complete
    assert (told[0], told[-1], {*told[1:-1]}) == ("begun", "ended", {"opened"})


def test_outcome_lists_tested_and_untested_parts(tmp_path: Path) -> None:
    whole = outcome(tmp_path / "whole")
    assert (whole.complete, whole.left_out) == (True, [])
    assert any("stored as texts" in words for words in whole.tried)
    short = outcome(tmp_path / "short", time_limit=0.001)
    assert not short.complete
    assert any("stored as texts" in words for words in short.left_out)
    assert any("as whole tables" in words for words in short.left_out)
    assert not {*short.left_out} & {*short.tried}


def test_failing_engine_does_not_end_the_audit(tmp_path: Path) -> None:
    """Stacks, single pairs, twins and canaries each report it without its message."""

    def run(_engine: Engine, _query: Query) -> ExactTable:
        raise ArithmeticError("SECRET-4711")

    with mock.patch.object(Engine, "run", run):
        told = outcome(tmp_path)
    assert (told.holds, told.complete) == (False, False)
    assert {found.check for found in told.findings} == {"engine errors", "twins", "canaries"}
    assert all("ArithmeticError on both" in f.seen for f in told.findings if f.check[0] in "et")
    assert "SECRET" not in str(told)


@pytest.mark.audit
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
def test_whole_audit_starts_one_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds there what it finds here: the same pairs come as near to the same claims."""
    from dprelease.exact.spark.sessions import spark_session

    started: list[object] = []
    true = spark_session._start_application

    def new(*words: Any) -> Any:
        started.append(words)
        return true(*words)

    monkeypatch.setattr(spark_session, "_start_application", new)
    here = outcome(tmp_path / "here", IDS)
    there = outcome(tmp_path / "there", IDS, engine="spark")
    assert len(started) == 1
    assert (there.engine, there.complete, there.findings) == ("spark", True, [])
    near = [{(one.column, one.ratio) for one in told.sensitivities} for told in (here, there)]
    assert near[0] == near[1]
    assert (there.twins, there.canaries) == (here.twins, here.canaries)
