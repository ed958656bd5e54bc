"""The interfaces of engines and of the modules that open engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dprelease.exact.results.true_table import ExactTable, Integers, Partitions
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


class QueryEngine(ABC):
    """An open engine, which runs queries; all engines return the same results, to the last bit.

    A subclass must override the abstract methods. Each other method has a default, which does
    nothing, or which is right for most engines.
    """

    @abstractmethod
    def compile(self, query: Query) -> object:
        """Check a query against the sources, without reading any row about people.

        Raises DataError if a source lacks something that the query needs.
        """

    @abstractmethod
    def run(self, query: Query) -> ExactTable:
        """Return the true aggregates of every cell, which are zero for a cell without rows.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """

    @abstractmethod
    def partitions(self, query: Query) -> Partitions:
        """Return the partitions of a query with private keys, and their numbers of privacy units.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """

    def expect(self, queries: Sequence[Query]) -> None:  # noqa: B027 - no plan is needed
        """Plan for queries, each of which will be run once, without reading anything."""

    def drop_shared_data(self) -> None:  # noqa: B027 - nothing is held
        """Drop the data that tables of a family share, after all of these tables have been read."""

    def noisy_vectors(
        self, query: Query, noise: Callable[[ExactTable], Mapping[str, Integers]]
    ) -> Iterator[Mapping[str, Integers]] | None:
        """Return noised vectors, one range of cells at a time; None if the caller must add noise.

        `noise`: a function that returns the noised vectors of a true table. An engine with rows on
        several machines adds the noise to a cell on the machine that has the cell. When this method
        returns, all noise has been drawn, once for each cell. The caller must read the result to
        its end.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        return None

    def spread(self, work: Callable[[Task], Made], tasks: Iterable[Task]) -> Iterator[Made]:
        """Yield the result of each task, in the order of the tasks.

        Raises DataError: DP-DATA-006 if the engine fails.
        """
        return in_threads(work, tasks)


class RecordEngine(QueryEngine):
    """An engine that can also read single records."""

    @abstractmethod
    def compile_records(self, records: Records) -> object:
        """Check records against the source, without reading any row about people.

        Raises DataError if the source lacks something that the records need.
        """

    @abstractmethod
    def records(self, records: Records) -> ExactRecords:
        """Return the true values of every record, in the order of the source.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources that one engine reads: a table, and possibly a second table that is joined to it.

    `frame` and `joined_frame`: frames that are read in place of the tables' declared sources.
    """

    declared: Declared
    frame: object | None = None
    joined: Declared | None = None
    joined_frame: object | None = None
    servers: Servers | None = None
    """The connections of a run to servers; if None, the engine opens its own connections."""
    queries: tuple[Query, ...] | None = None
    """All queries that the engine will run; None if they are not known."""


class EngineKind(ABC):
    """Opens engines of one kind; a module defines an instance of a subclass as its `ENGINE`.

    Importing that module must load no engine, because `exposure_texts` is called without an engine.
    """

    @abstractmethod
    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[QueryEngine]:
        """Return a context manager that opens an engine over these sources, and closes it.

        `spec`: the release that the engine runs, if there is one. `settings`: the settings of
        DuckDB.

        Raises DataError: DP-DATA-001, 003, 008 or 009 if a source can't be opened as declared; or
        another error of the engine.
        """

    def exposure_texts(self, spec: ReleaseSpec) -> list[str]:
        """Return texts on what the engine exposes to people other than the recipients."""
        return []

    def keep_alive(self, spec: ReleaseSpec) -> AbstractContextManager[None]:
        """Return a context manager that keeps slow-starting parts of the engine alive.

        All engines that the block opens for a release use these parts.

        Raises DataError if the engine can't be started.
        """
        return nullcontext()


def tables_to_open(declared: Declared, frame: object | None) -> Iterator[Declared]:
    """Yield the tables whose sources are opened for a table, or for a frame in its place."""
    if frame is None:
        yield declared
    if declared.lookup is not None:
        yield declared.lookup
