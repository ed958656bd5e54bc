"""The profile of a release in Python, for people who may see the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from dprelease.errors import DeclarationError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.exact.engines import refuse_unknown_frames
from dprelease.planning.declaration_findings import load_declaration
from dprelease.profile.look import Profile, profile
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.variables import parse_assignments


class DeclaredRelease(Protocol):
    """A `dprelease.Release`: its declaration, and the frames that it was declared with."""

    declaration: Declaration

    @property
    def frames(self) -> Mapping[str, object]:
        """Return the frames by the name of their table."""


@checked_arguments
def profile_release(
    release: str | Path | DeclaredRelease,
    *,
    variables: Mapping[str, object] | None = None,
    frames: Mapping[str, object] | None = None,
) -> Profile:
    """READ THE DATA, and return exactly what a release would leave out. Confidential.

    Nothing is charged, published or noted. A choice made from this is made from the data. The
    result is not printed by accident: its `to_json` has the numbers.

    Parameters
    ----------
    release
        A `Release`, or the path of a release file.
    variables
        The values of the variables of a release file by name.
    frames
        Frames that replace the declared sources, as in `Release.run`.

    Raises
    ------
    OutputError
        DP-PROFILE-003 for single records, several parties, or an engine other than duckdb.
    DpReleaseError
        The errors of the release file, and of sources that don't match their declaration.
    """
    own: Mapping[str, object] = {}
    if isinstance(release, str | os.PathLike):
        check_paths(release)
        declaration = load_declaration(Path(release), parse_assignments(variables))
    elif isinstance(getattr(release, "declaration", None), Declaration) and not variables:
        declaration, own = release.declaration, release.frames
    else:
        problem = "a Release is needed, or the path of a release file with its variables"
        raise DeclarationError("DP-DECL-003", problem=problem)
    tables = (declared.table for declared in declaration.tables.values())
    refuse_unknown_frames(tables, {} if frames is None else frames)
    return profile(declaration, {**own, **(frames or {})})
