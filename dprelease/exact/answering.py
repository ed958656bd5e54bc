"""What every engine can do, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from dprelease.exact.results.partitions import Partitions
from dprelease.exact.results.true_table import ExactTable, Integers
from dprelease.exact.settings import Settings
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.schema.release import ReleaseSpec
from dprelease.system.late_dataclasses import dataclass

if TYPE_CHECKING:
    from dprelease.exact.postgres.server_link import Servers
    from dprelease.exact.results.true_records import ExactRecords
    from dprelease.query.local_records import Records

Task = TypeVar("Task")
Made = TypeVar("Made")


class Answering(Protocol):
    """An open engine; all of them answer the same, to the last bit."""

    def compile(self, query: Query) -> object:
        """Check a query against what the sources are; reads no row about people.

        Raises
        ------
        DataError
            If a source has not what the query needs.
        """

    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, zero where there is no row.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """

    def partitions(self, query: Query) -> Partitions:
        """Return the partitions of a query whose keys are not public, and their units.

        Raises
        ------
        DataError
            As `run`.
        """


@runtime_checkable
class Expecting(Protocol):
    """An engine that reads rows once for several queries, if it is told which are to come."""

    def expect(self, queries: Sequence[Query]) -> None:
        """Plan for queries of which each is going to be run once; reads nothing."""


@runtime_checkable
class Holding(Protocol):
    """An engine that holds what the tables of a family have in common."""

    def let_go(self) -> None:
        """Drop it, once all of these tables have been read."""


@runtime_checkable
class Early(Protocol):
    """An engine that can be closed while what it answered last is noised and published."""

    def close_early(self) -> None:
        """Begin to, for nothing is asked of it any more; its block waits until it is done."""


@runtime_checkable
class Spreading(Protocol):
    """An engine that can have noise added where the cells are."""

    def noised(
        self, query: Query, noise: Callable[[ExactTable], Mapping[str, Integers]]
    ) -> Iterator[Mapping[str, Integers]] | None:
        """Return noised vectors, some cells after others; None where the noise is left to others.

        All noise has been drawn by then, once for each cell. What is returned is read to its end.

        Raises
        ------
        DataError
            As `Answering.run`.
        """


@runtime_checkable
class Working(Protocol):
    """An engine whose machines can work on what is published, too: see `Spread`."""

    def spread(self, work: Callable[[Task], Made], tasks: Iterable[Task]) -> Iterator[Made]:
        """Yield what the work makes of each task, in their order.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails.
        """


class Recording(Answering, Protocol):
    """An engine that also reads single records."""

    def compile_records(self, records: Records) -> object:
        """Check records against what the source is; as `Answering.compile`."""

    def records(self, records: Records) -> ExactRecords:
        """Return the true values of every record, in the order of the source.

        Raises as `Answering.run`.
        """


@dataclass(frozen=True, slots=True)
class Sources:
    """What one engine reads: a table, and maybe one joined to it; frames stand in for either."""

    declared: Declared
    frame: object | None = None
    joined: Declared | None = None
    joined_frame: object | None = None
    servers: Servers | None = None
    """The connections of the run, where tables are on servers; an engine alone makes its own."""
    queries: tuple[Query, ...] | None = None
    """All that the engine is going to be asked, where that is known."""


class EngineKind(Protocol):
    """A kind of engine, which a module declares as its `ENGINE`.

    To import that module loads no engine: `left_open` is asked where none is started.
    """

    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[Answering]:
        """Return an engine over these sources; it holds nothing when its block is left.

        `spec` is the release that it answers for, if there is one; `settings` are those of DuckDB.

        Raises
        ------
        DataError
            DP-DATA-001, 003, 008 or 009 if a source can't be opened as declared; what else the
            engine can't do.
        """

    def left_open(self, spec: ReleaseSpec) -> list[str]:
        """Return what the engine shows to others than those who get the release, in words."""


@runtime_checkable
class Beginning(Protocol):
    """A kind of engine of which a part takes long to open, and needs to know no source."""

    def begun(self) -> AbstractContextManager[None]:
        """Let that part be opened meanwhile, for the first engine that is opened in the block.

        Raises nothing: what can't be opened is for that engine to tell.
        """


@runtime_checkable
class Keeping(Protocol):
    """A kind of engine of which several share something that takes long to start."""

    def kept(self, spec: ReleaseSpec) -> AbstractContextManager[None]:
        """Keep it for all engines of this release that are opened in the block.

        Raises
        ------
        DataError
            As `EngineKind.open`, for what the engine can't do.
        """
