"""Tables of a family that a step publishes: its measurements, and what was computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import PlannedColumn
from dprelease.postprocess.families import (
    Batch,
    Family,
    FamilyTable,
    Flag,
    Lattice,
    NoisedTable,
    Output,
)
from dprelease.tables import formats
from dprelease.tables.arrays import flags, fractions, kind_of, scaled, wrapped
from dprelease.tables.key_columns import KeyArrays, PublicKeys, key_types
from dprelease.tables.published_tables import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.noise.noised_answers import Answer
    from dprelease.noise.noised_vectors import NoisyTable

Schema = list[tuple[str, str]]

ROWS = 1 << 17
"""Rows of each output that wait to be written: those of many outputs are held at once."""


class MeasuredTables:
    """Noised integers as they were drawn, with their keys: all cells at once, or batch by batch.

    `coded`: texts as codes and lists, which files are written from faster.
    """

    def __init__(self, columns: Sequence[PlannedColumn], *, coded: bool = False) -> None:
        self._keys = KeyArrays(columns[0].query, coded=coded)
        self._done = 0

    def of(self, noisy: NoisyTable) -> pa.Table:
        """Return keys and noised integers, lattice steps, for the cells that follow."""
        import pyarrow as pa

        arrays = self._keys.of(self._done, self._done + noisy.size)
        self._done += noisy.size
        arrays |= {name: wrapped(pa.int64(), vector) for name, vector in noisy.columns.items()}
        return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def schema_of_measured(table: FamilyTable) -> Schema:
    """Return name and Arrow type of every column of a table's measurements."""
    keys = key_types(table.query.key_columns)
    return [*keys, *((measurement.name, "int64") for measurement in table.vectors)]


def published_table(table: FamilyTable, folder: Path) -> NoisedTable:
    """Return the measurements of a table as a folder has them; their file is read when asked for.

    It has the columns of `schema_of_measured`.
    """
    path = folder / formats.file_of(table.measured)

    def pieces(measurement: str) -> Iterator[Integers]:
        for batch in formats.PUBLISHED.batches(path, [measurement]):
            yield batch.column(0).to_numpy()

    return NoisedTable(table, pieces)


def published_answers(family: Family, drawn: Sequence[Answer]) -> dict[str, pa.Table]:
    """Return all that a family publishes, by name, from its noised tables in memory."""
    import pyarrow as pa

    if family.step is None:
        return {answer.query.name: to_arrow(answer) for answer in drawn}
    by_name, noised = {}, []
    for table, answer in zip(family.tables, drawn, strict=True):
        by_name[table.measured] = MeasuredTables(answer.columns).of(answer.noisy)
        noised.append(NoisedTable(table, _held(answer.noisy)))
    made: dict[str, list[pa.Table]] = {output.name: [] for output in family.outputs}
    for name, table in step_tables(family.outputs, family.step.values(noised)):
        made[name].append(table)
    return by_name | {name: pa.concat_tables(tables) for name, tables in made.items()}


def _held(noisy: NoisyTable) -> Callable[[str], Iterator[Integers]]:
    return lambda measurement: iter([noisy.columns[measurement]])


def step_tables(
    outputs: Sequence[Output], batches: Iterator[tuple[str, Batch]]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield what a step publishes as tables of ROWS rows, by name; of each the last has the rest.

    Whatever the batches, the tables of one output are the same; there is at least one of each.
    """
    import pyarrow as pa

    keys = {output.name: PublicKeys(output.keys) for output in outputs}
    by_name = {output.name: output for output in outputs}
    held: dict[str, list[pa.Table]] = {output.name: [] for output in outputs}
    some: set[str] = set()
    for name, batch in batches:
        parts = held[name]
        parts.append(_output_table(by_name[name], keys[name], batch))
        while sum(map(len, parts)) >= ROWS:
            together = pa.concat_tables(parts)
            yield name, together.slice(0, ROWS).combine_chunks()
            some.add(name)
            parts[:] = [left] if len(left := together.slice(ROWS)) else []
    for name, parts in held.items():
        if parts:
            yield name, pa.concat_tables(parts).combine_chunks()
        elif name not in some:
            none = np.empty(0, dtype=np.int64)
            empty = Batch(none, dict.fromkeys(by_name[name].columns, none))
            yield name, _output_table(by_name[name], keys[name], empty)


def _output_table(output: Output, keys: PublicKeys, batch: Batch) -> pa.Table:
    import pyarrow as pa

    arrays = keys.at(batch.cells)
    for name, kind in output.columns.items():
        arrays[name] = _array(kind, batch.values[name])
    note = {"dprelease": output.note} if output.note else None
    return pa.Table.from_arrays(list(arrays.values()), names=list(arrays), metadata=note)


def _array(kind: object, values: Any) -> pa.Array:
    if isinstance(kind, Lattice):
        return scaled(values.astype(np.int64, copy=False), kind.step)
    if isinstance(kind, Flag):
        return flags(values)
    return fractions(values.astype(np.float64, copy=False))


def schema_of_output(output: Output) -> Schema:
    """Return name and Arrow type of every column of what a step publishes."""
    columns = key_types(output.keys.keys)
    for name, kind in output.columns.items():
        if isinstance(kind, Flag):
            columns.append((name, "bool"))
        else:
            columns.append((name, kind_of(kind.step if isinstance(kind, Lattice) else None)))
    return columns
