"""Rehearse a federated release: write the messages of all parties, their sums, and the true sums.

The rows of the stand-ins are divided among the parties, so that all rows of a unit belong to one
party.
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
from dprelease.rehearsal.error_summary import summarize_errors
from dprelease.rehearsal.rehearsal_folder import (
    RehearsalRequest,
    rehearsal_publication,
    synthetic_rows_file,
    truth_file,
    write_errors,
    write_marked_table,
    write_synthetic_rows,
)
from dprelease.rehearsal.stand_ins import StandIns
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
"""The maximum number of rows of a text file that are in memory at a time."""


def split_among_parties(stand_ins: StandIns, parties: int, scratch: Path) -> Iterator[StandIns]:
    """Yield the stand-ins of each party; all rows of a unit, in all tables, belong to one party.

    Rows without an id are distributed to the parties in turn. Every party has all public tables.
    `scratch` is an empty folder for the files with each party's rows of public stand-in files.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-003 for a stand-in file whose rows can't be divided among parties.
    """
    tables = {name: declared.table for name, declared in stand_ins.declaration.tables.items()}
    people = {name: table for name, table in tables.items() if not table.public}
    files = {
        name: _split_file(table, stand_ins.public[name], parties, scratch)
        for name, table in people.items()
        if name in stand_ins.public
    }
    rows = {
        name: (stand_ins.invented[name], _parties_of_rows(stand_ins.invented[name], table, parties))
        for name, table in people.items()
        if name in stand_ins.invented
    }
    for party in range(parties):
        own_rows = {name: _rows_of_party(*parts, party) for name, parts in rows.items()}
        own_files = {name: paths[party] for name, paths in files.items()}
        yield stand_ins.of_party(own_rows, own_files)


def party_of_unit(unit: object, parties: int) -> int:
    """Return the index of a unit's party, computed from the text of its id."""
    return crc32(str(unit).encode("utf-8", "surrogatepass")) % parties


def _parties_of_rows(table: pa.Table, declared: Table, parties: int) -> Integers:
    """Return the index of the party of every row of a table."""
    name, rows = declared.unit.id, len(table)
    if name is None or name not in table.column_names:
        return np.arange(rows, dtype=np.int64) % parties
    coded = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
    by_code = [party_of_unit(unit, parties) for unit in coded.dictionary.to_pylist()]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return np.array(by_code, dtype=np.int64)[codes] if rows else np.zeros(0, dtype=np.int64)


def _rows_of_party(table: pa.Table, party_of_row: Integers, party: int) -> pa.Table:
    import pyarrow as pa

    return table.filter(pa.array(party_of_row == party))


def _split_file(table: Table, path: Path, parties: int, scratch: Path) -> list[Path]:
    """Divide a stand-in file into a file for each party, in the same format; return their paths."""
    source = table.source
    kind = None if source is None else source.kind
    splits = {"parquet": _split_parquet, "csv": _split_csv, "json_lines": _split_json_lines}
    split = splits.get(kind or "")
    if source is None or split is None:
        problem = "only rows of Parquet, CSV and JSON lines files can be divided among parties"
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=problem)
    ending = {"parquet": ".parquet", "csv": ".csv", "json_lines": ".jsonl"}[str(kind)]
    paths = [scratch / f"{table.name}-{party + 1}{ending}" for party in range(parties)]
    failure = ""
    try:
        split(table, source, path, paths)
    except (OSError, ValueError, LookupError) as problem:
        failure = f"its rows can't be read ({type(problem).__name__})"
    if failure:
        raise DeclarationError("DP-REHEARSE-003", file=path.name, table=table.name, problem=failure)
    return paths


def _split_parquet(table: Table, _source: Source, path: Path, paths: list[Path]) -> None:
    import pyarrow.parquet as pq

    table_read = pq.read_table(path)
    party_of_row = _parties_of_rows(table_read, table, len(paths))
    for party, party_path in enumerate(paths):
        pq.write_table(_rows_of_party(table_read, party_of_row, party), party_path.absolute())


def _split_csv(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the rows of a CSV file into those of the parties, as texts in the same dialect.

    Rows that can't be parsed are left out.
    """
    import pandas as pd

    csv_options: dict[str, Any] = {"sep": source.separator, "quotechar": source.quote}
    csv_options["encoding"] = source.encoding
    rows_read = 0
    with _open_decompressed(path, source) as stream:
        for chunk in pd.read_csv(
            stream,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            on_bad_lines="skip",
            chunksize=ROWS_AT_ONCE,
            **csv_options,
        ):
            party_of_row = _parties_of_texts(chunk, table, len(paths), rows_read)
            for party, party_path in enumerate(paths):
                part, mode = chunk[party_of_row == party], "a" if rows_read else "w"
                part.to_csv(party_path, index=False, header=not rows_read, mode=mode, **csv_options)
            rows_read += len(chunk)
    if not rows_read:
        raise ValueError("there is no row")


def _open_decompressed(path: Path, source: Source) -> BinaryIO:
    import pyarrow as pa

    packed = None if source.effective_compression == "none" else source.effective_compression
    stream: BinaryIO = pa.input_stream(str(path), compression=packed)
    return stream


def _parties_of_texts(chunk: pd.DataFrame, table: Table, parties: int, rows_read: int) -> Integers:
    name = table.unit.id
    if name is None or name not in chunk.columns:
        return (np.arange(len(chunk), dtype=np.int64) + rows_read) % parties
    return np.array([party_of_unit(unit, parties) for unit in chunk[name]], dtype=np.int64)


def _split_json_lines(table: Table, source: Source, path: Path, paths: list[Path]) -> None:
    """Write the lines of a file of JSON objects, unchanged, into the files of the parties."""
    name, encoding = table.unit.id, source.encoding
    lines: list[list[str]] = [[] for _ in paths]
    with _open_decompressed(path, source) as stream:
        for i, line in enumerate(TextIOWrapper(stream, encoding)):
            row: Mapping[str, Any] = json.loads(line) if name is not None and line.strip() else {}
            party = i % len(paths) if name is None else party_of_unit(row.get(name), len(paths))
            lines[party].append(str(line))
    for party_path, lines_of_party in zip(paths, lines, strict=True):
        party_path.write_text("".join(lines_of_party), encoding=encoding)


MOST_PARTIES = 100
"""The maximum number of parties in a rehearsal, because each party takes a whole run."""


def rehearse_parties(request: RehearsalRequest, stand_ins: StandIns) -> Path:
    """Run every party over its stand-ins, add up the messages, and return the rehearsal's folder.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-001 for more than `MOST_PARTIES`; also the errors of `split_among_parties` and
        of `rehearse`.
    BudgetError
        DP-FED-003 for sums that do not fit into 64 bits.
    """
    _refuse_too_many_parties(request.declaration)
    queries = resolve_federated(stand_ins.declaration)
    plan, metadata = (
        prepare_federated(stand_ins.declaration),
        ReleaseMetadata(stand_ins.declaration.spec),
    )
    blank_digests = dict.fromkeys((query.name for query in queries), "")
    record = of_party.build(stand_ins.without_ledger, queries, plan, blank_digests, 1)
    with rehearsal_publication(
        request,
        stand_ins,
        plan,
        draft=record,
        files=[
            *message_files(queries, plan.parties),
            *truth_files_of_sums(queries, request.declaration),
        ],
    ) as release:
        request.progress("people")
        stand_ins = stand_ins.invent(queries, request.bits)
        message_digests = _write_messages(release.folder, stand_ins, plan, metadata, request)
        sums: dict[str, FileDigest] = {}
        for query in queries:
            table, description = sum_table(release.folder, query, plan), metadata.sums(query)
            file = with_field_notes(table, field_notes(description))
            sums[query.name] = write_marked_table(release.folder, description.file, file)
        request.progress("truth")
        truth = _write_truth(release.folder, stand_ins, queries, plan)
        rehearsal = PartiesRecord(
            words=WORDS, stand_ins=[*stand_ins.manifest_records()],
            truth=truth_records(truth), messages=truth_records(message_digests),
        )  # fmt: skip
        files = sum_records(queries, metadata, sums)
        release.publish(of_party.FederatedRehearsalManifest.of(record, files, rehearsal))
    return release.claim.target


def sum_records(
    queries: Sequence[Query], metadata: ReleaseMetadata, sums: Mapping[str, FileDigest]
) -> list[FileRecord]:
    """Return the manifest's records of the files with the sums of all messages."""
    return [file_record(query.name, metadata.sums(query), sums[query.name]) for query in queries]


def _refuse_too_many_parties(declaration: Declaration) -> None:
    """Raise DP-REHEARSE-001 if there are too many parties to rehearse."""
    spec = declaration.spec.federated
    if spec is not None and spec.parties > MOST_PARTIES:
        place, kind = declaration.place("federated"), f"more than {MOST_PARTIES} parties"
        raise DeclarationError("DP-REHEARSE-001", place=place, kind=kind)


def message_file(party: int, query: str) -> str:
    """Return the name of the file with a party's messages; parties are numbered from 1."""
    return formats.table_file_name(f"{PARTIES}/{party}/{query}")


def message_files(queries: Sequence[Query], parties: int) -> Iterator[str]:
    """Yield the names of the files with the messages of all parties."""
    for party in range(1, parties + 1):
        yield from (message_file(party, query.name) for query in queries)


def truth_files_of_sums(queries: Sequence[Query], declaration: Declaration) -> Iterator[str]:
    """Yield the names of all truth files that a rehearsal of several parties may contain."""
    yield from (truth_file(query.name) for query in queries)
    yield from (synthetic_rows_file(name) for name in declaration.tables)
    yield ERRORS


def _write_messages(
    folder: Path,
    stand_ins: StandIns,
    plan: FederatedPlan,
    metadata: ReleaseMetadata,
    request: RehearsalRequest,
) -> dict[str, FileDigest]:
    """Write the messages of every party; return digests and numbers of rows, by file name."""
    written: dict[str, FileDigest] = {}
    with temporary_folder("dprelease-parties-") as scratch:
        for party, own in enumerate(split_among_parties(stand_ins, plan.parties, scratch), 1):
            queries = resolve_federated(own.declaration)
            with own.engines(queries) as engines:
                for query in queries:
                    request.progress(f"party {party}: {query.name}")
                    columns = plan.of_shares(query.name)
                    exact = engines[query.name].run(query)
                    vectors = noised_messages(exact, columns, plan.parties, request.bits)
                    description, name = metadata.messages(query), message_file(party, query.name)
                    notes, table = field_notes(description), messages_to_arrow(query, vectors)
                    written[name] = write_marked_table(folder, name, with_field_notes(table, notes))
    return written


def sum_table(folder: Path, query: Query, plan: FederatedPlan) -> pa.Table:
    """Return the sums of the messages of all parties in a folder, with their margins of error.

    Raises
    ------
    BudgetError
        DP-FED-003 for sums that do not fit into 64 bits.
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
    """Yield one column of the messages of each party."""
    name = share.measurement.name
    for party in range(1, parties + 1):
        path = folder / message_file(party, query.name)
        yield formats.PUBLISHED_FORMAT.read(path, [name]).column(0).to_numpy()


def sum_comparisons(query: Query, plan: FederatedPlan) -> list[ColumnComparison]:
    """Return how each column of the sums is compared with its true values."""
    margins = margin_names(query)
    column_names = [name for c in query.columns for name in (c.name, margins[c.name])]
    names = truth_columns((key.column for key in query.key_columns), column_names)
    shares = {share.measurement.name: share for share in plan.of_shares(query.name)}
    comparisons = []
    for column in query.columns:
        share = shares[column.parts[0].name]
        error = share.sum_law(plan.parties).mean_absolute_error
        error *= float(share.measurement.step) / share.refined
        comparisons.append(
            ColumnComparison(
                table=query.name,
                column=column.name,
                unit=column.unit,
                confidence=float(DEFAULT_CONFIDENCE),
                expected=error if error < float("inf") else None,
                true_column=names.true[column.name],
                unlimited_column=names.unbounded[column.name] if query.unit.id else "",
                rows_off_column="",
                margin_column=margins[column.name],
                rows_column=names.rows,
                published_column=names.told,
            )
        )
    return comparisons


def _write_truth(
    folder: Path, stand_ins: StandIns, queries: Sequence[Query], plan: FederatedPlan
) -> Mapping[str, FileDigest]:
    """Write the truth files, which have the noisy sums and the exact answers over all rows."""
    written = write_synthetic_rows(folder, stand_ins)
    errors: list[ColumnErrors] = []
    for truth in truths(stand_ins, queries):
        name = truth.query.name
        columns = sum_comparisons(truth.query, plan)
        table = compare_with_truth(folder, name, truth, columns)
        written[truth_file(name)] = write_marked_table(folder, truth_file(name), table)
        errors += summarize_errors(columns, table)
    return dict(sorted({**written, **write_errors(folder, errors)}.items()))
