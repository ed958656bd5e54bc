"""Draft a table schema from another tool's description, with each bound marked for confirmation.

The author of a description may have taken bounds and keys from the data, as some of these tools do
automatically, but the guarantee needs public bounds and keys. So all bounds and keys have a mark,
and a schema with marks is refused until its owner has confirmed or replaced them.
"""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

from dprelease.errors import DataError, Place
from dprelease.numerics.rounding import exact, plain_text
from dprelease.scaffold.metadata_importers import ColumnDescription, DescribedTable, described_table
from dprelease.scaffold.sketch import (
    DATE,
    INTEGER,
    NUMBER,
    OTHERS,
    TEXT,
    odd_characters_text,
    quote_yaml,
    to_table_name,
    yaml_text,
)
from dprelease.schema.load import CONFIRM
from dprelease.schema.localized_text import LONGEST_LABEL, display_problem

HEAD = """\
# A sketch from a description of the table for {form}; no row was looked at. Lines with the mark
# "CONFIRM" hold bounds and keys of that description. A release keeps its guarantee only if they are
# public knowledge (a code list, a tariff, the law), and were not taken from the data: find
# each of them there, or replace it; then remove the mark with its words. A schema with a mark is
# refused.
"""
MARK = f"  {CONFIRM}: is it public knowledge, and not from the data? Then remove this"
FILL = "FILL IN, from public knowledge"


def translate_description(
    described: Path,
    source: Path | None = None,
    unit: str | None = None,
    folder: Path | None = None,
) -> str:
    """Return the text of a table schema from a description of the table.

    `source` is the file with the rows of the table, if known. `unit` is the column that identifies
    the privacy units, which is needed if the description names no column or a wrong one. `folder`
    is the folder in which the schema will be.

    Raises
    ------
    DataError
        DP-DATA-023 if the file describes no table, 011 if `unit` is not one of its columns.
    """
    table = described_table(described)
    names = [column.name for column in table.columns]
    if unit is not None and unit not in names:
        place, known = Place(file=described.name), ", ".join(names[:40])
        raise DataError("DP-DATA-011", place=place, column=unit, known=known)
    described_unit = next((column.name for column in table.columns if column.is_unit), None)
    lines = [HEAD.format(form=table.form).rstrip(), f"table: {to_table_name(table.name)}"]
    lines.append(_source_text(table, source, folder))
    lines += _unit_lines(table, unit or described_unit)
    lines.append("columns:")
    for column in table.columns:
        is_unit = column.name == (unit or described_unit)
        lines.append(f"  {yaml_text(column.name)}: {_column_text(column, is_unit)}")
    return "\n".join(lines) + "\n"


def _source_text(table: DescribedTable, source: Path | None, folder: Path | None) -> str:
    """Return the line that names the source of the rows."""
    if source is not None:
        path = str(source) if folder is None else os.path.relpath(source, folder)
        return f"source: {yaml_text(path)}"
    if table.source is not None and "://" not in table.source:
        return f"source: {yaml_text(table.source)}"
    return "# source: FILL IN, the path of the rows, relative to this file"


def _unit_lines(table: DescribedTable, unit: str | None) -> list[str]:
    """Return the lines that declare the privacy unit, or say how to declare it."""
    if unit is None:
        return [
            "# Every row is a privacy unit. If people have several rows, declare which column",
            "# is their id: privacy_unit: {id: ..., max_groups: ..., max_rows_per_group: ...}",
        ]
    rows = _positive_integer(table.max_rows)
    groups = (
        _positive_integer(table.max_groups) or rows
    )  # a person with that many rows is in at most that many groups
    lines = ["privacy_unit:", f"  id: {yaml_text(unit)}"]
    for key, bound in (("max_groups", groups), ("max_rows_per_group", rows)):
        lines.append(f"  # {key}: {FILL}" if bound is None else f"  {key}: {bound}{MARK}")
    return lines


def _positive_integer(text: str | None) -> str | None:
    """Return the digits of a positive integer; None if the text contains no such number."""
    try:
        number = exact(text or "")
    except ValueError:
        return None
    return plain_text(number) if number.denominator == 1 and number >= 1 else None


def _column_text(column: ColumnDescription, is_unit: bool) -> str:
    """Return the YAML of a column's declaration."""
    label = _label_text(column)
    if is_unit:
        kind = column.kind if column.kind in ("integer", "text") else "text"
        return f"{{type: {kind}{label}}}"
    if column.values:
        values = ", ".join(quote_yaml(value) for value in dict.fromkeys(column.values))
        odd = odd_characters_text(column.values)
        return f"{{type: category, values: [{values}]{label}}}{MARK}{odd}"
    bounds = _bounds_text(column)
    if bounds:
        return f"{{type: {column.kind}, {bounds}{label}}}{MARK}"
    known = {"integer": INTEGER, "number": NUMBER, "text": TEXT, "date": DATE, **OTHERS}
    return known[column.kind].replace(f"type: {column.kind}", f"type: {column.kind}{label}", 1)


def _label_text(column: ColumnDescription) -> str:
    """Return the YAML of a column's label; empty without a usable label."""
    text = column.label.strip()
    if text in ("", column.name) or display_problem(text, LONGEST_LABEL) is not None:
        return ""
    return f", label: {quote_yaml(text)}"


def _bounds_text(column: ColumnDescription) -> str:
    """Return both bounds as text; empty if one of them is missing or invalid."""
    ends = [column.lower, column.upper]
    if None in ends or column.kind not in ("integer", "number", "date"):
        return ""
    try:
        if column.kind == "date":
            low, high = (date.fromisoformat((end or "")[:10]).isoformat() for end in ends)
            return f"lower: {low}, upper: {high}"
        numbers = [exact(end or "") for end in ends]
    except ValueError:
        return ""
    if column.kind == "integer" and any(number.denominator != 1 for number in numbers):
        return ""
    low, high = map(plain_text, numbers)
    return f"lower: {low}, upper: {high}"
