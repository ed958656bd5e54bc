"""Count the groups and rows of each person, before any contribution limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.exact.duckdb import Engine
from dprelease.exact.engine_api import Sources
from dprelease.exact.results.true_table import ExactTable, Profile
from dprelease.query.aggregates.aggregate import narrow_aggregate
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.resolve import Contributions, Query
from dprelease.statements.bounding import contributions_sql
from dprelease.statements.compiled_queries import compile_finest, compile_rows_within_limits
from dprelease.statements.compiled_statements import CompiledQuery


class EngineOfIds(Engine):
    """An engine that can also read the ids of all rows that count."""

    def _rows_of_ids_sql(self, query: Query) -> str:
        """Return a SELECT of the id and the cell of every row that counts, before any limit."""
        self.compile(query)
        types = self.physical, self.joined_types
        if query.finest is None:
            rows, compiled = compile_rows_within_limits(query, *types)
            self._add_key_tables(compiled.key_tables)
            return rows
        finest = compile_finest(query, *types, bounded=True)
        self._add_key_tables(finest.key_tables)
        return finest.all_rows_sql


class ContributionEngine(EngineOfIds):
    """An engine for queries about persons, whose values are their contributions to other queries.

    The statements are those of the other queries, and so are the sources that the engine opens.
    """

    @classmethod
    def sources(cls, sources: Sources) -> Sources:
        """Return the sources of the other queries, for sources with queries about persons."""
        others = tuple(_contributions(query).query for query in sources.queries or ())
        declared, join = others[0].declared, others[0].join
        joined = None if join is None else join.declared
        return Sources(
            declared, sources.frame, joined, sources.joined_frame, sources.servers, others
        )

    def compile(self, query: Query) -> CompiledQuery:
        """Return the SQL of the query to which persons contribute; raises its errors."""
        of = query.contributions_of
        return super().compile(query if of is None else of.query)

    def expect(self, queries: Sequence[Query]) -> None:
        """Plan no shared scan: each query reads the rows separately."""

    def run(self, query: Query) -> ExactTable:
        """Return how many persons have each number of groups or rows, up to the highest limit.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        of = _contributions(query)
        sql = contributions_sql(self._rows_of_ids_sql(of.query))
        found = self._read_rows(lambda link: link.execute(sql).fetchnumpy())
        self.refuse_change()
        held = found["groups" if of.limit == "max_groups" else "most"]
        profiles = {}
        for measurement in query.measurements:
            candidates = narrow_aggregate(measurement.aggregate, Quantile).candidates
            # More than the highest limit counts as the highest limit, because no limit above it can
            # be chosen.
            values = np.minimum(np.asarray(held, dtype=np.int64), candidates) - 1
            counts = np.zeros(candidates, dtype=np.int64)
            np.add.at(counts, values, np.asarray(found["number"], dtype=np.int64))
            there = np.flatnonzero(counts)
            profiles[measurement.name] = Profile.of(
                np.zeros_like(there), there, counts[there], query.keys.size
            )
        return ExactTable(query.name, query.keys.size, {}, dict(profiles))


def _contributions(query: Query) -> Contributions:
    """Return what a query about persons reads."""
    if query.contributions_of is None:
        raise TypeError("the query is about rows, not about persons")
    return query.contributions_of
