"""Write a record for data catalogues: DCAT-AP 3, as JSON-LD.

Source     SEMIC, DCAT-AP 3.0.0 (14 June 2024); W3C, Data Catalog Vocabulary 3 (22 August 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dprelease.documents.encoding import sha256_of
from dprelease.documents.metadata import About, Texts
from dprelease.exports.export import Export, PublishedRelease
from dprelease.exports.names import write_json
from dprelease.exports.vocabularies import (
    CONTEXT,
    DIFFERENTIAL_PRIVACY,
    LICENCES,
    PUBLIC,
    SHA256,
    guarantee_paragraph,
    is_iri,
    is_spdx,
    language_of,
    types_of,
)
from dprelease.schema.release_parts.about import UNDETERMINED
from dprelease.schema.release_parts.extension_names import PARQUET

FILE = "dcat.jsonld"
Node = dict[str, Any]


class Dcat(Export):
    """One record: the release is a dataset, and each of its files is a distribution.

    Addresses are relative to the address at which the record is published.
    """

    name = "dcat"

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the record, and return the name of its file."""
        write_json(folder / FILE, {"@context": CONTEXT, **dataset_node(release, folder)})
        return [FILE]


def dataset_node(release: PublishedRelease, folder: Path) -> Node:
    """Return the release as a dataset."""
    metadata = release.metadata
    about = metadata.about
    language = metadata.language
    described = about.description or {language: guarantee_paragraph(release.central)}
    node: Node = {
        "@id": "./",
        "@type": "dcat:Dataset",
        "dct:title": _text_nodes(about.titles or {language: about.title}),
        "dct:description": _text_nodes(described),
        "dct:accessRights": {**_iri_node(PUBLIC), "@type": "dct:RightsStatement"},
        "dpv:hasTechnicalMeasure": _iri_node(DIFFERENTIAL_PRIVACY),
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "rdfs:label": _text_node("en", guarantee_paragraph(release.central)),
        },
        **_about_node(about, language),
    }
    languages = [tag for tag in metadata.languages if tag != UNDETERMINED]
    if languages:
        node["dct:language"] = [
            {**_iri_node(language_of(tag)), "@type": "dct:LinguisticSystem"} for tag in languages
        ]
    if about.notes:
        node["skos:note"] = [text for note in about.notes for text in _text_nodes(note)]
    node["dcat:distribution"] = list(_distribution_nodes(release, folder))
    return node


def _about_node(about: About, language: str) -> Node:
    """Return the declared properties of the release as a whole."""
    made: Node = {}
    if about.publisher:
        made["dct:publisher"] = {
            "@type": "foaf:Agent",
            "foaf:name": _text_node(language, about.publisher),
        }
    if about.contact:
        made["dcat:contactPoint"] = _contact_node(about, language)
    if about.period:
        made["dct:temporal"] = _period_node(about.period)
    if about.area:
        made["dct:spatial"] = _place_node(about.area, language)
    if about.version:
        made["dcat:version"] = about.version
    if about.replaces:
        # No class is stated, because a dataset would need its own title and description.
        replaced = about.replaces
        made["dct:replaces"] = (
            _iri_node(replaced) if is_iri(replaced) else {"dct:identifier": replaced}
        )
    if about.methodology:
        made["foaf:page"] = {**_iri_node(about.methodology), "@type": "foaf:Document"}
    return made


def _contact_node(about: About, language: str) -> Node:
    """Return the contact of a release: a web address, a mail address or a text."""
    name = about.publisher or about.contact
    made: Node = {"@type": "vcard:Kind", "vcard:fn": _text_node(language, name)}
    if is_iri(about.contact):
        made["vcard:hasURL"] = _iri_node(about.contact)
    elif "@" in about.contact and is_iri(f"mailto:{about.contact}"):
        made["vcard:hasEmail"] = _iri_node(f"mailto:{about.contact}")
    else:
        made["vcard:note"] = _text_node(language, about.contact)
    return made


def _period_node(period: str) -> Node:
    """Return a reference period, with its first and its last day."""
    ends = period.split("/")
    kinds = {4: "xsd:gYear", 7: "xsd:gYearMonth", 10: "xsd:date"}
    first, last = (
        {"@value": end, "@type": kinds.get(len(end), "xsd:string")} for end in (ends[0], ends[-1])
    )
    return {"@type": "dct:PeriodOfTime", "dcat:startDate": first, "dcat:endDate": last}


def _place_node(area: str, language: str) -> Node:
    """Return the area of a release, by its address or by its name."""
    if is_iri(area):
        return {**_iri_node(area), "@type": "dct:Location"}
    return {"@type": "dct:Location", "skos:prefLabel": _text_node(language, area)}


def _distribution_nodes(release: PublishedRelease, folder: Path) -> Iterator[Node]:
    """Yield the files in the same folder, tables and other formats, with their digests."""
    titles = {table.file: table.label for table in release.metadata.tables}
    for table in release.record.files:
        titles |= {part: titles.get(table.name, {}) for part in table.digests}
    for name, files in release.written.items():
        home = release.folder if name == PARQUET else folder
        for file in files:
            yield _distribution_node(release, file, titles.get(file, {}), home / file)


def _distribution_node(release: PublishedRelease, file: str, label: Texts, path: Path) -> Node:
    """Return one file of a release: its address, size, digest and type."""
    metadata = release.metadata
    node: Node = {
        "@type": "dcat:Distribution",
        "dct:title": _text_nodes(label or {metadata.language: file}),
        "dcat:accessURL": _iri_node(file),
        "dcat:downloadURL": _iri_node(file),
        "dcat:byteSize": {"@value": str(path.stat().st_size), "@type": "xsd:nonNegativeInteger"},
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": _iri_node(SHA256),
            "spdx:checksumValue": {"@value": sha256_of(path), "@type": "xsd:hexBinary"},
        },
    }
    types = types_of(file)
    if types is not None:
        node["dcat:mediaType"] = {**_iri_node(types[0]), "@type": "dct:MediaType"}
        node["dct:format"] = {**_iri_node(types[1]), "@type": "dct:MediaTypeOrExtent"}
    if metadata.about.licence:
        node["dct:license"] = licence_node(metadata.about.licence, metadata.language)
    return node


def licence_node(licence: str, language: str) -> Node:
    """Return a licence as a reference to its address or SPDX identifier, or else as a text."""
    made: Node = {"@type": "dct:LicenseDocument"}
    if licence in LICENCES:
        return {**_iri_node(LICENCES[licence]), **made}
    if is_iri(licence):
        return {**_iri_node(licence), **made}
    if is_spdx(licence):
        return {**_iri_node(f"https://spdx.org/licenses/{licence}"), **made}
    return {**made, "rdfs:label": _text_node(language, licence)}


def _iri_node(address: str) -> Node:
    return {"@id": address}


def _text_node(language: str, text: str) -> Node:
    tag = {} if language == UNDETERMINED else {"@language": language}
    return {"@value": text, **tag}


def _text_nodes(texts: Texts) -> Sequence[Node]:
    return [_text_node(language, text) for language, text in texts.items()]


EXPORT = Dcat()
