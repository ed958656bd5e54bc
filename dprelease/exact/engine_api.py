"""What every engine can do, and how it is opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dprelease.exact.results.partitions import Partitions
from dprelease.exact.results.true_table import ExactTable, Integers
from dprelease.exact.settings import Settings
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.schema.release import ReleaseSpec
from dprelease.system.prefetch import in_threads

if TYPE_CHECKING:
    from dprelease.exact.postgres.server_link import Servers
    from dprelease.exact.results.true_records import ExactRecords
    from dprelease.query.local_records import Records

Task = TypeVar("Task")
Made = TypeVar("Made")


class Answering(ABC):
    """An open engine; all of them answer the same, to the last bit.

    What an engine has to do is abstract here; all else does nothing unless it is overridden.
    """

    @abstractmethod
    def compile(self, query: Query) -> object:
        """Check a query against what the sources are; reads no row about people.

        Raises
        ------
        DataError
            If a source has not what the query needs.
        """

    @abstractmethod
    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, zero where there is no row.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """

    @abstractmethod
    def partitions(self, query: Query) -> Partitions:
        """Return the partitions of a query whose keys are not public, and their units.

        Raises
        ------
        DataError
            As `run`.
        """

    def expect(self, queries: Sequence[Query]) -> None:  # noqa: B027 - no plan is needed
        """Plan for queries of which each is going to be run once; reads nothing."""

    def let_go(self) -> None:  # noqa: B027 - nothing is held
        """Drop what the tables of a family have in common, once all of them have been read."""

    def noisy_vectors(
        self, query: Query, noise: Callable[[ExactTable], Mapping[str, Integers]]
    ) -> Iterator[Mapping[str, Integers]] | None:
        """Return noised vectors, some cells after others; None where the noise is left to others.

        An engine whose rows are on several machines adds noise where the cells are. All noise has
        been drawn by then, once for each cell. What is returned is read to its end.

        Raises
        ------
        DataError
            As `run`.
        """
        return None

    def spread(self, work: Callable[[Task], Made], tasks: Iterable[Task]) -> Iterator[Made]:
        """Yield what the work makes of each task, in their order; see `Spread`.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails.
        """
        return in_threads(work, tasks)


class Recording(Answering):
    """An engine that also reads single records."""

    @abstractmethod
    def compile_records(self, records: Records) -> object:
        """Check records against what the source is; as `Answering.compile`."""

    @abstractmethod
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


class EngineKind(ABC):
    """A kind of engine, which a module declares as its `ENGINE`.

    To import that module loads no engine: `left_open` is asked where none is started.
    """

    @abstractmethod
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
        return []

    def keep_alive(self, spec: ReleaseSpec) -> AbstractContextManager[None]:
        """Keep what takes long to start for all engines of a release that the block opens.

        Raises
        ------
        DataError
            As `open`, for what the engine can't do.
        """
        return nullcontext()
