"""Rehearse a release of single records, and compare noisy records with true records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents import local_manifest as manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.metadata import field_notes
from dprelease.documents.rehearsal_errors import ColumnErrors
from dprelease.documents.rehearsal_manifest import ERRORS, rehearsal_record
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.noise.noised_records import perturb_records
from dprelease.planning.local_plan import LocalPlan, prepare_local
from dprelease.rehearsal.record_comparison import (
    compare_records,
    errors_of_records,
    estimates_of,
    estimates_with_truth,
)
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
from dprelease.rehearsal.truth import true_records
from dprelease.schema.load import Declaration
from dprelease.tables.field_notes import with_field_notes
from dprelease.tables.record_table import records_to_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def rehearse_records(request: RehearsalRequest, cast: Cast) -> Path:
    """Add noise to the records of stand-ins; return the folder; raise the errors of `rehearse`."""
    plan, described = prepare_local(cast.declaration), ReleaseMetadata(cast.declaration.spec)
    blank = {part.name: FileDigest("", 0) for part in plan.records}
    queries = [part.query for part in plan.records]
    draft = manifest.build(cast.unpaid, plan, blank)
    with rehearsing(
        request,
        cast,
        plan,
        draft=draft,
        files=list(truth_of_records(plan, request.declaration)),
    ) as release:
        request.progress("people")
        cast = cast.invent(queries, request.bits)
        written: dict[str, FileDigest] = {}
        compared: dict[str, pa.Table] = {}
        with cast.recorders(plan.records) as engines:
            for part in plan.records:
                request.progress(part.name)
                exact = engines[part.declared.table.name].records(part)
                vectors = perturb_records(exact, plan.of_records(part.name), request.bits)
                table, description = (
                    records_to_arrow(vectors, part.columns),
                    described.records(part),
                )
                # The noise stage has put noisy and exact records into the same random order.
                compared[part.name] = compare_records(part, table, true_records(part, exact))
                file = with_field_notes(table, field_notes(description))
                written[part.name] = written_table(release.folder, description.file, file)
        request.progress("truth")
        truth = _write_truth(release.folder, cast, plan, compared)
        record = manifest.build(cast.unpaid, plan, written)
        rehearsal = rehearsal_record([*cast.records()], truth)
        release.publish(manifest.LocalRehearsalManifest.of(record, rehearsal))
    return release.claim.target


def truth_of_records(plan: LocalPlan, declaration: Declaration) -> Iterator[str]:
    """Yield the names of all possible files of a rehearsal other than its noisy records."""
    for part in plan.records:
        yield truth_of(part.name)
        yield truth_of(estimates_of(part))
    yield from (people_of(name) for name in declaration.tables)
    yield ERRORS


def _write_truth(
    folder: Path, cast: Cast, plan: LocalPlan, compared: dict[str, pa.Table]
) -> dict[str, FileDigest]:
    """Write the truth files, and return digests and rows by file.

    `compared` has the noisy records with the true records, by name.
    """
    written = written_people(folder, cast)
    errors: list[ColumnErrors] = []
    for part in plan.records:
        columns = plan.of_records(part.name)
        table = compared[part.name]
        estimates = estimates_with_truth(part, columns, table)
        errors += errors_of_records(part, columns, table, estimates)
        for name, table_to_write in ((part.name, table), (estimates_of(part), estimates)):
            written[truth_of(name)] = written_table(folder, truth_of(name), table_to_write)
    return dict(sorted({**written, **written_errors(folder, errors)}.items()))
