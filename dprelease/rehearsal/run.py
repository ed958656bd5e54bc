"""Run a rehearsal: the steps of a release, over stand-ins, and then the truth files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.rehearsal_errors import ColumnErrors
from dprelease.documents.rehearsal_manifest import ERRORS, rehearsal_record
from dprelease.documents.release_metadata import metadata_of
from dprelease.errors import RunState
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.kinds import FEDERATED, LOCAL, kind_of
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.postprocess.families import Family
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
from dprelease.rehearsal.truth_comparison import (
    columns_to_compare,
    compare_with_truth,
    published_tables,
)
from dprelease.release.disk import most_bytes
from dprelease.release.runs.family_run import publish_families
from dprelease.schema.load import Declaration

BESIDE = 4
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
    """Rehearse a release and return the folder; on any failure nothing becomes readable.

    No declared source is opened, and nothing is charged. `on` has public files that replace tables,
    by name, and `rows` the number of rows of the other tables, which are generated. `output` is by
    default a folder next to that of the release. `bits` is for tests.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-001 for more parties than can be rehearsed, 003 for an invalid stand-in file.
    OutputError
        DP-REHEARSE-004 if a release would be replaced; also the errors of `publishing`.
    DpReleaseError
        The errors of `pipeline.run`, except those that only a source or a ledger can cause.
    """
    request = RehearsalRequest(declaration, output, overwrite, bits or Entropy(), progress, state)
    other, cast = _other_mode(declaration), Cast.of(declaration, on or {}, rows or {})
    if other is not None:
        return other(request, cast)
    queries, plan = prepare(cast.declaration)
    families, metadata = plan.families, metadata_of(cast.declaration, queries, plan.families)
    blank = dict.fromkeys(
        (n for family in families for n in family.published_names), FileDigest("", 0)
    )
    draft = manifest.build(cast.unpaid, plan, metadata, blank)
    with rehearsing(
        request,
        cast,
        plan,
        draft=draft,
        files=list(truth_names(families, declaration)),
        tables=most_bytes(families) * (1 + BESIDE),
    ) as release:
        progress("people")
        cast = cast.invent(queries, request.bits)
        with cast.engines(queries) as engines:
            written = publish_families(plan, engines, request.bits, release, metadata, progress)
        progress("truth")
        truth = _write_truth(release.folder, cast, queries, plan, families)
        record = manifest.build(cast.unpaid, plan, metadata, written)
        rehearsal = rehearsal_record([*cast.records()], truth)
        release.publish(manifest.RehearsalManifest.of(record, rehearsal))
    return release.claim.target


def _other_mode(declaration: Declaration) -> Callable[[RehearsalRequest, Cast], Path] | None:
    """Return the function that rehearses records or parties; None for tables of aggregates."""
    kind = kind_of(declaration.spec)
    if kind is LOCAL:
        from dprelease.rehearsal.rehearsed_records import rehearse_records

        return rehearse_records
    if kind is FEDERATED:
        from dprelease.rehearsal.rehearsed_parties import rehearse_parties

        return rehearse_parties
    return None


def truth_names(families: Sequence[Family], declaration: Declaration) -> Iterator[str]:
    """Yield the names of all possible files of a rehearsal other than published files."""
    for name, _, _ in published_tables(families):
        yield truth_of(name)
    yield from (people_of(name) for name in declaration.tables)
    yield ERRORS


def _write_truth(
    folder: Path, cast: Cast, queries: Sequence[Query], plan: Plan, families: Sequence[Family]
) -> dict[str, FileDigest]:
    """Write the truth files, and return digests and rows by file."""
    written = written_people(folder, cast)
    columns = columns_to_compare(families, plan)
    outputs = [(name, query.name) for name, query, _ in published_tables(families)]
    errors: dict[str, list[ColumnErrors]] = {}
    for truth in truths(cast, queries):
        for name in (name for name, query_name in outputs if query_name == truth.query.name):
            asked_of = [column for column in columns if column.table == name]
            table = compare_with_truth(folder, name, truth, asked_of)
            written[truth_of(name)] = written_table(folder, truth_of(name), table)
            errors[name] = summary(asked_of, table)
    written |= written_errors(folder, [record for name, _ in outputs for record in errors[name]])
    return dict(sorted(written.items()))
