"""Stack many pairs in one table: each has a number, which is an additional key in every query.

A stack is queried by the statements of the release with one additional key. So thousands of pairs
need only two runs of the engine. A stack does not show whether one unit changes which rows of
another unit count. Pairs that are queried one by one show this (`exact_pairs.exact_sides`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dprelease.auditing.neighbours.situations import Row, Rows, Situation
from dprelease.auditing.neighbours.stored_values import AS_DECLARED, TURNED, stored_array
from dprelease.auditing.pairs import Pair, Tables
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.grouping.private_keys import PrivateKeys
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column, IntegerColumn, TextColumn, is_stored
from dprelease.schema.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

PAIR = "dp_pair"
"""The name of the column with the number of the pair."""

MEMBERS = 64
"""The number of ids that are reserved for each pair."""

OTHER = MEMBERS - 1
"""The position, among the ids of a pair, of the id of a unit's replacement."""


@dataclass(frozen=True, slots=True)
class StackRow:
    """A row of a stack, with the number of its pair, and the number of its unit in the pair."""

    pair: int
    member: int
    spelled: str
    row: Row


def stacked_queries(queries: Sequence[Query], pairs: int) -> tuple[Query, ...]:
    """Return the queries with the number of the pair as their first key."""
    spaces: dict[int, KeySpace] = {}
    number = IntegerColumn(type="integer", lower=0, upper=pairs - 1)
    key = Key(PAIR, "integer", range(pairs))
    stacked = []
    for query in queries:
        finest = query.finest
        if finest is not None:  # tables of a family share this object, which identifies the family
            finest = spaces.setdefault(id(finest), KeySpace((key, *finest.keys)))
        private = query.private
        if private is not None:
            private = PrivateKeys(((PAIR, "integer"), *private.columns))
        declared = replace(query.declared, table=with_pair_number(query.declared.table, number))
        keys = query.keys if private is not None else KeySpace((key, *query.keys.keys))
        stacked.append(
            replace(
                query,
                declared=declared,
                keys=keys,
                finest=finest,
                private=private,
                view=with_pair_number(query.table, number),
            )
        )
    return tuple(stacked)


def with_pair_number(table: Table, number: IntegerColumn) -> Table:
    """Return a table with the number of the pair as its first column."""
    return table.model_copy(update={"columns": {PAIR: number, **table.columns}})


def stack(
    tables: Mapping[str, Table], situations: Sequence[Situation], *, first: bool, storage: str
) -> dict[str, pa.Table]:
    """Return one side of all situations, each pair with its number, by table.

    `first` selects the side that has the unit. `tables` are the declared tables about people.
    """
    arrow_tables = {}
    for name, table in tables.items():
        stack_rows = _order_rows(_stack_rows(situations, name, first=first), storage)
        numbers = [one.pair for one in stack_rows]
        arrow_tables[name] = _table(table, stack_rows, storage).add_column(
            0, PAIR, [pair_number_array(numbers)]
        )
    return arrow_tables


def pair_number_array(numbers: Sequence[int]) -> pa.Array:
    """Return the numbers of pairs as an Arrow column."""
    import pyarrow as pa

    return pa.array(numbers, pa.int64())


def situation_pair(
    tables: Mapping[str, Table],
    situation: Situation,
    public: Tables,
    storages: tuple[str, str] = (AS_DECLARED, AS_DECLARED),
) -> Pair:
    """Return a situation as a pair of complete tables, with a way of storing for each side."""
    sides = []
    for first, storage in zip((True, False), storages, strict=True):
        rows_by_table = {
            name: _order_rows(_stack_rows([situation], name, first=first), storage)
            for name in tables
        }
        sides.append(
            {**public, **{n: _table(tables[n], rows, storage) for n, rows in rows_by_table.items()}}
        )
    description = (
        situation.description
        if storages[0] == storages[1]
        else f"{situation.description}, stored {storages[0]}"
    )
    return Pair(description, sides[0], sides[1], next(iter(situation.one), next(iter(tables))))


def _stack_rows(situations: Iterable[Situation], table: str, *, first: bool) -> Iterator[StackRow]:
    for pair, one in enumerate(situations):
        units: list[tuple[int, Rows]] = [*enumerate(one.crowd, 1)]
        units.insert(len(units) // 2, (0, one.one) if first else (OTHER, one.other))
        for member, rows in units:
            for i, row in enumerate(rows.get(table, ())):
                spelled = one.spelled[i % len(one.spelled)] if member == 0 else "{}"
                yield StackRow(pair, member, spelled, row)


def _order_rows(stack_rows: Iterable[StackRow], storage: str) -> list[StackRow]:
    return [*stack_rows][::-1] if storage == TURNED else [*stack_rows]


def _table(table: Table, stack_rows: Sequence[StackRow], storage: str) -> pa.Table:
    import pyarrow as pa

    arrays: dict[str, pa.Array] = {}
    for name, column in table.columns.items():
        if not is_stored(column):
            continue
        if name == table.unit.id:
            ids = [_id(column, one, storage) for one in stack_rows]
            arrays[name] = stored_array(ids, name, column, storage, is_id=True)
        else:
            arrays[name] = stored_array(
                [one.row.get(name) for one in stack_rows], name, column, storage
            )
    return pa.table(arrays) if arrays else pa.table({"dp_row": pa.nulls(len(stack_rows))})


LARGE_IDS = 2**60
"""The first id: ids from here on are different integers, but some are equal as floats."""

NO_ID = "no id"
"""The mark of a missing id in a row."""


def _id(column: Column, stack_row: StackRow, storage: str) -> object:
    if stack_row.row.get(NO_ID):
        return None
    number = stack_row.pair * MEMBERS + stack_row.member + 1
    if isinstance(column, TextColumn):
        return f"person {number:010}"
    low = getattr(column, "lower", None)
    number += LARGE_IDS if low is None else max(low, 0)
    return (
        number
        if stack_row.spelled == "{}" or storage != "as texts"
        else stack_row.spelled.format(number)
    )
