"""Compare published tables with true values, cell by cell, in one truth table for each table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.documents.rehearsal_manifest import truth_columns
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.planning.plan import Plan
from dprelease.planning.quantile_target import RankTarget
from dprelease.postprocess.derived_values import FRACTIONS
from dprelease.postprocess.families import Family
from dprelease.postprocess.quantile_order import is_quantile, value_vector_name
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query
from dprelease.rehearsal.truth import MISSING, Truth, cumulative_counts, value_totals
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.tables import formats
from dprelease.tables.arrays import float_array, key_values, wrap_array
from dprelease.tables.key_columns import KeyArrays
from dprelease.tables.published_columns import exact_array, published_types

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """One published column of a published table, and its columns in the truth table.

    The fields that end in `_column` are names of columns of the truth table, and empty if there is
    no such column. `true_column` has the exact values, and `unlimited_column` the exact values
    without contribution limits. `rows_off_column` has the errors of a choice, in rows;
    `margin_column` has the margins of error, or `interval_columns` the ends of intervals, and
    `rows_column` the number of rows of each cell.
    `published_column` says whether the cell is published.
    """

    table: str
    column: str
    unit: str
    confidence: float
    expected: float | None
    true_column: str
    unlimited_column: str
    rows_off_column: str
    margin_column: str
    rows_column: str
    published_column: str
    interval_columns: tuple[str, ...] = ()


def published_tables(families: Sequence[Family]) -> Iterator[tuple[str, Query, bool]]:
    """Yield the name and the query of each published table that has a truth table.

    The third item says whether the table has the noisy values themselves, which no step of a family
    of tables has processed. Tables of measurements have no truth table, because the step's output
    has the same cells. Outputs of a step that are not tables of a query, such as synthetic persons,
    have no truth table either.
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
    """Return how each published column is compared with its true values, table by table."""
    comparisons = []
    names_by_table = _columns_by_table(families)
    for name, query, as_noised in published_tables(families):
        errors = {c.measurement.name: c.mean_absolute_error for c in plan.of_query(query.name)}
        names = truth_columns((key.column for key in query.key_columns), names_by_table[name])
        for column in query.columns:
            first_part = column.parts[0]
            is_noised_directly = as_noised and (len(column.parts) == 1 or is_quantile(column))
            expected = errors.get(first_part.name) if is_noised_directly else None
            is_choice = first_part.is_choice and column.form not in FRACTIONS
            comparisons.append(
                ColumnComparison(
                    table=name,
                    column=column.name,
                    unit=first_part.error_unit if is_choice else column.unit,
                    confidence=float(column.margin or column.interval or DEFAULT_CONFIDENCE),
                    expected=None if expected is None or np.isinf(expected) else expected,
                    true_column=names.true[column.name],
                    unlimited_column=names.unbounded[column.name] if query.unit.id else "",
                    rows_off_column=names.off[column.name] if is_choice else "",
                    margin_column=_margin_column(column, as_noised),
                    rows_column=names.rows,
                    published_column=names.is_published,
                    interval_columns=_interval_columns(column, as_noised),
                )
            )
    return comparisons


def _columns_by_table(families: Sequence[Family]) -> dict[str, tuple[str, ...]]:
    """Return the published columns of every table, except its keys."""
    names_by_table: dict[str, tuple[str, ...]] = {}
    for family in families:
        for table in family.tables:
            types = (published_types(table.query, column) for column in table.query.columns)
            names_by_table[table.query.name] = tuple(
                name for column_types in types for name, _ in column_types
            )
        names_by_table |= {output.name: tuple(output.columns) for output in family.outputs}
    return names_by_table


def _margin_column(column: OutputColumn, as_noised: bool) -> str:
    """Return the name of the column with the margins of a column; empty if it has no margins."""
    return f"{column.name}_moe" if column.margin is not None or not as_noised else ""


def _interval_columns(column: OutputColumn, as_noised: bool) -> tuple[str, ...]:
    """Return the names of the ends of a column's intervals; empty if it has a margin or none."""
    if not as_noised or (column.form not in FRACTIONS and column.interval is None):
        return ()
    return f"{column.name}_lower", f"{column.name}_upper"


def compare_with_truth(
    folder: Path, name: str, truth: Truth, columns: Sequence[ColumnComparison]
) -> pa.Table:
    """Return the truth table of a published table, which also has columns of true values.

    The truth table has one row for each published row; if the keys are non-public, it has one row
    for each key that occurs.
    """
    published = formats.PUBLISHED_FORMAT.read(folder / formats.table_file_name(name))
    query = truth.query
    if query.private is not None:
        flag = published_flag(columns, published.column_names)
        published, cells = _with_all_keys(published, query, flag)
    else:
        cells = _cells_of_rows(published, query.keys)
    exact = _exact_arrays(query, truth.vectors)
    unlimited = {} if truth.unbounded is None else _exact_arrays(query, truth.unbounded)
    by_name = {column.name: column for column in query.columns}
    positions = integers_to_arrow(cells)
    for one in columns:
        published = published.append_column(one.true_column, exact[one.column].take(positions))
        if one.unlimited_column:
            published = published.append_column(
                one.unlimited_column, unlimited[one.column].take(positions)
            )
        if one.rows_off_column:
            off = _rows_off(published.column(one.column), by_name[one.column], truth, cells)
            published = published.append_column(one.rows_off_column, float_array(off))
    if columns:
        rows = integers_to_arrow(np.ascontiguousarray(truth.rows[cells]))
        published = published.append_column(columns[0].rows_column, rows)
    return published


def integers_to_arrow(integers: Integers) -> pa.Array:
    """Return integers as an Arrow array."""
    import pyarrow as pa

    return wrap_array(pa.int64(), np.ascontiguousarray(integers))


def _exact_arrays(query: Query, vectors: Mapping[str, Integers]) -> dict[str, pa.Array]:
    """Return the exact values of every published column, before rounding and suppression."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = {}
    for column in query.columns:
        missing = _missing_flags(column, vectors)
        # A placeholder: these cells become missing values below.
        filled = {n: np.where(v == MISSING, 0, v) for n, v in vectors.items()}
        array = exact_array(query, column, filled)
        if missing.any():
            array = pc.if_else(pa.array(missing), pa.scalar(None, array.type), array)
        arrays[column.name] = array
    return arrays


def _missing_flags(column: OutputColumn, vectors: Mapping[str, Integers]) -> Flags:
    """Return which cells of a column have no exact value."""
    missing: Flags = vectors[value_vector_name(column)] == MISSING
    return missing


def _cells_of_rows(published: pa.Table, keys: KeySpace) -> Integers:
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = np.zeros(len(published), dtype=np.int64)
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        values = published.column(key.column).combine_chunks()
        if isinstance(key.values, range):
            positions = values.to_numpy(zero_copy_only=False).astype(np.int64) - key.values[0]
        else:
            known = key_values(key)
            if known.type == pa.bool_():  # Arrow can't look up booleans
                known, values = known.cast(pa.int8()), values.cast(pa.int8())
            positions = pc.index_in(values, value_set=known).to_numpy(zero_copy_only=False)
        cells += positions.astype(np.int64) * stride
    return cells


def published_flag(columns: Sequence[ColumnComparison], names: Sequence[str]) -> str:
    """Return the name of the column of a truth table that says which keys are published.

    `names` are the columns of the published table, which are only keys if `columns` is empty.
    """
    flag = columns[0].published_column if columns else "is_published"
    while flag in names:
        flag += "_"
    return flag


def _with_all_keys(
    published: pa.Table, query: Query, published_column: str
) -> tuple[pa.Table, Integers]:
    """Return a table with published values and all keys that occur, and the cells of its rows.

    `published_column` is the name of the column that says which of the keys are published.
    """
    import pyarrow as pa

    keys = KeyArrays(query).of(0, query.keys.size)
    names = [key.column for key in query.key_columns]
    published_rows = list(zip(*(published.column(name).to_pylist() for name in names), strict=True))
    row_by_key = {key: i for i, key in enumerate(published_rows)}
    all_keys = zip(*(keys[name].to_pylist() for name in names), strict=True)
    positions = pa.array([row_by_key.get(key) for key in all_keys], pa.int64())
    arrays = {**keys}
    arrays |= {
        name: published.column(name).combine_chunks().take(positions)
        for name in published.column_names
        if name not in keys
    }
    arrays[published_column] = positions.is_valid()
    return pa.table(arrays), np.arange(query.keys.size, dtype=np.int64)


def _rows_off(
    published: pa.ChunkedArray, column: OutputColumn, truth: Truth, cells: Integers
) -> Floats:
    """Return the number of rows between the published and the exact choice of each cell.

    The number is NaN in a cell without a published or without an exact choice.
    """
    first = column.parts[0]
    aggregate, profile = first.aggregate, truth.profiles[first.name]
    positions = _candidate_positions(published, column, truth.query)
    known = ~np.isnan(positions)
    cell, below, upto = cumulative_counts(profile)
    if aggregate.by_rank:
        best = _counts_of_values(
            profile.values, profile.counts, cell, cells, truth.vectors[first.name]
        )
        value_positions = np.where(known, positions, -1).astype(np.int64)
        count_of_published = _counts_of_values(
            profile.values, profile.counts, cell, cells, None, value_positions
        )
        return np.where(known, (best - count_of_published).astype(np.float64), np.nan)
    at = column.at if column.at is not None else aggregate.part
    if at is None:
        raise TypeError("a choice on a lattice is a quantile")
    total = value_totals(profile)[cells]
    target = RankTarget.of(Quantile(column.name, 0, 1, first.step, at))
    ranks = _counts_below_and_up_to(
        profile.values, cell, below, upto, cells, np.where(known, positions, 0.0)
    )
    scores = target.scores(ranks[0], ranks[1], total)
    return np.where(known & (total > 0), -scores / target.b, np.nan)


def _candidate_positions(published: pa.ChunkedArray, column: OutputColumn, query: Query) -> Floats:
    """Return published values as indices of candidates, with fractions for rounded values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = column.parts[0]
    if first.aggregate.by_rank:
        known = _declared_candidates(query, first.aggregate.column or "")
        values = published.combine_chunks()
        if known.type == pa.bool_():
            known, values = known.cast(pa.int8()), values.cast(pa.int8())
        found = pc.index_in(values, value_set=known).cast(pa.float64())
        return _to_floats(found)
    lattice = first.aggregate.lattice
    lower = 0 if lattice is None else lattice.lower
    steps = _to_floats(_as_steps(published) if column.time_unit else published) / float(first.step)
    positions: Floats = (steps - lower) / getattr(first.aggregate, "stride", 1)
    return positions


def _as_steps(days: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates as numbers of days since 1970-01-01, and timestamps as numbers of seconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(days.type):
        return days.cast(pa.timestamp("s")).cast(pa.int64())
    return days.cast(pa.int32())


def _declared_candidates(query: Query, name: str) -> pa.Array:
    """Return the declared values of a column, among which a choice selects."""
    from dprelease.query.grouping.group_keys import Key, key_of

    key = key_of(name, query.table.columns[name])
    if not isinstance(key, Key):
        raise TypeError("candidates are declared values")
    return key_values(key)


def _to_floats(array: pa.Array | pa.ChunkedArray) -> Floats:
    import pyarrow as pa

    floats: Floats = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return floats


def _counts_of_values(
    values: Integers,
    counts: Integers,
    cell: Integers,
    cells: Integers,
    by_cell: Integers | None,
    value_positions: Integers | None = None,
) -> Integers:
    """Return the number of rows that have a certain value, in each of the cells `cells`.

    `values`, `counts` and `cell` are the entries of a profile. The certain value of a cell is that
    in `by_cell`, which has a value for every cell, or else that in `value_positions`.
    """
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


def _counts_below_and_up_to(
    values: Integers,
    cell: Integers,
    below: Integers,
    upto: Integers,
    cells: Integers,
    positions: Floats,
) -> tuple[Integers, Integers]:
    """Return the numbers of values in each cell that are below a candidate, and up to it.

    `positions` has the index of one candidate for each of the cells `cells`. The other arguments
    are the entries of a profile with their cumulative counts.
    """
    lower_positions = np.floor(positions).astype(np.int64)
    span = int(values.max(initial=0)) + 2
    pairs = cell * span + values
    inside = np.clip(lower_positions, -1, span - 2)
    last = np.searchsorted(pairs, cells * span + inside, side="right") - 1
    present = (last >= 0) & (cell[np.maximum(last, 0)] == cells) if len(pairs) else cells < 0
    reached = np.where(present, upto[np.maximum(last, 0)], 0) if len(pairs) else 0 * cells
    exact = present & (values[np.maximum(last, 0)] == positions) if len(pairs) else present
    before = np.where(exact, below[np.maximum(last, 0)], reached) if len(pairs) else reached
    return before, reached
