"""Write the outcome of an audit, and files that reproduce each breach on two small tables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dprelease.auditing.whole_audit import TIME_LIMIT, Outcome, run_audit
from dprelease.documents.audit_record import Audit, encode_audit
from dprelease.documents.encoding import AUDIT
from dprelease.errors import OutputError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.release.api import Release, read_release
from dprelease.release.folder import refuse_inside_release
from dprelease.release.run_options import with_engine
from dprelease.schema.load import Declaration
from dprelease.system.deferred_signals import temporary_folder

if TYPE_CHECKING:
    from dprelease.auditing.pairs import Pair

SCRIPT = """\
# Two tables of invented rows that differ in one privacy unit, and the release about them: {words}.
# {claimed} is claimed of {query}.{column}; seen: {seen}.
# No ledger is charged for them, and nothing is signed.
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

import dprelease

here = Path(__file__).parent
release = dprelease.read_release(here / {release!r}{variables})
spec = release.declaration.spec.model_copy(update={{"ledger": None}})
release = dprelease.Release(replace(release.declaration, spec=spec, key=None))
for side in ("one", "other"):
    frames = {{path.stem: pq.read_table(path) for path in (here / side).glob("*.parquet")}}
    release.run(output=here / f"out-{{side}}", frames=frames)
"""


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write the outcome of an audit into a new folder, and return the path of audit.json.

    For each breach, the folder has a subfolder with the files of the declaration, the tables of
    both sides, and a script that runs the release without its ledger. If the function raises an
    error, there is no new folder.

    Raises OutputError: DP-AUDIT-002 if the folder exists, DP-OUTPUT-024 if it is in a release,
    DP-OUTPUT-002 if the operating system refuses to write.
    """
    refuse_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(".dprelease-audit-", folder.parent) as private:
            staging = private / "made"
            staging.mkdir()
            _write_all(outcome, staging)
            refuse_folder(folder)
            staging.rename(folder)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError(
            "DP-OUTPUT-002", name=folder.name, reason=reason, refused_by=problem
        ) from None
    return folder / AUDIT


def _write_all(outcome: Outcome, folder: Path) -> None:
    """Write the outcome of an audit, and a folder with a script and tables for each finding."""
    (folder / AUDIT).write_bytes(encode_audit(outcome.audit))
    declaration = outcome.declaration
    variables = f", variables={declaration.variables!r}" if declaration.variables else ""
    for number, (found, pair) in enumerate(outcome.pairs, 1):
        finding_folder = folder / f"finding-{number}"
        release = _write_declaration_files(declaration, finding_folder)
        _write_pair(pair, finding_folder)
        texts = {key: " ".join(text.split()) for key, text in found.model_dump().items()}
        script = SCRIPT.format(
            release=release.as_posix(), variables=variables, words=texts["pair"],
            **{key: texts[key] for key in ("claimed", "query", "column", "seen")},
        )  # fmt: skip
        (finding_folder / "reproduce.py").write_text(script, encoding="utf-8")


def refuse_folder(folder: Path) -> None:
    """Raise DP-AUDIT-002 for an existing folder, DP-OUTPUT-024 for a folder in a release."""
    refuse_inside_release(folder)
    if os.path.lexists(folder):
        raise OutputError("DP-AUDIT-002", name=folder.name)


def _write_declaration_files(declaration: Declaration, finding_folder: Path) -> PurePosixPath:
    """Write all files that a release was read from, and return the path of the release file.

    The release file is written into as many nested folders as its relative paths have parts `..`,
    so that all files are inside the folder of the finding. Files with an absolute path are not
    written.
    """
    names = [PurePosixPath(name) for name in (*declaration.texts, *declaration.copies)]
    above = max((name.parts.count("..") for name in names), default=0)
    subfolders = PurePosixPath(*["declared"] * above)
    declaration_folder = finding_folder / subfolders
    for name, text in declaration.texts.items():
        if not PurePosixPath(name).is_absolute():
            _make_folders_of(declaration_folder, name).write_text(text, encoding="utf-8")
    for name, (_, path) in declaration.copies.items():
        if not PurePosixPath(name).is_absolute():
            shutil.copyfile(path, _make_folders_of(declaration_folder, name))
    return subfolders / declaration.document.path.name


def _make_folders_of(declaration_folder: Path, name: str) -> Path:
    """Create the parent folders of a file, and return its path."""
    declaration_folder.mkdir(parents=True, exist_ok=True)
    path = Path(os.path.normpath(declaration_folder / name))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_pair(pair: Pair, finding_folder: Path) -> None:
    """Write the tables of both sides of a pair as Parquet files."""
    import pyarrow.parquet as pq

    for side, tables in zip(("one", "other"), pair.sides, strict=True):
        (finding_folder / side).mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            pq.write_table(table, finding_folder.absolute() / side / f"{name}.parquet")


# The function for audits from Python.


@checked_arguments
def audit(
    release: str | Path | Release,
    *,
    queries: Sequence[str] = (),
    engine: str | None = None,
    time_limit: float = TIME_LIMIT,
    draws: bool = True,
    output: str | Path | None = None,
    variables: Mapping[str, object] | None = None,
) -> Audit:
    """Test a release on neighbouring tables of synthetic rows, and return the outcome.

    An audit opens no declared source. The attribute `holds` of the outcome says whether every
    tested claim is true.

    Parameters
    ----------
    release
        A release, or the file that declares it.
    queries
        The names of the queries to audit; by default, all queries are audited.
    engine
        The engine that reads the synthetic rows, instead of the declared engine.
    time_limit
        The number of seconds after which no further check starts.
    draws
        Whether the audit also draws millions of noisy answers, which takes most of its time.
    output
        A new folder for audit.json, and for files that reproduce each finding.
    variables
        The values of the variables in the release file, if `release` is a file.

    Raises
    ------
    QueryError
        DP-AUDIT-001 for an unknown query.
    OutputError
        DP-AUDIT-002 for an existing folder.
    DpReleaseError
        The errors of `read_release` and of `Release.plan`.
    """
    check_paths(release, output)
    loaded = release if isinstance(release, Release) else read_release(release, variables=variables)
    if output is not None:
        # Before the audit, which takes minutes and would otherwise be lost.
        refuse_folder(Path(output))
    _ = with_engine(loaded.declaration, engine)  # raises for an unknown engine
    outcome = run_audit(
        loaded.declaration, engine=engine, names=queries, time_limit=time_limit, draws=draws
    )
    if output is not None:
        write_outcome(outcome, Path(output))
    return outcome.audit
