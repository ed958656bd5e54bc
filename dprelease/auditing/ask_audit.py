"""The function for audits from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dprelease.auditing.breach_files import refuse_folder, write_outcome
from dprelease.auditing.whole_audit import TIME_LIMIT, run_audit
from dprelease.documents.audit_record import Audit
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.release.api import Release, read_release
from dprelease.release.run_options import with_engine


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
        refuse_folder(Path(output))
    _ = with_engine(loaded.declaration, engine)  # raises for an unknown engine
    outcome = run_audit(
        loaded.declaration, engine=engine, names=queries, time_limit=time_limit, draws=draws
    )
    if output is not None:
        write_outcome(outcome, Path(output))
    return outcome.audit
