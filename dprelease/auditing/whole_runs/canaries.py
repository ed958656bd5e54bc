"""Plant unique values (canaries) in all columns, and search the whole output of runs for them.

The search covers files, which may be compressed or encoded, error messages, and printed texts.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.auditing.neighbours.counting_rows import QueryGroup
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stacks import situation_pair
from dprelease.auditing.pairs import Tables
from dprelease.auditing.stage import AuditedRelease
from dprelease.auditing.whole_runs.replayed_run import (
    RELEASE_FOLDER,
    RunOutput,
    failed_run_finding,
    refuse_failed_runs,
    run_release,
)
from dprelease.documents.audit_record import AuditFinding, Canaries
from dprelease.documents.release_metadata import metadata_of
from dprelease.errors import LedgerError, OutputError
from dprelease.exports.writer import aggregate_metadata
from dprelease.exports.writer import findings as export_findings
from dprelease.numerics.rounding import plain_text
from dprelease.planning.kinds import kind_of
from dprelease.query.resolve import Query
from dprelease.release.accounts import account_of, open_account
from dprelease.release.charging import charges_of
from dprelease.schema.columns import (
    BooleanColumn,
    CutColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TimestampColumn,
    is_stored,
)
from dprelease.schema.release_parts.extension_names import FORMATS
from dprelease.schema.source_types.source import Source
from dprelease.schema.table import Table
from dprelease.tables import formats
from dprelease.verification.verify import verify

if TYPE_CHECKING:
    import pyarrow as pa


LEAST_BYTES = 8
"""The minimum number of bytes of a stored number, because fewer bytes would occur by chance."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A value that occurs in one column of the synthetic tables, and nowhere else."""

    table: str
    column: str
    value: object

    @property
    def byte_patterns(self) -> tuple[bytes, ...]:
        """Return the byte sequences by which the canary is found in files and texts."""
        value = self.value
        if isinstance(value, str):
            return (value.encode(), value.encode("utf-16-le"), value.lower().encode())
        if isinstance(value, datetime):
            return (value.isoformat().encode(), value.isoformat(" ").encode())
        if isinstance(value, date):
            return (
                value.isoformat().encode(),
                f"{value:%Y%m%d}".encode(),
                f"{value:%d/%m/%Y}".encode(),
            )
        if isinstance(value, int | float):
            integer = int(value)
            texts = {f"{integer}", f"{integer:,}", f"{value!r}", f"{integer:x}"}
            stored = (
                struct.pack("<q", integer),
                struct.pack(">q", integer),
                struct.pack("<d", value),
            )
            return (*(text.encode() for text in sorted(texts)), *stored)
        raise TypeError("a canary is a text, a number or a day")


def canaries_in_folder(folder: Path, canaries: Sequence[Canary]) -> Iterator[tuple[str, Canary]]:
    """Yield each canary in the names, bytes or values of files, with the name of the file."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        yield from ((name, canary) for canary in canaries_in_bytes(name.encode(), canaries))
        if path.is_file():
            yield from ((name, canary) for canary in _canaries_in_file(path, canaries))


def canaries_in_keys(folder: Path, query: Query, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries that are non-public keys of a query's published table."""
    path = folder / formats.table_file_name(query.name)
    if query.private is not None and path.is_file():
        keys = [name for name, _ in query.private.columns]
        yield from _canaries_in_table(formats.PUBLISHED_FORMAT.read(path, keys), canaries)


def canaries_in_bytes(raw: bytes, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries that occur in some bytes."""
    lower = raw.lower()
    for canary in canaries:
        if any(mark in raw or mark in lower for mark in canary.byte_patterns):
            yield canary


def _canaries_in_file(path: Path, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries in a file, also in the table of a Parquet file or inside a ZIP file."""
    raw = path.read_bytes()
    yield from canaries_in_bytes(raw, canaries)
    if raw[:4] == b"PAR1":
        import pyarrow.parquet as pq

        yield from _canaries_in_table(pq.read_table(path), canaries)
    elif raw[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for name in archive.namelist():
                yield from canaries_in_bytes(archive.read(name), canaries)


def _canaries_in_table(table: pa.Table, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries among the values of a table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in table.columns:
        distinct = pc.unique(column.combine_chunks())
        if pa.types.is_dictionary(distinct.type):
            distinct = distinct.dictionary_decode()
        if pa.types.is_floating(distinct.type) or pa.types.is_integer(distinct.type):
            numbers = set(distinct.to_pylist())
            for canary in canaries:
                if isinstance(canary.value, int | float) and canary.value in numbers:
                    yield canary
        else:
            text = "\n".join(map(str, distinct.to_pylist())).encode()
            yield from canaries_in_bytes(text, canaries)


def canaries_in_error(error: BaseException, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries in an error and in its causes."""
    seen: BaseException | None = error
    while seen is not None:
        attributes: Mapping[str, object] = vars(seen)
        yield from canaries_in_bytes(
            f"{seen} {seen!r} {seen.args!r} {attributes!r}".encode(), canaries
        )
        seen = seen.__cause__ or seen.__context__


FIRST_NUMBER = 918273645001
"""The first integer canary, which has so many digits that it does not occur by chance."""


def make_canaries(tables: Mapping[str, Table]) -> list[Canary]:
    """Return a canary for every stored column, except for columns of booleans."""
    found = list[Canary]()
    for table, declared in tables.items():
        for name, column in declared.columns.items():
            if is_stored(column) and not isinstance(column, BooleanColumn | CutColumn):
                found.append(Canary(table, name, _canary_value(column, len(found))))
    return found


def _canary_value(column: object, number: int) -> object:
    """Return a value of a column's type that occurs nowhere else."""
    if isinstance(column, IntegerColumn):
        return FIRST_NUMBER + 1009 * number
    if isinstance(column, NumberColumn):
        return float(FIRST_NUMBER + 1009 * number) + 0.5
    if isinstance(column, DateColumn):
        return date(1793, 1 + number % 12, 1 + number % 28)
    if isinstance(column, TimestampColumn):
        return datetime(1793, 1 + number % 12, 1 + number % 28, 3, 4, 5)
    return f"Kanarie-{number:03}-qzx{FIRST_NUMBER + number:x}"


def run_canaries(
    audited: AuditedRelease, groups: Sequence[QueryGroup], folder: Path
) -> tuple[Canaries, list[AuditFinding], list[str]]:
    """Run the release on rows with canaries, and search the output of the runs for them.

    One run publishes every possible format, and the others fail on purpose. The function returns
    the results, the findings, and texts on checks that were left out.

    Raises OutputError: DP-AUDIT-008 if the release can't be run.
    """
    tables = {name: table for group in groups for name, table in group.tables.items()}
    all_canaries = make_canaries(tables)
    rows = _tables_with_canaries(groups, all_canaries)
    public = {name: table for group in groups for name, table in group.public.items()}
    all_tables: Tables = {**public, **rows}
    left_out = list[str]()
    left = folder / "left"
    published, places = _run_with_canaries(audited, all_tables, all_canaries, left / "published")
    failures = 0
    for number, (description, broken, files) in enumerate(
        _failing_inputs(all_tables, tables, folder / "broken")
    ):
        place = left / f"failed-{number}"
        run = run_release(audited, broken, place, "canaries", files=files)
        canaries_in_output = list(_canaries_in_output(run, all_canaries))
        if isinstance(run.failure, OutputError | LedgerError) and not canaries_in_output:
            # A run that fails for another reason, such as a full disk, does not test this failure.
            refuse_failed_runs(run)
        places += [(description, canary) for canary in canaries_in_output]
        places += [
            (f"what {description} leaves", one)
            for _, one in _files_with_canaries(audited, place, all_canaries)
        ]
        failures += run.failure is not None
    findings = [
        AuditFinding(
            check="canaries", query="", column=f"{canary.table}.{canary.column}",
            claimed="no value of the data but in noised answers", seen=f"it stands in {where}",
            pair="",
        )
        for where, canary in dict.fromkeys(
            (_safe_name(where, all_canaries), one) for where, one in places
        )
    ]  # fmt: skip
    findings += [
        failed_run_finding("canaries", f"{what} is left", "") for what in published.other_files
    ]
    if published.failure is not None:
        findings.append(
            failed_run_finding("canaries", published.code, "values that stand nowhere else")
        )
    searched = sum(1 for path in left.rglob("*") if path.is_file())
    report = Canaries(
        columns=len(all_canaries), searched=searched, failures=failures, holds=not findings
    )
    return report, findings, left_out


def _safe_name(where: str, all_canaries: Sequence[Canary]) -> str:
    """Return the name of a location, or a general description if the name contains a canary."""
    return "the name of a file" if any(canaries_in_bytes(where.encode(), all_canaries)) else where


def _tables_with_canaries(
    groups: Sequence[QueryGroup], all_canaries: Sequence[Canary]
) -> dict[str, pa.Table]:
    """Return tables of random rows, in some of which each column has its canary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    marked_tables: dict[str, pa.Table] = {}
    for group in groups:
        other_units = tuple(group.invent_units(60))
        for name, table in situation_pair(
            group.tables, Situation("", {}, {}, other_units), {}
        ).one.items():
            for canary in (one for one in all_canaries if one.table == name):
                at = table.column_names.index(canary.column)
                field = table.schema.field(at)
                place = pa.array([i % 20 == len(canary.column) % 20 for i in range(len(table))])
                marked_column = pc.if_else(
                    place, pa.scalar(canary.value, field.type), table.column(at)
                )
                table = table.set_column(at, field, marked_column)
            marked_tables[name] = table
    return marked_tables


def _run_with_canaries(
    audited: AuditedRelease, tables: Tables, all_canaries: Sequence[Canary], folder: Path
) -> tuple[RunOutput, list[tuple[str, Canary]]]:
    """Return a run with a ledger, and the canaries in its output and in its verification."""
    scratch = folder / "beside"
    scratch.mkdir(parents=True)
    ledger = _open_ledger(audited, scratch / "ledger.db")
    place = folder / "run"
    run = run_release(
        audited, tables, place, "canaries", ledger=ledger, formats=_possible_formats(audited)
    )
    places = [("what the run says", canary) for canary in _canaries_in_output(run, all_canaries)]
    if not places:
        refuse_failed_runs(run)
    places += canaries_in_folder(scratch, all_canaries)
    places += _files_with_canaries(audited, place, all_canaries)
    if run.failure is None:
        checked = str(verify(run.folder, ledger=ledger).to_json()).encode()
        places += [
            ("what `verify` says", canary) for canary in canaries_in_bytes(checked, all_canaries)
        ]
    return run, places


def _files_with_canaries(
    audited: AuditedRelease, folder: Path, all_canaries: Sequence[Canary]
) -> Iterator[tuple[str, Canary]]:
    """Yield each canary in the files of a run, with the name of the file, except selected keys.

    The selection of non-public keys is a noisy answer. So the files of a release may contain a
    canary that is a selected key.
    """
    release = folder / RELEASE_FOLDER
    published = {
        canary
        for query in audited.queries
        for canary in canaries_in_keys(release, query, all_canaries)
    }
    for name, canary in canaries_in_folder(folder, all_canaries):
        if canary not in published or not name.startswith(f"{RELEASE_FOLDER}/"):
            yield name, canary


def _canaries_in_output(run: RunOutput, all_canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries in the messages and in the error of a run."""
    yield from canaries_in_bytes("\n".join(run.messages).encode(), all_canaries)
    if run.failure is not None:
        yield from canaries_in_error(run.failure, all_canaries)


def _possible_formats(audited: AuditedRelease) -> tuple[str, ...] | None:
    """Return all formats in which the release can be published on this machine."""
    declaration, families = audited.declaration, audited.plan.families
    if not kind_of(declaration.spec).has_all_formats:
        return None
    metadata = metadata_of(declaration, audited.queries, families)
    metadata = aggregate_metadata(metadata, families, declaration.spec.wide)
    place = audited.declaration.place("formats")
    return tuple(
        name for name in FORMATS if not [*export_findings((name,), metadata, place, place)]
    )


def _open_ledger(audited: AuditedRelease, path: Path) -> Path | None:
    """Create a ledger with the budget of the release; None for a release without a ledger."""
    spec = audited.declaration.spec
    if not kind_of(spec).has_ledger:
        return None
    budget = spec.budget
    amounts = [None if x is None else plain_text(x) for x in (budget.epsilon, budget.rho)]
    for charge in charges_of(audited.plan):
        unit = None if charge.unit == "each row" else charge.unit
        names = tuple(name for name, _ in charge.exactly)
        account = account_of(
            charge.table, unit, charge.neighbours, amounts[0], plain_text(budget.delta), amounts[1],
            invariants=names, rho_delta=audited.plan.guarantee.rho_delta or None,
        )  # fmt: skip
        open_account(path, account, None, None)
    return path


def _failing_inputs(
    all_tables: Tables, tables: Mapping[str, Table], broken: Path
) -> Iterator[tuple[str, Tables, Mapping[str, Source] | None]]:
    """Yield inputs on which a run fails: a missing column, wrong types, and damaged files.

    Each input has a description, its tables, and the sources of damaged files, which are written to
    the folder `broken`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    name = next(iter(tables))
    table = all_tables[name]
    for at in (0, len(table.column_names) - 1):
        yield (
            "an error of a column that is missing",
            {**all_tables, name: table.remove_column(at)},
            None,
        )
    lists = {
        n: pa.array([[str(x)] for x in table.column(n).to_pylist()]) for n in table.column_names
    }
    yield "an error of types that do not serve", {**all_tables, name: pa.table(lists)}, None
    broken.mkdir(parents=True)
    texts = pa.table({n: table[n].cast(pa.string()) for n in table.column_names})
    csv.write_csv(texts, broken / "t.csv")
    raw = (broken / "t.csv").read_bytes()
    (broken / "t.csv").write_bytes(raw + b'"Kanarie,never closed\n' + raw)
    pq.write_table(table, broken.absolute() / "t.parquet")
    packed = (broken / "t.parquet").read_bytes()
    (broken / "t.parquet").write_bytes(packed[: len(packed) // 2] + packed[-200:])
    for ending in ("csv", "parquet"):
        source = Source.model_validate({"path": str((broken / f"t.{ending}").absolute())})
        yield f"an error of a broken file ({ending})", all_tables, {name: source}
