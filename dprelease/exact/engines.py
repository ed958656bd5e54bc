"""The engines of one run: opened together, before the first row about people is read."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

from dprelease.errors import DataError, FrameError, QueryError
from dprelease.errors.suggestions import nearest
from dprelease.exact.engine_api import (
    EngineKind,
    QueryEngine,
    RecordEngine,
    Sources,
    tables_to_open,
)
from dprelease.exact.postgres.server_link import Servers, open_servers
from dprelease.exact.reading.frames import kind_of_object, names_in_memory
from dprelease.exact.settings import DEFAULT_SETTINGS, Settings
from dprelease.query.resolve import Query
from dprelease.query.view import PRIVATE_SOURCE
from dprelease.schema.load import Declared
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE, ENGINES
from dprelease.schema.table import Table


@contextmanager
def open_engines(
    queries: Sequence[Query],
    frames: Mapping[str, object],
    spec: ReleaseSpec | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> Iterator[dict[str, QueryEngine]]:
    """Yield the engine of each query, by the name of the query.

    Queries over the same tables share an engine. `spec`: the release, which names the kind of
    engine and its configuration; None for the default engine. The statements of all queries are
    compiled first, so that an error, such as a missing column, occurs before any row about people
    is read.

    Raises DataError: DP-DATA-001 to 006, 008, 009 or 012 if a source is not as declared,
    DP-ENGINE-003 or 004 if the engine can't be set up; DP-SPARK-001 to 004 if Spark is not
    available, or could read a source differently.
    """
    pairs: dict[tuple[str, str | None], list[Query]] = {}
    for query in queries:
        joined = None if query.join is None else query.join.declared.table.name
        pairs.setdefault((query.table.name, joined), []).append(query)
    by_name: dict[str, QueryEngine] = {}
    with ExitStack() as stack:
        tables = _tables_read_by(queries, frames)
        servers = stack.enter_context(open_servers(tables, settings))
        for group in pairs.values():
            sources = replace(_sources_of(group[0], frames), servers=servers, queries=tuple(group))
            kind = engine_kind(DEFAULT_ENGINE if spec is None else spec.engine)
            opening = kind.open(sources, spec, settings)
            engine = stack.enter_context(opening)
            for query in group:
                engine.compile(query)
                by_name[query.name] = engine
            engine.expect(group)
        yield {query.name: by_name[query.name] for query in queries}


def _sources_of(query: Query, frames: Mapping[str, object]) -> Sources:
    """Return the sources of a query: its table and the joined table, or frames for them."""
    own, joined = query.declared, None if query.join is None else query.join.declared
    other = None if joined is None else frame_of(joined.table, frames)
    if joined is not None and joined.table.public:
        refuse_frame_about_people(joined.table, [own.table], frames)
    return Sources(own, frame_of(own.table, frames), joined, other)


def _tables_read_by(queries: Sequence[Query], frames: Mapping[str, object]) -> Iterator[Declared]:
    """Yield the tables whose sources queries read, except those that a frame replaces."""
    for query in queries:
        for declared in (query.declared, None if query.join is None else query.join.declared):
            if declared is not None:
                yield from tables_to_open(declared, frame_of(declared.table, frames))


def engine_kind(name: str) -> EngineKind:
    """Return the kind of engine that has this name in `ENGINES`."""
    kind: EngineKind = importlib.import_module(ENGINES[name]).ENGINE
    return kind


def keep_engine_alive(spec: ReleaseSpec) -> AbstractContextManager[None]:
    """Return a context manager that keeps parts alive which the engines of a release share.

    Raises DataError: DP-SPARK-003 or 004 if Spark is not available.
    """
    return engine_kind(spec.engine).keep_alive(spec)


def open_duckdb(
    declared: Declared,
    frame: object | None,
    settings: Settings = DEFAULT_SETTINGS,
    servers: Servers | None = None,
) -> AbstractContextManager[RecordEngine]:
    """Return a context manager that opens the engine duckdb over one table, or over a frame.

    `frame`: a frame that is read in place of the table's source, or None. `servers`: the
    connections of a run that reads several tables.
    """
    from dprelease.exact.duckdb_factory import ENGINE

    return ENGINE.open(Sources(declared, frame, servers=servers), None, settings)


def refuse_unknown_frames(tables: Iterable[Table], frames: object) -> None:
    """Raise for frames that no table would read, because rows would then come from other sources.

    Raises DataError: DP-DATA-016 for a name that no table has, two frames for one table, or None
    for a frame. Raises FrameError: DP-DATA-020 if `frames` is not a mapping.
    """
    known: dict[str, str] = {}
    for table in tables:
        known[table.name] = table.name
        if table.source is not None and table.source.frame is not None:
            # The name of a table comes before the name of another table's frame, as in `frame_of`.
            known.setdefault(table.source.frame, table.name)
    if not isinstance(frames, Mapping):
        kind = kind_of_object(frames)
        raise FrameError("DP-DATA-020", kind=kind, known=", ".join(known))
    by_table: dict[str, str] = {}
    for name, frame in frames.items():
        problem = None
        if name not in known:
            problem = f"is the name of no table{nearest(str(name), known)}"
        elif frame is None:
            problem = "is None, not a frame"
        elif known[name] in by_table:
            problem = f"names the same table as '{by_table[known[name]]}'"
        if problem is not None:
            raise DataError("DP-DATA-016", name=name, problem=problem, known=", ".join(known))
        by_table[known[name]] = name


def refuse_frame_about_people(
    public: Table, others: Iterable[Table], frames: Mapping[str, object]
) -> None:
    """Raise DP-JOIN-003 if the frame of a public table has rows of a table about people.

    It is recognized if it is also the frame of that table, or has the column of its ids, which the
    public table does not declare.
    """
    frame = frame_of(public, frames)
    private = [table for table in others if not table.public]
    if frame is None:
        return
    if any(frame_of(table, frames) is frame for table in private):
        raise QueryError("DP-JOIN-003", table=public.name, reason=PRIVATE_SOURCE)
    # Compared without case, because the engine finds columns so: ID is the id of people, too.
    known = {name for table in private for name in (table.privacy_unit.id, *table.ids) if name}
    ids = {name.casefold(): name for name in known}
    names = {name.casefold() for name in names_in_memory(frame)}
    found = names & ids.keys() - {name.casefold() for name in public.columns}
    if found:
        reason = (
            f"its frame has the column '{ids[min(found)]}', the id of people; if it is public, "
            "leave the column out"
        )
        raise QueryError("DP-JOIN-003", table=public.name, reason=reason)


def frame_of(table: Table, frames: Mapping[str, object]) -> object | None:
    """Return the frame that is passed for a table, by the table's name or its declared frame's."""
    declared = None if table.source is None else table.source.frame
    return frames.get(table.name, frames.get(declared or ""))
