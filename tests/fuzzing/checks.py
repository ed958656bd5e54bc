"""Promises of a release about two neighbouring tables, which are files in a folder.

Whatever is found is found in these files: so a failure is reproduced by its folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import yaml

from dprelease.auditing.changes import changes_of
from dprelease.auditing.claims import largest_share_of_claim
from dprelease.auditing.exact_pairs import measure_pair
from dprelease.auditing.pairs import Pair, Tables
from dprelease.auditing.stage import AuditedRelease
from dprelease.errors import DpReleaseError, State
from dprelease.exact.duckdb import Engine
from dprelease.planning.declaration_findings import single_errors
from dprelease.query.resolve import Query
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.exact.fake_spark import fake_spark_engine
from tests.exact.test_shared_scans import numbers
from tests.fuzzing.releases import RELEASE
from tests.replay import Keyed

SIDES = ("one", "other")
"""Names of the files of both tables."""

BY_TYPES = frozenset({"DP-DATA-004", "DP-DATA-005", "DP-DATA-015"})
"""What is refused by the types that a source has: of neighbours, either may have its own."""


class Broken(AssertionError):
    """A promise that does not hold."""


class Refused(Exception):
    """A release that is refused before anything is read, whatever its tables hold."""


Opening = Callable[[Query, Tables], AbstractContextManager[Any]]


def tables(folder: Path) -> tuple[Tables, Tables]:
    """Return the tables of both sides of a folder, by name."""
    one, other = (
        {name: pq.read_table(path) for name, path in files_of(folder, side)} for side in SIDES
    )
    return one, other


def files_of(folder: Path, side: str) -> list[tuple[str, Path]]:
    """Return the names of the tables of a side with their files."""
    return [
        (path.stem.partition("-")[2], path) for path in sorted(folder.glob(f"{side}-*.parquet"))
    ]


def write_tables(folder: Path, sides: Sequence[Tables]) -> None:
    """Write the tables of both sides."""
    for side, held in zip(SIDES, sides, strict=True):
        for name, table in held.items():
            pq.write_table(table, folder / f"{side}-{name}.parquet")


def stage_of(folder: Path) -> AuditedRelease:
    """Return the stage of a folder's release; raise Refused for one that can't be had."""
    try:
        return AuditedRelease.of(read_declaration(folder / RELEASE))
    except DpReleaseError as error:
        if getattr(error, "state", State.NOTHING) is State.NOTHING:
            raise Refused(single_errors(error)[0].code) from None
        raise


def check(folder: Path, others: Sequence[Opening] = ()) -> None:
    """Raise Broken unless a folder's release keeps all of its promises about both tables.

    `others`: engines beside those of this process, which have to find the same.
    """
    stage, sides = stage_of(folder), tables(folder)
    moved_as_claimed(stage, sides)
    for held in sides:
        found_alike(stage, held, others)
    twins(folder)


def moved_as_claimed(stage: AuditedRelease, sides: tuple[Tables, Tables]) -> None:
    """Compare the exact integers of both sides with the planned sensitivities."""
    pair = Pair("", *sides, "t")
    one, other = measure_pair(stage, pair, stage.queries)
    for column in stage.plan.columns:
        measurement, name = column.measurement, (column.query.name, column.measurement.name)
        changes = changes_of(measurement.aggregate, column.mechanism, one[name], other[name])
        near = largest_share_of_claim(changes.get(0, []), measurement.sensitivity)
        if not near.holds:
            raise Broken(f"claims: {'.'.join(name)} moves {near.ratio:.4g} times {near.by}")


def sources(query: Query, held: Tables) -> tuple[Any, ...]:
    """Return the table of a query and the table that it joins, each with its rows."""
    joined = None if query.join is None else query.join.declared
    other = None if joined is None else held[joined.table.name]
    return query.declared, held[query.declared.table.name], joined, other


@contextmanager
def _duckdb(query: Query, held: Tables) -> Iterator[Engine]:
    with Engine.open(*sources(query, held)) as engine:
        yield engine


@contextmanager
def _spark(query: Query, held: Tables) -> Iterator[Any]:
    with fake_spark_engine(*sources(query, held)) as (engine, _):
        yield engine


def found_alike(stage: AuditedRelease, held: Tables, others: Sequence[Opening] = ()) -> None:
    """Compare the vectors of each query alone with those of all queries together."""
    alone = _answers(_duckdb, stage.queries, held, together=False)
    for opening in (_duckdb, _spark, *others):
        found = _answers(opening, stage.queries, held, together=True)
        for name, wanted in alone.items():
            if found[name] != wanted:
                raise Broken(f"engines: {name} is another one for {opening.__name__.strip('_')}")


def _answers(
    opening: Opening, queries: Sequence[Query], held: Tables, *, together: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    by_tables: dict[str, list[Query]] = {}
    for query in queries:
        joined = "" if query.join is None else query.join.declared.table.name
        by_tables.setdefault(joined, []).append(query)
    for group in by_tables.values():
        with opening(group[0], held) as engine:
            public = [_with_keys(engine, query, found) for query in group]
            if together:
                engine.expect(public)
            for query in public:
                found[query.name] = numbers(engine.run(query), _vectors(query))
    return found


def _with_keys(engine: Any, query: Query, found: dict[str, Any]) -> Query:
    """Return a query over the keys that occur, where they are not public; note their units."""
    engine.compile(query)
    if query.private is None:
        return query
    units = engine.partitions(query)
    named = sorted(zip(units.names, units.units.tolist(), strict=True))
    found[f"{query.name}.keys"] = named
    return replace(query, keys=query.private.key_space_of(name for name, _ in named))


def _vectors(query: Query) -> Query:
    """Return a query without the selection of its keys, of which no table is made."""
    kept = tuple(m for m in query.measurements if not m.finds_keys)
    return replace(query, measurements=kept)


def twins(folder: Path) -> None:
    """Publish both tables with the same bits: only noisy results may differ."""
    with TemporaryDirectory() as name:
        runs = [_run(folder, Path(name, side), side) for side in SIDES]
    refusals = [run for run in runs if isinstance(run, str)]
    if refusals:
        if len(refusals) == 1 and refusals[0] not in BY_TYPES:
            raise Broken(f"twins: one of them is refused by {refusals[0]}")
        return
    one, other = runs
    for what in one:
        if one[what] != other[what]:
            raise Broken(f"twins: they differ in {what}")


def _run(folder: Path, work: Path, side: str) -> dict[str, Any] | str:
    """Return all of a release that may not depend on values; the code of a refusal."""
    work.mkdir()
    for file in folder.glob("*.yaml"):
        copyfile(file, work / file.name)
    for name, file in files_of(folder, side):
        copyfile(file, work / f"{name}.parquet")
    bits = Keyed("noise")
    try:
        out = run(read_declaration(work / RELEASE), bits=bits)
    except DpReleaseError as error:
        if error.state is not State.NOTHING:
            raise Broken(f"twins: {error.code} after rows were read") from None
        return error.code
    report = verify(out) if side == SIDES[0] else None  # that of the other is the same
    if report is not None and not report.ok:
        codes = ", ".join(sorted({finding.code for finding in report.findings}))
        raise Broken(f"verify: {codes}")
    return _equal_parts(out, bits.drawn)


def _equal_parts(out: Path, drawn: int) -> dict[str, Any]:
    """Return what both tables must share: files, manifest, types, keys and random bits."""
    record = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    private = {
        name for name, query in _declared_queries(record).items() if query.get("private_keys")
    }
    del record["digest"]
    for file in record["files"]:
        del file["sha256"]
        if file.get("query") in private:
            del file["rows"]
    files = sorted(path for path in out.rglob("*") if path.is_file())
    held = {str(path.relative_to(out)): path for path in files}
    read = {n: pq.read_table(p) for n, p in held.items() if p.suffix == ".parquet"}
    return {
        "files": list(held),
        "the manifest": record,
        "types": {
            name: str(table.schema.to_string(show_schema_metadata=True))
            for name, table in read.items()
        },
        "rows": {n: len(t) for n, t in read.items() if n.partition(".")[0] not in private},
        "bits drawn": None if private else drawn,
    }


def _declared_queries(record: dict[str, Any]) -> dict[str, Any]:
    """Return the queries of the declaration in a manifest."""
    declared = record["declaration"]
    return dict(yaml.safe_load(declared["texts"][declared["release"]])["queries"])
