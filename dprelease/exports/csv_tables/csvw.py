"""Describe CSV files in JSON: CSV on the Web (W3C, Metadata Vocabulary, 2015)."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, Texts, code_text
from dprelease.exports.layout import LayoutColumn, TableLayout
from dprelease.exports.names import is_address, nonempty_properties
from dprelease.schema.release_parts.about import UNDETERMINED

CONTEXT = "http://www.w3.org/ns/csvw"
ENDING = "-metadata.json"
"""Suffix of the name of a CSV file's metadata, where readers look for it."""

CUBE = "http://purl.org/linked-data/cube#"
PROPERTIES = {Role.KEY: "DimensionProperty", Role.VALUE: "MeasureProperty"}
"""Column properties of the RDF Data Cube vocabulary; all other columns are attributes."""

DATATYPES = {
    "int64": "long",
    "double": "double",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us]": "dateTime",
}


def csvw_metadata(
    layout: TableLayout,
    metadata: Metadata,
    file: str,
    lists: Mapping[str, str],
    code_tables: list[Any],
) -> dict[str, Any]:
    """Return the metadata of a table's CSV file.

    `lists`: the code list files of its columns, by name; `code_tables`: the metadata of these
    files. All file names are relative to one folder.
    """
    folder = posixpath.dirname(file)
    return {
        "@context": [CONTEXT, {"@language": metadata.language}],
        **_about_properties(metadata),
        "tables": [
            nonempty_properties(
                {
                    "url": posixpath.relpath(file, folder or "."),
                    "dc:title": _texts_with_language(
                        layout.table.label or {metadata.language: layout.table.name}
                    ),
                    "dc:description": _texts_with_language(layout.table.description),
                    "skos:note": _texts_with_language(*layout.table.footnotes),
                    "tableSchema": _table_schema(layout, metadata, lists, folder),
                }
            ),
            *(
                {**table, "url": posixpath.relpath(table["url"], folder or ".")}
                for table in code_tables
            ),
        ],
    }


def code_table(file: str, languages: Sequence[str], key: ColumnMetadata) -> dict[str, Any]:
    """Return the metadata of a code list: each code with its labels."""
    code = {"name": "code", "titles": "code", "datatype": datatype_of(key), "required": True}
    labels = [
        {"name": head, "titles": head, "lang": tag, "datatype": "string"}
        for head, tag in zip(label_column_names(languages), languages, strict=True)
    ]
    columns = [_exact_texts(code), *labels]
    return {"url": file, "tableSchema": {"columns": columns, "primaryKey": "code"}}


def label_column_names(languages: Sequence[str]) -> list[str]:
    """Return the headers of the label columns, one per language."""
    return [f"label_{tag.replace('-', '_')}" for tag in languages]


def datatype_of(column: ColumnMetadata) -> Any:
    """Return the datatype of a column; for a numeric key, with its smallest and largest value."""
    base = "decimal" if column.kind.startswith("decimal") else DATATYPES.get(column.kind, "string")
    codes = column.codes.values if column.codes else ()
    if base in ("long", "date") and codes and column.role == Role.KEY:
        ends = min(codes), max(codes)
        return {"base": base, "minimum": code_text(ends[0]), "maximum": code_text(ends[1])}
    return base


def _table_schema(
    layout: TableLayout, metadata: Metadata, lists: Mapping[str, str], folder: str
) -> dict[str, Any]:
    """Return the descriptions of a table's columns, its keys, and its links to code lists.

    A column for a code that is encoded in its name has no link, because the package `csvw` doesn't
    find the column.
    """
    links = [
        {
            "columnReference": uri_template_name(column),
            "reference": {
                "resource": posixpath.relpath(lists[column.name], folder or "."),
                "columnReference": "code",
            },
        }
        for column in layout.columns
        if column.name in lists
        and (column.code is None or uri_template_name(column) == column.name)
    ]
    schema = {
        "columns": [_column_description(column, layout, metadata) for column in layout.columns],
        "primaryKey": [uri_template_name(column) for column in layout.keys]
        if layout.table.values
        else None,
        "foreignKeys": links,
    }
    return nonempty_properties(schema)


def uri_template_name(column: LayoutColumn) -> str:
    """Return the name of a column for URI templates; a name that is valid there is unchanged."""
    return quote(column.name, safe="").replace("-", "%2D").replace("~", "%7E")


def _column_description(
    column: LayoutColumn, layout: TableLayout, metadata: Metadata
) -> dict[str, Any]:
    """Return the properties of one column of a CSV file."""
    source = column.metadata
    kind = PROPERTIES.get(source.role, "AttributeProperty")
    titles = {UNDETERMINED: [column.name]}  # as in the header of the file
    for tag in metadata.languages:
        title = column.title(layout.pivot_key, tag)
        titles[tag] = list(dict.fromkeys([*titles.get(tag, ()), title]))
    properties = {
        "name": uri_template_name(column),
        "titles": titles,
        "datatype": datatype_of(source),
        "required": source.role == Role.KEY,
        "rdf:type": {"@id": CUBE + kind},
        "dc:type": source.role.value,
        "dc:relation": source.of if source.of != source.name else None,
        "schema:unitText": source.unit,
        "dc:description": _texts_with_language(source.description),
        "skos:note": _texts_with_language(*source.footnotes),
    }
    described = nonempty_properties(properties)
    return _exact_texts(described) if source.kind == "string" else described


def _exact_texts(column: dict[str, Any]) -> dict[str, Any]:
    """Return a text column without missing values, in which an empty text is a value."""
    return {**column, "null": []}


def _about_properties(metadata: Metadata) -> dict[str, Any]:
    """Return the properties of the release as a whole."""
    about = metadata.about
    properties = {
        "dc:title": _texts_with_language({tag: about.heading(tag) for tag in metadata.languages}),
        "dc:description": _texts_with_language(about.description),
        "dc:publisher": about.publisher,
        "dc:temporal": about.period,
        "dc:spatial": about.area,
        "schema:version": about.version,
        "dc:replaces": about.replaces,
        "schema:contactPoint": about.contact,
        "dc:license": _link_or_text(about.licence),
        "dc:conformsTo": _link_or_text(about.methodology),
        "skos:note": _texts_with_language(*about.notes),
    }
    return nonempty_properties(properties)


def _link_or_text(text: str) -> str | dict[str, str]:
    """Return a link if a text is a web address, or else the text."""
    return {"@id": text} if is_address(text) else text


def _texts_with_language(*several: Texts) -> list[dict[str, str]]:
    return [{"@value": text, "@language": tag} for texts in several for tag, text in texts.items()]
