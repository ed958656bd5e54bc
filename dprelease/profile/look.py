"""Compute the profile of the data of a release for a data steward, without charging a ledger."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dprelease.errors import DeclarationError, OutputError, RunState
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.exact.engines import frame_of, refuse_unknown_frames
from dprelease.exact.settings import Settings
from dprelease.exact.tallies import TallyingEngine, open_tallying_engine
from dprelease.numerics.rounding import finite
from dprelease.planning.declaration_findings import load_declaration
from dprelease.planning.kinds import kind_of
from dprelease.planning.prepare import prepare
from dprelease.profile.bounds import TriedLimit, sums_under_limits, try_limits, unlimited_sums
from dprelease.profile.losses import LeftOutRows
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE
from dprelease.schema.release_parts.variables import parse_assignments

CONFIDENTIAL = (
    "CONFIDENTIAL. These numbers are exact, and as confidential as the data: only for people who "
    "may see the data."
)
WARNING = (
    "A value chosen from these numbers, such as a bound, is chosen from the data: the guarantee "
    "of a release does not cover that choice. Choose bounds from public knowledge, and use this "
    "profile only to see the cost of a wrong bound."
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The exact numbers of a profile: left-out rows by query, and effects of tried limits."""

    left_out: tuple[LeftOutRows, ...]
    bounds: tuple[TriedLimit, ...]

    def __repr__(self) -> str:
        return "<Profile>"

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON values, with the warnings first."""
        return {
            "confidential": CONFIDENTIAL,
            "warning": WARNING,
            "rows": [left_out.to_json() for left_out in self.left_out],
            "bounds": [tried.to_json() for tried in self.bounds],
        }


def profile(
    declaration: Declaration, frames: Mapping[str, object], state: RunState | None = None
) -> Profile:
    """Return the profile of a release, from exact results of its statements.

    `frames` are the frames of tables without a source. The ledger is only read, as in `plan`, and
    not charged. `state` records that rows are read.

    Raises OutputError: DP-PROFILE-003 for single records, several parties, or an engine other than
    duckdb. Raises DpReleaseError: the errors of `prepare`, and the errors of sources that don't
    match their declaration.
    """
    state = RunState() if state is None else state
    _refuse_without_profile(declaration)
    queries, plan = prepare(declaration)
    with state.add_state_to_errors(), ExitStack() as stack:
        engines: dict[str, TallyingEngine] = {}
        engines_by_tables: dict[tuple[str, str | None], TallyingEngine] = {}
        for query in queries:
            pair = query.table.name, None if query.join is None else query.join.declared.table.name
            if pair not in engines_by_tables:
                engines_by_tables[pair] = stack.enter_context(
                    _open_tallies(declaration, query, frames)
                )
            engines[query.name] = engines_by_tables[pair]
            # All queries are compiled before `state` says that rows were read.
            engines[query.name].compile(query)
        state.rows = True
        left_out = tuple(_count_left_out(engines[query.name], query) for query in queries)
        return Profile(left_out, tuple(try_limits(declaration, plan, engines)))


def _refuse_without_profile(declaration: Declaration) -> None:
    """Raise DP-PROFILE-003 if there is no profile for this kind of release or this engine."""
    spec = declaration.spec
    problem = kind_of(spec).profile_problem
    if not problem and spec.engine != DEFAULT_ENGINE:
        problem = f"for the engine {spec.engine} is read by many machines"
    if problem:
        raise OutputError("DP-PROFILE-003", problem=problem, place=declaration.place())


def _open_tallies(declaration: Declaration, query: Query, frames: Mapping[str, object]) -> Any:
    """Return a context manager that opens an engine, which can tally the rows of a query."""
    joined = None
    if query.join is not None:
        joined = frame_of(query.join.declared.table, frames)
    own = frame_of(query.declared.table, frames)
    return open_tallying_engine(query, own, joined, Settings.of(declaration))


def _count_left_out(engine: TallyingEngine, query: Query) -> LeftOutRows:
    """Return how many rows and values a query leaves out, by reason."""
    tallies, bounded = engine.tallies(query), None
    fractions: dict[str, tuple[float | None, float | None]] = {}
    if query.unit.id is not None and query.private is None:
        unlimited = unlimited_sums(engine, query)
        limited = sums_under_limits(engine, query, query.unit)
        bounded = unlimited.rows - limited.rows
        fractions = {
            name: (finite(before), finite(limited.fractions[name]))
            for name, before in unlimited.fractions.items()
        }
    table = query.declared.table
    looked_up = None if table.privacy_unit.lookup is None else table.privacy_unit.lookup.key
    return LeftOutRows.of(query.name, tallies, bounded, fractions, looked_up)


# The profile of a release in Python, for people who may see the data.


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
