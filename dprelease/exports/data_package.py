"""Describe the Parquet and CSV files of a release in one Frictionless Data Package v2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dprelease.documents.encoding import sha256_of
from dprelease.documents.file_records import FileRecord
from dprelease.documents.metadata import (
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
)
from dprelease.exports.catalogue.vocabularies import is_spdx
from dprelease.exports.csv_tables.csv_files import (
    CsvFiles,
    ListedKey,
    code_lists,
    csv_file,
    label_languages,
    listed_keys,
)
from dprelease.exports.csv_tables.csvw import label_column_names
from dprelease.exports.export import Export, PublishedRelease
from dprelease.exports.layout import Laid, LaidColumn, laid_out
from dprelease.exports.names import first_language_texts, is_address, nonempty, write_json
from dprelease.schema.release_parts.format_names import PARQUET

FILE = "datapackage.json"
PROFILES = "https://datapackage.org/profiles/2.0"
TYPES = {"int64": "integer", "double": "number", "bool": "boolean", "date32[day]": "date"}
MAIL = r"[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@([A-Za-z0-9]+(-[A-Za-z0-9]+)*\.)+[A-Za-z]{2,}"
"""Pattern of mail addresses that every validator accepts."""

MOST_CATEGORIES = 1000
"""Maximum number of key values in a field; a longer list is in a separate file, if any."""


class DataPackage(Export):
    """The descriptor at the root of a release; see `Export`."""

    name = "datapackage"

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Describe only files in the same folder; see `Export.write`."""
        metadata, about = release.metadata, release.metadata.about
        resources: list[dict[str, Any]] = []
        if PARQUET in release.written:
            resources += _parquet_resources(release)
        if CsvFiles().name in release.written:
            resources += _csv_resources(release, folder)
        described = first_language_texts((about.description, *about.notes), metadata)
        licences, contact = _licence_descriptors(about.licence), _contact_properties(about.contact)
        described += [f"Licence: {about.licence}"] if about.licence and not licences else []
        if about.contact and not (about.publisher and contact):
            described.append(f"Contact: {about.contact}")
        publisher = {"title": about.publisher, "roles": ["publisher"], **contact}
        properties = {
            "$schema": f"{PROFILES}/datapackage.json",
            "name": _slug(about.title),
            "title": about.heading(metadata.language),
            "description": "\n\n".join(described),
            "version": about.version,
            "homepage": about.methodology if is_address(about.methodology) else "",
            "licenses": licences,
            "contributors": [publisher] if about.publisher else [],
        }
        write_json(folder / FILE, {**nonempty(properties), "resources": resources})
        return [FILE]


def _parquet_resources(release: PublishedRelease) -> Iterator[dict[str, Any]]:
    recorded = {file.name: file for file in release.record.files}
    for table in release.metadata.tables:
        columns = [LaidColumn(column.name, column) for column in table.columns]
        resource = _table_resource(table, table.file, PARQUET, "application/vnd.apache.parquet")
        resource |= _file_properties(release, recorded[table.file])
        laid = Laid(table, tuple(columns))
        yield {**resource, "schema": _table_schema(laid, release.metadata, {})}


def _csv_resources(release: PublishedRelease, folder: Path) -> Iterator[dict[str, Any]]:
    tables = [laid_out(table, release.metadata) for table in release.metadata.read]
    lists = code_lists(tables)
    by_key = {key: _slug(file) for key, file in lists.items()}
    for laid in tables:
        path = csv_file(laid.table)
        resource = _table_resource(laid.table, path, "csv", "text/csv")
        resource |= {"encoding": "utf-8", **_size_and_hash(folder / path)}
        yield {**resource, "schema": _table_schema(laid, release.metadata, by_key)}
    for key, path in lists.items():
        fields = [
            {"name": "code", "type": _field_type(key.column), "constraints": {"required": True}}
        ]
        heads = label_column_names(label_languages(key, release.metadata))
        fields += [{"name": head, "type": "string"} for head in heads]
        yield {
            "name": _slug(path),
            "path": path,
            "title": f"Codes of {key.name}",
            "type": "table",
            "format": "csv",
            "mediatype": "text/csv",
            "encoding": "utf-8",
            **_size_and_hash(folder / path),
            "schema": _complete_schema({"fields": fields, "primaryKey": ["code"]}),
        }


def _table_resource(table: TableMetadata, path: str, form: str, media: str) -> dict[str, Any]:
    return nonempty(
        {
            "name": _slug(f"{table.name}-{form}" if form == PARQUET else table.name),
            "path": path,
            "title": next(iter(table.label.values()), table.name),
            "description": next(iter(table.description.values()), ""),
            "type": "table",
            "format": form,
            "mediatype": media,
        }
    )


def _file_properties(release: PublishedRelease, recorded: FileRecord) -> dict[str, Any]:
    """Return bytes and digest of a table's file; for parts, their names and their total bytes."""
    names = list(recorded.digests)
    if names == [recorded.name]:
        return _size_and_hash(release.folder / names[0], recorded.sha256)
    return {"path": names, "bytes": sum((release.folder / n).stat().st_size for n in names)}


def _size_and_hash(path: Path, digest: str | None = None) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "hash": f"sha256:{digest or sha256_of(path)}"}


def _table_schema(laid: Laid, metadata: Metadata, lists: Mapping[ListedKey, str]) -> dict[str, Any]:
    fields = [_field_descriptor(column, laid, metadata) for column in laid.columns]
    has_key = laid.table.values or laid.table.measured
    links = [
        {"fields": [key.name], "reference": {"resource": lists[key], "fields": ["code"]}}
        for key in listed_keys(laid)
        if key in lists
    ]
    key = [column.name for column in laid.keys] if has_key else []
    properties = nonempty({"primaryKey": key, "foreignKeys": links})
    return _complete_schema({"fields": fields, **properties})


def _complete_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": f"{PROFILES}/tableschema.json", **schema, "missingValues": [""]}


def _field_descriptor(column: LaidColumn, laid: Laid, metadata: Metadata) -> dict[str, Any]:
    source = column.metadata
    texts = first_language_texts((source.description, *source.footnotes), metadata)
    properties = {
        "name": column.name,
        "type": _field_type(source),
        "title": column.title(laid.turned, metadata.language),
        "description": "\n\n".join(texts),
        "categories": _listed_categories(source.codes, metadata) if _is_listed(source) else None,
        "constraints": {"required": True} if source.role == Role.KEY else None,
        "role": source.role.value,
        "of": source.of if source.of != source.name else None,
        "unit": source.unit,
    }
    return nonempty(properties)


def _is_listed(column: ColumnMetadata) -> bool:
    """Return whether a field can list the values of its key: texts or integers, not too many."""
    codes = column.codes
    if codes is None or column.role != Role.KEY or len(codes.values) > MOST_CATEGORIES:
        return False
    return column.kind == "string" or (column.kind == "int64" and bool(codes.labels))


def _listed_categories(codes: CodeList | None, metadata: Metadata) -> list[Any]:
    if codes is None:
        return []
    if not codes.labels:
        return list(codes.values)
    return [
        {"value": value, "label": codes.label(value, metadata.language)} for value in codes.values
    ]


def _field_type(column: ColumnMetadata) -> str:
    return "number" if column.kind.startswith("decimal") else TYPES.get(column.kind, "string")


def _slug(text: str) -> str:
    """Return a text as a package or resource name: lowercase letters, digits, `-`, `_`, `.`."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.casefold()).strip("-._") or "release"


def _licence_descriptors(licence: str) -> list[dict[str, str]]:
    """Return a licence by its address or identifier; empty for a licence in words.

    The licence of a package needs a `path` or a `name`.
    """
    if is_address(licence):
        return [{"path": licence}]
    return [{"name": licence}] if is_spdx(licence) else []


def _contact_properties(contact: str) -> dict[str, str]:
    """Return the mail or web address of a contributor; empty for free text."""
    if re.fullmatch(MAIL, contact):
        return {"email": contact}
    return {"path": contact} if is_address(contact) else {}


EXPORT = DataPackage()
