"""Audits from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dprelease.auditing.breach_files import refuse_folder, write_outcome
from dprelease.auditing.whole_audit import TIME_LIMIT, run_audit
from dprelease.documents.audits.audit_record import Audit
from dprelease.errors.local_paths import check_paths
from dprelease.release.api import Release, read_release


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
    """Put a release to the test on neighbouring tables of invented rows, and return the outcome.

    No declared source is opened. `holds` of what comes back says whether all did.

    Parameters
    ----------
    release
        A release, or the file that declares it.
    queries
        Those that are audited, by name; all by default.
    engine
        What reads the invented rows, in place of the declared engine.
    time_limit
        Start no further check after this many seconds.
    draws
        Whether answers are drawn by the million as well, which takes nearly all of the time.
    output
        A folder, which is not there yet, for audit.json and what reproduces each finding.
    variables
        Of the release file, where it is read here.

    Raises
    ------
    QueryError
        DP-AUDIT-001 for a name of no query.
    OutputError
        DP-AUDIT-002 for a folder that is there.
    DpReleaseError
        As `read_release` and `Release.plan`.
    """
    check_paths(release, output)
    asked = release if isinstance(release, Release) else read_release(release, variables=variables)
    if output is not None:
        refuse_folder(Path(output))
    outcome = run_audit(
        asked.declaration, engine=engine, names=queries, time_limit=time_limit, draws=draws
    )
    if output is not None:
        write_outcome(outcome, Path(output))
    return outcome.audit
