"""Consistent tables with every way to publish, and runs that end in the middle."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease
from dprelease.errors import DpReleaseError, Findings, State
from dprelease.exact import duckdb
from dprelease.exact.results.true_table import ExactTable
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.families import Batch, NoisedTable
from dprelease.query.resolve import Query
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.system.prefetch import Spread
from tests.exact.spark import local_spark
from tests.processes import ended
from tests.release.area_family import publish_family, read_family, write_family
from tests.replay import Keyed

ASKED = {"consistent": "{non_negative: true, publish: {records: true}}"}
IDENTITY = "office/people"
VALUES = Consistent.values


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.parquet"))
        if path.is_file()
    }


WAYS: dict[str, dict[str, Any]] = {
    "noise": ASKED,
    "invariants": {
        "budget": "epsilon: 1, delta: 1e-6, neighbours: replace",
        "consistent": "{non_negative: true, invariants: [{level: town}], "
        "acknowledge: invariants are published exactly}",
    },
}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("way", WAYS)
def test_frames_and_files_give_the_same_release(way: str, tmp_path: Path) -> None:
    one = publish_family(tmp_path / "file", **WAYS[way])
    declaration = read_family(tmp_path / "frame", **WAYS[way])
    frame = pd.read_csv(tmp_path / "frame/people.csv")
    (tmp_path / "frame/people.csv").unlink()
    other = run(declaration, bits=Keyed("family"), frames={"people": frame})
    assert files(one) == files(other)
    assert dprelease.verify(other).ok


class EngineWithOwnNoise(duckdb.Engine):
    """An engine that adds noise where the cells are."""

    def noised(self, query: Query, noise: Any) -> Iterator[dict[str, Any]]:
        exact: ExactTable = self.run(query)
        return iter([noise(exact)])


def test_noise_drawn_by_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "Engine", EngineWithOwnNoise)
    folder = run(read_family(tmp_path, **ASKED))
    assert dprelease.verify(folder).ok


@pytest.mark.audit
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
@pytest.mark.parametrize("way", WAYS)
def test_spark_publishes_the_same_files(way: str, tmp_path: Path) -> None:
    one = publish_family(tmp_path / "one", rows=100, **WAYS[way])
    with local_spark():
        other = publish_family(tmp_path / "other", rows=100, more="engine: spark\n", **WAYS[way])
    assert files(one) == files(other)
    assert dprelease.verify(other).ok


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "parties": ({"more": "federated: {parties: 3}\n", "mechanism": "auto"}, "shares of integers"),
    "private keys": (
        {"asked": "group_by: [sex]\n    private_keys: true"}, "keys",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_modes_without_consistent_tables_are_refused(what: str, tmp_path: Path) -> None:
    asked, words = REFUSED[what]
    with pytest.raises(DpReleaseError) as caught:
        run(with_party(read_family(tmp_path, **asked), 1 if what == "parties" else None))
    assert words in str(caught.value), str(caught.value)
    assert not (tmp_path / "out").exists()


def test_consistent_tables_in_local_mode_are_refused(tmp_path: Path) -> None:
    path = write_family(tmp_path)
    path.write_text(path.read_text().replace("queries:", "mode: local\nqueries:"))
    with pytest.raises(DpReleaseError) as caught:
        dprelease.read_release(path)
    assert "`records` and no `queries`" in str(caught.value)


def test_plan_does_not_open_sources(tmp_path: Path) -> None:
    declaration = read_family(tmp_path, **ASKED)
    (tmp_path / "people.csv").unlink()
    release = dprelease.Release(declaration)
    assert len(release.plan().columns) == 9


def open_ledger(folder: Path) -> Ledger:
    """Return a ledger with ten times the budget of the release in the same folder."""
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.open_account(
        Account(IDENTITY, "add_remove", "each row", Fraction(10), Fraction(1, 10**4), None)
    )
    return ledger


def fail_after(
    self: Consistent, noised: Sequence[NoisedTable], after: int
) -> Iterator[tuple[str, Batch]]:
    for i, batch in enumerate(VALUES(self, noised)):
        if i == after:
            raise MemoryError
        yield batch


@pytest.mark.share(0.4)
@pytest.mark.parametrize("after", [0, 1, 9, 17])
def test_run_that_fails_between_tables_leaves_nothing(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever files are open; the budget is spent, because rows were read."""
    declaration = read_family(tmp_path, more="ledger: ledger.sqlite\n", **ASKED)
    ledger = open_ledger(tmp_path)
    monkeypatch.setattr(
        Consistent, "values", lambda self, noised, _: fail_after(self, noised, after)
    )
    with pytest.raises(MemoryError) as caught:
        run(declaration, bits=Keyed("family"))
    assert State.CHARGED.value in " ".join(caught.value.__notes__)
    assert list((tmp_path / "out").iterdir()) == []
    assert float(ledger.state().spent(IDENTITY)) > 0


def kill_after_two_batches(
    self: Consistent, noised: Sequence[NoisedTable], spread: Spread
) -> Iterator[tuple[str, Batch]]:
    batches = VALUES(self, noised, spread)
    yield next(batches)
    yield next(batches)
    os.kill(os.getpid(), signal.SIGKILL)


def test_run_killed_between_tables_is_not_readable(tmp_path: Path) -> None:
    """The next run removes what was left, and is complete."""
    asked = {**ASKED, "more": "ledger: ledger.sqlite\n"}
    declaration = read_family(tmp_path, **asked)
    open_ledger(tmp_path)
    child = os.fork()
    if child == 0:
        Consistent.values = kill_after_two_batches  # type: ignore[method-assign,assignment]
        try:
            run(declaration, bits=Keyed("family"))
        finally:
            os._exit(3)
    assert ended(child) == -signal.SIGKILL
    assert not (tmp_path / "out/pop").exists()
    folder = run(declaration, bits=Keyed("family"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["pop"]
    assert dprelease.verify(folder, ledger=tmp_path / "ledger.sqlite").ok


def test_errors_name_files_and_lines(tmp_path: Path) -> None:
    with pytest.raises(Findings) as caught:
        dprelease.Release(
            read_family(tmp_path, columns="{m: {variance: pay}, d: {count_distinct: age}}")
        ).plan()
    assert all(one.place.file == "release.yaml" and one.place.line for one in caught.value.errors)
