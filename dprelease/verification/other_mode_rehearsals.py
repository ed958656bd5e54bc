"""Check rehearsals of single records and of parties: the releases, and their true values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from dprelease.documents import party_manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.local_manifest import LocalRehearsalManifest
from dprelease.documents.party_manifest import FederatedRehearsalManifest
from dprelease.documents.rehearsal_manifest import ERRORS, PARTIES, PartiesRecord
from dprelease.documents.rehearsal_truth import ColumnErrors
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.errors import DpReleaseError
from dprelease.planning.federated_plan import FederatedPlan
from dprelease.planning.kinds import FEDERATED
from dprelease.planning.local_plan import LocalPlan
from dprelease.query.local_records import Records
from dprelease.query.resolve import Query
from dprelease.rehearsal.error_summary import summarize_errors
from dprelease.rehearsal.record_comparison import (
    estimates_table,
    estimates_with_truth,
    record_errors,
    truth_column_names,
    truth_files_of_records,
)
from dprelease.rehearsal.rehearsal_folder import truth_file
from dprelease.rehearsal.rehearsed_parties import (
    message_files,
    sum_comparisons,
    sum_records,
    sum_table,
    truth_files_of_sums,
)
from dprelease.tables import formats
from dprelease.verification.local_release import check_local
from dprelease.verification.manifest_comparison import check_rebuilt, differences
from dprelease.verification.party_messages import (
    check_trust,
    federated_plan,
    is_message,
)
from dprelease.verification.rehearsal_checks import check_truth, has_true_values, records_errors
from dprelease.verification.report import (
    Report,
    is_published_table,
    rebuild_declaration,
    resolve_declaration,
)

if TYPE_CHECKING:
    import pyarrow as pa

Errors = list[ColumnErrors]
Part = TypeVar("Part", Query, Records)


def check_rehearsed_records(report: Report, record: LocalRehearsalManifest) -> None:
    """Add findings on a rehearsal of single records, whose digests are checked, to a report."""
    plan = check_local(report, record.release)
    if plan is None:
        return
    declaration = rebuild_declaration(record, report.path)
    wanted = truth_files_of_records(plan, declaration)
    check_truth(
        report, record.rehearsal, declaration, wanted, lambda: _record_problems(report, plan)
    )


def _record_problems(report: Report, plan: LocalPlan) -> Iterator[str]:
    """Yield the truth files that lack published records, and the errors that differ."""

    def check_part(part: Records) -> Errors | str:
        """Return the errors of a table of records, or the file that is wrong."""
        columns = plan.of_records(part.name)
        beside = _read_table(report, truth_file(part.name))
        published = _read_table(report, part.name)
        names = [column.name for column in part.columns]
        true = [truth_column_names(part).true[name] for name in names]
        types = [published.schema.field(name).type for name in names]
        if beside.column_names != [*names, *true] or (
            [beside.schema.field(name).type for name in true] != types
        ):
            raise KeyError(part.name)
        if not beside.select(names).equals(published):
            return truth_file(part.name)
        told = _read_table(report, truth_file(estimates_table(part)))
        again = estimates_with_truth(part, columns, beside)
        same = told.schema.equals(again.schema) and not any(
            differences(told.to_pylist(), again.to_pylist(), "estimates")
        )
        if not same:
            return truth_file(estimates_table(part))
        return record_errors(part, columns, beside, told)

    yield from _find_problems(report, plan.records, check_part)


def check_rehearsed_parties(report: Report, record: FederatedRehearsalManifest) -> None:
    """Add findings on a rehearsal of all parties, whose digests are checked, to a report.

    The messages of each party must have the required columns and keys, and the published sums must
    be the sums of these messages.
    """
    resolved = resolve_declaration(report, record, FEDERATED)
    if resolved is None:
        return
    declaration, queries = resolved
    described = ReleaseMetadata(declaration.spec)
    plan = federated_plan(report, record, declaration, queries)
    if plan is None:
        return
    if not _check_messages(report, record.rehearsal, described, queries, plan):
        return
    recorded = {file.query: FileDigest(file.sha256, file.rows) for file in record.files}
    sums = {query.name: recorded.get(query.name, FileDigest("", 0)) for query in queries}
    blank = dict.fromkeys((query.name for query in queries), "")
    own = party_manifest.build(declaration, queries, plan, blank, 1)
    files = sum_records(queries, described, sums)
    check_rebuilt(report, record, FederatedRehearsalManifest.of(own, files, record.rehearsal))
    check_trust(report, record, plan)
    wanted = truth_files_of_sums(queries, declaration)
    check_truth(
        report, record.rehearsal, declaration, wanted, lambda: _sum_problems(report, queries, plan)
    )


def _check_messages(
    report: Report,
    rehearsal: PartiesRecord,
    described: ReleaseMetadata,
    queries: Sequence[Query],
    plan: FederatedPlan,
) -> bool:
    """Return whether the messages of every party and all sums are valid."""
    told = [file.name for file in rehearsal.messages]
    if told != [*message_files(queries, plan.parties)]:
        report.add_finding("DP-VERIFY-021", "rehearsal", problem="it lacks messages of a party")
        return False
    wrong = []
    for query in queries:
        told_of, sums = described.messages(query), described.sums(query)
        for party in range(1, plan.parties + 1):
            folder = report.path / PARTIES / str(party)
            if not is_message(folder, query, told_of, rehearsal=True):
                wrong.append(f"{PARTIES}/{party}/{told_of.file}")
        if not is_published_table(report.path, sums, query.keys.size, rehearsal=True):
            wrong.append(sums.file)
    for name in wrong:
        report.add_finding("DP-VERIFY-006", name=name)
    report.checked.append("rows, columns and keys of every party's messages follow, and of sums")
    return not wrong


def _sum_problems(report: Report, queries: Sequence[Query], plan: FederatedPlan) -> Iterator[str]:
    """Yield sums that differ from the sums of messages, or are missing in the truth files."""

    def check_part(query: Query) -> Errors | str:
        """Return the errors of a table of sums, or the file that is wrong."""
        published = _read_table(report, query.name)
        if not published.equals(sum_table(report.path, query, plan)):
            return formats.table_file_name(query.name)
        columns = sum_comparisons(query, plan)
        beside = _read_table(report, truth_file(query.name))
        if has_true_values(beside, published, columns):
            return summarize_errors(columns, beside)
        return truth_file(query.name)

    yield from _find_problems(report, queries, check_part)


def _find_problems(
    report: Report, parts: Sequence[Part], found: Callable[[Part], Errors | str]
) -> Iterator[str]:
    """Yield the problems with the truth files of some tables, and with the recorded errors."""
    import pyarrow as pa

    errors: Errors = []
    for part in parts:
        try:
            told = found(part)
        except (OSError, KeyError, ValueError, pa.ArrowException, DpReleaseError):
            yield f"'{truth_file(part.name)}' has other columns than it should"
            return
        if isinstance(told, str):
            yield f"'{told}' is not what the tables beside it make of it"
            return
        errors += told
    if not records_errors((report.path / ERRORS).read_bytes(), errors):
        yield f"'{ERRORS}' has other errors than the tables"


def _read_table(report: Report, name: str) -> pa.Table:
    """Return a table of the rehearsal, by the name of the table or of its file."""
    file = name if name.endswith(formats.table_file_name("")) else formats.table_file_name(name)
    return formats.PUBLISHED_FORMAT.read(report.path / file)
