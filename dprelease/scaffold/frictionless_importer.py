"""Read descriptions of Frictionless Data: packages, resources and table schemas, versions 1 and 2.

Only the document itself is read: neither the files that it names nor schemas in other files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dprelease.scaffold.described_tables import (
    BOOLEANS,
    ColumnDescription,
    DescribedTable,
    Properties,
    column_kind,
    declared_properties,
    invalid_options,
    is_true,
    mappings_in,
    missing_codes,
    relative_path,
    scalar_text,
    shared_number_marks,
    texts_in,
    valid_options,
)

FRICTIONLESS = "Frictionless"
KINDS = {"year": "integer", "any": "text", "time": "text", "yearmonth": "text"}
"""Types whose names other descriptions don't have, or that are texts here."""


LEFT_OUT = ("skipInitialSpace", "headerCase", "sheetNumber")
"""Properties of dialects that a schema has no key for."""

STRIP_NOTE = "numbers stand among other signs: FILL IN `strip` with these signs"


def frictionless_tables(document: Properties) -> list[DescribedTable]:
    """Return the tables of a package, a resource or a table schema; none for other documents."""
    if isinstance(document.get("resources"), list):
        resources = list(mappings_in(document["resources"]))
    elif isinstance(document.get("schema"), Mapping):
        resources = [document]
    elif isinstance(document.get("fields"), list):
        resources = [{"schema": document}]
    else:
        return []
    return [
        _table(resource)
        for resource in resources
        if isinstance(resource.get("schema"), Mapping)
        and isinstance(resource["schema"].get("fields"), list)
    ]


def _table(resource: Properties) -> DescribedTable:
    """Return the table that a resource describes."""
    schema, paths = resource["schema"], texts_in(resource.get("path"))
    fields = [field for field in mappings_in(schema["fields"]) if scalar_text(field.get("name"))]
    source = relative_path(paths[0]) if len(paths) == 1 else None
    dialect = resource.get("dialect")
    dialect = dialect if isinstance(dialect, Mapping) else {}
    options = {
        **_dialect_options(dialect, fields),
        "nulls": _null_texts(schema, dialect),
        "encoding": _encoding(resource),
        **shared_number_marks([field for field in fields if field.get("type") == "number"]),
    }
    valid = valid_options(options, source)
    return DescribedTable(
        FRICTIONLESS,
        scalar_text(resource.get("name")) or "table",
        tuple(map(_column, fields)),
        source=source,
        options=valid,
        left_out=(*invalid_options(options, valid), *declared_properties(dialect, LEFT_OUT)),
    )


def _dialect_options(dialect: Properties, fields: list[Properties]) -> dict[str, Any]:
    """Return the keys of `source` that a dialect declares otherwise than the default."""
    has_header = not _is_false(dialect.get("header"))
    rows = _row_numbers(dialect.get("headerRows"))
    names = [scalar_text(field["name"]) for field in fields]
    defaults = {"delimiter": ",", "quoteChar": '"', "commentChar": None, "sheetName": None}
    words = {"delimiter": "delimiter", "quoteChar": "quote", "commentChar": "comment"}
    found: dict[str, Any] = {
        words.get(key, "sheet"): text
        for key, default in defaults.items()
        if (text := scalar_text(dialect.get(key))) != default
    }
    if not has_header:
        found["names"] = names
    elif len(rows) > 1 and (dialect.get("headerJoin") == "_" or "sheet" in found):
        found["header"] = rows
    elif len(rows) > 1:  # a schema joins names only by _
        found |= {"header": rows[-1], "names": names}
    elif rows != [1]:
        found["header"] = next(iter(rows), None)
    found["skip"] = _row_numbers(dialect.get("commentRows"))
    if scalar_text(dialect.get("escapeChar")) == "\\":
        found["escape"] = "\\"
    return found


def _row_numbers(rows: object) -> list[int]:
    """Return the numbers of rows in a list."""
    return [int(text) for text in texts_in(rows) if re.fullmatch("[1-9][0-9]{0,3}", text)]


def _null_texts(schema: Properties, dialect: Properties) -> list[str]:
    """Return the texts that mean a missing value in all columns, if they are not the default."""
    texts = _codes(schema.get("missingValues"))
    if not texts:
        texts = texts_in(dialect.get("nullSequence"))
    return [] if texts == [""] else list(dict.fromkeys(texts))


def _encoding(resource: Properties) -> str | None:
    """Return the encoding of the rows, if it is not the default."""
    text = scalar_text(resource.get("encoding"))
    return None if text is None or text.lower().replace("_", "-") in ("utf-8", "utf8") else text


def _column(field: Properties) -> ColumnDescription:
    """Return the description of a field."""
    limits = field.get("constraints")
    limits = limits if isinstance(limits, Mapping) else {}
    written = scalar_text(field.get("type")) or "string"
    kind = KINDS.get(written, column_kind(written))
    values, labels = _values(field, limits)
    if kind == "boolean" and not values:
        values = _truth_values(field)
    return ColumnDescription(
        scalar_text(field["name"]) or "",
        kind,
        scalar_text(limits.get("minimum", limits.get("exclusiveMinimum"))),
        scalar_text(limits.get("maximum", limits.get("exclusiveMaximum"))),
        values,
        scalar_text(field.get("title")) or "",
        labels=labels,
        format=_time_format(field) if kind in ("date", "timestamp") else "",
        missing=missing_codes(_codes(field.get("missingValues")), kind, values),
        note=STRIP_NOTE if _is_false(field.get("bareNumber")) else "",
    )


def _values(field: Properties, limits: Properties) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the values that a field may have, and their labels; empty if they are not listed."""
    listed = field.get("categories", limits.get("enum"))
    values: dict[str, str] = {}
    for one in listed if isinstance(listed, list) else ():
        code = scalar_text(one.get("value")) if isinstance(one, Mapping) else scalar_text(one)
        label = scalar_text(one.get("label")) if isinstance(one, Mapping) else None
        if code is not None:
            values.setdefault(code, label or "")
    return tuple(values), {code: label for code, label in values.items() if label}


def _truth_values(field: Properties) -> tuple[str, ...]:
    """Return the texts of a boolean field if they are not those of booleans; else none."""
    texts = [*texts_in(field.get("falseValues")), *texts_in(field.get("trueValues"))]
    known = all(text.lower() in BOOLEANS for text in texts)
    return () if known else tuple(dict.fromkeys(texts))


def _codes(values: object) -> list[str]:
    """Return codes for missing values; each is a text, or a mapping with its value."""
    return list(_each_code(values if isinstance(values, list) else []))


def _each_code(values: list[Any]) -> Iterator[str]:
    for one in values:
        text = one.get("value") if isinstance(one, Mapping) else one
        if isinstance(text, str):
            yield text


def _time_format(field: Properties) -> str:
    """Return the declared pattern of days; empty for the ISO format and for any format."""
    text = (scalar_text(field.get("format")) or "").removeprefix("fmt:")
    return text if "%" in text else ""


def _is_false(value: object) -> bool:
    return scalar_text(value) is not None and not is_true(value)
