"""Which tables of units with ids are found by one job, so that their rows meet only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dprelease.exact.results.true_table import ExactTable
from dprelease.query.resolve import Query
from dprelease.query.scans.joint import MOST_NUMBERS, bounded_together

Read = Callable[[Sequence[Query]], Mapping[str, ExactTable]]


class SharedTables:
    """Tables of queries that are to come: those of one job are held until they are asked for."""

    def __init__(self, queries: Sequence[Query], read: Read) -> None:
        """Plan for queries of which each is asked once; `read` finds all tables of a group."""
        self._read = read
        self._coming: dict[str, tuple[Query, list[Query]]] = {}
        self._found: dict[str, ExactTable] = {}
        few = [query for query in queries if numbers_of([query]) <= MOST_NUMBERS // 4]
        groups = [group.queries for group in bounded_together(few)] + _families(few)
        for part in (part for group in groups for part in _that_fit(group)):
            self._coming |= {query.name: (query, part) for query in part}

    def table(self, query: Query) -> ExactTable:
        """Return the table of a query; raises as `read`."""
        known, group = self._coming.pop(query.name, (None, None))
        if group is None or known is not query:
            self._found.pop(query.name, None)
            return self._read([query])[query.name]
        if query.name not in self._found:
            self._found |= self._read(group)
        return self._found.pop(query.name)


def numbers_of(queries: Sequence[Query]) -> int:
    """Return how many numbers tables have at most."""
    return sum(
        query.keys.size * sum(m.aggregate.candidates or 1 for m in query.measurements)
        for query in queries
    )


def _families(queries: Sequence[Query]) -> list[list[Query]]:
    """Return tables of units with ids that are sums of the same finest cells."""
    families: dict[object, list[Query]] = {}
    for query in queries:
        if query.unit.id is not None and query.finest is not None:
            asked = tuple(measurement.aggregate for measurement in query.measurements)
            families.setdefault((id(query.finest), asked), []).append(query)
    return list(families.values())


def _that_fit(group: Sequence[Query]) -> list[list[Query]]:
    """Return the queries of a group in as many as it takes to hold their tables."""
    parts: list[list[Query]] = [[]]
    for query in group:
        if parts[-1] and numbers_of([*parts[-1], query]) > MOST_NUMBERS:
            parts.append([])
        parts[-1].append(query)
    return parts
