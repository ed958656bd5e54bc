"""Select the published tables that count people and can be solved together; report the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.families import Family, FamilyTable, Lattice, Real
from dprelease.query.aggregates.count import Count
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement
from dprelease.query.post import NO_POST_PROCESSING, PostProcessing
from dprelease.query.resolve import Query
from dprelease.tables import formats


@dataclass(frozen=True, slots=True)
class CountedTable:
    """A published table that counts rows by public keys.

    `query` has key names that have the same meaning in all attacked tables. `file` and `column` are
    the names of the file and of the column with its numbers. `law` is the mechanism of the noise,
    and None for exact numbers. `post` is the post-processing of the numbers.
    """

    query: Query
    file: str
    column: str
    law: Randomizer | None
    post: PostProcessing = NO_POST_PROCESSING

    @property
    def name(self) -> str:
        """Return the name of the query."""
        return self.query.name

    def read_published(self, folder: Path) -> Floats:
        """Return the (cells,) published numbers, in the order of cells; NaN without a number."""
        import pyarrow as pa

        published = formats.PUBLISHED_FORMAT.read(folder / self.file, [self.column]).column(0)
        # Unsafe, because a decimal with many digits has no exact float.
        numbers: Floats = published.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.array(numbers, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class CountedTables:
    """The published tables that are attacked together, all about one declared table.

    `left_out` has the reasons why other published tables are not attacked, by name.
    """

    table: str
    used: tuple[CountedTable, ...]
    left_out: dict[str, str] = field(default_factory=dict)


def counted_tables(families: Sequence[Family], about: str | None = None) -> CountedTables:
    """Return the counted tables about one declared table.

    This is the table `about`, or by default the table that most published tables count.
    """
    found: list[CountedTable] = []
    left_out: dict[str, str] = {}
    for family in families:
        for table in family.tables:
            reason = _unfit_reason(table.query)
            counts = [] if reason else list(_tables_of_counts(family, table))
            if counts:
                found.append(counts[0])
            else:
                left_out[table.query.name] = reason or "it has no plain count of all rows"
    tables = Counter(one.query.declared.table.name for one in found)
    name = about or (tables.most_common(1)[0][0] if tables else "")
    used: list[CountedTable] = []
    for one in found:
        reason = ""
        if one.query.declared.table.name != name:
            reason = f"it counts rows of '{one.query.declared.table.name}'"
        renamed_table = None if reason else _with_unique_keys(one, used)
        if renamed_table is None:
            left_out[one.name] = reason or "its areas differ from those of an earlier table"
        else:
            used.append(renamed_table)
    return CountedTables(name, tuple(used), left_out)


def _unfit_reason(query: Query) -> str:
    """Return why a table can't be solved together with others; empty if it can."""
    if query.private is not None:
        return "its keys are not public"
    if query.join is not None:
        return "it joins another table"
    if query.predicate is not None:
        return "it counts rows under a condition"
    return ""


def _tables_of_counts(family: Family, table: FamilyTable) -> Iterator[CountedTable]:
    """Yield the tables that count all rows of one query.

    If a step has made a family of tables consistent, these are the tables of its measurements.
    """
    query = table.query
    if family.step is not None:
        for one in filter(_is_count, query.measurements):
            if one in table.vectors and not one.exact:
                measured = formats.table_file_name(table.measurements_name)
                yield CountedTable(query, measured, one.name, table.mechanisms[one.name])
            elif one.exact:
                yield from _tables_of_invariants(family, query, one)
        return
    for column in query.columns:
        first, post = column.parts[0], column.post
        # A coded count may be any larger or smaller number, which the likelihoods here don't
        # describe.
        coded = post.bottom_code is not None or post.top_code is not None
        if len(column.parts) == 1 and _is_count(first) and not coded:
            noise = None if first.exact else table.mechanisms[first.name]
            yield CountedTable(query, formats.table_file_name(query.name), column.name, noise, post)


def _tables_of_invariants(family: Family, query: Query, one: Measurement) -> Iterator[CountedTable]:
    """Yield the tables with the exact numbers of an invariant, from the output of a step."""
    names = [column.name for column in query.columns if column.parts == (one,)]
    for output in family.outputs:
        covers_all_keys = output.rows == "cells" and output.keys == query.keys
        if covers_all_keys and output.name.rpartition("/")[2] == query.name:
            for name in names:
                if isinstance(output.columns.get(name), Lattice | Real):
                    yield CountedTable(query, formats.table_file_name(output.name), name, None)


def _is_count(one: Measurement) -> bool:
    return isinstance(one.aggregate, Count) and one.aggregate.column is None


def _with_unique_keys(one: CountedTable, others: Sequence[CountedTable]) -> CountedTable | None:
    """Return a table in which keys are renamed if other tables use their names differently.

    Bands of a column are also renamed if another table has bands of this column with other edges.
    The result is None if a level of areas would have to be renamed.
    """
    known = {key.column: (key, other.query) for other in others for key in other.query.keys.keys}
    query, renamed = one.query, list(one.query.keys.keys)
    for i, key in enumerate(renamed):
        name, n = key.column, 1
        while name in known and not _have_same_values(key, query, *known[name]):
            n += 1
            name = f"{key.column} {n}"
        if name != key.column:
            if key.leaf:
                return None
            renamed[i] = replace(key, column=name)
            query = _with_column(query, key.column, name)
    return replace(one, query=replace(query, keys=KeySpace(tuple(renamed))))


def _have_same_values(key: Key, query: Query, other: Key, elsewhere: Query) -> bool:
    """Return whether keys of two queries have the same values of the same column, in one order."""
    # Levels of areas have another order than declared values, so they need another name.
    kinds = [(k.kind, k.nulls, k.others, k.level, list(k.values)) for k in (key, other)]
    columns = [
        (q.table.columns[k.column], q.formulas.get(k.column))
        for k, q in ((key, query), (other, elsewhere))
    ]
    return kinds[0] == kinds[1] and columns[0] == columns[1]


def _with_column(query: Query, name: str, new: str) -> Query:
    """Return a query in which a column also has a second name."""
    columns = {**query.table.columns, new: query.table.columns[name]}
    formulas = dict(query.formulas)
    if name in formulas:
        formulas[new] = formulas[name]
    view = query.table.model_copy(update={"columns": columns})
    return replace(query, view=view, formulas=formulas)
