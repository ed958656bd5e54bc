"""Rehearse a release of single records, and compare noisy records with true records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents import local_manifest as manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.metadata import field_notes
from dprelease.documents.rehearsal_manifest import ERRORS, rehearsal_record
from dprelease.documents.rehearsal_truth import ColumnErrors
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.noise.noised_vectors import perturb_records
from dprelease.planning.local_plan import LocalPlan, prepare_local
from dprelease.rehearsal.record_comparison import (
    compare_records,
    estimates_table,
    estimates_with_truth,
    record_errors,
)
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
from dprelease.rehearsal.truth import true_records
from dprelease.schema.load import Declaration
from dprelease.tables.field_notes import with_field_notes
from dprelease.tables.record_table import records_to_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def rehearse_records(request: RehearsalRequest, stand_ins: StandIns) -> Path:
    """Add noise to the records of stand-ins, and return the folder of the rehearsal.

    The errors are those of `rehearse`.
    """
    plan = prepare_local(stand_ins.declaration)
    metadata = ReleaseMetadata(stand_ins.declaration.spec)
    blank_digests = {part.name: FileDigest("", 0) for part in plan.records}
    queries = [part.query for part in plan.records]
    draft = manifest.build(stand_ins.without_ledger, plan, blank_digests)
    with rehearsal_publication(
        request,
        stand_ins,
        plan,
        draft=draft,
        files=list(truth_files_of_records(plan, request.declaration)),
    ) as release:
        request.progress("people")
        stand_ins = stand_ins.invent(queries, request.bits)
        written: dict[str, FileDigest] = {}
        compared_records: dict[str, pa.Table] = {}
        with stand_ins.recorders(plan.records) as engines:
            for part in plan.records:
                request.progress(part.name)
                exact = engines[part.declared.table.name].records(part)
                vectors = perturb_records(exact, plan.of_records(part.name), request.bits)
                table = records_to_arrow(vectors, part.columns)
                description = metadata.records(part)
                # `perturb_records` has put the noisy and the exact records into one random order.
                compared_records[part.name] = compare_records(
                    part, table, true_records(part, exact)
                )
                file = with_field_notes(table, field_notes(description))
                written[part.name] = write_marked_table(release.folder, description.file, file)
        request.progress("truth")
        truth = _write_truth(release.folder, stand_ins, plan, compared_records)
        record = manifest.build(stand_ins.without_ledger, plan, written)
        rehearsal = rehearsal_record([*stand_ins.manifest_records()], truth)
        release.publish(manifest.LocalRehearsalManifest.of(record, rehearsal))
    return release.claim.target


def truth_files_of_records(plan: LocalPlan, declaration: Declaration) -> Iterator[str]:
    """Yield the names of all files that a rehearsal may contain in addition to noisy records."""
    for part in plan.records:
        yield truth_file(part.name)
        yield truth_file(estimates_table(part))
    yield from (synthetic_rows_file(name) for name in declaration.tables)
    yield ERRORS


def _write_truth(
    folder: Path, stand_ins: StandIns, plan: LocalPlan, compared_records: dict[str, pa.Table]
) -> dict[str, FileDigest]:
    """Write the truth files; return the digest and the number of rows of each, by file name.

    `compared_records` has the tables of noisy and true records, by the name of the records.
    """
    written = write_synthetic_rows(folder, stand_ins)
    errors: list[ColumnErrors] = []
    for part in plan.records:
        columns = plan.of_records(part.name)
        table = compared_records[part.name]
        estimates = estimates_with_truth(part, columns, table)
        errors += record_errors(part, columns, table, estimates)
        for name, table_to_write in ((part.name, table), (estimates_table(part), estimates)):
            written[truth_file(name)] = write_marked_table(folder, truth_file(name), table_to_write)
    return dict(sorted({**written, **write_errors(folder, errors)}.items()))
