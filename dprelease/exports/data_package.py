"""Describe the Parquet and CSV files of a release in one Frictionless Data Package v2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dprelease.documents.encoding import sha256_of
from dprelease.documents.file_records import FileRecord
from dprelease.documents.metadata import (
    Code,
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
)
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
from dprelease.exports.layout import LayoutColumn, TableLayout, layout_of
from dprelease.exports.names import (
    is_address,
    nonempty_properties,
    text_in,
    texts_in,
    with_translations,
    write_json,
)
from dprelease.exports.vocabularies import is_spdx
from dprelease.schema.release_parts.about import UNDETERMINED
from dprelease.schema.release_parts.extension_names import PARQUET

FILE = "datapackage.json"
PROFILES = "https://datapackage.org/profiles/2.0"
TYPES = {
    "int64": "integer",
    "double": "number",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us]": "datetime",
}
MAIL = r"[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@([A-Za-z0-9]+(-[A-Za-z0-9]+)*\.)+[A-Za-z]{2,}"
"""Pattern of mail addresses that every validator accepts."""

MOST_CATEGORIES = 1000
"""Maximum number of values of a key that the descriptor lists.

A longer list is in a file of its codes, if the release has the format CSV.
"""


class DataPackage(Export):
    """The format with one descriptor of all files, at the root of a release."""

    name = "datapackage"

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the descriptor of the files in the same folder, and return its name."""
        metadata, about = release.metadata, release.metadata.about
        resources: list[dict[str, Any]] = []
        if PARQUET in release.written:
            resources += _parquet_resources(release)
        if CsvFiles().name in release.written:
            resources += _csv_resources(release, folder)
        licences, contact = _licence_descriptors(about.licence), _contact_properties(about.contact)
        publisher = {"title": about.publisher, "roles": ["publisher"], **contact}
        properties = {
            "$schema": f"{PROFILES}/datapackage.json",
            "name": _slug(about.title),
            **with_translations(metadata, lambda tag: _package_texts(metadata, tag)),
            "languages": [tag for tag in metadata.languages if tag != UNDETERMINED],
            "version": about.version,
            "homepage": about.methodology if is_address(about.methodology) else "",
            "licenses": licences,
            "contributors": [publisher] if about.publisher else [],
        }
        write_json(folder / FILE, {**nonempty_properties(properties), "resources": resources})
        return [FILE]


def _package_texts(metadata: Metadata, language: str) -> dict[str, str]:
    """Return the title and the description of a release in a language."""
    about = metadata.about
    described = texts_in((about.description, *about.notes), metadata, language)
    if about.licence and not _licence_descriptors(about.licence):
        described.append(f"Licence: {about.licence}")
    if about.contact and not (about.publisher and _contact_properties(about.contact)):
        described.append(f"Contact: {about.contact}")
    return {"title": about.heading(language), "description": "\n\n".join(described)}


def _parquet_resources(release: PublishedRelease) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the Parquet files of all tables."""
    recorded = {file.name: file for file in release.record.files}
    for table in release.metadata.tables:
        columns = [LayoutColumn(column.name, column) for column in table.columns]
        media = "application/vnd.apache.parquet"
        resource = _table_resource(table, release.metadata, table.file, PARQUET, media)
        resource |= _file_properties(release, recorded[table.file])
        layout = TableLayout(table, tuple(columns))
        yield {**resource, "schema": _table_schema(layout, release.metadata, {})}


def _csv_resources(release: PublishedRelease, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the CSV files of all tables, and of their code lists."""
    tables = [layout_of(table, release.metadata) for table in release.metadata.tables_for_readers]
    lists = code_lists(tables)
    by_key = {key: _slug(file) for key, file in lists.items()}
    for layout in tables:
        path = csv_file(layout.table)
        resource = _table_resource(layout.table, release.metadata, path, "csv", "text/csv")
        resource |= {"encoding": "utf-8", **_size_and_hash(folder / path)}
        yield {**resource, "schema": _table_schema(layout, release.metadata, by_key)}
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


def _table_resource(
    table: TableMetadata, metadata: Metadata, path: str, form: str, media: str
) -> dict[str, Any]:
    """Return the name, path, texts and type of a table's file."""

    def texts_of(language: str) -> dict[str, str]:
        texts = texts_in((table.description, *table.footnotes), metadata, language)
        title = text_in(table.label, metadata, language) or table.name
        return {"title": title, "description": "\n\n".join(texts)}

    return {
        "name": _slug(f"{table.name}-{form}" if form == PARQUET else table.name),
        "path": path,
        **with_translations(metadata, texts_of),
        "type": "table",
        "format": form,
        "mediatype": media,
    }


def _file_properties(release: PublishedRelease, recorded: FileRecord) -> dict[str, Any]:
    """Return bytes and digest of a table's file; for parts, their names and their total bytes."""
    names = list(recorded.digests)
    if names == [recorded.name]:
        return _size_and_hash(release.folder / names[0], recorded.sha256)
    return {"path": names, "bytes": sum((release.folder / n).stat().st_size for n in names)}


def _size_and_hash(path: Path, digest: str | None = None) -> dict[str, Any]:
    """Return the number of bytes and the digest of a file, as the format names them."""
    return {"bytes": path.stat().st_size, "hash": f"sha256:{digest or sha256_of(path)}"}


def _table_schema(
    layout: TableLayout, metadata: Metadata, lists: Mapping[ListedKey, str]
) -> dict[str, Any]:
    """Return the fields of a table, its keys, and its links to code lists."""
    fields = [_field_descriptor(column, layout, metadata) for column in layout.columns]
    has_key = layout.table.values or layout.table.measured
    links = [
        {"fields": [key.field], "reference": {"resource": lists[key], "fields": ["code"]}}
        for key in listed_keys(layout)
        if key in lists
    ]
    key = [column.name for column in layout.keys] if has_key else []
    properties = nonempty_properties({"primaryKey": key, "foreignKeys": links})
    return _complete_schema({"fields": fields, **properties})


def _complete_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a table schema with the address of its profile, and the missing value."""
    return {"$schema": f"{PROFILES}/tableschema.json", **schema, "missingValues": [""]}


def _field_descriptor(
    column: LayoutColumn, layout: TableLayout, metadata: Metadata
) -> dict[str, Any]:
    source = column.metadata

    def texts_of(language: str) -> dict[str, str]:
        texts = texts_in((source.description, *source.footnotes), metadata, language)
        title = column.title(layout.pivot_key, language)
        return {"title": title, "description": "\n\n".join(texts)}

    properties = {
        "name": column.name,
        "type": _field_type(source),
        **with_translations(metadata, texts_of),
        "categories": _listed_categories(source.codes, metadata) if _is_listed(source) else None,
        "constraints": {"required": True} if source.role == Role.KEY else None,
        "role": source.role.value,
        "of": source.of if source.of != source.name else None,
        "unit": source.unit,
    }
    return nonempty_properties(properties)


def _is_listed(column: ColumnMetadata) -> bool:
    """Return whether a field can list its values: texts or integers, not too many.

    These are the values of a key, or the codes of quality.
    """
    codes = column.codes
    if (
        codes is None
        or column.role not in (Role.KEY, Role.QUALITY)
        or len(codes.values) > MOST_CATEGORIES
    ):
        return False
    return column.kind == "string" or (column.kind == "int64" and bool(codes.labels))


def _listed_categories(codes: CodeList | None, metadata: Metadata) -> list[Any]:
    """Return the values of a key, each with its label if the key has labels."""
    if codes is None:
        return []
    if not codes.labels:
        return list(codes.values)
    return [
        {"value": value, **with_translations(metadata, partial(_label_property, codes, value))}
        for value in codes.values
    ]


def _label_property(codes: CodeList, value: Code, language: str) -> dict[str, str]:
    return {"label": codes.label(value, language)}


def _field_type(column: ColumnMetadata) -> str:
    """Return the type of a field in the format's own terms."""
    return "number" if column.kind.startswith("decimal") else TYPES.get(column.kind, "string")


def _slug(text: str) -> str:
    """Return a text as a package or resource name: lowercase letters, digits, `-`, `_`, `.`."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.casefold()).strip("-._") or "release"


def _licence_descriptors(licence: str) -> list[dict[str, str]]:
    """Return the properties of a licence, which must have a `path` or a `name`.

    The `path` is its address, and the `name` its identifier. For any other text the list is empty.
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
