"""Read descriptions of tables for other programs, to draft a schema.

The formats are: CSVW-EO and its predecessors (CSVW-SAFE, CSVW-DP), which Lomas reads, and plain
CSVW, in JSON; Frictionless data packages, resources and table schemas; the metadata of SmartNoise
SQL, in YAML; lists of columns with types and bounds, as for OpenDP and Tumult Analytics, in JSON or
YAML; and data dictionaries in CSV. No row of the table is read, and no other file than the
description.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from dprelease.errors import DataError, DpReleaseError, Place
from dprelease.scaffold.csvw_importer import csvw_tables, key_values, local_names
from dprelease.scaffold.data_dictionary import SUFFIXES, dictionary_table
from dprelease.scaffold.described_tables import (
    ColumnDescription,
    DescribedTable,
    Properties,
    column_kind,
    is_true,
    mappings_in,
    scalar_text,
)
from dprelease.scaffold.frictionless_importer import frictionless_tables
from dprelease.schema.model import normalized_name, shorten
from dprelease.schema.yaml_text.reader import SIZE_LIMIT, parse_yaml
from dprelease.system.files import read_file

SMARTNOISE, COLUMNS = "SmartNoise", "columns"
MOST_NAMES = 20
"""Maximum number of tables that a message lists."""


def described_table(path: Path, name: str | None = None) -> DescribedTable:
    """Return the table with a name that a file describes; the first one without a name.

    Raises
    ------
    DataError
        DP-DATA-023 for a file that can't be read, has no such table, or describes a column twice.
    """
    found, reason = _read_tables(path)
    if not reason:
        tables = [table for table in found if table.columns]
        names = [table.name for table in tables]
        table = next((one for one in tables if name in (None, one.name)), None)
        reason = "it describes no columns"
        if table is not None:
            others = tuple(one.name for one in tables if one is not table)
            reason = _repeated_column(table)
            if not reason:
                return replace(table, others=others)
        elif names:
            known = ", ".join(map(shorten, names[:MOST_NAMES]))
            reason = f"it has no table '{shorten(str(name))}', only: {known}"
    raise DataError("DP-DATA-023", place=Place(path.name), path=path.name, reason=reason)


def _repeated_column(table: DescribedTable) -> str:
    """Return why a table can't be declared: a column twice; empty if there is none."""
    counts = Counter(normalized_name(column.name) for column in table.columns)
    for column in table.columns:
        if counts[normalized_name(column.name)] > 1:
            name = shorten(column.name)
            return f"it has the column '{name}' twice, or two that differ only by case"
    return ""


def _read_tables(path: Path) -> tuple[list[DescribedTable], str]:
    """Return the tables that a file describes, and why it can't be parsed."""
    try:
        # The description comes from other people, so its size is limited as that of a declaration.
        text = read_file(path, SIZE_LIMIT).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return [], "it does not exist, is not UTF-8, or is too large for a description"
    if path.suffix.lower() in SUFFIXES:
        table = dictionary_table(text)
        return ([table], "") if table else ([], "its first row has no heading such as `name`")
    if text.lstrip()[:1] in ("{", "["):
        text = _as_yaml(text)
    try:
        return _described_tables(parse_yaml(text, path).values), ""
    except (DpReleaseError, yaml.YAMLError):
        return [], "it is neither JSON nor a plain YAML mapping"


def _as_yaml(text: str) -> str:
    """Return JSON as YAML text; a list of columns becomes a mapping with one key."""
    try:
        # Numbers as texts: as floats, 0.10 and long codes would lose digits.
        values = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
        as_mapping = {"columns": values} if isinstance(values, list) else values
        return json.dumps(as_mapping, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text  # the text may be YAML in braces


def _described_tables(values: Any) -> list[DescribedTable]:
    """Return the tables that a metadata document describes."""
    if not isinstance(values, Mapping):
        return []
    if tables := csvw_tables(values) or frictionless_tables(values):
        return tables
    properties = local_names(values)
    for root in (values.get("Database"), values):
        if isinstance(root, Mapping) and "columns" not in properties:
            table = _smartnoise_database_table(root)
            if table is not None:
                return [table]
    return [_listed_columns(properties)] if "columns" in properties else []


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
            column_kind(entry.get("type")),
            scalar_text(entry.get("lower", entry.get("min"))),
            scalar_text(entry.get("upper", entry.get("max"))),
            is_unit=is_true(entry.get("private_id")),
        )
        for column, entry in columns.items()
    ]
    return DescribedTable(
        SMARTNOISE, name, tuple(described), None, scalar_text(table.get("max_ids"))
    )


def _listed_columns(table: Properties) -> DescribedTable:
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
        named = [dict(one) for one in mappings_in(columns)]
    unit = scalar_text(table.get("privacy_unit", table.get("protected_change", table.get("id"))))
    described = []
    for description in named:
        name = scalar_text(description.get("name", description.get("column")))
        bounds = description.get("bounds")
        low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
        kind = description.get("type", description.get("column_type", description.get("dtype")))
        if name:
            described.append(
                ColumnDescription(
                    name,
                    column_kind(kind),
                    scalar_text(
                        description.get(
                            "lower", description.get("min", description.get("minimum", low))
                        )
                    ),
                    scalar_text(
                        description.get(
                            "upper", description.get("max", description.get("maximum", high))
                        )
                    ),
                    key_values(
                        {
                            **description,
                            "values": description.get("categories", description.get("values")),
                        }
                    ),
                    scalar_text(description.get("label")) or "",
                    name == unit,
                )
            )
    name = scalar_text(table.get("name", table.get("table"))) or "table"
    return DescribedTable(COLUMNS, name, tuple(described))
