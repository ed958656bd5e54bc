"""The engines of one run: opened together, before the first row about people is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from dprelease.exact.duckdb import Engine
from dprelease.exact.settings import DEFAULT, Settings
from dprelease.query.resolve import Query
from dprelease.schema.table import Table


@contextmanager
def open_engines(
    queries: Sequence[Query], frames: Mapping[str, object], settings: Settings = DEFAULT
) -> Iterator[dict[str, Engine]]:
    """Yield the engine of each query by its name; queries over the same tables share one.

    Every statement is compiled first: a missing column, or a public table whose keys are not
    unique, is refused while nothing about people has been read.

    Raises
    ------
    DataError
        DP-DATA-001 to 006, 008, 009 or 012 if a source is not as declared, DP-ENGINE-003 or 004
        if the engine can't be set up.
    """
    opened: dict[tuple[str, str | None], Engine] = {}
    found: dict[str, Engine] = {}
    with ExitStack() as stack:
        for query in queries:
            joined = None if query.join is None else query.join.declared
            pair = query.table.name, None if joined is None else joined.table.name
            if pair not in opened:
                own = frame_of(query.declared.table, frames)
                other = None if joined is None else frame_of(joined.table, frames)
                opening = Engine.open(query.declared, own, joined, other, settings)
                opened[pair] = stack.enter_context(opening)
            found[query.name] = opened[pair]
            found[query.name].compile(query)
        yield found


def frame_of(table: Table, frames: Mapping[str, object]) -> object | None:
    """Return the frame given for a table, by the table's name or by the declared frame's."""
    declared = None if table.source is None else table.source.frame
    return frames.get(table.name, frames.get(declared or ""))
