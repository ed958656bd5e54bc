"""Run the release on both sides of a pair with the same random bits, and compare the output.

The two runs are called twins. If no exact integer differs between the sides (silent twins), all
output must be equal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.auditing.changes import changes_of
from dprelease.auditing.exact_pairs import found_of_pair
from dprelease.auditing.neighbours.counting_rows import Group
from dprelease.auditing.neighbours.situations import NOBODY, Situation
from dprelease.auditing.neighbours.stacks import MEMBERS, NO_ID, situation_pair
from dprelease.auditing.neighbours.stored_values import AS_DECLARED, TEXTS, TURNED
from dprelease.auditing.pairs import Pair, Tables
from dprelease.auditing.stage import EngineFailure, Stage
from dprelease.auditing.whole_runs.replayed_run import (
    RunOutput,
    failed_run_finding,
    refuse_failed_runs,
    run_release,
)
from dprelease.documents.audits.audit_record import AuditFinding, Twins
from dprelease.documents.encoding import NAME
from dprelease.schema.table import Source
from dprelease.tables import formats
from dprelease.verification.manifest_comparison import differences

if TYPE_CHECKING:
    import pyarrow as pa


COMPARED = [
    "names of files and folders",
    "types, names and order of columns, and what files say of themselves",
    "numbers and order of rows, and keys that are public",
    "the manifest but for digests",
    "messages, exit codes and steps",
    "how many random bits were drawn",
]
EXCEPTED_ALWAYS = (
    "noised values, digests of files that hold them, and what is computed of them alone"
)
EXCEPTED_KEYS = (
    "keys that are not public, their number and the bits drawn for them: which ones are selected "
    "is noised"
)
EXCEPTED_CHOICES = (
    "how many bits the choice of a candidate takes: it follows the scores, shows in the time of a "
    "run alone, and that is unprotected"
)


def allowed_differences(stage: Stage) -> list[str]:
    """Return sentences about what may differ between twins, and why."""
    private, choices = _kinds(stage)
    return [EXCEPTED_ALWAYS, *[EXCEPTED_KEYS] * private, *[EXCEPTED_CHOICES] * choices]


def _kinds(stage: Stage) -> tuple[bool, bool]:
    """Return whether there are non-public keys, and whether there are choices."""
    private = any(query.private is not None for query in stage.queries)
    choices = any(m.is_choice for query in stage.queries for m in query.measurements)
    return private, choices


def twin_differences(
    stage: Stage, one: RunOutput, other: RunOutput, *, silent: bool
) -> Iterator[str]:
    """Yield descriptions of forbidden differences; silent twins must be equal to the byte.

    The descriptions contain no values.
    """
    if (one.exit_code, one.message) != (other.exit_code, other.message):
        yield "the exit code or the message of the run"
        return
    if one.messages != other.messages:
        yield "what the run says, or in which order"
    if one.drawn != other.drawn and (silent or not any(_kinds(stage))):
        yield "how many random bits are drawn"
    names = [_relative_names(run_release.place) for run_release in (one, other)]
    if names[0] != names[1]:
        yield "the names of the files"
        return
    if one.failure is None:
        yield from _file_differences(stage, one, other, names[0], silent=silent)


def _file_differences(
    stage: Stage, one: RunOutput, other: RunOutput, names: Sequence[str], *, silent: bool
) -> Iterator[str]:
    if silent:
        for name in names:
            sides = [run_release.place / name for run_release in (one, other)]
            if sides[0].is_file() and sides[0].read_bytes() != sides[1].read_bytes():
                yield f"the file '{name}', though the exact integers are the same"
        return
    yield from _manifest_differences(stage, one.folder, other.folder)
    for name in names:
        if name.endswith(formats.file_of("")):
            yield from _table_differences(stage, one.place / name, other.place / name, name)


def _relative_names(place: Path) -> list[str]:
    """Return the names of all files and folders of a run, including those next to its folder."""
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


def _manifest_differences(stage: Stage, one: Path, other: Path) -> Iterator[str]:
    records = [
        _without_values(stage, json.loads((folder / NAME).read_bytes())) for folder in (one, other)
    ]
    for path in differences(records[0], records[1], "manifest"):
        yield f"`{path}`"


def _without_values(stage: Stage, record: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without digests, noisy values, and values computed from noisy values."""
    public = {query.name for query in stage.queries if query.private is None}
    public |= {part.name for part in stage.records}
    record.pop("digest")
    for file in [*record["files"], *(f for e in record.get("exports", ()) for f in e["files"])]:
        file.pop("sha256")
        if "rows" in file and file.get("query") not in public:
            file.pop("rows")
    for family in record.get("families", ()):
        family.pop("record")
    return record


def _table_differences(stage: Stage, one: Path, other: Path, name: str) -> Iterator[str]:
    sides = [formats.PUBLISHED.read(path) for path in (one, other)]
    if not sides[0].schema.equals(sides[1].schema, check_metadata=True):
        yield f"columns, types or notes of '{name}'"
        return
    query = {query.name: query for query in stage.queries}.get(Path(name).stem)
    records = any(part.name == Path(name).stem for part in stage.records)
    if not records and (query is None or query.private is not None):
        return
    if sides[0].num_rows != sides[1].num_rows:
        yield f"the number of rows of '{name}'"
        return
    if query is None:
        return
    keys = [key.column for key in query.keys.keys]
    if not sides[0].select(keys).equals(sides[1].select(keys)):
        yield f"the keys of '{name}', or their order"


OTHERS = MEMBERS - 4
"""The number of other units in a whole run."""

FRAMES, PARQUET, CSV = "frames", "Parquet", "CSV"


@dataclass(frozen=True)
class Twin:
    """A pair of tables, and the form in which a run reads them.

    `silent` is whether no exact integer differs between the two sides.
    """

    pair: Pair
    by: str = FRAMES
    silent: bool = False


def twins(
    stage: Stage,
    groups: Sequence[Group],
    worst: Sequence[tuple[Group, Situation]],
    folder: Path,
    until: float,
) -> tuple[Twins, list[AuditFinding], list[str]]:
    """Run the release on twins; return the results, the findings, and texts on what was left out.

    Raises
    ------
    OutputError
        DP-AUDIT-008 if the release can't be run.
    """
    findings: list[AuditFinding] = []
    left_out: list[str] = []
    runs, silent, files = 0, 0, 0
    for number, twin in enumerate(_pairs_of_twins(stage, groups, worst)):
        if runs and time.monotonic() > until:
            left_out.append(f"twin runs after the first {runs}")
            break
        place = folder / f"twin-{number}"
        sides = []
        for name, tables in zip(("one", "other"), twin.pair.sides, strict=True):
            sources = _write_sources(tables, twin.by, place / f"source-{name}")
            sides.append(run_release(stage, tables, place / name, f"twin {number}", files=sources))
        refuse_failed_runs(*sides)
        runs, silent = runs + 2, silent + 2 * twin.silent
        findings += [
            failed_run_finding("twins", f"{what} is left, by {twin.by}", twin.pair.description)
            for what in dict.fromkeys(what for side in sides for what in side.other_files)
        ]
        if failed := common_failure(sides):
            findings.append(
                failed_run_finding(
                    "twins", f"{failed} on both, by {twin.by}", twin.pair.description
                )
            )
        files += sum(1 for path in sides[0].place.rglob("*") if path.is_file())
        findings += [
            AuditFinding(
                check="twins", query="", column="", claimed="the same on neighbours",
                seen=f"{what} differs, by {twin.by}", pair=twin.pair.description,
            )
            for what in twin_differences(stage, sides[0], sides[1], silent=twin.silent)
        ]  # fmt: skip
    report = Twins(
        runs=runs, silent=silent, files=files, compared=COMPARED,
        excepted=allowed_differences(stage),
        holds=not findings,
    )  # fmt: skip
    return report, findings, left_out


def common_failure(sides: Sequence[RunOutput]) -> str:
    """Return the error that ended all runs; empty if they differ, or if one read no row."""
    codes = {run.code for run in sides}
    refused = any(run.failure is not None and run.is_refused for run in sides)
    return codes.pop() if len(codes) == 1 and not refused else ""


def _pairs_of_twins(
    stage: Stage, groups: Sequence[Group], worst: Sequence[tuple[Group, Situation]]
) -> Iterator[Twin]:
    """Yield twins: first units that count nowhere, then units with the largest changes.

    The first unit with the largest change is also run without other units, and with all rows in
    another order.
    """
    base: dict[str, pa.Table] = {}
    for group in groups:
        base |= {**group.public}
        base |= situation_pair(group.tables, _add_crowd(group, Situation("", NOBODY)), {}).other
    for group in groups:
        if not group.queries:  # single records: a table with one more record is no neighbour
            continue
        for storages in ((AS_DECLARED, AS_DECLARED), (TEXTS, AS_DECLARED)):
            nobody = _add_crowd(
                group, Situation("a unit that counts nowhere", _uncounted_rows(group))
            )
            pair = _pair_of_all_tables(group, nobody, base, storages)
            silent = _is_silent(stage, group, pair)
            if silent is not False:
                yield Twin(pair, silent=bool(silent))
    for group, situation in worst[:1]:
        # The noise of single records and of non-public keys depends on the order of the engine.
        silent = bool(group.queries) and all(query.private is None for query in group.queries)
        yield Twin(_reorder_pair(group, _add_crowd(group, situation), base), silent=silent)
        yield Twin(_pair_of_all_tables(group, replace(situation, crowd=()), base))
    for by, (group, situation) in zip((FRAMES, PARQUET, CSV), worst, strict=False):
        yield Twin(_pair_of_all_tables(group, _add_crowd(group, situation), base), by)


def _reorder_pair(group: Group, situation: Situation, base: Mapping[str, pa.Table]) -> Pair:
    """Return a pair of the same tables, with all rows in another order on the second side."""
    pair = _pair_of_all_tables(group, replace(situation, other=situation.one), base)
    other = _pair_of_all_tables(group, situation, base, (TURNED, AS_DECLARED)).one
    return replace(pair, description=f"{situation.description}, {TURNED}", other=other)


def _pair_of_all_tables(
    group: Group,
    situation: Situation,
    base: Mapping[str, pa.Table],
    storages: tuple[str, str] = (AS_DECLARED, AS_DECLARED),
) -> Pair:
    """Return a pair with all tables of the release."""
    pair = situation_pair(group.tables, situation, group.public, storages)
    return replace(pair, one={**base, **pair.one}, other={**base, **pair.other})


def _add_crowd(group: Group, situation: Situation) -> Situation:
    """Return a situation with as many other units as a pair has ids for, with usual values."""
    usual = [
        {
            table: [{name: _usual_value(group, table, name, value) for name, value in row.items()}]
            for table, (row,) in unit.items()
        }
        for unit in group.invent_units(OTHERS)
    ]
    return replace(situation, crowd=tuple(usual))


def _usual_value(group: Group, table: str, column: str, value: object) -> object:
    tried = group.extremes(table, column)
    return value if value in tried.usual else tried.usual[0]


def _uncounted_rows(group: Group) -> dict[str, list[dict[str, object]]]:
    """Return rows that no query counts: without an id, or without any value."""
    return {name: [{NO_ID: True}, {NO_ID: True}] for name in group.tables}


def _is_silent(stage: Stage, group: Group, pair: Pair) -> bool | None:
    """Return whether no exact integer differs; None if the engine fails, which the runs report."""
    try:
        one, other = found_of_pair(stage, pair, group.queries)
    except EngineFailure:
        return None
    columns_by_name = {(c.query.name, c.measurement.name): c for c in stage.plan.columns}
    return not any(
        changes_of(
            columns_by_name[name].measurement.aggregate,
            columns_by_name[name].mechanism,
            one[name],
            other[name],
        )
        for name in one
    )


def _write_sources(tables: Tables, by: str, folder: Path) -> dict[str, Source] | None:
    """Write tables as files, and return their sources; None for frames."""
    if by == FRAMES:
        return None
    folder.mkdir(parents=True)
    sources = {}
    for name, table in tables.items():
        path = folder / f"{name}.{by.lower()}"
        if by == CSV:
            _write_csv(table, path)
        else:
            _write_parquet(table, path)
        sources[name] = Source.model_validate({"path": str(path.absolute())})
    return sources


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path.absolute())


def _write_csv(table: pa.Table, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    texts = {
        name: table[name].cast(pa.string())
        if not pa.types.is_timestamp(table.schema.field(name).type)
        else table[name].cast(pa.timestamp("s")).cast(pa.string())
        for name in table.column_names
    }
    csv.write_csv(pa.table(texts), path)
