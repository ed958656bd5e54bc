"""Rehearse a release: publish a release of the stand-ins, then write the truth files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    TRUTH,
    ColumnErrors,
    Figures,
    errors_in,
    rehearsal_record,
)
from dprelease.documents.release_metadata import metadata_of
from dprelease.errors import DeclarationError, RunState, UsageError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
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
from dprelease.release.api import Release, read_release
from dprelease.release.disk import max_bytes
from dprelease.release.runs.family_run import write_family_tables
from dprelease.schema.load import Declaration
from dprelease.schema.model import shorten
from dprelease.schema.rehearsal_spec import MOST_ROWS
from dprelease.tables import formats

if TYPE_CHECKING:
    import pandas as pd


# Read the options of a rehearsal: the number of rows of tables, and public stand-in files.

OptionValues = Sequence[str | int | Path] | Mapping[str, int | str | Path] | str | int | Path | None


def requested_rows(declaration: Declaration, options: OptionValues) -> dict[str, int]:
    """Return the requested numbers of rows, by table.

    The option `N` is the number of rows of every table about people, and the option `table=N` the
    number of rows of one table.

    Raises DeclarationError: DP-REHEARSE-002 for an invalid number of rows, or an unknown table.
    """
    about_people = [name for name, d in declaration.tables.items() if not d.table.public]
    rows: dict[str, int] = {}
    for name, written in _values_by_table(options):
        text = written.replace(",", "").replace("_", "")
        known = name is None or name in declaration.tables
        if not known or not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_ROWS:
            found = written if name is None else f"{name}={written}"
            tables = ", ".join(declaration.tables)
            raise DeclarationError("DP-REHEARSE-002", found=shorten(found), known=tables)
        for table in about_people if name is None else [name]:
            if name is not None or table not in rows:
                rows[table] = int(text)
    return rows


def requested_files(declaration: Declaration, options: OptionValues) -> dict[str, Path]:
    """Return the stand-in files, by table.

    The option `FILE=table` names the table that the file replaces; `FILE` replaces the only table
    about people.

    Raises DeclarationError: DP-PATH-001 for a URI, DP-REHEARSE-003 for a file whose table is
    unknown or missing.
    """
    check_paths(options)
    files: dict[str, Path] = {}
    for name, written in _values_by_table(options, file_first=True, known=[*declaration.tables]):
        about_people = [n for n, d in declaration.tables.items() if not d.table.public]
        problem = ""
        if name is None and len(about_people) != 1:
            problem = f"name the table, as in FILE=table; the tables are {', '.join(about_people)}"
        table = name or about_people[0]
        if not problem and table not in declaration.tables:
            problem = f"there is no such table; the tables are {', '.join(declaration.tables)}"
        elif not problem and table in files:
            problem = "another file already replaces it"
        if problem:
            file, named_table = shorten(Path(written).name), name or "?"
            raise DeclarationError("DP-REHEARSE-003", file=file, table=named_table, problem=problem)
        check_paths(written)
        files[table] = Path(written)
    return files


def _values_by_table(
    options: OptionValues, *, file_first: bool = False, known: Sequence[str] = ()
) -> Iterator[tuple[str | None, str]]:
    """Yield the name of the table (None if an option names no table) and the value of each option.

    `file_first` says that the table's name comes after the value, and `known` are the tables that
    may be named there.
    """
    given: object = options
    if given is not None and not isinstance(given, str | int | Path | Mapping | Sequence):
        wanted, kind = "a value, a list of values, or a value for each table", type(given)
        raise UsageError("DP-SESSION-016", name="rows and on", wanted=wanted, kind=kind.__name__)
    if isinstance(options, Mapping):
        yield from ((str(name), str(value)) for name, value in options.items())
        return
    pair_texts = [options] if isinstance(options, str | int | Path) else list(options or ())
    for pair_text in map(str, pair_texts):
        left, equals, right = pair_text.rpartition("=") if file_first else pair_text.partition("=")
        if file_first:
            is_table = bool(equals) and right in known
            yield (right, left) if is_table else (None, pair_text)
        else:
            yield (left, right) if equals else (None, pair_text)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A finished rehearsal; `folder` is the path of its folder."""

    folder: Path

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Return the published tables with their true values, by the name of the table.

        Each table is read from its file when it is accessed.
        """
        return _TruthFrames(self.folder / TRUTH)

    @property
    def errors(self) -> pd.DataFrame:
        """Return the errors of the published values.

        The frame has one row for each published column and each size class. The size class of a
        cell is an interval that contains its true number of rows. In the frame's rows with the
        size class "all", the errors are those of all cells together.
        """
        import pandas as pd

        return pd.DataFrame(
            [row for column in errors_in(self.folder) for row in error_rows(column)]
        )


def error_rows(column: ColumnErrors) -> Iterator[dict[str, object]]:
    """Yield the errors of one column as rows: one for each size class, then one for all cells."""
    size_classes: list[tuple[str, Figures]] = [(one.rows, one) for one in column.classes]
    for rows, figures in (*size_classes, ("all", column)):
        yield {
            "table": column.table,
            "column": column.column,
            "unit": column.unit,
            "rows": rows,
            **{name: getattr(figures, name) for name in Figures.model_fields},
            "confidence": column.confidence,
            "expected": column.expected,
        }


class _TruthFrames(Mapping[str, Any]):
    """The truth tables in a folder as pandas frames, by the name of the published table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in set(self):
            raise KeyError(name)
        frame: pd.DataFrame = formats.PUBLISHED_FORMAT.read(
            self._folder / formats.table_file_name(name)
        ).to_pandas()
        return frame

    def __iter__(self) -> Iterator[str]:
        for path in sorted(self._folder.rglob(formats.table_file_name("*"))):
            name = path.relative_to(self._folder).with_suffix("").as_posix()
            if not name.startswith("people/"):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


@checked_arguments
def rehearse(
    release: str | Path | Release,
    *,
    rows: OptionValues = None,
    on: OptionValues = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    variables: Mapping[str, object] | None = None,
) -> Rehearsal:
    """Run a whole release on synthetic people, and compare the published with the true values.

    A rehearsal opens no declared source and charges no ledger: you see tables, errors and margins
    before any real record is read. The manifest and every file are marked as a rehearsal, and no
    command accepts a rehearsal as a release.

    Parameters
    ----------
    release
        A release, or the file that declares it.
    rows
        The number of synthetic rows: one number for all tables about people, or a number for each
        table. By default, a table has the number of rows in its `rehearsal: {rows: ...}`, or the
        number of privacy units in its `size`; otherwise it has 100,000 rows.
    on
        A public file that replaces the only table about people, or a file for each table.
    output
        The folder of the rehearsal. The default is the declared folder of the release with the
        suffix `-rehearsal`.
    overwrite
        Whether to replace an existing rehearsal; a release is never replaced.
    variables
        The values of the variables in the release file, if `release` is a file.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-001 to 003 for a release that can't be rehearsed, or for invalid options.
    OutputError
        DP-REHEARSE-004 for a folder that contains a release; also the output errors of a run.
    DpReleaseError
        The errors of `read_release` and of `Release.plan`.
    """
    check_paths(release, on, output)
    loaded = release if isinstance(release, Release) else read_release(release, variables=variables)
    declaration = loaded.declaration
    folder = write_rehearsal(
        declaration,
        output=None if output is None else Path(output),
        overwrite=overwrite,
        on=requested_files(declaration, on),
        rows=requested_rows(declaration, rows),
    )
    return Rehearsal(folder)


MOST_TRUTH_FACTOR = 4
"""The maximum size of the truth files, as a multiple of the size of the published tables."""


def write_rehearsal(
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
