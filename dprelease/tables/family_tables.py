"""Arrow tables of a family of consistent tables: the measurements and the published outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    QualityCodes,
)
from dprelease.postprocess.partition import Parts
from dprelease.query.quality import CODES
from dprelease.tables import formats
from dprelease.tables.arrays import (
    arrow_type_of_steps,
    boolean_array,
    float_array,
    scale_steps,
    take_values,
    text_array,
    wrap_array,
)
from dprelease.tables.key_columns import KeyArrays, PublicKeys, key_types
from dprelease.tables.published_tables import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.noise.noised_answers import Answer
    from dprelease.noise.noised_vectors import NoisyTable

Schema = list[tuple[str, str]]

PIECE_ROWS = 1 << 17
"""Number of rows of each output that are buffered. Many outputs are buffered at once."""


class MeasuredTables:
    """Converts noisy integers and their keys to Arrow tables: all cells at once, or in batches.

    `coded` says that texts are dictionary-encoded, which makes writing files faster.
    """

    def __init__(self, columns: Sequence[PlannedColumn], *, coded: bool = False) -> None:
        self._keys = KeyArrays(columns[0].query, coded=coded)
        self._done = 0

    def of(self, noisy: NoisyTable) -> pa.Table:
        """Return a table with the keys and the noisy numbers of steps for the next cells."""
        import pyarrow as pa

        arrays = self._keys.of(self._done, self._done + noisy.size)
        self._done += noisy.size
        arrays |= {name: wrap_array(pa.int64(), vector) for name, vector in noisy.columns.items()}
        return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def schema_of_measured(table: FamilyTable) -> Schema:
    """Return the name and the Arrow type of every column of a table's measurements."""
    keys = key_types(table.query.key_columns)
    return [*keys, *((measurement.name, "int64") for measurement in table.vectors)]


def published_table(table: FamilyTable, folder: Path) -> NoisedTable:
    """Return the measurements of a table, which are read lazily from the table's file in a folder.

    The file has the columns of `schema_of_measured`.
    """
    path = folder / formats.table_file_name(table.measurements_name)

    def pieces(measurement: str) -> Iterator[Integers]:
        """Yield the published values of a measurement, batch by batch."""
        for batch in formats.PUBLISHED_FORMAT.batches(path, [measurement]):
            yield batch.column(0).to_numpy()

    return NoisedTable(table, pieces)


def published_answers(family: Family, drawn: Sequence[Answer]) -> dict[str, pa.Table]:
    """Return all published tables of a family, by name, from noisy tables in memory."""
    import pyarrow as pa

    if family.step is None:
        return {answer.query.name: to_arrow(answer) for answer in drawn}
    by_name, noised = {}, []
    for table, answer in zip(family.tables, drawn, strict=True):
        by_name[table.measurements_name] = MeasuredTables(answer.columns).of(answer.noisy)
        noised.append(NoisedTable(table, _vector_reader(answer.noisy)))
    made: dict[str, list[pa.Table]] = {output.name: [] for output in family.outputs}
    for piece in step_tables(family.outputs, family.step.values(noised), {}):
        made[piece.name].append(piece.rows)
    return by_name | {name: pa.concat_tables(tables) for name, tables in made.items()}


def _vector_reader(noisy: NoisyTable) -> Callable[[str], Iterator[Integers]]:
    """Return a function that yields the noisy values of a measurement, in one piece."""
    return lambda measurement: iter([noisy.columns[measurement]])


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of a published table, or of the part of a table with the number `part`."""

    name: str
    rows: pa.Table
    part: int | None = None


def step_tables(
    outputs: Sequence[Output], batches: Iterator[tuple[str, Batch]], parts: Mapping[str, Parts]
) -> Iterator[Piece]:
    """Yield the outputs of a step in pieces of ROWS rows; the last piece may have fewer rows.

    The pieces of an output don't depend on the batches. Each output has at least one piece, and so
    has each of its `parts`, which follow one another.
    """
    waiting = {output.name: _PieceBuffer(output, parts.get(output.name)) for output in outputs}
    for name, batch in batches:
        yield from waiting[name].add(batch)
    for one in waiting.values():
        yield from one.rest()


class _PieceBuffer:
    """Buffers the rows of one output until they fill a piece."""

    def __init__(self, output: Output, parts: Parts | None) -> None:
        self._output, self._parts = output, parts
        self._keys = PublicKeys(output.keys)
        self._buffered: list[pa.Table] = []
        self._part, self._begun = 0, False

    def add(self, batch: Batch) -> Iterator[Piece]:
        """Add the rows of a batch; yield all full pieces, and the last piece of each part."""
        if self._parts is None:
            yield from self._add_batch(batch)
            return
        for part, rows in self._parts.cut(batch.cells):
            while self._part < part:
                yield from self._flush()
            values = {name: held[rows] for name, held in batch.values.items()}
            yield from self._add_batch(Batch(batch.cells[rows], values))

    def rest(self) -> Iterator[Piece]:
        """Yield the remaining rows after the last batch."""
        yield from self._flush()
        while self._parts is not None and self._part < len(self._parts):
            yield from self._flush()

    def _add_batch(self, batch: Batch) -> Iterator[Piece]:
        """Add a batch of cells, and yield each piece that became full."""
        import pyarrow as pa

        self._buffered.append(_output_table(self._output, self._keys, batch))
        while sum(map(len, self._buffered)) >= PIECE_ROWS:
            together = pa.concat_tables(self._buffered)
            yield self._piece(together.slice(0, PIECE_ROWS))
            self._buffered = [left] if len(left := together.slice(PIECE_ROWS)) else []

    def _flush(self) -> Iterator[Piece]:
        """Yield the remaining rows of a table or a part, or an empty piece if there are none."""
        import pyarrow as pa

        if self._buffered:
            yield self._piece(pa.concat_tables(self._buffered))
        elif not self._begun:
            none = np.empty(0, dtype=np.int64)
            empty = Batch(none, dict.fromkeys(self._output.columns, none))
            yield self._piece(_output_table(self._output, self._keys, empty))
        self._buffered, self._begun = [], False
        self._part += 1

    def _piece(self, rows: pa.Table) -> Piece:
        self._begun = True
        part = None if self._parts is None else self._part
        # One chunk, because a file's bytes would otherwise depend on how batches arrived.
        return Piece(self._output.name, rows.combine_chunks(), part)


def _output_table(output: Output, keys: PublicKeys, batch: Batch) -> pa.Table:
    """Return the rows of a batch of cells: keys and published values."""
    import pyarrow as pa

    arrays = keys.at(batch.cells)
    for name, kind in output.columns.items():
        arrays[name] = _output_array(kind, batch.values[name])
    note = {"dprelease": output.note} if output.note else None
    return pa.Table.from_arrays(list(arrays.values()), names=list(arrays), metadata=note)


def _output_array(kind: object, values: Any) -> pa.Array:
    """Return the values of an output column as an Arrow array."""
    if isinstance(kind, Lattice):
        return scale_steps(values.astype(np.int64, copy=False), kind.step)
    if isinstance(kind, Flag):
        return boolean_array(values)
    if isinstance(kind, QualityCodes):
        return take_values(text_array(CODES), values.astype(np.int64))
    return float_array(values.astype(np.float64, copy=False))


def schema_of_output(output: Output) -> Schema:
    """Return the name and the Arrow type of every column of an output."""
    columns = key_types(output.keys.keys)
    for name, kind in output.columns.items():
        if isinstance(kind, Flag | QualityCodes):
            columns.append((name, "bool" if isinstance(kind, Flag) else "string"))
        else:
            columns.append(
                (name, arrow_type_of_steps(kind.step if isinstance(kind, Lattice) else None))
            )
    return columns


# Split tables into parts, each of which is written to a separate file.


def split_into_parts(name: str, tables: Iterator[pa.Table], parts: Parts | None) -> Iterator[Piece]:
    """Yield the rows of a table in order, in pieces that end where a part of the table ends.

    The table has one row for each cell.
    """
    done = 0
    for table in tables:
        if parts is None:
            yield Piece(name, table)
            continue
        for part, rows in parts.between(done, done + len(table)):
            size = rows.stop - rows.start
            taken = (
                table
                if size == len(table)
                else _with_compact_dictionaries(table.slice(rows.start, size))
            )
            yield Piece(name, taken, part)
        done += len(table)


def _with_compact_dictionaries(table: pa.Table) -> pa.Table:
    """Return the same rows, with each dictionary reduced to the texts that occur in these rows."""
    import pyarrow as pa

    columns = [
        _compact_dictionary(column.combine_chunks())
        if pa.types.is_dictionary(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _compact_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the same texts with a dictionary of only these, in order of first occurrence."""
    import pyarrow as pa

    codes = column.indices.dictionary_encode()  # encode the codes themselves, not the texts
    return pa.DictionaryArray.from_arrays(codes.indices, column.dictionary.take(codes.dictionary))
