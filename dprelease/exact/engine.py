"""What every engine can do."""

from __future__ import annotations

from typing import Protocol

from dprelease.exact.partitions import Partitions
from dprelease.exact.table import ExactTable
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
