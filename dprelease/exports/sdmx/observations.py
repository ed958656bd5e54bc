"""The rows of a cube: SDMX-CSV 2.0, one observation each, made here so that no version of a
package decides a byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.metadata import ColumnMetadata, code_text
from dprelease.exports.export import PublishedRelease
from dprelease.exports.sdmx.identifiers import code_id, component_id
from dprelease.exports.sdmx.sdmx_cubes import Cube
from dprelease.exports.sdmx.status import status_of
from dprelease.exports.sdmx.structures import is_coded
from dprelease.query.post import leaves_empty

if TYPE_CHECKING:
    import pyarrow as pa

Cells = Sequence[str | None]
"""A column as texts; None is missing."""

CELLS = 1 << 15
"""Cells that are held as texts at once."""

INFORMATION = "I"
"""The action of a file that is there to be read, and changes nobody's data."""


def write_observations(release: PublishedRelease, cube: Cube, flow: str, path: Path) -> None:
    """Write a cube into a file, which must not be there: cells in order, in each its measures.

    `flow`: its dataflow, as `AGENCY:ID(VERSION)`.
    """
    rows = _Rows(release, cube)
    fixed = ["dataflow", flow, INFORMATION]
    with path.open("x", encoding="utf-8", newline="") as file:
        file.write(_line(["STRUCTURE", "STRUCTURE_ID", "ACTION", *rows.header]))
        start = "".join(_field(text) + "," for text in fixed)
        for batch in release.batches(cube.table, rows.columns):
            for first in range(0, batch.num_rows, CELLS):
                file.writelines(start + line for line in rows.lines(batch.slice(first, CELLS)))


class _Rows:
    def __init__(self, release: PublishedRelease, cube: Cube) -> None:
        self._cube = cube
        told = next(one for one in release.record["files"] if one["name"] == cube.table.file)
        words = told.get("post_processing", {})
        self._may_be_empty = {v.name: leaves_empty(words.get(v.name, ())) for v in cube.values}
        self._beside = list(cube.beside)
        self._last = {value.name: self._constants(value) for value in cube.values}
        self._key_texts = [_texts_of_key(key) for key in cube.table.keys]

    @property
    def header(self) -> list[str]:
        """Return the names of all columns after the first three."""
        cube = self._cube
        return [
            *(component_id(key.name) for key in cube.table.keys),
            "MEASURE",
            *(["TIME_PERIOD"] if cube.time is not None else []),
            "OBS_VALUE",
            "OBS_STATUS",
            "CONF_STATUS",
            *self._beside,
            *(["CONFIDENCE_LEVEL"] if cube.confidence else []),
            *(["UNIT_MEASURE"] if cube.units else []),
            *(["DECIMALS"] if cube.decimals else []),
        ]

    @property
    def columns(self) -> list[str]:
        """Return the columns of the table that are needed."""
        cube = self._cube
        held = [*cube.table.keys, *cube.values, *cube.unreliable.values()]
        held += [column for of in cube.beside.values() for column in of.values()]
        return [column.name for column in held]

    def _constants(self, value: ColumnMetadata) -> list[str | None]:
        cube = self._cube
        decimals = None if value.decimals is None else str(value.decimals)
        return [
            *([cube.confidence.get(value.name)] if cube.confidence else []),
            *([value.unit or None] if cube.units else []),
            *([decimals] if cube.decimals else []),
        ]

    def lines(self, batch: pa.RecordBatch) -> Iterator[str]:
        """Yield the lines of some cells."""
        keys = [
            texts(batch.column(key.name))
            for key, texts in zip(self._cube.table.keys, self._key_texts, strict=True)
        ]
        cells = [list(cell) for cell in zip(*keys, strict=True)] or [[]] * batch.num_rows
        measured = [self._measure_fields(batch, value) for value in self._cube.values]
        for cell, *several in zip(cells, *measured, strict=True):
            for observed in several:
                yield _line([*cell, *observed])

    def _measure_fields(
        self, batch: pa.RecordBatch, value: ColumnMetadata
    ) -> Iterator[list[str | None]]:
        """Yield what follows the keys, cell by cell, for one measure."""
        cube = self._cube
        first = [component_id(value.name), *([] if cube.time is None else [cube.time])]
        last, may_be_empty = self._last[value.name], self._may_be_empty[value.name]
        values = _texts_of_value(value)(batch.column(value.name))
        flag = cube.unreliable.get(value.name)
        flags = batch.column(flag.name).to_pylist() if flag else [False] * batch.num_rows
        beside = [self._texts_beside(batch, name, value.name) for name in self._beside]
        for text, unreliable, *others in zip(values, flags, *beside, strict=True):
            status = status_of(text, bool(unreliable), may_be_empty)
            yield [*first, text, *status, *others, *last]

    def _texts_beside(self, batch: pa.RecordBatch, attribute: str, value: str) -> Cells:
        column = self._cube.beside[attribute].get(value)
        return [None] * batch.num_rows if column is None else texts_of(batch.column(column.name))


def texts_of(array: pa.Array) -> Cells:
    """Return an Arrow array as texts that read back to its values; nulls stay missing.

    Floats have the fewest digits that tell them apart, decimals all of their scale.
    """
    kind = str(array.type)
    write: Callable[[object], str] = str
    if kind == "double":
        write = repr
    elif kind == "bool":
        write = code_text  # type: ignore[assignment]
    elif kind.startswith("decimal"):
        write = "{:f}".format
    return [None if value is None else write(value) for value in array.to_pylist()]


def _texts_of_key(key: ColumnMetadata) -> Callable[[pa.Array], Cells]:
    return _code_ids if is_coded(key) else texts_of


def _texts_of_value(value: ColumnMetadata) -> Callable[[pa.Array], Cells]:
    return texts_of if value.codes is None else _code_ids


def _code_ids(array: pa.Array) -> Cells:
    texts = texts_of(array)
    codes = {text: code_id(text) for text in set(texts) if text is not None}
    return [None if text is None else codes[text] for text in texts]


def _line(fields: Iterable[str | None]) -> str:
    return ",".join(map(_field, fields)) + "\n"


def _field(text: str | None) -> str:
    """Return a field of CSV (RFC 4180); what is empty and not missing is quoted."""
    if text is None:
        return ""
    if not text or any(mark in text for mark in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text
