"""Read descriptions of CSV on the Web (CSVW), also with the properties of Lomas (CSVW-EO)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

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
from dprelease.schema.release_parts.about import UNDETERMINED

CSVW = "CSVW"
PATTERNS = {
    "yyyy": "%Y", "yy": "%y", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d",
    "HH": "%H", "H": "%H", "mm": "%M", "ss": "%S", "'T'": "T", "T": "T",
}  # fmt: skip
"""The parts of patterns of dates and times in CSVW, and those of strptime."""


LEFT_OUT = ("skipColumns", "skipInitialSpace", "trim")
"""Properties of dialects that a schema has no key for."""

LEAST = {"nonNegativeInteger": "0", "positiveInteger": "1"}
"""The lower bounds of datatypes."""

DEFAULT_NOTE = "the description has a default for empty cells, which count as missing here"


def csvw_tables(document: Properties) -> list[DescribedTable]:
    """Return the tables of a CSVW document; none for other documents."""
    group = local_names(document)
    tables = [group] if not isinstance(group.get("tables"), list) else mappings_in(group["tables"])
    found = []
    for one in tables:
        table = local_names(one)
        if isinstance(table.get("tableSchema"), Mapping):
            found.append(_table(table, group))
    return found


def local_names(properties: Properties) -> dict[str, Any]:
    """Return properties without namespaces: `privacyId` for `csvw-safe:public.privacyId`."""
    return {
        re.split(r"[:.]", name)[-1] if not name.startswith("@") else name: value
        for name, value in properties.items()
    }


def key_values(column: Properties) -> tuple[str, ...]:
    """Return the listed values of a key column, or else the values of its partitions."""
    for name in ("keyValues", "publicKeys", "publicKeyValues", "values", "keys"):
        if isinstance(column.get(name), list):
            return tuple(text for text in map(scalar_text, column[name]) if text is not None)
    found: list[str] = []
    for name in ("partitions", "publicPartitions"):
        for entry in mappings_in(column.get(name)):
            partition = local_names(entry)
            predicate = partition.get("predicate", partition)
            if isinstance(predicate, Mapping):
                text = scalar_text(local_names(predicate).get("partitionValue"))
                found += [text] if text else []
    return tuple(dict.fromkeys(found))


def _table(table: Properties, group: Properties) -> DescribedTable:
    """Return a table; what its columns don't declare, they inherit from schema, table and group."""
    schema = local_names(table["tableSchema"])
    inherited = (schema, table, group)
    unit = scalar_text(table.get("privacyUnit"))
    columns = [
        column
        for one in mappings_in(schema.get("columns"))
        if not is_true((column := local_names(one)).get("virtual")) and _name(column)
    ]
    nulls = [_first_of("null", (column, *inherited)) for column in columns]
    shared = texts_in(nulls[0]) if nulls and all(one == nulls[0] for one in nulls) else []
    source = relative_path(scalar_text(table.get("url")))
    dialect = table.get("dialect", group.get("dialect"))
    dialect = dialect if isinstance(dialect, Mapping) else {}
    options = {
        **_dialect_options(dialect, columns, has_titles=unit is None),
        "nulls": [] if shared == [""] else shared,
        **_number_marks([_first_of("datatype", (column, *inherited)) for column in columns]),
    }
    valid = valid_options(options, source)
    return DescribedTable(
        CSVW,
        scalar_text(table.get("name")) or Path(scalar_text(table.get("url")) or "table").stem,
        tuple(
            _column(column, inherited, unit, [] if shared else texts_in(null))
            for column, null in zip(columns, nulls, strict=True)
        ),
        scalar_text(table.get("maxGroupsPerUnit"))
        or scalar_text(table.get("maxInfluencedPartitions")),
        scalar_text(table.get("maxContributions")),
        source,
        valid,
        left_out=(*invalid_options(options, valid), *declared_properties(dialect, LEFT_OUT)),
    )


def _name(column: Properties) -> str:
    """Return the name of a column in the header of the file.

    That is its title in no language. A name is encoded for addresses; Lomas has no such titles.
    """
    titles = column.get("titles")
    header = scalar_text(titles.get(UNDETERMINED)) if isinstance(titles, Mapping) else None
    name = header or unquote(scalar_text(column.get("name")) or "")
    return name or scalar_text(titles) or ""


def _has_other_titles(column: Properties) -> bool:
    """Return whether the header of the file has a title instead of the name of a column."""
    titles = column.get("titles")
    several = titles.values() if isinstance(titles, Mapping) else [titles]
    texts = [text for one in several for text in texts_in(one)]
    return bool(texts) and _name(column) not in texts


def _label(column: Properties) -> str:
    """Return the first title of a column that is not its name; empty if there is none."""
    titles = column.get("titles")
    several = titles.values() if isinstance(titles, Mapping) else [titles]
    texts = (text for one in several for text in texts_in(one))
    return next((text for text in texts if text != _name(column)), "")


def _first_of(name: str, levels: Sequence[Properties]) -> Any:
    """Return the value of a property at the first level that has it; None if none has."""
    return next((level[name] for level in levels if name in level), None)


def _column(
    column: Properties, inherited: Sequence[Properties], unit: str | None, codes: Sequence[str]
) -> ColumnDescription:
    """Return the description of a column; `codes`: those for its missing values."""
    datatype = _first_of("datatype", (column, *inherited))
    inner = datatype if isinstance(datatype, Mapping) else column
    base = inner.get("base", "string") if isinstance(datatype, Mapping) else datatype
    kind, values = column_kind(base), key_values(column)
    form = scalar_text(inner.get("format")) if isinstance(datatype, Mapping) else None
    if kind == "boolean" and not values and form is not None:
        # CSVW writes the true text first, as in Y|N; a category lists false first, as booleans do.
        truths = tuple(reversed(form.split("|")))
        values = () if all(text.lower() in BOOLEANS for text in truths) else truths
    name = _name(column)
    return ColumnDescription(
        name,
        kind,
        _limit(inner, column, "minimum") or LEAST.get(scalar_text(base) or ""),
        _limit(inner, column, "maximum"),
        values,
        _label(column),
        name == unit or scalar_text(column.get("privacyId")) == "true",
        format=_time_format(form or "") if kind in ("date", "timestamp") else "",
        missing=missing_codes(codes, kind, values),
        note=DEFAULT_NOTE if scalar_text(_first_of("default", (column, *inherited))) else "",
    )


def _limit(datatype: Properties, column: Properties, end: str) -> str | None:
    """Return a bound of a column; a limit that is excluded itself is a bound, too."""
    names = (end, f"{end[:3]}Inclusive", f"{end[:3]}Exclusive")
    texts = (scalar_text(level.get(name)) for level in (datatype, column) for name in names)
    return next(filter(None, texts), None)


def _dialect_options(
    dialect: Properties, columns: Sequence[Properties], *, has_titles: bool
) -> dict[str, Any]:
    """Return the keys of `source` that a dialect declares.

    `has_titles`: whether the header has the titles of columns that have any. Then the columns get
    their names by their order. The headers of Lomas have the names.
    """
    found: dict[str, Any] = {
        "delimiter": _unless(scalar_text(dialect.get("delimiter")), ","),
        "quote": _unless(scalar_text(dialect.get("quoteChar")), '"'),
        "comment": scalar_text(dialect.get("commentPrefix")),
        "encoding": _unless(scalar_text(dialect.get("encoding")), "utf-8"),
    }
    skipped = _whole(dialect.get("skipRows"), 0)
    heads = _whole(dialect.get("headerRowCount"), 1)
    if scalar_text(dialect.get("header")) == "false" or heads == 0:
        found |= {"names": list(map(_name, columns)), "skip": skipped or None}
    elif heads > 1 or (has_titles and any(map(_has_other_titles, columns))):
        found |= {"header": skipped + heads, "names": list(map(_name, columns))}
    elif skipped:
        found["header"] = skipped + 1
    if scalar_text(dialect.get("doubleQuote")) == "false":
        found["escape"] = "\\"
    return found


def _unless(text: str | None, default: str) -> str | None:
    return None if text is None or text.lower() == default else text


def _whole(value: object, default: int) -> int:
    """Return a small whole number; the default if the value is none."""
    text = scalar_text(value) or ""
    return int(text) if re.fullmatch("[0-9]{1,3}", text) else default


def _number_marks(datatypes: Sequence[object]) -> dict[str, str]:
    """Return the decimal mark and the separator of thousands that all columns of numbers have."""
    formats = []
    for datatype in datatypes:
        inner = datatype if isinstance(datatype, Mapping) else {"base": datatype}
        if column_kind(inner.get("base")) == "number":
            form = inner.get("format")
            formats.append(form if isinstance(form, Mapping) else {})
    return shared_number_marks(formats)


def _time_format(pattern: str) -> str:
    """Return a pattern of days as strptime writes it; empty if it has other parts."""
    # A run of one letter is one part of the pattern, such as yyyy.
    parts = [found[0] for found in re.finditer(r"'T'|([A-Za-z])\1*|.", pattern)]
    if any(part[0].isalpha() and part not in PATTERNS for part in parts):
        return ""
    return "".join(PATTERNS.get(part, part.replace("%", "%%")) for part in parts)
