"""Releases with what is said of them, for reports: real ones on disk, metadata made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprelease.documents.metadata import (
    About,
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
)
from dprelease.exports.base import PublishedRelease
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import declaration_from_texts

ENDINGS = {
    "_moe": Role.MARGIN,
    "_se": Role.STANDARD_ERROR,
    "_lower": Role.LOWER,
    "_upper": Role.UPPER,
    "_adjusted": Role.FLAG,
    "_unreliable": Role.FLAG,
    "_label": Role.LABEL,
}


def published(folder: Path, **said: Any) -> PublishedRelease:
    """Return a release with metadata that say no more than its names; `said` changes them."""
    record = json.loads((folder / "manifest.json").read_text())
    return PublishedRelease(folder, record, replace(metadata_of(record), **said))


def metadata_of(record: Mapping[str, Any]) -> Metadata:
    """Return what follows from a manifest alone."""
    held = record["declaration"]
    declaration = declaration_from_texts(held["texts"], held["release"], held.get("variables"))
    queries = {query.name: query for query in resolve(declaration)}
    asked_by = declaration.spec.asked_by
    tables = []
    for file in record["files"]:
        name = file["name"].removesuffix(".parquet")
        query = queries.get(name.rpartition("/")[2])
        asked = asked_by.get(name.rpartition("/")[2], file["query"])
        columns = tuple(_columns(file["columns"], query))
        measured = name.startswith("measurements/")
        tables.append(TableMetadata(name, file["name"], asked, columns, file["rows"], measured))
    return Metadata(About(title=record["title"]), ("en",), tuple(tables))


def _columns(held: Sequence[Mapping[str, str]], query: Query | None) -> list[ColumnMetadata]:
    keys = {} if query is None else {key.column: key for key in query.key_columns}
    units = {} if query is None else {one.name: one.unit for one in query.columns}
    names = {column["name"] for column in held}
    found = []
    for column in held:
        name, kind = column["name"], column["type"]
        if name in keys or query is None:
            codes = CodeList(tuple(keys[name].values)) if name in keys else None
            found.append(ColumnMetadata(name, kind, Role.KEY, name, codes=codes))
            continue
        for ending, role in ENDINGS.items():
            of = name.removesuffix(ending)
            if name.endswith(ending) and of in names:
                found.append(ColumnMetadata(name, kind, role, of, units.get(of, "")))
                break
        else:
            found.append(ColumnMetadata(name, kind, Role.VALUE, name, units.get(name, "")))
    return found
