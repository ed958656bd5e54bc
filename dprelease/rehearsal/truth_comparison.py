"""Compare published tables with true values, cell by cell: one truth table for each table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.documents.truth_columns import truth_columns
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.planning.plan import Plan
from dprelease.planning.quantile_target import Target
from dprelease.postprocess.families import Family
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.measurement import OutputColumn, read_at
from dprelease.query.post import NOTHING
from dprelease.query.resolve import Query
from dprelease.rehearsal.truth import MISSING, Truth, below_and_upto, totals
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.tables import formats
from dprelease.tables.arrays import float_array, key_values, wrap_array
from dprelease.tables.key_columns import KeyArrays
from dprelease.tables.published_columns import published_arrays, published_types

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """One published column of one published table, and its columns in the truth table.

    In the truth table, `true` is the column of exact values, and `unbounded` that of values without
    contribution limits (empty if there are none). `off` is the column of rows off (empty for a
    number), `margin` that of margins (empty without margins), `rows` that of rows of the cell, and
    `told` says whether the cell is published.
    """

    table: str
    column: str
    unit: str
    confidence: float
    expected: float | None
    true: str
    unbounded: str
    off: str
    margin: str
    rows: str
    told: str


def published_tables(families: Sequence[Family]) -> Iterator[tuple[str, Query, bool]]:
    """Yield name and query of each table with a truth, and whether no step processed its values.

    Tables of measurements have no truth table, because the output of a step from them has the same
    cells. Outputs of a step that are not tables of a query, such as synthetic persons, have no
    truth table either.
    """
    for family in families:
        queries = {table.query.name: table.query for table in family.tables}
        if family.step is None:
            yield from ((name, query, True) for name, query in queries.items())
            continue
        for output in family.outputs:
            name = output.name.rpartition("/")[2]
            if name in queries and output.keys == queries[name].keys:
                yield output.name, queries[name], False


def columns_to_compare(families: Sequence[Family], plan: Plan) -> list[ColumnComparison]:
    """Return all columns that are compared, table by table."""
    found = []
    names_by_table = _columns_by_table(families)
    for name, query, as_noised in published_tables(families):
        errors = {c.measurement.name: c.mean_absolute_error for c in plan.of_query(query.name)}
        names = truth_columns((key.column for key in query.key_columns), names_by_table[name])
        for column in query.columns:
            first = column.parts[0]
            alone = as_noised and len(column.parts) == 1
            expected = errors.get(first.name) if alone else None
            is_choice = first.is_choice
            found.append(
                ColumnComparison(
                    table=name,
                    column=column.name,
                    unit=first.error_unit if is_choice else column.unit,
                    confidence=float(column.margin or DEFAULT_CONFIDENCE),
                    expected=None if expected is None or np.isinf(expected) else expected,
                    true=names.true[column.name],
                    unbounded=names.unbounded[column.name] if query.unit.id else "",
                    off=names.off[column.name] if is_choice else "",
                    margin=_margin(column, as_noised),
                    rows=names.rows,
                    told=names.told,
                )
            )
    return found


def _columns_by_table(families: Sequence[Family]) -> dict[str, tuple[str, ...]]:
    """Return the published columns of every table, except its keys."""
    names_by_table: dict[str, tuple[str, ...]] = {}
    for family in families:
        for table in family.tables:
            types = (published_types(table.query, column) for column in table.query.columns)
            names_by_table[table.query.name] = tuple(name for of_one in types for name, _ in of_one)
        names_by_table |= {output.name: tuple(output.columns) for output in family.outputs}
    return names_by_table


def _margin(column: OutputColumn, as_noised: bool) -> str:
    return f"{column.name}_moe" if column.margin is not None or not as_noised else ""


def compare_with_truth(
    folder: Path, name: str, truth: Truth, columns: Sequence[ColumnComparison]
) -> pa.Table:
    """Return a published table with columns of true values.

    The result has one row for each published row or, with non-public keys, one for each key that
    occurs.
    """
    published = formats.PUBLISHED.read(folder / formats.file_of(name))
    query = truth.query
    if query.private is not None:
        published, cells = _spread(published, query, columns[0].told)
    else:
        cells = _cells(published, query.keys)
    exact = _arrays(query, truth.vectors)
    loose = {} if truth.unbounded is None else _arrays(query, truth.unbounded)
    by_name = {column.name: column for column in query.columns}
    positions = wrapped_places(cells)
    for one in columns:
        published = published.append_column(one.true, exact[one.column].take(positions))
        if one.unbounded:
            published = published.append_column(one.unbounded, loose[one.column].take(positions))
        if one.off:
            off = _rows_off(published.column(one.column), by_name[one.column], truth, cells)
            published = published.append_column(one.off, float_array(off))
    if columns:
        rows = wrapped_places(np.ascontiguousarray(truth.rows[cells]))
        published = published.append_column(columns[0].rows, rows)
    return published


def wrapped_places(places: Integers) -> pa.Array:
    """Return integers as an Arrow array."""
    import pyarrow as pa

    return wrap_array(pa.int64(), np.ascontiguousarray(places))


def _arrays(query: Query, vectors: Mapping[str, Integers]) -> dict[str, pa.Array]:
    """Return the exact values of every published column, before rounding and suppression."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = {}
    for column in query.columns:
        unprocessed = replace(column, post=NOTHING, margin=None)
        missing = _missing(column, vectors)
        filled = {n: np.where(v == MISSING, 0, v) for n, v in vectors.items()}
        array = published_arrays(query, unprocessed, filled, {})[column.name]
        if missing.any():
            array = pc.if_else(pa.array(missing), pa.scalar(None, array.type), array)
        arrays[column.name] = array
    return arrays


def _missing(column: OutputColumn, vectors: Mapping[str, Integers]) -> Flags:
    first = column.parts[0]
    name = first.name if column.at is None else read_at(first.name, column.at)
    missing: Flags = vectors[name] == MISSING
    return missing


def _cells(published: pa.Table, keys: KeySpace) -> Integers:
    """Return the cell of each row of a published table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = np.zeros(len(published), dtype=np.int64)
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        values = published.column(key.column).combine_chunks()
        if isinstance(key.values, range):
            places = values.to_numpy(zero_copy_only=False).astype(np.int64) - key.values[0]
        else:
            known = key_values(key)
            if known.type == pa.bool_():  # Arrow can't look up booleans
                known, values = known.cast(pa.int8()), values.cast(pa.int8())
            places = pc.index_in(values, value_set=known).to_numpy(zero_copy_only=False)
        cells += places.astype(np.int64) * stride
    return cells


def _spread(published: pa.Table, query: Query, told_in: str) -> tuple[pa.Table, Integers]:
    """Return a table of all keys that occur, with the published values; and its cells.

    `told_in` is the name of the column that says which keys are published.
    """
    import pyarrow as pa

    keys = KeyArrays(query).of(0, query.keys.size)
    names = [key.column for key in query.key_columns]
    published_rows = list(zip(*(published.column(name).to_pylist() for name in names), strict=True))
    place = {row: i for i, row in enumerate(published_rows)}
    rows = zip(*(keys[name].to_pylist() for name in names), strict=True)
    places = [place.get(row) for row in rows]
    positions = pa.array(places, pa.int64())
    arrays = {**keys}
    arrays |= {
        name: published.column(name).combine_chunks().take(positions)
        for name in published.column_names
        if name not in keys
    }
    arrays[told_in] = positions.is_valid()
    return pa.table(arrays), np.arange(query.keys.size, dtype=np.int64)


def _rows_off(
    published: pa.ChunkedArray, column: OutputColumn, truth: Truth, cells: Integers
) -> Floats:
    """Return the rows between the published and the exact choice; NaN if one of them is missing."""
    first = column.parts[0]
    aggregate, profile = first.aggregate, truth.profiles[first.name]
    places = _places(published, column, truth.query)
    known = ~np.isnan(places)
    cell, below, upto = below_and_upto(profile)
    if aggregate.by_rank:
        best = _count_at(profile.values, profile.counts, cell, cells, truth.vectors[first.name])
        value_positions = np.where(known, places, -1).astype(np.int64)
        count_of_published = _count_at(
            profile.values, profile.counts, cell, cells, None, value_positions
        )
        return np.where(known, (best - count_of_published).astype(np.float64), np.nan)
    at = column.at if column.at is not None else aggregate.part
    if at is None:
        raise TypeError("a choice on a lattice is a quantile")
    total = totals(profile)[cells]
    target = Target.of(Quantile(column.name, 0, 1, first.step, at), 1)
    ranks = _ranks(profile.values, cell, below, upto, cells, np.where(known, places, 0.0))
    scores = target.scores(ranks[0], ranks[1], total)
    return np.where(known & (total > 0), -scores / target.b, np.nan)


def _places(published: pa.ChunkedArray, column: OutputColumn, query: Query) -> Floats:
    """Return published values as indices of candidates; a rounded value may lie between two."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = column.parts[0]
    if first.aggregate.by_rank:
        known = _candidates(query, first.aggregate.column or "")
        values = published.combine_chunks()
        if known.type == pa.bool_():
            known, values = known.cast(pa.int8()), values.cast(pa.int8())
        found = pc.index_in(values, value_set=known).cast(pa.float64())
        return _floats(found)
    lattice = first.aggregate.lattice
    lower = 0 if lattice is None else lattice.lower
    steps = _floats(published) / float(first.step)
    places: Floats = (steps - lower) / getattr(first.aggregate, "stride", 1)
    return places


def _candidates(query: Query, name: str) -> pa.Array:
    from dprelease.query.grouping.group_keys import Key, key_of

    key = key_of(name, query.table.columns[name])
    if not isinstance(key, Key):
        raise TypeError("candidates are declared values")
    return key_values(key)


def _floats(array: pa.Array | pa.ChunkedArray) -> Floats:
    import pyarrow as pa

    floats: Floats = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return floats


def _count_at(
    values: Integers,
    counts: Integers,
    cell: Integers,
    cells: Integers,
    by_cell: Integers | None,
    value_positions: Integers | None = None,
) -> Integers:
    """Return the count of a value in each of some cells."""
    cell_positions = value_positions if by_cell is None else by_cell[cells]
    if cell_positions is None:
        raise TypeError("a value is needed")
    span = int(max(values.max(initial=0), cell_positions.max(initial=0))) + 1
    pairs = cell * span + values
    pair_numbers = cells * span + np.clip(cell_positions, 0, None)
    at = np.clip(np.searchsorted(pairs, pair_numbers), 0, max(len(pairs) - 1, 0))
    if not len(pairs):
        return np.zeros(len(cells), dtype=np.int64)
    present = (pairs[at] == pair_numbers) & (cell_positions >= 0)
    found: Integers = np.where(present, counts[at], 0)
    return found


def _ranks(
    values: Integers,
    cell: Integers,
    below: Integers,
    upto: Integers,
    cells: Integers,
    places: Floats,
) -> tuple[Integers, Integers]:
    """Return the numbers of values in each cell that are below a candidate, and up to it."""
    lower_places = np.floor(places).astype(np.int64)
    span = int(values.max(initial=0)) + 2
    pairs = cell * span + values
    inside = np.clip(lower_places, -1, span - 2)
    last = np.searchsorted(pairs, cells * span + inside, side="right") - 1
    present = (last >= 0) & (cell[np.maximum(last, 0)] == cells) if len(pairs) else cells < 0
    reached = np.where(present, upto[np.maximum(last, 0)], 0) if len(pairs) else 0 * cells
    exact = present & (values[np.maximum(last, 0)] == places) if len(pairs) else present
    before = np.where(exact, below[np.maximum(last, 0)], reached) if len(pairs) else reached
    return before, reached
