"""The queries of one family of consistent tables, and the fields that all must declare equally."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dprelease.errors import DpReleaseError, Place, QueryError
from dprelease.schema.amounts import ShareSpec
from dprelease.schema.release import QuerySpec, ReleaseSpec

SHARED_FIELDS = {
    "source": "from", "join": "join", "derive": "derive", "where": "where",
    "hierarchy": "hierarchy", "columns": "columns", "consistent": "consistent",
    "private_keys": "private_keys", "max_groups": "max_groups",
    "max_rows_per_group": "max_rows_per_group", "max_rows": "max_rows",
}  # fmt: skip
"""The fields that all queries of a family must declare equally, with their names in YAML.

Only the keys of the queries may differ."""

NOT_PUBLIC = "its keys are not public"

DEPENDENT = "the noise of consistent tables is not independent; use a query without `consistent`"

Placer = Callable[..., Place]


@dataclass(frozen=True)
class FamilyQueries:
    """The queries of one family, in declared order; most families have one query."""

    spec: ReleaseSpec
    family: str
    queries: Sequence[str]

    @cached_property
    def combined_query(self) -> QuerySpec:
        """One query for the whole family, with the tables of all its queries."""
        members = [self.spec.queries[name] for name in self.queries]
        if len(members) == 1:
            return members[0]

        def keys_of_tables(level: str | None) -> tuple[tuple[str, ...], ...]:
            """Return the keys of all tables of the family at a level of records."""
            return tuple(keys for spec in members for keys in spec.attributes_at(level))

        marginal_levels = dict.fromkeys(level for spec in members for level in spec.marginals_at)
        none = {"group_by": (), "cube": (), "rollup": ()}
        at_levels = {level: keys_of_tables(level) for level in marginal_levels}
        changed = {**none, "marginals": keys_of_tables(None), "marginals_at": at_levels}
        return members[0].model_copy(update=changed)

    def error_locator(self, place: Placer) -> Placer:
        """Return a function that locates an error of the combined query in the release file.

        The error is located in the query that declares the key concerned, or in the first query.
        """

        def place_of_keys(*keys: str | int) -> Place:
            """Return the position of these keys in the declared query of the family."""
            query = self.queries[0]
            column = self._column_at(keys) if len(self.queries) > 1 else None
            if column is not None:
                query = next(name for name in self.queries if column in self._declared_keys(name))
                keys = self.spec.queries[query].key_path_of(column)
            return place("queries", query, *keys)

        return place_of_keys

    def _column_at(self, keys: tuple[str | int, ...]) -> str | None:
        """Return the key column at a key path of the combined query; None at any other path."""
        match keys:
            case ("marginals", int(table), int(place)):
                return self.combined_query.marginals[table][place]
            case ("marginals_at", str(level), int(table), int(place)):
                return self.combined_query.marginals_at[level][table][place]
        return None

    def _declared_keys(self, query: str) -> set[str]:
        """Return the columns that are keys of some table of a query."""
        return {key for keys in self.spec.queries[query].attribute_sets for key in keys}

    def family_errors(self, place: Placer) -> Iterator[DpReleaseError]:
        """Yield an error for each reason why the queries can't be one family.

        `place` returns the position of a key path in the release file.
        """
        first, *others = self.queries
        for query in self.queries:
            spec = self.spec.queries[query]
            if spec.consistent is not None and spec.private_keys is not None:
                spot = place("queries", query, "private_keys")
                yield QueryError(
                    "DP-QUERY-013", place=spot, query=query, step="consistent", problem=NOT_PUBLIC
                )
            if spec.consistent is not None and spec.summaries:
                spot = place("queries", query, "summaries")
                yield QueryError("DP-QUERY-022", place=spot, query=query, problem=DEPENDENT)
            for key, reason in self._single_query_problems(query):
                yield self._family_error(query, place("queries", query, key), reason)
        for query in others:
            for key, reason in self._difference_problems(query, first):
                yield self._family_error(query, place("queries", query, key), reason)
        yield from self._duplicate_table_errors(place)

    def _family_error(self, query: str, place: Place, reason: str) -> DpReleaseError:
        """Return the error of a query that can't belong to the family, with the reason."""
        return QueryError(
            "DP-CONSIST-030", place=place, query=query, family=self.family, reason=reason
        )

    def _single_query_problems(self, query: str) -> Iterator[tuple[str, str]]:
        """Yield the key and the problem of a query that can't be in a family."""
        spec = self.spec.queries[query]
        if spec.family is None:
            if len(self.queries) > 1:
                yield "from", "it has the name of the family, but does not belong to it"
            return
        if spec.consistent is None:
            yield "family", "it does not declare `consistent` tables"
        if spec.histogram is not None and len(self.queries) > 1:
            yield (
                "histogram",
                "its bins are keys of only this query; declare a cut column in the schema",
            )
        if spec.share != ShareSpec() and len(self.queries) > 1:
            yield "share", "its tables share one part of the budget, by their weights"

    def _difference_problems(self, query: str, first: str) -> Iterator[tuple[str, str]]:
        """Yield the key and the problem of each field that differs from the first query."""
        one, other = self.spec.queries[query], self.spec.queries[first]
        for name, key in SHARED_FIELDS.items():
            if getattr(one, name) != getattr(other, name):
                yield key, f"its `{key}` is not that of '{first}'"

    def _duplicate_table_errors(self, place: Placer) -> Iterator[DpReleaseError]:
        """Yield an error for each table that two queries declare, which would be charged twice."""
        seen: dict[tuple[str | None, frozenset[str]], str] = {}
        reported: set[tuple[str, frozenset[str]]] = set()
        for query in self.queries:
            spec = self.spec.queries[query]
            for level in spec.measured_levels:
                for i, keys in enumerate(spec.attributes_at(level)):
                    other = seen.setdefault((level, frozenset(keys)), query)
                    if other == query or (query, frozenset(keys)) in reported:
                        continue
                    reported.add((query, frozenset(keys)))
                    reason = f"its table by [{', '.join(keys)}] is one of '{other}' already"
                    spot = place("queries", query, *_table_key_path(spec, level, i))
                    yield self._family_error(query, spot, reason)


def _table_key_path(spec: QuerySpec, level: str | None, number: int) -> tuple[str | int, ...]:
    if level in spec.marginals_at:
        return "marginals_at", str(level), number
    return ("marginals", number) if spec.marginals else ("family",)
