"""Rehearse a federated release: write the messages of all parties, their sums, and true sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents import party_manifest as of_party
from dprelease.documents.encoding import NAME
from dprelease.documents.file_records import FileDigest, FileRecord, file_record
from dprelease.documents.metadata import field_notes
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    PARTIES,
    WORDS,
    ColumnErrors,
    PartiesRecord,
    truth_columns,
    truth_records,
)
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.errors import BudgetError, DeclarationError, Place
from dprelease.noise.noised_vectors import noised_messages
from dprelease.planning.federated_plan import (
    FederatedPlan,
    ShareColumn,
    prepare_federated,
    resolve_federated,
)
from dprelease.query.resolve import Query
from dprelease.rehearsal.error_summary import summarize_errors
from dprelease.rehearsal.party_stand_ins import split_among_parties
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
    import pyarrow as pa


MOST_PARTIES = 100
"""The maximum number of parties in a rehearsal, because each party takes a whole run."""


def rehearse_parties(request: RehearsalRequest, stand_ins: StandIns) -> Path:
    """Run every party over its stand-ins, add up the messages, and return the rehearsal's folder.

    Raises DeclarationError: DP-REHEARSE-001 for more than `MOST_PARTIES`; also the errors of
    `split_among_parties` and of `rehearse`. Raises BudgetError: DP-FED-003 for sums that do not fit
    into 64 bits.
    """
    _refuse_too_many_parties(request.declaration)
    queries = resolve_federated(stand_ins.declaration)
    plan = prepare_federated(stand_ins.declaration)
    metadata = ReleaseMetadata(stand_ins.declaration.spec)
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

    Raises BudgetError: DP-FED-003 for sums that do not fit into 64 bits.
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
    """Yield, for each party, the values of one column of its messages."""
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
        error = share.sum_mechanism(plan.parties).mean_absolute_error
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
                published_column=names.is_published,
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
