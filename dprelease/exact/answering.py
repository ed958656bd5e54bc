"""What every engine can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from dprelease.exact.partitions import Partitions
from dprelease.exact.true_table import ExactTable, Integers
from dprelease.query.resolve import Query


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
class Spreading(Protocol):
    """An engine that can have noise added where the cells are."""

    def noised(
        self, query: Query, noise: Callable[[ExactTable], Mapping[str, Integers]]
    ) -> dict[str, Integers] | None:
        """Return noised vectors of every cell; None where the engine leaves the noise to others.

        Raises
        ------
        DataError
            As `Answering.run`.
        """
