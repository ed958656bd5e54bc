"""Functions on releases and release files: check, plan and run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from dprelease.errors import DeclarationError, DpReleaseError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.error_tree import EXIT_UNEXPECTED
from dprelease.errors.local_paths import check_paths
from dprelease.planning.declaration_findings import single_errors
from dprelease.planning.plan import Plan
from dprelease.release.api import NO_MAPPING, Release, RunOptions, read_release
from dprelease.release.check_result import CheckResult
from dprelease.release.run_result import RunResult
from dprelease.schema.load import is_table_schema, read_table

ReleaseLike = Release | Mapping[str, object] | str | Path
"""A release: a `Release`, a mapping in the form of a release file, or the path of one."""


@checked_arguments
def check(release: ReleaseLike, *, variables: Mapping[str, object] | None = None) -> CheckResult:
    """Check a release or the file of a table schema, and return all errors; opens no data.

    `variables`: the values of the release's variables by name.
    """
    name = Path(release).name if isinstance(release, str | os.PathLike) else "Release"
    try:
        if isinstance(release, str | os.PathLike):
            check_paths(release)
            if is_table_schema(Path(release)):
                return CheckResult.of_schema(read_table(Path(release)))
        checked = _release_of(release, variables)
        with checked._positions_in_mapping():
            return CheckResult.of_release(checked.declaration)
    except DpReleaseError as error:
        if error.exit_code == EXIT_UNEXPECTED:  # the system failed, and the release may be valid
            raise
        return CheckResult.failed(name, single_errors(error))


@checked_arguments
def plan(release: ReleaseLike, *, variables: Mapping[str, object] | None = None) -> Plan:
    """Return mechanism, privacy cost and expected error of every column; opens no data.

    `variables`: the values of the release's variables by name. Raises the errors of `Release.plan`.
    """
    return _release_of(release, variables).plan()


@checked_arguments
def run(
    release: ReleaseLike,
    *,
    variables: Mapping[str, object] | None = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Publish a release, and return its folder, its digest and the budget that it spent.

    `variables`: the values of the release's variables by name. The other options, and the errors,
    are those of `Release.run`.
    """
    return _release_of(release, variables).publish(**options)


def _release_of(release: ReleaseLike, variables: Mapping[str, object] | None) -> Release:
    """Return a release of any form; variables belong to files and mappings."""
    if isinstance(release, Release):
        if variables:
            problem = "pass the variables where the release is read or declared"
            raise DeclarationError("DP-DECL-003", problem=problem)
        return release
    if isinstance(release, str | os.PathLike):
        return read_release(release, variables=variables)
    if not isinstance(release, Mapping):
        raise DeclarationError("DP-DECL-003", problem=NO_MAPPING)
    return Release(release, variables=variables)
