"""Summarize the values of a file: ranges of numbers and dates, and short lists of texts.

No other module reads values in order to show them to somebody. The summaries are as confidential
as the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import DataError, Place, State
from dprelease.exact.detection.cell_signs import likely_codes
from dprelease.exact.postgres.server_form import ServerTable
from dprelease.exact.postgres.server_link import open_servers
from dprelease.exact.postgres.server_rows import server_rows
from dprelease.exact.sources.source_reader import reader_of
from dprelease.schema.source_files import source_of_path

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 50
LONGEST_VALUE = 200
SERVER_LABEL = "a PostgreSQL server"
LEADING_DIGITS = 2
"""Number of leading digits of a bound. Bounds are rounded outwards, so that no bound is the value
of one record."""


@dataclass(frozen=True, slots=True)
class ColumnPeek:
    """Summary of the values of one column; `values` is None if there are too many of them.

    `codes` are numbers that look like codes for missing values; the bounds are without them.
    """

    kind: str
    lower: Fraction | date | None = None
    upper: Fraction | date | None = None
    values: tuple[str, ...] | None = None
    codes: tuple[int, ...] = ()


def peek_at_file(source: Path, table: str | None = None) -> dict[str, ColumnPeek]:
    """Return a summary of the values of each usable column of a file.

    `table`: the name of a table of a SQLite file, or of a sheet of a workbook.

    Raises
    ------
    DataError
        DP-DATA-013 if the values can't be read.
    """
    import pyarrow as pa

    held: pa.Table | None = None
    try:
        source_type = source_of_path(source).type
        held = reader_of(source_type).peek(source, table)
    except (pa.ArrowException, OSError):
        held = None  # the engine's message may quote a value
    if held is None:
        raise DataError("DP-DATA-013", place=Place(file=source.name), state=State.READ)
    return _summarize_columns(held)


def peek_at_server(form: ServerTable) -> dict[str, ColumnPeek]:
    """Return a summary of each usable column of a server's table.

    Raises
    ------
    DataError
        DP-DATA-013 if the values can't be read.
    """
    import pyarrow as pa

    held: pa.Table | None = None
    try:
        held = _read_server_rows(form)
    except (pa.ArrowException, OSError):
        held = None
    if held is None:
        raise DataError("DP-DATA-013", place=Place(file=SERVER_LABEL), state=State.READ)
    return _summarize_columns(held)


def _read_server_rows(form: ServerTable) -> pa.Table:
    """Return the rows of a server's table; decimal numbers arrive as texts and become floats."""
    import pyarrow as pa

    with open_servers([form.declared]) as servers:
        held = server_rows(form.declared, servers).reader().read_all()
    for i, (name, column) in enumerate(zip(held.column_names, held.columns, strict=True)):
        if form.columns.get(name) == "number" and pa.types.is_large_string(column.type):
            held = held.set_column(i, name, column.cast(pa.float64()))
    return held


def _summarize_columns(held: pa.Table) -> dict[str, ColumnPeek]:
    """Return what is proposed for each column, by its name."""
    by_name = {}
    for name, column in zip(held.column_names, held.columns, strict=True):
        shown = _summarize_column(column)
        if shown is not None:
            by_name[name] = shown
    return by_name


def _summarize_column(column: pa.ChunkedArray) -> ColumnPeek | None:
    """Return the apparent type of a column, with bounds or values; None if it can't be read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
        kind = column.type
    if pa.types.is_boolean(kind):
        return ColumnPeek("boolean")
    if pa.types.is_integer(kind):
        return _summarize_numbers("integer", column)
    if pa.types.is_floating(kind):
        return _summarize_numbers("number", column.filter(pc.is_finite(column)))
    if pa.types.is_decimal(kind):
        return _summarize_numbers("number", column)
    if pa.types.is_date(kind):
        return _summarize_dates(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _summarize_texts(column)
    return None


def _summarize_numbers(kind: str, column: pa.ChunkedArray) -> ColumnPeek:
    """Return the summary of a column of numbers: its bounds, rounded outwards."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = tuple(likely_codes(map(float, column.drop_null().to_pylist())))
    if codes:
        column = column.filter(pc.invert(pc.is_in(column, pa.array(list(codes), column.type))))
    low, high = _least_and_greatest(column)
    if low is None:
        return ColumnPeek(kind)
    # An error in the last digit of a bound does not matter next to the rounding outwards.
    lower, upper = _round_outwards(Fraction(low), -1), _round_outwards(Fraction(high), 1)
    return ColumnPeek(kind, lower, upper, codes=codes)


def _least_and_greatest(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """Return the least and the greatest value of a column; None for both without a value."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    return ends["min"], ends["max"]


def _round_outwards(x: Fraction, sign: int) -> Fraction:
    """Return `x` rounded to few leading digits: upwards for sign 1, and downwards for sign -1."""
    if x == 0:
        return x
    size = math.floor(math.log10(abs(float(x)))) if abs(x) > Fraction(1, 10**300) else -300
    unit = Fraction(10) ** (size - LEADING_DIGITS + 1)
    whole = x.denominator == 1
    unit = max(unit, Fraction(1)) if whole else unit
    return (math.ceil(x / unit) if sign > 0 else math.floor(x / unit)) * unit


def _summarize_dates(column: pa.ChunkedArray) -> ColumnPeek:
    """Return the summary of a column of dates: whole years that contain all dates."""
    low, high = _least_and_greatest(column)
    if low is None:
        return ColumnPeek("date")
    return ColumnPeek("date", date(low.year, 1, 1), date(high.year, 12, 31))


def _summarize_texts(column: pa.ChunkedArray) -> ColumnPeek:
    """Return the summary of a column of texts: its values, if they are few and short."""
    import pyarrow.compute as pc

    distinct = pc.unique(column.drop_null())
    if not 0 < len(distinct) <= MOST_VALUES:
        return ColumnPeek("text")
    values = sorted(distinct.to_pylist())
    usable = all(len(value) <= LONGEST_VALUE and "\0" not in value for value in values)
    return ColumnPeek("text", values=tuple(values)) if usable else ColumnPeek("text")
