"""Draft a table schema from another tool's description, with each bound marked for confirmation.

The author of a description may have taken bounds and keys from the data, as some of these tools do
automatically, but the guarantee needs public bounds and keys. So all bounds and keys have a mark,
and a schema with marks is refused until its owner has confirmed or replaced them.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dprelease.errors import DataError, Place
from dprelease.numerics.rounding import exact, plain_text
from dprelease.scaffold.described_tables import ColumnDescription, DescribedTable, OptionValue
from dprelease.scaffold.metadata_importers import MOST_NAMES, described_table
from dprelease.scaffold.sketch import (
    DATE,
    INTEGER,
    NUMBER,
    OTHERS,
    TEXT,
    odd_characters_text,
)
from dprelease.scaffold.yaml_texts import label_text, quote_yaml, values_text, yaml_text
from dprelease.schema.field_types import TimeFormat
from dprelease.schema.load import CONFIRM
from dprelease.schema.model import shorten
from dprelease.schema.source_files import to_table_name

HEAD = """\
# A sketch from a description of the table ({form}); no row was read. Lines with the mark
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
    name: str | None = None,
) -> str:
    """Return the text of a table schema from a description of the table.

    `source` is the file with the rows of the table, if known. `unit` is the column that identifies
    the privacy units, which is needed if the description names no column or a wrong one. `folder`
    is the folder in which the schema will be. `name` is the table of a description with several; by
    default the first one.

    Raises
    ------
    DataError
        DP-DATA-023 if the file describes no such table, 011 if `unit` is not one of its columns.
    """
    table = described_table(described, name)
    names = [column.name for column in table.columns]
    if unit is not None and unit not in names:
        place, known = Place(file=described.name), ", ".join(names[:40])
        raise DataError("DP-DATA-011", place=place, column=unit, known=known)
    described_unit = next((column.name for column in table.columns if column.is_unit), None)
    table_name = to_table_name(table.name or (source or described).stem)
    lines = [HEAD.format(form=table.form).rstrip(), f"table: {table_name}"]
    if table.others:
        others = ", ".join(quote_yaml(shorten(one)) for one in table.others[:MOST_NAMES])
        lines.append(f"# Other tables of this description, for `--table`: {others}")
    lines += _source_lines(table, _path_text(table, described, source, folder))
    if table.left_out:
        lines.append(f"# Not taken from the description: {', '.join(table.left_out)}")
    lines += _unit_lines(table, unit or described_unit)
    lines.append("columns:")
    for column in table.columns:
        is_unit = column.name == (unit or described_unit)
        text, notes = _column_text(column, is_unit), _notes_text(column)
        # A line has only one comment, which may have begun already.
        text += f"{'; ' if '  # ' in text else '  # '}{notes}" if notes else ""
        lines.append(f"  {yaml_text(column.name)}: {text}")
    return "\n".join(lines) + "\n"


def _path_text(
    table: DescribedTable, described: Path, source: Path | None, folder: Path | None
) -> str | None:
    """Return the path of the rows, relative to the schema; None if it is not known."""
    if source is None and table.source is None:
        return None
    if folder is None:
        return str(source or table.source)
    return os.path.relpath(source or described.parent / (table.source or ""), folder)


LINES_NOTE = (
    "  # A dictionary says nothing about lines: declare `encoding` if the file is not UTF-8, and",
    "  # `skip`, `comment`, `until` or `footer` if some of its lines are no rows.",
)
"""The comment on a text of fixed width, whose lines in another encoding would be left out."""


def _source_lines(table: DescribedTable, path: str | None) -> list[str]:
    """Return the lines about the source: its path, and how its values are written."""
    options = [f"  {key}: {_option_text(value)}" for key, value in table.options.items()]
    if path is None:
        known = [f"#{line}" for line in options]
        return ["# source: FILL IN, the path of the rows, relative to this file", *known]
    if not options:
        return [f"source: {yaml_text(path)}"]
    notes = LINES_NOTE if "columns" in table.options and "encoding" not in table.options else ()
    return ["source:", f"  path: {yaml_text(path)}", *options, *notes]


def _option_text(value: OptionValue) -> str:
    """Return the value of an option in YAML, in which a terminal shows all characters."""
    if isinstance(value, dict):
        places = (f"{yaml_text(name)}: {_option_text(one)}" for name, one in value.items())
        return f"{{{', '.join(places)}}}"
    if isinstance(value, list):
        texts = (str(one) if isinstance(one, int) else quote_yaml(one) for one in value)
        return f"[{', '.join(texts)}]"
    return str(value) if isinstance(value, int) else quote_yaml(value)


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
    more = label_text(column.name, column.label)
    if is_unit:
        kind = column.kind if column.kind in ("integer", "text") else "text"
        return f"{{type: {kind}{more}}}"
    if column.missing:
        more += f", missing: [{', '.join(map(quote_yaml, column.missing))}]"
    if column.values:
        odd = odd_characters_text(column.values)
        values = values_text({value: column.labels.get(value, "") for value in column.values})
        return f"{{type: category, values: {values}{more}}}{MARK}{odd}"
    if column.format and _is_time_format(column.format):
        more = f", format: {quote_yaml(column.format)}{more}"
    bounds = _bounds_text(column)
    if bounds:
        return f"{{type: {column.kind}, {bounds}{more}}}{MARK}"
    known = {"integer": INTEGER, "number": NUMBER, "text": TEXT, "date": DATE, **OTHERS}
    return known[column.kind].replace(f"type: {column.kind}", f"type: {column.kind}{more}", 1)


def _notes_text(column: ColumnDescription) -> str:
    """Return a comment on what the draft does not take from the description of a column."""
    ends = {"lower": column.lower, "upper": column.upper}
    bounds = [f"{key} {quote_yaml(shorten(end))}" for key, end in ends.items() if end is not None]
    lone = f"the description has only {bounds[0]}" if len(bounds) == 1 and not column.values else ""
    return "; ".join(filter(None, (lone, column.note)))


def _is_time_format(text: str) -> bool:
    """Return whether a schema can hold a format of days."""
    try:
        TypeAdapter(TimeFormat).validate_python(text)
    except ValidationError:
        return False
    return True


def _bounds_text(column: ColumnDescription) -> str:
    """Return both bounds as text; empty if one of them is missing or invalid."""
    ends = [column.lower, column.upper]
    if None in ends or column.kind not in ("integer", "number", "date", "timestamp"):
        return ""
    try:
        low, high = (_bound_text(end or "", column) for end in ends)
    except ValueError:
        return ""
    return f"lower: {low}, upper: {high}"


def _bound_text(text: str, column: ColumnDescription) -> str:
    """Return a bound in YAML; raise ValueError for a text that is none."""
    if column.kind in ("integer", "number"):
        number = exact(text)
        if column.kind == "integer" and number.denominator != 1:
            raise ValueError("no whole number")
        return plain_text(number)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.strptime(text, column.format)
    if column.kind == "date":
        return moment.date().isoformat()
    if moment.tzinfo is not None:
        # Schemas declare bounds of timestamps without a zone, in UTC.
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return json.dumps(moment.replace(microsecond=0).isoformat(" "))
