"""Plan one scan of the rows for all queries that read the same rows.

A count, a sum, or how often each candidate occurs in a cell, is the sum of the same numbers over
finer cells. So tables whose privacy unit is a row, and whose keys have few combinations, are summed
from one joint table. One scan computes every row's cell in each joint table, and fills all joint
tables. The results are exactly those of separate queries. Which tables are read together depends on
declarations alone, never on rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from dprelease.query.expressions.used_columns import Formula, Predicate
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column
from dprelease.schema.model import normalized_name


@dataclass
class SharedSource:
    """Queries whose rows can be read by one statement, with all keys and columns that it reads."""

    queries: list[Query] = field(default_factory=list)
    keys: dict[str, Key] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    formulas: dict[str, Formula] = field(default_factory=dict)
    _normalized_names: set[str] = field(default_factory=set)
    """The names of all columns, in a form that is equal for names that the engine confuses."""

    def admits(self, query: Query) -> bool:
        """Return whether a query reads the same sources, and uses all names in the same meaning.

        The engine ignores case in names, so that it would use one of two columns whose names differ
        only in case for both of them.
        """
        if not self.queries:
            return True
        first = self.queries[0]
        if query.declared is not first.declared or _are_different(query.join, first.join):
            return False
        new = query.table.columns.keys() - self.columns.keys()
        if any(normalized_name(name) in self._normalized_names for name in new):
            return False
        pairs = (
            (self.columns, query.table.columns),
            (self.formulas, query.formulas),
            (self.keys, _by_column(query)),
        )
        return not any(
            _are_different(known.get(name, one), one)
            for known, new in pairs
            for name, one in new.items()
        )

    def add(self, query: Query) -> None:
        """Add a query for which `admits` is true."""
        self.queries.append(query)
        self.keys |= _by_column(query)
        new = query.table.columns.keys() - self.columns.keys()
        self._normalized_names |= {normalized_name(name) for name in new}
        self.columns |= query.table.columns
        self.formulas |= query.formulas

    def query(self, measurements: Iterable[Measurement]) -> Query:
        """Return one query that reads the columns and the rows of all the queries."""
        predicates = [query.predicate for query in self.queries]
        conditions = {condition.sql: condition for condition in predicates if condition is not None}
        predicate = None
        if conditions:
            # The rows of all queries are read; each joint table has its own condition, too.
            everything = ["TRUE"] if None in predicates else []
            sql = " OR ".join([*(f"({sql})" for sql in conditions), *everything])
            read = dict.fromkeys(n for one in conditions.values() for n in one.columns)
            predicate = Predicate(sql, tuple(read))
        first = self.queries[0]
        return replace(
            first,
            predicate=predicate,
            keys=KeySpace(tuple(self.keys.values())),
            measurements=tuple(measurements),
            columns=(),
            view=first.table.model_copy(update={"columns": self.columns}),
            formulas=self.formulas,
        )


def _by_column(query: Query) -> dict[str, Key]:
    return {key.column: key for key in query.keys.keys}


def _are_different(left: object, right: object) -> bool:
    """Return whether two declarations differ; usually they are the same object."""
    return left is not right and left != right


MOST_CELLS = 2**18
"""Maximum number of cells of a joint table, unless twice the cells of its largest part are more.

With more cells, filling the joint table and summing its cells costs as much as another table."""

MOST_NUMBERS = 2**26
"""Maximum number of integers that a scan holds in memory: 512 MB."""

MOST_PLACES = 2**24
"""Maximum number of integers of one joint table of candidates."""

MOST_ADDED = 2**30
"""Maximum number of steps that a row may add in a scan.

Fewer than 2^32 rows then never reach 2^62, where sums are clamped."""


FINEST_CELLS = "the finest cells of its family are computed once, and all its tables from these"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a query that is read at once: all its vectors, or the candidates of one column.

    `query` has only the measurements of this part. `reason` says why the part is never read
    together with other parts, or is empty.
    """

    query: Query
    reason: str = ""

    @property
    def candidates(self) -> tuple[object, ...]:
        """The values that identify the candidates of all measurements; empty for vectors."""
        first = self.query.measurements[0]
        return _candidates(first) if first.is_choice else ()

    @property
    def width(self) -> int:
        """The number of candidates; 1 for vectors."""
        return self.query.measurements[0].aggregate.candidates or 1

    @property
    def integer_count(self) -> int:
        """The number of integers in the tables of the part."""
        own = 1 if self.candidates else len(self.query.measurements)
        return self.query.keys.size * self.width * own

    @property
    def name(self) -> tuple[str, str]:
        """The pair of names that distinguishes the part from all other parts of a run."""
        return self.query.name, self.query.measurements[0].name

    @property
    def common(self) -> tuple[object, str]:
        """The candidates and the condition, which all parts of a joint table have in common."""
        return self.candidates, self.condition

    @property
    def condition(self) -> str:
        """The SQL condition on rows; empty if there is none."""
        return "" if self.query.predicate is None else self.query.predicate.sql


def query_parts(query: Query) -> list[Part]:
    """Return the parts of a query."""
    if query.private is not None:
        return [Part(query, "its keys are not public")]
    if query.finest is not None:
        return [Part(query, FINEST_CELLS)]
    if query.unit.id is not None:
        return [Part(query, "its contribution limits depend on the cells of this table")]
    vectors = tuple(m for m in query.measurements if m.is_vector)
    parts = (
        [Part(replace(query, measurements=vectors), _separate_reason(vectors))] if vectors else []
    )
    choices: dict[object, list[Measurement]] = {}
    for measurement in query.measurements:
        if not measurement.is_vector:
            choices.setdefault(_candidates(measurement), []).append(measurement)
    return parts + [Part(replace(query, measurements=tuple(each))) for each in choices.values()]


def _separate_reason(vectors: Iterable[Measurement]) -> str:
    """Return the reason why vectors can't be summed from finer cells; empty if they can be."""
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
    """The vectors that are summed for each cell: one measurement for each aggregate."""

    common: frozenset[str]
    """The keys that all parts have."""

    @classmethod
    def of(cls, part: Part) -> Joint:
        """Return the joint table of one part."""
        keys = {key.column: key for key in part.query.keys.keys}
        return cls([part], keys, _vectors_by_aggregate(part), frozenset(keys))

    def with_part(self, part: Part) -> Joint:
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
        """The number of candidates; 0 for vectors."""
        return self.parts[0].width if self.parts[0].candidates else 0

    @property
    def condition(self) -> Predicate | None:
        """The condition of all parts."""
        return self.parts[0].query.predicate

    @property
    def space(self) -> KeySpace:
        """The keys of all parts.

        A row without a cell in one key counts only in the tables that do not have this key.
        """
        keys = (
            replace(key, rest=True) if _has_rest(key, self.common) else key
            for key in self.keys.values()
        )
        return KeySpace(tuple(keys))

    @property
    def integer_count(self) -> int:
        """The number of integers in the joint table."""
        return _cell_count(self.keys, self.common) * (self.candidates or len(self.vectors))

    def cells_with_part(self, part: Part) -> int:
        """Return the number of cells after adding a part; 0 if another joint table is better."""
        keys = {key.column: key for key in part.query.keys.keys}
        size = _cell_count(self.keys | keys, self.common & keys.keys())
        if size > max(MOST_CELLS, 2 * self.parts[0].query.keys.size):
            return 0
        return 0 if self.candidates and size * self.candidates > MOST_PLACES else size


def _has_rest(key: Key, common: Set[str]) -> bool:
    """Return whether a joint table keeps rows that a key drops, for tables without that key."""
    return key.column not in common and (key.nulls is None or key.others is None)


def _cell_count(keys: Mapping[str, Key], common: Set[str]) -> int:
    """Return the number of cells of a scan, with a rest for keys that need one."""
    return math.prod(len(key.values) + _has_rest(key, common) for key in keys.values())


def _vectors_by_aggregate(part: Part) -> dict[object, Measurement]:
    """Return the measurement that stands for each aggregate, or for the candidates, of a part."""
    if part.candidates:
        return {part.candidates: part.query.measurements[0]}
    return {m.aggregate: m for m in part.query.measurements}


@dataclass
class Scan:
    """One scan of the rows that fills several joint tables; all parts read the same sources."""

    sources: SharedSource = field(default_factory=SharedSource)
    joints: list[Joint] = field(default_factory=list)
    integer_count: int = 0
    _joints_by_common: dict[object, list[int]] = field(default_factory=dict)
    """The indexes of joint tables, by the candidates and condition that their parts share."""

    @property
    def parts(self) -> list[Part]:
        """The parts of all joint tables."""
        return [part for joint in self.joints for part in joint.parts]

    @property
    def query(self) -> Query:
        """A query that reads all columns of the scan."""
        return self.sources.query(m for joint in self.joints for m in joint.vectors.values())

    def take(self, part: Part) -> bool:
        """Add a part to the joint table that grows least; return False if it does not fit."""
        if not self.sources.admits(part.query):
            return False
        alike = self._joints_by_common.get(part.common, [])
        larger = [(size, i) for i in alike if (size := self.joints[i].cells_with_part(part))]
        joint = Joint.of(part)
        if larger:
            old = self.joints[min(larger)[1]]
            joint = old.with_part(part)
        # The scan also holds the integers of the part itself, until a caller requests them.
        more = joint.integer_count - (old.integer_count if larger else 0) + part.integer_count
        if self.integer_count + more > MOST_NUMBERS:
            return False
        self.integer_count += more
        if larger:
            self.joints[min(larger)[1]] = joint
        else:
            self._joints_by_common.setdefault(part.common, []).append(len(self.joints))
            self.joints.append(joint)
        self.sources.add(part.query)
        return True


MOST_TABLES = 32
"""Maximum number of tables with ids that are read at once: each adds bytes to every row."""


def groups_bounded_together(queries: Iterable[Query]) -> list[SharedSource]:
    """Return groups of queries with ids; the rows of a group are read, and ids numbered, once."""
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


def plan_scans(queries: Iterable[Query]) -> tuple[list[Scan], dict[str, list[str]]]:
    """Return the scans for several tables, and the reasons why other tables are read alone.

    `queries` are the queries of one engine, with different names. The reasons are by table name.
    """
    planned: list[Scan] = []
    reasons: dict[str, list[str]] = {}
    parts = [part for query in queries for part in query_parts(query)]
    # Large tables come first, because smaller ones then need few or no more cells.
    for part in sorted(parts, key=lambda part: -part.query.keys.size):
        query = part.query
        if part.reason:
            reasons.setdefault(query.name, []).append(part.reason)
        elif part.integer_count > (MOST_PLACES if part.candidates else MOST_NUMBERS // 4):
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
