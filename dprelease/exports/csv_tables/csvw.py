"""Describe CSV files in JSON: CSV on the Web (W3C, Metadata Vocabulary, 2015)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, Texts, code_text
from dprelease.exports.layout import Laid, LaidColumn
from dprelease.exports.names import is_address

CONTEXT = "http://www.w3.org/ns/csvw"
ENDING = "-metadata.json"
"""Suffix of the metadata file of a CSV file, where readers look for it."""

UNDETERMINED = "und"
"""The tag of texts in no language."""

CUBE = "http://purl.org/linked-data/cube#"
PROPERTIES = {Role.KEY: "DimensionProperty", Role.VALUE: "MeasureProperty"}
"""Column properties of the RDF Data Cube vocabulary; all other columns are attributes."""

DATATYPES = {"int64": "long", "double": "double", "bool": "boolean", "date32[day]": "date"}


def csvw_metadata(
    laid: Laid, metadata: Metadata, file: str, lists: Mapping[str, str], code_tables: list[Any]
) -> dict[str, Any]:
    """Return the metadata of a table's CSV file.

    `lists`: the files of the code lists of its keys, by name; `code_tables`: their metadata.
    All file names are relative to one folder.
    """
    folder = posixpath.dirname(file)
    return {
        "@context": [CONTEXT, {"@language": metadata.language}],
        **dict(_about(metadata)),
        "tables": [
            {
                "url": posixpath.relpath(file, folder or "."),
                **_texts("dc:title", {**laid.table.label} or _same(laid.table.name, metadata)),
                **_texts("dc:description", laid.table.description),
                **_several("skos:note", laid.table.footnotes),
                "tableSchema": _schema(laid, metadata, lists, folder),
            },
            *(
                {**table, "url": posixpath.relpath(table["url"], folder or ".")}
                for table in code_tables
            ),
        ],
    }


def code_table(file: str, languages: Sequence[str], key: ColumnMetadata) -> dict[str, Any]:
    """Return the metadata of a code list: each code with its labels."""
    code = {"name": "code", "titles": "code", "datatype": datatype(key), "required": True}
    labels = [
        {"name": head, "titles": head, "lang": tag, "datatype": "string"}
        for head, tag in zip(label_heads(languages), languages, strict=True)
    ]
    columns = [_exact_texts(code), *labels]
    return {"url": file, "tableSchema": {"columns": columns, "primaryKey": "code"}}


def label_heads(languages: Sequence[str]) -> list[str]:
    """Return the headers of the label columns, one per language."""
    return [f"label_{tag.replace('-', '_')}" for tag in languages]


def datatype(column: ColumnMetadata) -> Any:
    """Return the datatype of a column; for a numeric key with its smallest and largest value."""
    base = "decimal" if column.kind.startswith("decimal") else DATATYPES.get(column.kind, "string")
    codes = column.codes.values if column.codes else ()
    if base in ("long", "date") and codes and column.role == Role.KEY:
        ends = min(codes), max(codes)
        return {"base": base, "minimum": code_text(ends[0]), "maximum": code_text(ends[1])}
    return base


def _schema(
    laid: Laid, metadata: Metadata, lists: Mapping[str, str], folder: str
) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "columns": [_column(column, laid, metadata) for column in laid.columns]
    }
    if laid.keys and laid.table.values:
        schema["primaryKey"] = [name_of(column) for column in laid.keys]
    links = [
        {
            "columnReference": name_of(column),
            "reference": {
                "resource": posixpath.relpath(lists[column.name], folder or "."),
                "columnReference": "code",
            },
        }
        for column in laid.columns
        if column.told.role == Role.KEY and column.name in lists
    ]
    return {**schema, "foreignKeys": links} if links else schema


def name_of(column: LaidColumn) -> str:
    """Return the name of a column for URI templates: unchanged where that is valid there."""
    return quote(column.name, safe="").replace("-", "%2D").replace("~", "%7E")


def _column(column: LaidColumn, laid: Laid, metadata: Metadata) -> dict[str, Any]:
    told = column.told
    kind = PROPERTIES.get(told.role, "AttributeProperty")
    titles = {UNDETERMINED: [column.name]}  # as in the header of the file
    for tag in metadata.languages:
        title = column.title(laid.turned, tag)
        titles[tag] = list(dict.fromkeys([*titles.get(tag, ()), title]))
    described = {
        "name": name_of(column),
        "titles": titles,
        "datatype": datatype(told),
        "required": told.role == Role.KEY,
        "rdf:type": {"@id": CUBE + kind},
        "dc:type": told.role.value,
        **({"dc:relation": told.of} if told.of != told.name else {}),
        **({"schema:unitText": told.unit} if told.unit else {}),
        **_texts("dc:description", told.description),
        **_several("skos:note", told.footnotes),
    }
    return _exact_texts(described) if told.kind == "string" else described


def _exact_texts(column: dict[str, Any]) -> dict[str, Any]:
    """Return a text column without missing values: an empty text is a value."""
    return {**column, "null": []}


def _about(metadata: Metadata) -> Iterator[tuple[str, Any]]:
    about = metadata.about
    titles = {tag: about.heading(tag) for tag in metadata.languages}
    yield from _texts("dc:title", titles).items()
    yield from _texts("dc:description", about.description).items()
    plain = {
        "dc:publisher": about.publisher,
        "dc:temporal": about.period,
        "dc:spatial": about.area,
        "schema:version": about.version,
        "dc:replaces": about.replaces,
        "schema:contactPoint": about.contact,
    }
    yield from ((name, text) for name, text in plain.items() if text)
    for name, text in (("dc:license", about.licence), ("dc:conformsTo", about.methodology)):
        if text:
            yield name, {"@id": text} if is_address(text) else text
    yield from _several("skos:note", about.notes).items()


def _same(text: str, metadata: Metadata) -> Texts:
    return {metadata.language: text}


def _texts(name: str, texts: Texts) -> dict[str, Any]:
    """Return a property with one text per language; nothing without a text."""
    values = [{"@value": text, "@language": tag} for tag, text in texts.items()]
    return {name: values} if values else {}


def _several(name: str, texts: Sequence[Texts]) -> dict[str, Any]:
    values = [value for each in texts for value in _texts(name, each).get(name, ())]
    return {name: values} if values else {}
