"""Check a rehearsal: its tables like those of a release, and the comparison with true values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from dprelease.documents.manifest import RehearsalManifest
from dprelease.documents.rehearsal_manifest import ERRORS, WORDS, RehearsalRecord
from dprelease.documents.rehearsal_truth import ColumnErrors, decode_errors, encode_errors
from dprelease.rehearsal.error_summary import summarize_errors
from dprelease.rehearsal.rehearsal_folder import synthetic_rows_file, truth_file
from dprelease.rehearsal.run import truth_files
from dprelease.rehearsal.truth_comparison import (
    ColumnComparison,
    columns_to_compare,
    published_flag,
    published_tables,
)
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.verification.central import RebuiltRelease, check_central
from dprelease.verification.manifest_comparison import differences
from dprelease.verification.report import Report

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
        asked = [column for column in columns if column.table == name]
        try:
            beside = formats.PUBLISHED_FORMAT.read(report.path / truth_file(name))
            published = formats.PUBLISHED_FORMAT.read(report.path / formats.table_file_name(name))
            if not has_true_values(beside, published, asked):
                yield f"'{truth_file(name)}' is not beside the published table"
                return
            errors += summarize_errors(asked, beside)
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


def has_true_values(beside: pa.Table, published: pa.Table, asked: list[ColumnComparison]) -> bool:
    """Return whether a truth file has all published columns and rows, and their true values."""
    flag = published_flag(asked, published.column_names)
    if flag in beside.column_names:
        import pyarrow.compute as pc

        beside = beside.filter(pc.field(flag))
    same: bool = beside.select(published.column_names).equals(published)
    return same and all(
        {one.true_column, one.rows_column} <= {*beside.column_names} for one in asked
    )
