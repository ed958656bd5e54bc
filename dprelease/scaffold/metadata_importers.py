"""Read descriptions of tables for other differential privacy tools, to draft a schema.

The formats are: CSVW-EO and its predecessors (CSVW-SAFE, CSVW-DP), which Lomas reads, and plain
CSVW, in JSON; the metadata of SmartNoise SQL, in YAML; and lists of columns with types and bounds,
as for OpenDP and Tumult Analytics, in JSON or YAML. No row of the table is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dprelease.errors import DataError, DpReleaseError, Place
from dprelease.schema.model import normalized_name, shorten
from dprelease.schema.yaml_text.reader import SIZE_LIMIT, parse_yaml
from dprelease.system.files import read_file

CSVW, SMARTNOISE, COLUMNS = "CSVW", "SmartNoise", "columns"

TYPES = {
    "integer": (
        "int", "integer", "long", "short", "byte", "nonnegativeinteger", "positiveinteger", "int32",
        "int64", "unsignedint", "i32", "i64", "u32", "u64",
    ),
    "number": (
        "float", "double", "decimal", "number", "numeric", "real", "f32", "f64", "float64",
    ),
    "boolean": ("boolean", "bool"),
    "date": ("date",),
    "timestamp": ("datetime", "timestamp", "datetimestamp"),
    "text": ("string", "str", "text", "varchar", "token", "anyuri", "normalizedstring"),
}  # fmt: skip
_KIND_BY_TYPE = {word: kind for kind, words in TYPES.items() for word in words}

Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """The description of one column: its kind, as in declarations, and its properties as texts."""

    name: str
    kind: str
    lower: str | None = None
    upper: str | None = None
    values: tuple[str, ...] = ()
    label: str = ""
    is_unit: bool = False


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """The description of a table.

    `max_groups` and `max_rows` are contribution limits, and `source` is the file with the rows;
    each of them is None if the description does not have it.
    """

    form: str
    name: str
    columns: tuple[ColumnDescription, ...]
    max_groups: str | None = None
    max_rows: str | None = None
    source: str | None = None
    left_out: tuple[str, ...] = field(default=())


def described_table(path: Path) -> DescribedTable:
    """Return the first table that a file describes.

    Raises
    ------
    DataError
        DP-DATA-023 for a file that can't be read, has no table, or describes a column twice.
    """
    values, reason = _read_values(path)
    if not reason:
        table = _described_table(values)
        reason = "it describes no columns"
        if table is not None and table.columns:
            name_counts = Counter(normalized_name(column.name) for column in table.columns)
            repeated = next(
                (c.name for c in table.columns if name_counts[normalized_name(c.name)] > 1), None
            )
            if repeated is None:
                return table
            reason = (
                f"it has the column '{shorten(repeated)}' twice, or two that differ only by case"
            )
    raise DataError("DP-DATA-023", place=Place(path.name), path=path.name, reason=reason)


def _read_values(path: Path) -> tuple[Any, str]:
    """Return the values of a file, with all scalars as texts, and why it can't be parsed."""
    try:
        text = read_file(path, SIZE_LIMIT).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None, "it does not exist, is not UTF-8, or is too large for a description"
    if text.lstrip()[:1] in ("{", "["):
        text = _as_yaml(text)
    try:
        return parse_yaml(text, path).values, ""
    except (DpReleaseError, yaml.YAMLError):
        return None, "it is neither JSON nor a plain YAML mapping"


def _as_yaml(text: str) -> str:
    """Return JSON as YAML text; a list of columns becomes a mapping with one key."""
    try:
        values = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
        as_mapping = {"columns": values} if isinstance(values, list) else values
        return json.dumps(as_mapping, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text  # the text may be YAML in braces


def _described_table(values: Any) -> DescribedTable | None:
    """Return the table that a metadata document describes; None if it describes none."""
    if not isinstance(values, Mapping):
        return None
    properties = {_without_namespace(name): value for name, value in values.items()}
    if isinstance(properties.get("tables"), list):  # a group of tables
        first = next((one for one in properties["tables"] if isinstance(one, Mapping)), {})
        properties = {_without_namespace(name): value for name, value in first.items()}
    if isinstance(properties.get("tableSchema"), Mapping):
        return _csvw_table(properties)
    for root in (values.get("Database"), values):
        if isinstance(root, Mapping) and "columns" not in properties:
            table = _smartnoise_database_table(root)
            if table is not None:
                return table
    return _listed_columns(properties) if "columns" in properties else None


def _without_namespace(name: str) -> str:
    """Return a name without its namespace: `privacyId` from `csvw-safe:public.privacyId`."""
    return re.split(r"[:.]", name)[-1] if not name.startswith("@") else name


def _csvw_table(table: Properties) -> DescribedTable:
    """Return the table that a CSVW document describes."""
    schema = {_without_namespace(name): value for name, value in table["tableSchema"].items()}
    unit = _scalar_text(table.get("privacyUnit"))
    columns = []
    for entry in _mappings_in(schema.get("columns")):
        column = {_without_namespace(name): value for name, value in entry.items()}
        datatype = column.get("datatype")
        inner = datatype if isinstance(datatype, Mapping) else column
        base = inner.get("base", "string") if isinstance(datatype, Mapping) else datatype
        name = _scalar_text(column.get("name")) or _scalar_text(column.get("titles"))
        if name:
            columns.append(
                ColumnDescription(
                    name,
                    _column_kind(base),
                    _scalar_text(
                        inner.get("minimum", inner.get("minInclusive", column.get("minimum")))
                    ),
                    _scalar_text(
                        inner.get("maximum", inner.get("maxInclusive", column.get("maximum")))
                    ),
                    _key_values(column),
                    _scalar_text(column.get("titles")) or "",
                    name == unit or _scalar_text(column.get("privacyId")) == "true",
                )
            )
    return DescribedTable(
        CSVW,
        _scalar_text(table.get("name")) or Path(_scalar_text(table.get("url")) or "table").stem,
        tuple(columns),
        _scalar_text(table.get("maxGroupsPerUnit"))
        or _scalar_text(table.get("maxInfluencedPartitions")),
        _scalar_text(table.get("maxContributions")),
        _scalar_text(table.get("url")),
    )


def _key_values(column: Properties) -> tuple[str, ...]:
    """Return the listed values of a key column, or else the values of its partitions."""
    for name in ("keyValues", "publicKeys", "publicKeyValues", "values", "keys"):
        if isinstance(column.get(name), list):
            return tuple(text for text in map(_scalar_text, column[name]) if text is not None)
    found: list[str] = []
    for name in ("partitions", "publicPartitions"):
        for entry in _mappings_in(column.get(name)):
            partition = {_without_namespace(key): value for key, value in entry.items()}
            predicate = partition.get("predicate", partition)
            if isinstance(predicate, Mapping):
                values = {_without_namespace(key): value for key, value in predicate.items()}
                found += [text for text in (_scalar_text(values.get("partitionValue")),) if text]
    return tuple(dict.fromkeys(found))


def _smartnoise_database_table(databases: Properties) -> DescribedTable | None:
    """Return the first table in nested mappings of databases, schemas and tables."""
    for name, entry in databases.items():
        if not isinstance(entry, Mapping):
            continue
        columns = {key: value for key, value in entry.items() if isinstance(value, Mapping)}
        if any("type" in column for column in columns.values()):
            return _smartnoise_table(name, entry, columns)
        inner = _smartnoise_database_table(entry)
        if inner is not None:
            return inner
    return None


def _smartnoise_table(
    name: str, table: Properties, columns: Mapping[str, Properties]
) -> DescribedTable:
    """Return the table that a SmartNoise document describes."""
    described = [
        ColumnDescription(
            column,
            _column_kind(entry.get("type")),
            _scalar_text(entry.get("lower", entry.get("min"))),
            _scalar_text(entry.get("upper", entry.get("max"))),
            is_unit=_is_true(entry.get("private_id")),
        )
        for column, entry in columns.items()
    ]
    return DescribedTable(
        SMARTNOISE, name, tuple(described), None, _scalar_text(table.get("max_ids"))
    )


def _listed_columns(table: Properties) -> DescribedTable | None:
    """Return a table whose columns are a list of mappings with names, or a mapping by name."""
    columns = table["columns"]
    if isinstance(columns, Mapping):
        named = [
            {
                "name": name,
                **(description if isinstance(description, Mapping) else {"type": description}),
            }
            for name, description in columns.items()
        ]
    else:
        named = [dict(one) for one in _mappings_in(columns)]
    unit = _scalar_text(table.get("privacy_unit", table.get("protected_change", table.get("id"))))
    described = []
    for description in named:
        name = _scalar_text(description.get("name", description.get("column")))
        bounds = description.get("bounds")
        low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
        kind = description.get("type", description.get("column_type", description.get("dtype")))
        if name:
            described.append(
                ColumnDescription(
                    name,
                    _column_kind(kind),
                    _scalar_text(
                        description.get(
                            "lower", description.get("min", description.get("minimum", low))
                        )
                    ),
                    _scalar_text(
                        description.get(
                            "upper", description.get("max", description.get("maximum", high))
                        )
                    ),
                    _key_values(
                        {
                            **description,
                            "values": description.get("categories", description.get("values")),
                        }
                    ),
                    _scalar_text(description.get("label")) or "",
                    name == unit,
                )
            )
    name = _scalar_text(table.get("name", table.get("table"))) or "table"
    return DescribedTable(COLUMNS, name, tuple(described))


def _column_kind(written: object) -> str:
    """Return the type to propose for a column from its declared type; text if it is unknown."""
    type_name = re.split(r"[.:#/]", str(written or "string"))[-1].strip().lower()
    return _KIND_BY_TYPE.get(type_name, "text")


def _mappings_in(values: object) -> Iterator[Properties]:
    """Return the mappings in a list; none if the value is no list."""
    return (one for one in (values if isinstance(values, list) else ()) if isinstance(one, Mapping))


def _is_true(value: object) -> bool:
    """Return whether a value is true or the word "true"."""
    return (_scalar_text(value) or "").lower() == "true"


def _scalar_text(value: object) -> str | None:
    """Return a text; of a list or mapping, such as titles in several languages, the first text."""
    if isinstance(value, Mapping):
        value = next(iter(value.values()), None)
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None
