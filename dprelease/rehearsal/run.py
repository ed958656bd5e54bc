"""Run a rehearsal: publish a release of the stand-ins, then write the truth files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.rehearsal_manifest import ERRORS, rehearsal_record
from dprelease.documents.rehearsal_truth import ColumnErrors
from dprelease.documents.release_metadata import metadata_of
from dprelease.errors import RunState
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.kinds import FEDERATED, LOCAL, kind_of
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.postprocess.families import Family
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
from dprelease.rehearsal.truth_comparison import (
    columns_to_compare,
    compare_with_truth,
    published_tables,
)
from dprelease.release.disk import max_bytes
from dprelease.release.runs.family_run import write_family_tables
from dprelease.schema.load import Declaration

MOST_TRUTH_FACTOR = 4
"""The maximum size of the truth files, as a multiple of the size of the published tables."""


def rehearse(
    declaration: Declaration,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    on: Mapping[str, Path] | None = None,
    rows: Mapping[str, int] | None = None,
    bits: BitSource | None = None,
    progress: Callable[[str], None] = lambda _step: None,
    state: RunState | None = None,
) -> Path:
    """Rehearse a release and return the folder of the rehearsal.

    The function opens no declared source and charges no ledger. If it fails, no incomplete folder
    becomes visible. `on` has the public files that replace tables, by the name of the table, and
    `rows` the numbers of rows of the other tables, which are generated. `output` is the folder of
    the rehearsal; the default is a folder next to that of the release. `bits` is for tests.

    Raises DeclarationError: DP-REHEARSE-001 for more parties than can be rehearsed, 003 for an
    invalid stand-in file. Raises OutputError: DP-REHEARSE-004 if a release would be replaced; also
    the errors of `open_publication`. Raises DpReleaseError: the errors of `pipeline.run`, except
    the errors that only a source or a ledger can cause.
    """
    request = RehearsalRequest(declaration, output, overwrite, bits or Entropy(), progress, state)
    other, stand_ins = _other_mode(declaration), StandIns.of(declaration, on or {}, rows or {})
    if other is not None:
        return other(request, stand_ins)
    queries, plan = prepare(stand_ins.declaration)
    families, metadata = plan.families, metadata_of(stand_ins.declaration, queries, plan.families)
    blank_digests = dict.fromkeys(
        (n for family in families for n in family.published_names), FileDigest("", 0)
    )
    draft = manifest.build(stand_ins.without_ledger, plan, metadata, blank_digests)
    with rehearsal_publication(
        request,
        stand_ins,
        plan,
        draft=draft,
        files=list(truth_files(families, declaration)),
        tables=max_bytes(families) * (1 + MOST_TRUTH_FACTOR),
    ) as release:
        progress("people")
        stand_ins = stand_ins.invent(queries, request.bits)
        with stand_ins.engines(queries) as engines:
            written = write_family_tables(plan, engines, request.bits, release, metadata, progress)
        progress("truth")
        truth = _write_truth(release.folder, stand_ins, queries, plan, families)
        record = manifest.build(stand_ins.without_ledger, plan, metadata, written)
        rehearsal = rehearsal_record([*stand_ins.manifest_records()], truth)
        release.publish(manifest.RehearsalManifest.of(record, rehearsal))
    return release.claim.target


def _other_mode(declaration: Declaration) -> Callable[[RehearsalRequest, StandIns], Path] | None:
    """Return the function that rehearses local or federated releases; None for other releases."""
    kind = kind_of(declaration.spec)
    if kind is LOCAL:
        from dprelease.rehearsal.record_comparison import rehearse_records

        return rehearse_records
    if kind is FEDERATED:
        from dprelease.rehearsal.rehearsed_parties import rehearse_parties

        return rehearse_parties
    return None


def truth_files(families: Sequence[Family], declaration: Declaration) -> Iterator[str]:
    """Yield the names of all files that a rehearsal may contain in addition to published files."""
    for name, _, _ in published_tables(families):
        yield truth_file(name)
    yield from (synthetic_rows_file(name) for name in declaration.tables)
    yield ERRORS


def _write_truth(
    folder: Path,
    stand_ins: StandIns,
    queries: Sequence[Query],
    plan: Plan,
    families: Sequence[Family],
) -> dict[str, FileDigest]:
    """Write the truth files; return the digest and the number of rows of each, by file name."""
    written = write_synthetic_rows(folder, stand_ins)
    columns = columns_to_compare(families, plan)
    outputs = [(name, query.name) for name, query, _ in published_tables(families)]
    errors: dict[str, list[ColumnErrors]] = {}
    for truth in truths(stand_ins, queries):
        for name in (name for name, query_name in outputs if query_name == truth.query.name):
            compared_columns = [column for column in columns if column.table == name]
            table = compare_with_truth(folder, name, truth, compared_columns)
            written[truth_file(name)] = write_marked_table(folder, truth_file(name), table)
            errors[name] = summarize_errors(compared_columns, table)
    written |= write_errors(folder, [record for name, _ in outputs for record in errors[name]])
    return dict(sorted(written.items()))
