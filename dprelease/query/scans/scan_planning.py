"""Tables that are read together: one scan of the rows for all queries over the same ones.

A count, a sum, or the number of occurrences of each candidate in a cell, is the sum of the same
over finer cells. So tables whose privacy unit is a row, and whose keys have a small product, are
summed from one joint table. One scan, which computes every row's cell in each of them, fills all
joint tables. The numbers equal those of separate queries, to the bit. What is read together depends
on declarations alone, never on rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from dprelease.query.expressions.used_columns import Predicate
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.query.scans.shared_sources import SharedSource

MOST_CELLS = 2**18
"""Maximum cells of a joint table, or twice those of its largest part: with more cells, adding rows
and summing the cells again costs as much as another joint table."""

MOST_NUMBERS = 2**26
"""Maximum numbers that a scan holds: 512 MB."""

MOST_PLACES = 2**24
"""Maximum numbers of one joint table of candidates."""

MOST_ADDED = 2**30
"""Maximum steps that a row adds: fewer than 2^32 rows never reach 2^62, where sums are clamped."""


FINEST_CELLS = "the finest cells of its family are computed once, and all its tables from these"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a query that is read at once: all vectors, or the candidates of one column.

    `query` has only these measurements. `reason`: why it is never read with others, or "".
    """

    query: Query
    reason: str = ""

    @property
    def candidates(self) -> tuple[object, ...]:
        """Return what identifies the candidates of all measurements; empty for vectors."""
        first = self.query.measurements[0]
        return _candidates(first) if first.is_choice else ()

    @property
    def width(self) -> int:
        """Return the number of candidates; 1 for vectors."""
        return self.query.measurements[0].aggregate.candidates or 1

    @property
    def numbers(self) -> int:
        """Return how many numbers its tables have."""
        own = 1 if self.candidates else len(self.query.measurements)
        return self.query.keys.size * self.width * own

    @property
    def name(self) -> tuple[str, str]:
        """Return what distinguishes it from all other parts of a run."""
        return self.query.name, self.query.measurements[0].name

    @property
    def common(self) -> tuple[object, str]:
        """Return what all parts of a joint table have in common."""
        return self.candidates, self.condition

    @property
    def condition(self) -> str:
        """Return the condition on rows, as SQL; "" without one."""
        return "" if self.query.predicate is None else self.query.predicate.sql


def parts_of(query: Query) -> list[Part]:
    """Return the parts of a query."""
    if query.private is not None:
        return [Part(query, "its keys are not public")]
    if query.finest is not None:
        return [Part(query, FINEST_CELLS)]
    if query.unit.id is not None:
        return [Part(query, "its contribution limits depend on the cells of this table")]
    vectors = tuple(m for m in query.measurements if m.is_vector)
    parts = [Part(replace(query, measurements=vectors), _alone(vectors))] if vectors else []
    choices: dict[object, list[Measurement]] = {}
    for measurement in query.measurements:
        if not measurement.is_vector:
            choices.setdefault(_candidates(measurement), []).append(measurement)
    return parts + [Part(replace(query, measurements=tuple(each))) for each in choices.values()]


def _alone(vectors: Iterable[Measurement]) -> str:
    """Return why vectors can't be summed from finer ones; "" if they can be."""
    for measurement in vectors:
        if measurement.aggregate.is_distinct:
            return "distinct values don't add up"
        if measurement.aggregate.most_added(measurement.sensitivity) > MOST_ADDED:
            return f"a row may add more than {MOST_ADDED} steps"
    return ""


def _candidates(measurement: Measurement) -> tuple[object, ...]:
    """Return a value that is equal for measurements that select among the same candidates."""
    aggregate = measurement.aggregate
    stride = getattr(aggregate, "stride", 1)
    return aggregate.column, aggregate.mechanisms, aggregate.lattice, stride, aggregate.candidates


@dataclass
class Joint:
    """A joint table: parts with the same condition, and the same candidates if they have any."""

    parts: list[Part]
    keys: dict[str, Key]
    vectors: dict[object, Measurement]
    """The vectors that are summed for each cell: by aggregate, one measurement."""

    common: frozenset[str]
    """The keys that all parts have."""

    @classmethod
    def of(cls, part: Part) -> Joint:
        """Return the joint table of one part."""
        keys = {key.column: key for key in part.query.keys.keys}
        return cls([part], keys, _vectors(part), frozenset(keys))

    def with_(self, part: Part) -> Joint:
        """Return the joint table with one more part."""
        new = Joint.of(part)
        return Joint(
            [*self.parts, part],
            self.keys | new.keys,
            self.vectors | new.vectors,
            self.common & new.common,
        )

    @property
    def candidates(self) -> int:
        """Return the number of candidates; 0 for vectors."""
        return self.parts[0].width if self.parts[0].candidates else 0

    @property
    def condition(self) -> Predicate | None:
        """Return the condition of all parts."""
        return self.parts[0].query.predicate

    @property
    def space(self) -> KeySpace:
        """Return the keys of all parts.

        A row that lacks a cell of one key is dropped there, but counts in tables without that key.
        """
        keys = (
            replace(key, rest=True) if _has_rest(key, self.common) else key
            for key in self.keys.values()
        )
        return KeySpace(tuple(keys))

    @property
    def numbers(self) -> int:
        """Return how many numbers it holds."""
        return _size(self.keys, self.common) * (self.candidates or len(self.vectors))

    def grown(self, part: Part) -> int:
        """Return the number of cells with another such part; 0 if another table is better."""
        keys = {key.column: key for key in part.query.keys.keys}
        size = _size(self.keys | keys, self.common & keys.keys())
        if size > max(MOST_CELLS, 2 * self.parts[0].query.keys.size):
            return 0
        return 0 if self.candidates and size * self.candidates > MOST_PLACES else size


def _has_rest(key: Key, common: Set[str]) -> bool:
    """Return whether rows that a key drops are kept, for tables without that key."""
    return key.column not in common and (key.nulls is None or key.others is None)


def _size(keys: Mapping[str, Key], common: Set[str]) -> int:
    return math.prod(len(key.values) + _has_rest(key, common) for key in keys.values())


def _vectors(part: Part) -> dict[object, Measurement]:
    if part.candidates:
        return {part.candidates: part.query.measurements[0]}
    return {m.aggregate: m for m in part.query.measurements}


@dataclass
class Scan:
    """One scan of the rows that fills several joint tables; all parts read the same sources."""

    sources: SharedSource = field(default_factory=SharedSource)
    joints: list[Joint] = field(default_factory=list)
    numbers: int = 0
    _alike: dict[object, list[int]] = field(default_factory=dict)
    """Indexes of the joint tables that a part may be added to, by what they have in common."""

    @property
    def parts(self) -> list[Part]:
        """Return all parts."""
        return [part for joint in self.joints for part in joint.parts]

    @property
    def query(self) -> Query:
        """Return a query of all columns that are read."""
        return self.sources.query(m for joint in self.joints for m in joint.vectors.values())

    def take(self, part: Part) -> bool:
        """Add a part to the joint table that grows least; False if it can't be read here."""
        if not self.sources.admits(part.query):
            return False
        alike = self._alike.get(part.common, [])
        grown = [(size, i) for i in alike if (size := self.joints[i].grown(part))]
        joint = Joint.of(part)
        if grown:
            old = self.joints[min(grown)[1]]
            joint = old.with_(part)
        # The numbers of the part are held as well, until they are requested.
        more = joint.numbers - (old.numbers if grown else 0) + part.numbers
        if self.numbers + more > MOST_NUMBERS:
            return False
        self.numbers += more
        if grown:
            self.joints[min(grown)[1]] = joint
        else:
            self._alike.setdefault(part.common, []).append(len(self.joints))
            self.joints.append(joint)
        self.sources.add(part.query)
        return True


MOST_TABLES = 32
"""Maximum tables with id units read at once: each adds bytes to every row in memory."""


def bounded_together(queries: Iterable[Query]) -> list[SharedSource]:
    """Return queries with id units whose rows are read, and whose ids are numbered, once."""
    groups: list[SharedSource] = []
    for query in queries:
        if query.unit.id is None or query.private is not None or query.finest is not None:
            continue
        for known in groups:
            if len(known.queries) < MOST_TABLES and known.admits(query):
                known.add(query)
                break
        else:
            groups.append(SharedSource())
            groups[-1].add(query)
    return [together for together in groups if len(together.queries) > 1]


def scans(queries: Iterable[Query]) -> tuple[list[Scan], dict[str, list[str]]]:
    """Return the scans that serve several tables, and why other tables, by name, are read alone.

    `queries` are those of one engine, with names that differ.
    """
    planned: list[Scan] = []
    reasons: dict[str, list[str]] = {}
    parts = [part for query in queries for part in parts_of(query)]
    for part in sorted(parts, key=lambda part: -part.query.keys.size):
        query = part.query
        if part.reason:
            reasons.setdefault(query.name, []).append(part.reason)
        elif part.numbers > (MOST_PLACES if part.candidates else MOST_NUMBERS // 4):
            reasons.setdefault(query.name, []).append(
                "it has too many cells to be computed together with others"
            )
        elif not any(scan.take(part) for scan in planned):
            planned.append(Scan())
            if not planned[-1].take(part):
                raise AssertionError("a scan has room for any part that may be held")
    for scan in planned:
        if len(scan.parts) == 1:
            name = scan.parts[0].query.name
            reasons.setdefault(name, []).append("no other table reads the same rows and columns")
    return [scan for scan in planned if len(scan.parts) > 1], reasons
