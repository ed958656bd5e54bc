"""Searches for a release that breaks a promise, and makes it as small as it can."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import hypothesis
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings

from dprelease.auditing import sensitivities
from dprelease.auditing.neighbours.counting_rows import QueryGroup
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stacks import situation_pair
from dprelease.auditing.neighbours.stored_values import AS_DECLARED
from dprelease.auditing.pairs import Tables
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.sensitivities import compare_pairs, query_groups
from tests.fuzzing.checks import (
    Broken,
    Opening,
    Refused,
    check,
    moved_as_claimed,
    stage_of,
    tables,
    write_tables,
)
from tests.fuzzing.releases import Case, cases

ROUND = 40
"""Releases that are drawn from one seed."""

FEW = {"MOST_SITUATIONS": 60, "RANDOM_SITUATIONS": 30, "SEPARATE_PAIRS": 1}
"""Of an audit's own limits: many releases, each with the units that move most, and some others."""

WHY = "why.txt"
AGAIN = "python -m tests.fuzzing again"


def limits(case: Case) -> dict[str, object]:
    """Return an audit's limits; of the ways to store columns it tries the declared one and another."""
    ways = tuple(dict.fromkeys((AS_DECLARED, *case.ways)))
    return {**FEW, "STORAGES": ways, "EQUAL_STORAGES": case.ways[:1]}


@dataclass
class Search:
    """What is found until a time, in a folder: one for each promise that is broken."""

    folder: Path
    end: float = math.inf
    others: Sequence[Opening] = ()
    tried: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    broken: dict[str, Path] = field(default_factory=dict)

    def one(self, case: Case) -> None:
        """Check a release; raise its failure, which is then in the folder."""
        if time.monotonic() > self.end and not self.broken:
            return
        with TemporaryDirectory() as name:
            folder = Path(name)
            try:
                attempt(case, folder, self.others)
            except Refused as refusal:
                self.refused[str(refusal)] += 1
                return
            except Exception as error:
                self._keep(folder, error)
                raise
        self.tried += 1

    def _keep(self, folder: Path, error: Exception) -> None:
        name = kind_of(error)
        kept = self.broken[name] = self.folder / name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        (kept / WHY).write_text(f"{type(error).__name__}: {error}\n\n{AGAIN} {kept}\n")


def kind_of(error: Exception) -> str:
    """Return a name for the failure, equal for releases with the same failure."""
    words = str(error).partition(":")[0] if isinstance(error, Broken) else type(error).__name__
    return "".join(c if c.isalnum() else "-" for c in words).lower()


def attempt(case: Case, folder: Path, others: Sequence[Opening] = ()) -> None:
    """Try a release on the neighbours that move it most, and one pair with everything."""
    case.write(folder)
    stage = stage_of(folder)
    with mock.patch.multiple(sensitivities, **limits(case)):
        groups = query_groups(stage, stage.queries, ReplayedBits("fuzzing"))
        results = [compare_pairs(group, math.inf) for group in groups]
    for done in results:
        for name, worst in done.worst.items():
            pair = None if worst.share.holds else done.pair(name)
            if pair is not None:
                write_tables(folder, _with_all_tables(groups, pair.sides))
                moved_as_claimed(stage, tables(folder))
                raise Broken(f"claims: {'.'.join(name)} moves farther among others than alone")
    done = results[case.pair % len(results)]
    situation = done.situations[case.pair % len(done.situations)]
    pair = situation_pair(done.group.tables, situation, done.group.public, case.ways)
    write_tables(folder, _with_all_tables(groups, pair.sides))
    check(folder, others)


def _with_all_tables(groups: Sequence[QueryGroup], sides: Sequence[Tables]) -> list[Tables]:
    """Return both sides with the tables that only other groups of queries read, without people."""
    found: dict[str, pa.Table] = {}
    for group in groups:
        found |= situation_pair(group.tables, Situation("", {}), group.public).one
    return [{**found, **side} for side in sides]


def search(found: Search, seed: int, examples: int = ROUND) -> None:
    """Try releases that are drawn from a seed; raise for one that breaks a promise, made small."""

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def trying(case: Case) -> None:
        found.one(case)

    try:
        trying()
    except Exception:
        for name, folder in found.broken.items():
            fewer_rows(folder, lambda error, name=name: kind_of(error) == name, found.others)
        raise


def fewer_rows(
    folder: Path, is_same: Callable[[Exception], bool], others: Sequence[Opening] = ()
) -> None:
    """Remove rows of both tables that the failure does not need."""
    held = list(tables(folder))
    if not all(held):
        return

    def fails(sides: Sequence[Tables]) -> bool:
        with TemporaryDirectory() as name:
            copy = Path(name, "copy")
            shutil.copytree(folder, copy)
            write_tables(copy, sides)
            try:
                check(copy, others)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
                return is_same(error)
        return False

    smaller = True
    while smaller:
        smaller = False
        for less in _less(held):
            if fails(less):
                held, smaller = less, True
                break
    write_tables(folder, held)


def _less(held: Sequence[Tables]) -> Iterator[list[Tables]]:
    """Yield both sides without one row, and without its twin where others have it on both sides."""
    for name in held[0]:
        sides = [side[name] for side in held]
        for less in _less_of_table(sides):
            yield [{**side, name: table} for side, table in zip(held, less, strict=True)]


def _less_of_table(held: Sequence[pa.Table]) -> Iterator[list[pa.Table]]:
    rows = [list(map(repr, table.to_pylist())) for table in held]
    for side in (0, 1):
        for i, row in enumerate(rows[side]):
            less = [*held]
            less[side] = _without(held[side], i)
            if row in rows[1 - side]:
                if side:
                    continue
                less[1] = _without(held[1], rows[1].index(row))
            yield less


def _without(table: pa.Table, at: int) -> pa.Table:
    return pa.concat_tables([table.slice(0, at), table.slice(at + 1)])


def search_for(seconds: float, folder: Path, first: int, others: Sequence[Opening] = ()) -> Search:
    """Search with one seed after the other for so many seconds; raises as `search`."""
    found = Search(folder, time.monotonic() + seconds, others)
    seed = first
    while time.monotonic() < found.end:
        search(found, seed)
        seed += 1
    return found
