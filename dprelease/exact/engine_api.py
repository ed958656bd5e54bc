"""The interface of engines, and how they are opened."""

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
    """An open engine; all engines return the same results, to the last bit.

    Required methods are abstract here; the others do nothing unless overridden.
    """

    @abstractmethod
    def compile(self, query: Query) -> object:
        """Check a query against the sources; reads no row about people.

        Raises
        ------
        DataError
            If a source lacks something that the query needs.
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
        """Return the partitions of a query with private keys, and their numbers of privacy units.

        Raises
        ------
        DataError
            As `run`.
        """

    def expect(self, queries: Sequence[Query]) -> None:  # noqa: B027 - no plan is needed
        """Plan for queries, each of which will be run once; reads nothing."""

    def let_go(self) -> None:  # noqa: B027 - nothing is held
        """Drop what the tables of a family share, once all of them have been read."""

    def noisy_vectors(
        self, query: Query, noise: Callable[[ExactTable], Mapping[str, Integers]]
    ) -> Iterator[Mapping[str, Integers]] | None:
        """Return noised vectors in ranges of cells; None if the caller has to add the noise.

        An engine with rows on several machines adds noise where the cells are. All noise has been
        drawn when it returns, once for each cell. The result must be read to its end.

        Raises
        ------
        DataError
            As `run`.
        """
        return None

    def spread(self, work: Callable[[Task], Made], tasks: Iterable[Task]) -> Iterator[Made]:
        """Yield the result of each task, in their order; see `Spread`.

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
        """Check records against the source; as `Answering.compile`."""

    @abstractmethod
    def records(self, records: Records) -> ExactRecords:
        """Return the true values of every record, in the order of the source.

        Raises as `Answering.run`.
        """


@dataclass(frozen=True, slots=True)
class Sources:
    """What one engine reads: a table, and maybe one joined to it; frames may replace either."""

    declared: Declared
    frame: object | None = None
    joined: Declared | None = None
    joined_frame: object | None = None
    servers: Servers | None = None
    """The connections of the run, for tables on servers; a single engine makes its own."""
    queries: tuple[Query, ...] | None = None
    """All queries that the engine will run, where they are known."""


class EngineKind(ABC):
    """A kind of engine, which a module defines as its `ENGINE`.

    Importing that module loads no engine, because `left_open` is called without starting one.
    """

    @abstractmethod
    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[Answering]:
        """Return an engine over these sources; everything is released at the end of its block.

        `spec` is the release that it runs, if there is one; `settings` are those of DuckDB.

        Raises
        ------
        DataError
            DP-DATA-001, 003, 008 or 009 if a source can't be opened as declared; other errors of
            the engine.
        """

    def left_open(self, spec: ReleaseSpec) -> list[str]:
        """Return what the engine exposes to people other than the recipients, in words."""
        return []

    def keep_alive(self, spec: ReleaseSpec) -> AbstractContextManager[None]:
        """Keep slow-starting parts alive for all engines that the block opens for a release.

        Raises
        ------
        DataError
            As `open`, for errors of the engine.
        """
        return nullcontext()
