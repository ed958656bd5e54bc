"""Data dictionaries: tables in CSV with a row for each column of a file, and its places.

Publishers of text of fixed width have such a table in their documentation. Its first row names what
the others have: the name of a column, and the first and last character, the first character and the
width, or both places in one cell, such as 7-9. Widths alone may be those of a CSV file, so a
comment names the places that follow from them. Codes are in one cell, such as 1=male; 2=female.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

from pydantic import ValidationError

from dprelease.exact.detection.csv_layout import NULL_TEXTS
from dprelease.scaffold.described_tables import (
    ColumnDescription,
    DescribedTable,
    OptionValue,
    column_kind,
    missing_codes,
)
from dprelease.scaffold.yaml_texts import quote_yaml, yaml_text
from dprelease.schema.model import shorten
from dprelease.schema.source_types.source import Source

FORM = "data dictionary"
SUFFIXES = (".csv", ".tsv", ".tab")

HEADINGS = {
    "name": ("name", "variable", "variable name", "column", "column name", "field", "field name"),
    "first": (
        "start", "begin", "first", "from", "start position", "start column", "position", "columns",
    ),
    "last": ("end", "stop", "last", "to", "end position", "end column"),
    "width": ("width", "length", "len", "size"),
    "type": ("type", "data type", "format"),
    "label": ("label", "description", "variable label", "title"),
    "values": ("values", "value labels", "codes", "categories", "code list"),
}  # fmt: skip
"""The headings of what a data dictionary says, in lower case."""

MISSING_LABELS = NULL_TEXTS - {"", "none", "nil"} | {
    "refused", "don't know", "not stated", "no information", "weiss nicht", "weiß nicht",
}  # fmt: skip
"""Labels of codes for missing values, in lower case; `none` and `nil` may mean a number, 0."""

_CODE = re.compile(r"\s*([^=:]*?)\s*[=:]\s*(.*?)\s*")
_BETWEEN_CODES = re.compile(r"[;|\n]+|,(?=[^=:,;|\n]*[=:])")

_PLACES = re.compile(r"\s*([0-9]{1,7})(?:\s*(?:-|–|to|:)\s*([0-9]{1,7}))?\s*")


def dictionary_table(text: str) -> DescribedTable | None:
    """Return the table whose columns a data dictionary lists; None if it names no columns.

    The table has no name. Rows without a name are left out, such as those of codes.
    """
    delimiter = max(",;\t|", key=text.partition("\n")[0].count)
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    except (csv.Error, ValueError):
        return None
    where = _headings(header)
    if "name" not in where:
        return None
    entries = [
        {key: row[i].strip() if i < len(row) else "" for key, i in where.items()} for row in rows
    ]
    entries = [entry for entry in entries if entry["name"]]
    columns = tuple(map(_column, entries))
    options, left_out = _source_options({entry["name"]: _places(entry) for entry in entries})
    if not options and not left_out:
        left_out = _places_of_widths(entries)
    return DescribedTable(FORM, "", columns, options=options, left_out=left_out)


def _column(entry: Mapping[str, str]) -> ColumnDescription:
    """Return the description of a column; it has codes if all parts of their cell are codes.

    If all codes mean a missing value, the others are numbers or texts that the cell does not list.
    """
    kind = column_kind(_type_name(entry))
    parts = [part for part in _BETWEEN_CODES.split(entry.get("values", "")) if part.strip()]
    found = [_CODE.fullmatch(part) for part in parts]
    codes = {code[1]: code[2] for code in found if code is not None and code[1]}
    are_codes = len(codes) == len(parts)
    are_missing = are_codes and all(text.lower() in MISSING_LABELS for text in codes.values())
    labels = codes if are_codes and len(codes) > 1 and not are_missing else {}
    return ColumnDescription(
        entry["name"],
        kind,
        values=tuple(labels),
        label=entry.get("label", ""),
        labels=labels,
        missing=missing_codes([*codes], kind, ()) if are_missing else (),
    )


def _source_options(
    places: Mapping[str, list[int] | None],
) -> tuple[dict[str, OptionValue], tuple[str, ...]]:
    """Return the keys of `source` for places of columns, and what a schema can't hold."""
    known = {name: one for name, one in places.items() if one is not None}
    if not known:
        return {}, ()
    try:
        # Impossible places draft no `columns`, instead of a schema that is refused.
        Source.model_validate({"path": "rows.txt", "format": "fixed_width", "columns": known})
    except ValidationError:
        return {}, ("the places of columns",)
    lacking = tuple(
        f"the place of {quote_yaml(shorten(name))}" for name in places if name not in known
    )
    return {"format": "fixed_width", "columns": known}, lacking


def _headings(header: Sequence[str]) -> dict[str, int]:
    """Return the position of each thing that a data dictionary says in its rows."""
    words = [" ".join(re.split(r"[\s_]+", cell.strip("\ufeff ").lower())) for cell in header]
    found = {
        key: next((words.index(word) for word in names if word in words), None)
        for key, names in HEADINGS.items()
    }
    return {key: i for key, i in found.items() if i is not None}


def _places(entry: Mapping[str, str]) -> list[int] | None:
    """Return the first and the last character of a column; None if they are not known."""
    written = _PLACES.fullmatch(entry.get("first", ""))
    if written is None:
        return None
    first = int(written[1])
    ends = [written[2], entry.get("last"), entry.get("width")]
    last, end, width = (int(one) if one and one.isdecimal() else None for one in ends)
    if width is not None and last is None and end is None:
        last = first + width - 1
    return [first, last or end or first]


def _places_of_widths(entries: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the places of columns that follow each other, as text; none without all widths."""
    widths = [int(width) if (width := one.get("width", "")).isdecimal() else 0 for one in entries]
    if not all(widths) or not widths:
        return ()
    ends = accumulate(widths)
    places = ", ".join(
        f"{yaml_text(entry['name'])}: [{end - width + 1}, {end}]"
        for entry, width, end in zip(entries, widths, ends, strict=True)
    )
    text = "if the rows are text of fixed width, add to `source`: "
    return (f"widths; {text}format: fixed_width, columns: {{{places}}}",)


def _type_name(entry: Mapping[str, str]) -> str:
    """Return the letters with which a type begins: of `Num(8)`, a number."""
    letters = re.match(r"[A-Za-z]*", entry.get("type", ""))
    name = letters[0].lower() if letters else ""
    return {"num": "number", "n": "number"}.get(name, name)
