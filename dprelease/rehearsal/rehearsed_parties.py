"""Rehearse a federated release: the messages of every party, their sums, and the true sums.

The stand-ins are split among the parties: all rows of one unit go to one party.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zlib import crc32

import numpy as np

from dprelease.documents import party_manifest as of_party
from dprelease.documents.encoding import NAME
from dprelease.documents.file_records import FileDigest, FileRecord, file_record
from dprelease.documents.metadata import field_notes
from dprelease.documents.rehearsal_errors import ColumnErrors
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    PARTIES,
    WORDS,
    PartiesRecord,
    truth_records,
)
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.documents.truth_columns import truth_columns
from dprelease.errors import BudgetError, DeclarationError, Place
from dprelease.noise.noise_shares import noised_messages
from dprelease.numerics.lattice import Integers
from dprelease.planning.federated_plan import (
    FederatedPlan,
    ShareColumn,
    prepare_federated,
    resolve_federated,
)
from dprelease.query.resolve import Query
from dprelease.rehearsal.error_summary import summary
from dprelease.rehearsal.rehearsal_folder import (
    RehearsalRequest,
    people_of,
    rehearsing,
    truth_of,
    written_errors,
    written_people,
    written_table,
)
from dprelease.rehearsal.stand_ins import Cast
from dprelease.rehearsal.truth import truths
from dprelease.rehearsal.truth_comparison import ColumnComparison, compare_with_truth
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.schema.load import Declaration
from dprelease.schema.table import Source, Table
from dprelease.system.deferred_signals import temporary_folder
from dprelease.tables import formats
from dprelease.tables.field_notes import with_field_notes
from dprelease.tables.summed_messages import (
    are_exact_sums,
    keys_to_arrow,
    margin_names,
    messages_to_arrow,
    sum_messages,
    sums_in_unit,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


ROWS_AT_ONCE = 1 << 16
"""The number of rows of a text file that are in memory at a time."""


def split_among_parties(cast: Cast, parties: int, scratch: Path) -> Iterator[Cast]:
    """Yield the cast of each party; the rows of a unit in all tables belong to one party.

    Rows without an id are distributed to the parties in turn. Every party has all public tables.
    `scratch` is an empty folder, for each party's part of the public files that replace tables.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-003 for a file whose rows can't be separated.
    """
    tables = {name: declared.table for name, declared in cast.declaration.tables.items()}
    people = {name: table for name, table in tables.items() if not table.public}
    files = {
        name: _dealt_file(table, cast.public[name], parties, scratch)
        for name, table in people.items()
        if name in cast.public
    }
    rows = {
        name: (cast.invented[name], _dealt_rows(cast.invented[name], table, parties))
        for name, table in people.items()
        if name in cast.invented
    }
    for party in range(parties):
        yield cast.of_party(
            {name: _rows_of_party(table, to, party) for name, (table, to) in rows.items()},
            {name: paths[party] for name, paths in files.items()},
        )


def dealt_to(unit: object, parties: int) -> int:
    """Return the index of a unit's party, computed from the text of its id."""
    return crc32(str(unit).encode("utf-8", "surrogatepass")) % parties


def _dealt_rows(table: pa.Table, declared: Table, parties: int) -> Integers:
    """Return the index of the party of every row."""
    name = declared.unit.id
    if name is None or name not in table.column_names:
        return np.arange(len(table), dtype=np.int64) % parties
    coded = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
    by_code = [dealt_to(unit, parties) for unit in coded.dictionary.to_pylist()]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return np.array(by_code, dtype=np.int64)[codes] if len(table) else np.zeros(0, dtype=np.int64)


def _rows_of_party(table: pa.Table, to: Integers, party: int) -> pa.Table:
    import pyarrow as pa

    return table.filter(pa.array(to == party))


def _dealt_file(table: Table, path: Path, parties: int, scratch: Path) -> list[Path]:
    """Return the file of each party, in the format of the public one."""
    source = table.source
    kind = None if source is None else source.kind
    deal = {"parquet": _deal_parquet, "csv": _deal_csv, "json_lines": _deal_lines}.get(kind or "")
    if source is None or deal is None:
        problem = "only rows of Parquet, CSV and JSON lines files can be divided among parties"
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=problem)
    ending = {"parquet": ".parquet", "csv": ".csv", "json_lines": ".jsonl"}[str(kind)]
    paths = [scratch / f"{table.name}-{party + 1}{ending}" for party in range(parties)]
    failure = ""
    try:
        deal(table, source, path, paths)
    except (OSError, ValueError, LookupError) as problem:
        failure = f"its rows can't be read ({type(problem).__name__})"
    if failure:
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=failure)
    return paths


def _deal_parquet(table: Table, _source: Source, path: Path, paths: list[Path]) -> None:
    import pyarrow.parquet as pq

    table_read = pq.read_table(path)
    to = _dealt_rows(table_read, table, len(paths))
    for party, own in enumerate(paths):
        pq.write_table(_rows_of_party(table_read, to, party), own.absolute())


def _deal_csv(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the rows of a CSV file as texts, with the same dialect; broken rows are left out."""
    import pandas as pd

    how: dict[str, Any] = {"sep": source.separator, "quotechar": source.quote}
    how["encoding"] = source.encoding
    seen = 0
    with _open_decompressed(path, source) as stream:
        for chunk in pd.read_csv(
            stream,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            on_bad_lines="skip",
            chunksize=ROWS_AT_ONCE,
            **how,
        ):
            to = _dealt_texts(chunk, table, len(paths), seen)
            for party, own in enumerate(paths):
                part, mode = chunk[to == party], "a" if seen else "w"
                part.to_csv(own, index=False, header=not seen, mode=mode, **how)
            seen += len(chunk)
    if not seen:
        raise ValueError("there is no row")


def _open_decompressed(path: Path, source: Source) -> BinaryIO:
    import pyarrow as pa

    packed = None if source.effective_compression == "none" else source.effective_compression
    stream: BinaryIO = pa.input_stream(str(path), compression=packed)
    return stream


def _dealt_texts(chunk: pd.DataFrame, table: Table, parties: int, seen: int) -> Integers:
    name = table.unit.id
    if name is None or name not in chunk.columns:
        return (np.arange(len(chunk), dtype=np.int64) + seen) % parties
    return np.array([dealt_to(unit, parties) for unit in chunk[name]], dtype=np.int64)


def _deal_lines(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the lines of a file of JSON objects, unchanged."""
    name, encoding = table.unit.id, source.encoding
    lines: list[list[str]] = [[] for _ in paths]
    with _open_decompressed(path, source) as stream:
        for i, line in enumerate(TextIOWrapper(stream, encoding)):
            row: Mapping[str, Any] = json.loads(line) if name is not None and line.strip() else {}
            party = i % len(paths) if name is None else dealt_to(row.get(name), len(paths))
            lines[party].append(str(line))
    for own, lines_of_party in zip(paths, lines, strict=True):
        own.write_text("".join(lines_of_party), encoding=encoding)


MOST_PARTIES = 100
"""The maximum number of parties that are rehearsed, because each party is a run."""


def rehearse_parties(request: RehearsalRequest, cast: Cast) -> Path:
    """Run every party over its part of the stand-ins, sum the messages, and return the folder.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-001 for more than `MOST_PARTIES`; also the errors of `split_among_parties` and
        of `rehearse`.
    BudgetError
        DP-FED-003 for sums that do not fit into 64 bits.
    """
    _refuse_many(request.declaration)
    queries = resolve_federated(cast.declaration)
    plan, described = prepare_federated(cast.declaration), ReleaseMetadata(cast.declaration.spec)
    blank = dict.fromkeys((query.name for query in queries), "")
    record = of_party.build(cast.unpaid, queries, plan, blank, 1)
    with rehearsing(
        request,
        cast,
        plan,
        draft=record,
        files=[*messages_of(queries, plan.parties), *truth_of_sums(queries, request.declaration)],
    ) as release:
        request.progress("people")
        cast = cast.invent(queries, request.bits)
        sent = _write_messages(release.folder, cast, plan, described, request)
        sums: dict[str, FileDigest] = {}
        for query in queries:
            table, description = sum_of(release.folder, query, plan), described.sums(query)
            file = with_field_notes(table, field_notes(description))
            sums[query.name] = written_table(release.folder, description.file, file)
        request.progress("truth")
        truth = _write_truth(release.folder, cast, queries, plan)
        rehearsal = PartiesRecord(
            words=WORDS,
            stand_ins=[*cast.records()],
            truth=truth_records(truth),
            messages=truth_records(sent),
        )
        files = sum_records(queries, described, sums)
        release.publish(of_party.FederatedRehearsalManifest.of(record, files, rehearsal))
    return release.claim.target


def sum_records(
    queries: Sequence[Query], described: ReleaseMetadata, sums: Mapping[str, FileDigest]
) -> list[FileRecord]:
    """Return the manifest's records of the files with the sums of all messages."""
    return [file_record(query.name, described.sums(query), sums[query.name]) for query in queries]


def _refuse_many(declaration: Declaration) -> None:
    """Raise DP-REHEARSE-001 if there are too many parties to rehearse."""
    spec = declaration.spec.federated
    if spec is not None and spec.parties > MOST_PARTIES:
        place, kind = declaration.place("federated"), f"more than {MOST_PARTIES} parties"
        raise DeclarationError("DP-REHEARSE-001", place=place, kind=kind)


def message_of(party: int, query: str) -> str:
    """Return the file name of a party's messages; parties are numbered from 1."""
    return formats.file_of(f"{PARTIES}/{party}/{query}")


def messages_of(queries: Sequence[Query], parties: int) -> Iterator[str]:
    """Yield the names of the files of all messages."""
    for party in range(1, parties + 1):
        yield from (message_of(party, query.name) for query in queries)


def truth_of_sums(queries: Sequence[Query], declaration: Declaration) -> Iterator[str]:
    """Yield the names of all possible truth files of a rehearsal of several parties."""
    yield from (truth_of(query.name) for query in queries)
    yield from (people_of(name) for name in declaration.tables)
    yield ERRORS


def _write_messages(
    folder: Path,
    cast: Cast,
    plan: FederatedPlan,
    described: ReleaseMetadata,
    request: RehearsalRequest,
) -> dict[str, FileDigest]:
    """Write every party's messages over its own rows; return digests and rows by file."""
    written: dict[str, FileDigest] = {}
    with temporary_folder("dprelease-parties-") as scratch:
        for party, own in enumerate(split_among_parties(cast, plan.parties, scratch), start=1):
            queries = resolve_federated(own.declaration)
            with own.engines(queries) as engines:
                for query in queries:
                    request.progress(f"party {party}: {query.name}")
                    columns = plan.of_shares(query.name)
                    exact = engines[query.name].run(query)
                    vectors = noised_messages(exact, columns, plan.parties, request.bits)
                    description, name = described.messages(query), message_of(party, query.name)
                    table = with_field_notes(
                        messages_to_arrow(query, vectors), field_notes(description)
                    )
                    written[name] = written_table(folder, name, table)
    return written


def sum_of(folder: Path, query: Query, plan: FederatedPlan) -> pa.Table:
    """Return the sums of all parties' messages in a folder, with their margins.

    Raises
    ------
    BudgetError
        DP-FED-003 for sums that do not fit 64 bits.
    """
    import pyarrow as pa

    arrays, margins = keys_to_arrow(query), margin_names(query)
    shares = {share.measurement.name: share for share in plan.of_shares(query.name)}
    for column in query.columns:
        name = column.name
        share = shares[column.parts[0].name]
        sums = sum_messages(_message_columns(folder, query, share, plan.parties))
        if not are_exact_sums(sums):
            problem = f"the sums of {name} do not fit 64 bits"
            raise BudgetError("DP-FED-003", place=Place(NAME), problem=problem)
        unit = share.measurement.step / share.refined
        arrays[name] = pa.array(sums_in_unit(sums, unit))
        arrays[margins[name]] = pa.array([float(share.margin(plan.parties))] * len(sums))
    return pa.table(arrays)


def _message_columns(folder: Path, query: Query, share: ShareColumn, parties: int) -> Iterator[Any]:
    """Yield one column of every party's messages."""
    name = share.measurement.name
    for party in range(1, parties + 1):
        path = folder / message_of(party, query.name)
        yield formats.PUBLISHED.read(path, [name]).column(0).to_numpy()


def compared_sums(query: Query, plan: FederatedPlan) -> list[ColumnComparison]:
    """Return the columns of a sum that are compared with true values."""
    margins = margin_names(query)
    column_names = [
        name for column in query.columns for name in (column.name, margins[column.name])
    ]
    names = truth_columns((key.column for key in query.key_columns), column_names)
    shares = {share.measurement.name: share for share in plan.of_shares(query.name)}
    found = []
    for column in query.columns:
        share = shares[column.parts[0].name]
        error = share.sum_law(plan.parties).mean_absolute_error
        error *= float(share.measurement.step) / share.refined
        found.append(
            ColumnComparison(
                table=query.name,
                column=column.name,
                unit=column.unit,
                confidence=float(DEFAULT_CONFIDENCE),
                expected=error if error < float("inf") else None,
                true=names.true[column.name],
                unbounded=names.unbounded[column.name] if query.unit.id else "",
                off="",
                margin=margins[column.name],
                rows=names.rows,
                told=names.told,
            )
        )
    return found


def _write_truth(
    folder: Path, cast: Cast, queries: Sequence[Query], plan: FederatedPlan
) -> Mapping[str, FileDigest]:
    """Write the truth files: the noisy sums next to the exact answers over all rows."""
    written = written_people(folder, cast)
    errors: list[ColumnErrors] = []
    for truth in truths(cast, queries):
        name = truth.query.name
        columns = compared_sums(truth.query, plan)
        table = compare_with_truth(folder, name, truth, columns)
        written[truth_of(name)] = written_table(folder, truth_of(name), table)
        errors += summary(columns, table)
    return dict(sorted({**written, **written_errors(folder, errors)}.items()))
