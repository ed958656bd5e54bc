"""Run the release on both sides of a pair with the same random bits, and compare the output.

The two runs are called twins. Twins are silent if no exact integer differs between the two sides;
then the whole output of both runs must be equal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.auditing.changes import changes_of
from dprelease.auditing.exact_pairs import measure_pair
from dprelease.auditing.neighbours.counting_rows import QueryGroup
from dprelease.auditing.neighbours.situations import NO_ROWS, Situation
from dprelease.auditing.neighbours.stacks import IDS_PER_PAIR, NO_ID, situation_pair
from dprelease.auditing.neighbours.stored_values import AS_DECLARED, REVERSED, TEXTS
from dprelease.auditing.pairs import Pair, Tables
from dprelease.auditing.stage import AuditedRelease, EngineFailure
from dprelease.auditing.whole_runs.replayed_run import (
    RunOutput,
    failed_run_finding,
    refuse_failed_runs,
    run_release,
)
from dprelease.documents.audit_record import AuditFinding, Twins
from dprelease.documents.encoding import NAME
from dprelease.schema.source_types.source import Source
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


def allowed_differences(audited: AuditedRelease) -> list[str]:
    """Return sentences on the differences between twins that are allowed, and why."""
    private, choices = _has_private_keys_and_choices(audited)
    return [EXCEPTED_ALWAYS, *[EXCEPTED_KEYS] * private, *[EXCEPTED_CHOICES] * choices]


def _has_private_keys_and_choices(audited: AuditedRelease) -> tuple[bool, bool]:
    """Return whether the release has non-public keys, and whether it has choices."""
    private = any(query.private is not None for query in audited.queries)
    choices = any(m.is_choice for query in audited.queries for m in query.measurements)
    return private, choices


def twin_differences(
    audited: AuditedRelease, one: RunOutput, other: RunOutput, *, silent: bool
) -> Iterator[str]:
    """Yield descriptions of forbidden differences between twins, which contain no values.

    The files of silent twins must have equal bytes.
    """
    if (one.exit_code, one.message) != (other.exit_code, other.message):
        yield "the exit code or the message of the run"
        return
    if one.messages != other.messages:
        yield "what the run says, or in which order"
    if one.drawn_words != other.drawn_words and (
        silent or not any(_has_private_keys_and_choices(audited))
    ):
        yield "how many random bits are drawn"
    names = [_relative_names(run.place) for run in (one, other)]
    if names[0] != names[1]:
        yield "the names of the files"
        return
    if one.failure is None:
        yield from _file_differences(audited, one, other, names[0], silent=silent)


def _file_differences(
    audited: AuditedRelease, one: RunOutput, other: RunOutput, names: Sequence[str], *, silent: bool
) -> Iterator[str]:
    """Yield texts on differences between the files of two runs that noise does not explain."""
    if silent:
        for name in names:
            sides = [run.place / name for run in (one, other)]
            if sides[0].is_file() and sides[0].read_bytes() != sides[1].read_bytes():
                yield f"the file '{name}', though the exact integers are the same"
        return
    yield from _manifest_differences(audited, one.folder, other.folder)
    for name in names:
        if name.endswith(formats.table_file_name("")):
            yield from _table_differences(audited, one.place / name, other.place / name, name)


def _relative_names(place: Path) -> list[str]:
    """Return the names of all files and folders in the folder of a run, in sorted order."""
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


def _manifest_differences(audited: AuditedRelease, one: Path, other: Path) -> Iterator[str]:
    """Yield the paths of values in which two manifests differ, other than noisy values."""
    records = [
        _comparable_manifest(audited, json.loads((folder / NAME).read_bytes()))
        for folder in (one, other)
    ]
    for path in differences(records[0], records[1], "manifest"):
        yield f"`{path}`"


def _comparable_manifest(audited: AuditedRelease, record: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without digests, noisy values, and values computed from noisy values."""
    public = {query.name for query in audited.queries if query.private is None}
    public |= {part.name for part in audited.records}
    record.pop("digest")
    for file in [*record["files"], *(f for e in record.get("exports", ()) for f in e["files"])]:
        file.pop("sha256")
        if "rows" in file and file.get("query") not in public:
            file.pop("rows")
    for family in record.get("families", ()):
        family.pop("record")
    return record


def _table_differences(audited: AuditedRelease, one: Path, other: Path, name: str) -> Iterator[str]:
    """Yield texts on differences between the rows, columns and keys of two published tables."""
    sides = [formats.PUBLISHED_FORMAT.read(path) for path in (one, other)]
    if not sides[0].schema.equals(sides[1].schema, check_metadata=True):
        yield f"columns, types or notes of '{name}'"
        return
    query = {query.name: query for query in audited.queries}.get(Path(name).stem)
    records = any(part.name == Path(name).stem for part in audited.records)
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


OTHER_UNITS = IDS_PER_PAIR - 4
"""The number of other units in the tables of a whole run."""

FRAMES, PARQUET, CSV = "frames", "Parquet", "CSV"


@dataclass(frozen=True)
class Twin:
    """A pair of tables, and the form in which the runs read the tables.

    `silent` says whether all exact integers are equal on the two sides.
    """

    pair: Pair
    source_form: str = FRAMES
    silent: bool = False


def run_twins(
    audited: AuditedRelease,
    groups: Sequence[QueryGroup],
    worst: Sequence[tuple[QueryGroup, Situation]],
    folder: Path,
    until: float,
) -> tuple[Twins, list[AuditFinding], list[str]]:
    """Run the release on twins; return the results, the findings, and texts on left-out runs.

    `worst` has the situations with the largest changes. `folder` is a folder for the files of the
    runs. `until` is the deadline, by `time.monotonic()`, after which no further twins are run.

    Raises OutputError: DP-AUDIT-008 if the release can't be run.
    """
    findings: list[AuditFinding] = []
    left_out: list[str] = []
    runs, silent, files = 0, 0, 0
    for number, twin in enumerate(_twins_to_run(audited, groups, worst)):
        if runs and time.monotonic() > until:
            left_out.append(f"twin runs after the first {runs}")
            break
        place = folder / f"twin-{number}"
        sides = []
        for name, tables in zip(("one", "other"), twin.pair.sides, strict=True):
            sources = _write_sources(tables, twin.source_form, place / f"source-{name}")
            sides.append(
                run_release(audited, tables, place / name, f"twin {number}", files=sources)
            )
        refuse_failed_runs(*sides)
        runs, silent = runs + 2, silent + 2 * twin.silent
        findings += [
            failed_run_finding(
                "twins", f"{what} is left, by {twin.source_form}", twin.pair.description
            )
            for what in dict.fromkeys(what for side in sides for what in side.other_files)
        ]
        if failed := common_failure(sides):
            findings.append(
                failed_run_finding(
                    "twins", f"{failed} on both, by {twin.source_form}", twin.pair.description
                )
            )
        files += sum(1 for path in sides[0].place.rglob("*") if path.is_file())
        findings += [
            AuditFinding(
                check="twins", query="", column="", claimed="the same on neighbours",
                seen=f"{what} differs, by {twin.source_form}", pair=twin.pair.description,
            )
            for what in twin_differences(audited, sides[0], sides[1], silent=twin.silent)
        ]  # fmt: skip
    report = Twins(
        runs=runs, silent=silent, files=files, compared=COMPARED,
        excepted=allowed_differences(audited),
        holds=not findings,
    )  # fmt: skip
    return report, findings, left_out


def common_failure(sides: Sequence[RunOutput]) -> str:
    """Return the error that ended all runs; empty for different errors, or if a run read no row."""
    codes = {run.code for run in sides}
    refused = any(run.failure is not None and run.is_refused for run in sides)
    return codes.pop() if len(codes) == 1 and not refused else ""


def _twins_to_run(
    audited: AuditedRelease,
    groups: Sequence[QueryGroup],
    worst: Sequence[tuple[QueryGroup, Situation]],
) -> Iterator[Twin]:
    """Yield twins with units that no query counts, and then with the units of largest changes.

    The first of these units is also run without other units, and with all rows in another order.
    """
    base: dict[str, pa.Table] = {}
    for group in groups:
        base |= {**group.public}
        base |= situation_pair(
            group.tables, _add_other_units(group, Situation("", NO_ROWS)), {}
        ).other
    for group in groups:
        if not group.queries:  # tables of single records have neighbours by replacement alone
            continue
        for storages in ((AS_DECLARED, AS_DECLARED), (TEXTS, AS_DECLARED)):
            nobody = _add_other_units(
                group, Situation("a unit that counts nowhere", _uncounted_rows(group))
            )
            pair = _pair_of_all_tables(group, nobody, base, storages)
            silent = _is_silent(audited, group, pair)
            if silent is not False:
                yield Twin(pair, silent=bool(silent))
    for group, situation in worst[:1]:
        # The order in which an engine returns records or keys determines the bits of their noise.
        silent = bool(group.queries) and all(query.private is None for query in group.queries)
        yield Twin(
            _pair_in_another_order(group, _add_other_units(group, situation), base), silent=silent
        )
        yield Twin(_pair_of_all_tables(group, replace(situation, other_units=()), base))
    for source_form, (group, situation) in zip((FRAMES, PARQUET, CSV), worst, strict=False):
        yield Twin(
            _pair_of_all_tables(group, _add_other_units(group, situation), base), source_form
        )


def _pair_in_another_order(
    group: QueryGroup, situation: Situation, base: Mapping[str, pa.Table]
) -> Pair:
    """Return a pair of the same tables, with all rows in another order on the second side."""
    pair = _pair_of_all_tables(group, replace(situation, other=situation.one), base)
    other = _pair_of_all_tables(group, situation, base, (REVERSED, AS_DECLARED)).one
    return replace(pair, description=f"{situation.description}, {REVERSED}", other=other)


def _pair_of_all_tables(
    group: QueryGroup,
    situation: Situation,
    base: Mapping[str, pa.Table],
    storages: tuple[str, str] = (AS_DECLARED, AS_DECLARED),
) -> Pair:
    pair = situation_pair(group.tables, situation, group.public, storages)
    return replace(pair, one={**base, **pair.one}, other={**base, **pair.other})


def _add_other_units(group: QueryGroup, situation: Situation) -> Situation:
    """Return the situation with many other units, which have usual values."""
    usual = [
        {
            table: [{name: _usual_value(group, table, name, value) for name, value in row.items()}]
            for table, (row,) in unit.items()
        }
        for unit in group.invent_units(OTHER_UNITS)
    ]
    return replace(situation, other_units=tuple(usual))


def _usual_value(group: QueryGroup, table: str, column: str, value: object) -> object:
    """Return a value if it is usual in its column, and otherwise the first usual value."""
    tried = group.values_to_try(table, column)
    return value if value in tried.usual else tried.usual[0]


def _uncounted_rows(group: QueryGroup) -> dict[str, list[dict[str, object]]]:
    """Return rows without an id and without any value, which no query counts."""
    return {name: [{NO_ID: True}, {NO_ID: True}] for name in group.tables}


def _is_silent(audited: AuditedRelease, group: QueryGroup, pair: Pair) -> bool | None:
    """Return whether all exact integers are equal on both sides; None if the engine fails.

    The runs report a failure of the engine.
    """
    try:
        one, other = measure_pair(audited, pair, group.queries)
    except EngineFailure:
        return None
    columns_by_name = {(c.query.name, c.measurement.name): c for c in audited.plan.columns}
    return not any(
        changes_of(
            columns_by_name[name].measurement.aggregate,
            columns_by_name[name].mechanism,
            one[name],
            other[name],
        )
        for name in one
    )


def _write_sources(tables: Tables, source_form: str, folder: Path) -> dict[str, Source] | None:
    """Write tables as files, and return the sources of the files; None if runs read frames."""
    if source_form == FRAMES:
        return None
    folder.mkdir(parents=True)
    sources = {}
    for name, table in tables.items():
        path = folder / f"{name}.{source_form.lower()}"
        if source_form == CSV:
            _write_csv(table, path)
        else:
            _write_parquet(table, path)
        sources[name] = Source.model_validate({"path": str(path.absolute())})
    return sources


def _write_parquet(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path.absolute())


def _write_csv(table: pa.Table, path: Path) -> None:
    """Write a table as a CSV file, with timestamps in whole seconds."""
    import pyarrow as pa
    from pyarrow import csv

    texts = {
        name: table[name].cast(pa.string())
        if not pa.types.is_timestamp(table.schema.field(name).type)
        else table[name].cast(pa.timestamp("s")).cast(pa.string())
        for name in table.column_names
    }
    csv.write_csv(pa.table(texts), path)
