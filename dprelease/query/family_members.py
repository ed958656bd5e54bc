"""Several declared queries whose tables are consistent: what they share, and who declares a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dprelease.errors import DpReleaseError, Place, QueryError
from dprelease.schema.release import QuerySpec, ReleaseSpec
from dprelease.schema.release_parts.shares import ShareSpec

ALIKE = {
    "source": "from", "join": "join", "derive": "derive", "where": "where",
    "hierarchy": "hierarchy", "columns": "columns", "consistent": "consistent",
    "private_keys": "private_keys",
}  # fmt: skip
"""What all queries of a family must declare equally, by name in the model: only keys differ."""

NOT_PUBLIC = "its keys are not public"

Placer = Callable[..., Place]


@dataclass(frozen=True)
class FamilyQueries:
    """The queries of one family, in declared order; most families have one query."""

    spec: ReleaseSpec
    family: str
    queries: Sequence[str]

    @cached_property
    def combined_query(self) -> QuerySpec:
        """Return one query for the family, with the tables of each query."""
        members = [self.spec.queries[name] for name in self.queries]
        if len(members) == 1:
            return members[0]

        def tables(level: str | None) -> tuple[tuple[str, ...], ...]:
            return tuple(keys for spec in members for keys in spec.attributes_at(level))

        marginal_levels = dict.fromkeys(level for spec in members for level in spec.marginals_at)
        none = {"group_by": (), "cube": (), "rollup": ()}
        at_levels = {level: tables(level) for level in marginal_levels}
        changed = {**none, "marginals": tables(None), "marginals_at": at_levels}
        return members[0].model_copy(update=changed)

    def placer(self, place: Placer) -> Placer:
        """Return places of the family's errors: in the query that declares a key, or the first."""

        def of_keys(*keys: str | int) -> Place:
            query = self.queries[0]
            column = self._column_at(keys) if len(self.queries) > 1 else None
            if column is not None:
                query = next(name for name in self.queries if column in self._keys(name))
                keys = self.spec.queries[query].place_of_key(column)
            return place("queries", query, *keys)

        return of_keys

    def _column_at(self, keys: tuple[str | int, ...]) -> str | None:
        """Return the key of a table that a place of the combined query names, if it names one."""
        match keys:
            case ("marginals", int(table), int(place)):
                return self.combined_query.marginals[table][place]
            case ("marginals_at", str(level), int(table), int(place)):
                return self.combined_query.marginals_at[level][table][place]
        return None

    def _keys(self, query: str) -> set[str]:
        return {key for keys in self.spec.queries[query].attribute_sets for key in keys}

    def problems(self, place: Placer) -> Iterator[DpReleaseError]:
        """Yield why the queries can't be one family; `place` gives places of the release file."""
        first, *others = self.queries
        for query in self.queries:
            spec = self.spec.queries[query]
            if spec.consistent is not None and spec.private_keys is not None:
                spot = place("queries", query, "private_keys")
                yield QueryError(
                    "DP-QUERY-013", place=spot, query=query, step="consistent", problem=NOT_PUBLIC
                )
            for key, reason in self._of_one(query):
                yield self._family_error(query, place("queries", query, key), reason)
        for query in others:
            for key, reason in self._unlike(query, first):
                yield self._family_error(query, place("queries", query, key), reason)
        yield from self._twice(place)

    def _family_error(self, query: str, place: Place, reason: str) -> DpReleaseError:
        return QueryError(
            "DP-CONSIST-030", place=place, query=query, family=self.family, reason=reason
        )

    def _of_one(self, query: str) -> Iterator[tuple[str, str]]:
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

    def _unlike(self, query: str, first: str) -> Iterator[tuple[str, str]]:
        one, other = self.spec.queries[query], self.spec.queries[first]
        for name, key in ALIKE.items():
            if getattr(one, name) != getattr(other, name):
                yield key, f"its `{key}` is not that of '{first}'"

    def _twice(self, place: Placer) -> Iterator[DpReleaseError]:
        """Yield tables that two of the queries declare: each may be measured only once."""
        seen: dict[tuple[str | None, frozenset[str]], str] = {}
        reported: set[tuple[str, frozenset[str]]] = set()
        for query in self.queries:
            spec = self.spec.queries[query]
            for level in (None, *spec.hierarchy):
                for i, keys in enumerate(spec.attributes_at(level)):
                    other = seen.setdefault((level, frozenset(keys)), query)
                    if other == query or (query, frozenset(keys)) in reported:
                        continue
                    reported.add((query, frozenset(keys)))
                    reason = f"its table by [{', '.join(keys)}] is one of '{other}' already"
                    spot = place("queries", query, *_place_of_table(spec, level, i))
                    yield self._family_error(query, spot, reason)


def _place_of_table(spec: QuerySpec, level: str | None, number: int) -> tuple[str | int, ...]:
    """Return the place of one of the tables at a level, below the query."""
    if level in spec.marginals_at:
        return "marginals_at", str(level), number
    return ("marginals", number) if spec.marginals else ("family",)
