"""Check rehearsals: the releases, and the comparisons with true values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from dprelease.documents import party_manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.local_manifest import LocalRehearsalManifest
from dprelease.documents.manifest import RehearsalManifest
from dprelease.documents.party_manifest import FederatedRehearsalManifest
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    PARTIES,
    WORDS,
    ColumnErrors,
    PartiesRecord,
    RehearsalRecord,
    decode_errors,
    encode_errors,
)
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
from dprelease.rehearsal.rehearsal_folder import synthetic_rows_file, truth_file
from dprelease.rehearsal.rehearse import truth_files
from dprelease.rehearsal.rehearsed_parties import (
    message_files,
    sum_comparisons,
    sum_records,
    sum_table,
    truth_files_of_sums,
)
from dprelease.rehearsal.truth_comparison import (
    ColumnComparison,
    columns_to_compare,
    published_flag,
    published_tables,
)
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.verification.central import RebuiltRelease, check_central
from dprelease.verification.local_release import check_local
from dprelease.verification.manifest_comparison import check_rebuilt, differences
from dprelease.verification.party_messages import (
    check_trust,
    federated_plan,
    is_message,
)
from dprelease.verification.report import (
    Report,
    is_published_table,
    rebuild_declaration,
    resolve_declaration,
)

if TYPE_CHECKING:
    import pyarrow as pa


def check_rehearsal(report: Report, record: RehearsalManifest) -> None:
    """Add findings on a rehearsal, whose digests have been checked, to a report.

    The rehearsal must have the tables of the release. The files with true values (truth files) must
    also contain the published values, and the recorded errors must follow from both. The true
    values are not computed again from the synthetic rows.
    """
    rebuilt = check_central(report, record.release)
    if rebuilt is None:
        return
    wanted = truth_files(rebuilt.families, rebuilt.declaration)
    check_truth(
        report,
        record.rehearsal,
        rebuilt.declaration,
        wanted,
        lambda: _error_problems(report, rebuilt),
    )


def check_truth(
    report: Report,
    rehearsal: RehearsalRecord,
    declaration: Declaration,
    wanted: Iterable[str],
    errors: Callable[[], Iterable[str]],
) -> None:
    """Add findings on the stand-ins and the true values of a rehearsal to a report.

    `wanted` has the names of all possible truth files. `errors` is a function that returns the
    problems with these files; it is called only if all of them exist.
    """
    problems = [*_stand_in_problems(rehearsal, declaration), *_file_problems(rehearsal, wanted)]
    # Files with other digests than the recorded ones get one finding, and are not read.
    if not problems and not any(f.code == "DP-VERIFY-004" for f in report.findings):
        problems += errors()
    for problem in problems:
        report.add_finding("DP-VERIFY-021", "rehearsal", problem=problem)
    report.checked.append(
        "its errors are the differences between the published and the true tables"
    )


def _stand_in_problems(rehearsal: RehearsalRecord, declaration: Declaration) -> Iterator[str]:
    """Yield the problems with the recorded stand-ins for the sources."""
    if rehearsal.words != WORDS:
        yield "its description of a rehearsal was changed"
    if [one.table for one in rehearsal.stand_ins] != [*declaration.tables]:
        yield "its replacement tables are not those of the declared tables"
    for one in rehearsal.stand_ins:
        given = {name for name in ("rows", "file", "sha256") if getattr(one, name) is not None}
        if given != ({"rows"} if one.by == "invention" else {"file", "sha256"}):
            yield f"it does not state what replaced '{one.table}'"


def _file_problems(rehearsal: RehearsalRecord, names: Iterable[str]) -> Iterator[str]:
    """Yield the problems with the recorded list of truth files."""
    invented = {one.table: one.rows for one in rehearsal.stand_ins if one.by != "public"}
    public = {synthetic_rows_file(one.table) for one in rehearsal.stand_ins if one.by == "public"}
    wanted = {*names} - public
    rows = {file.name: file.rows for file in rehearsal.truth}
    if [file.name for file in rehearsal.truth] != sorted(wanted):
        yield "a file of true values is missing, or invalid"
    elif any(rows[synthetic_rows_file(name)] != number for name, number in invented.items()):
        yield "the number of invented rows differs from the stated one"


def _error_problems(report: Report, rebuilt: RebuiltRelease) -> Iterator[str]:
    """Yield the truth files that lack published values, and the errors that differ."""
    import pyarrow as pa

    columns = columns_to_compare(rebuilt.families, rebuilt.plan)
    errors: list[ColumnErrors] = []
    for name, _, _ in published_tables(rebuilt.families):
        compared = [column for column in columns if column.table == name]
        try:
            truth = formats.PUBLISHED_FORMAT.read(report.path / truth_file(name))
            published = formats.PUBLISHED_FORMAT.read(report.path / formats.table_file_name(name))
            if not has_true_values(truth, published, compared):
                yield f"'{truth_file(name)}' lacks rows or columns of the published table"
                return
            errors += summarize_errors(compared, truth)
        except (OSError, KeyError, ValueError, pa.ArrowException):
            yield f"'{truth_file(name)}' has other columns than it should"
            return
    if not records_errors((report.path / ERRORS).read_bytes(), errors):
        yield f"'{ERRORS}' has other errors than the tables"


def records_errors(raw: bytes, errors: list[ColumnErrors]) -> bool:
    """Return whether a file has these errors, up to rounding differences between processors."""
    if raw == encode_errors(errors):
        return True
    try:
        held = decode_errors(raw)
        same = encode_errors(held) == raw
    except (ValueError, TypeError, RecursionError):
        return False
    found, wanted = ([one.to_json() for one in several] for several in (held, errors))
    return same and not any(differences(found, wanted, "errors"))


def has_true_values(truth: pa.Table, published: pa.Table, compared: list[ColumnComparison]) -> bool:
    """Return whether a truth file has all published columns and rows, and their true values."""
    flag = published_flag(compared, published.column_names)
    if flag in truth.column_names:
        import pyarrow.compute as pc

        truth = truth.filter(pc.field(flag))
    same: bool = truth.select(published.column_names).equals(published)
    return same and all(
        {one.true_column, one.rows_column} <= {*truth.column_names} for one in compared
    )


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
        truth = _read_table(report, truth_file(part.name))
        published = _read_table(report, part.name)
        names = [column.name for column in part.columns]
        true = [truth_column_names(part).true[name] for name in names]
        types = [published.schema.field(name).type for name in names]
        if truth.column_names != [*names, *true] or (
            [truth.schema.field(name).type for name in true] != types
        ):
            raise KeyError(part.name)
        if not truth.select(names).equals(published):
            return truth_file(part.name)
        recorded = _read_table(report, truth_file(estimates_table(part)))
        again = estimates_with_truth(part, columns, truth)
        same = recorded.schema.equals(again.schema) and not any(
            differences(recorded.to_pylist(), again.to_pylist(), "estimates")
        )
        if not same:
            return truth_file(estimates_table(part))
        return record_errors(part, columns, truth, recorded)

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
    recorded = [file.name for file in rehearsal.messages]
    if recorded != [*message_files(queries, plan.parties)]:
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
        truth = _read_table(report, truth_file(query.name))
        if has_true_values(truth, published, columns):
            return summarize_errors(columns, truth)
        return truth_file(query.name)

    yield from _find_problems(report, queries, check_part)


def _find_problems(
    report: Report, parts: Sequence[Part], check_part: Callable[[Part], Errors | str]
) -> Iterator[str]:
    """Yield the problems with the truth files of some tables, and with the recorded errors."""
    import pyarrow as pa

    errors: Errors = []
    for part in parts:
        try:
            outcome = check_part(part)
        except (OSError, KeyError, ValueError, pa.ArrowException, DpReleaseError):
            yield f"'{truth_file(part.name)}' has other columns than it should"
            return
        if isinstance(outcome, str):
            yield f"'{outcome}' differs from the result computed from the other tables"
            return
        errors += outcome
    if not records_errors((report.path / ERRORS).read_bytes(), errors):
        yield f"'{ERRORS}' has other errors than the tables"


def _read_table(report: Report, name: str) -> pa.Table:
    """Return a table of the rehearsal, by the name of the table or of its file."""
    file = name if name.endswith(formats.table_file_name("")) else formats.table_file_name(name)
    return formats.PUBLISHED_FORMAT.read(report.path / file)
