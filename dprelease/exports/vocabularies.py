"""Texts and terms for catalogues: the guarantee as a paragraph, and terms of vocabularies.

Languages, access rights and file types are terms of the EU's authority tables, as DCAT-AP
requires; media types are those of IANA.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from dprelease.documents.manifest import CentralManifest

# Describe the guarantee of a release in one paragraph, from its manifest.

VARIANTS = {
    "pure": "Pure DP",
    "approximate": "Approximate DP",
    "zero_concentrated": "Zero-concentrated DP",
}
"""Names of privacy variants in the registry of deployments, by their names in the manifest."""


def guarantee_paragraph(record: CentralManifest, *, with_units: bool = True) -> str:
    """Return one paragraph in English: who is protected, by which parameters, by which tool.

    `with_units`: whether to describe the privacy units, which may differ from table to table.
    """
    units = list(dict.fromkeys(unit.words for unit in record.privacy_unit)) if with_units else []
    tool = record.tool
    exact = record.guarantee.invariants
    outside = (
        [f"Published exactly, outside of this guarantee: {', '.join(exact)}."] if exact else []
    )
    return " ".join(
        [
            f"Differentially private ({VARIANTS[record.dp_variant]}): {parameters_text(record)}.",
            *outside,
            *units,
            f"Made with {tool.name} {tool.version}; the manifest lists all noise.",
        ]
    )


def parameters_text(record: CentralManifest) -> str:
    """Return the parameters of the guarantee as text."""
    held = record.guarantee
    words = f"epsilon {held.epsilon}"
    if held.delta != "0":
        words += f" at delta {held.delta}"
    if held.rho is not None:
        words += f", rho {held.rho}"
    if held.rho_delta is not None:
        words += f" up to a delta of {held.rho_delta}"
    return words


AUTHORITY = "http://publications.europa.eu/resource/authority"
MEDIA = "https://www.iana.org/assignments/media-types"
PUBLIC = f"{AUTHORITY}/access-right/PUBLIC"
SHA256 = "http://spdx.org/rdf/terms#checksumAlgorithm_sha256"
DIFFERENTIAL_PRIVACY = "https://w3id.org/dpv#DifferentialPrivacy"

CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "dpv": "https://w3id.org/dpv#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
"""The prefixes that each record contains, so that nothing must be downloaded to read a record."""

FILES = {
    ".parquet": ("application/vnd.apache.parquet", "PARQUET"),
    ".csv": ("text/csv", "CSV"),
    ".json": ("application/json", "JSON"),
    ".jsonld": ("application/ld+json", "JSON_LD"),
    ".xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "XLSX"),
    ".ods": ("application/vnd.oasis.opendocument.spreadsheet", "ODS"),
    ".xml": ("application/xml", "XML"),
    ".yaml": ("application/yaml", "YAML"),
    ".html": ("text/html", "HTML"),
}
"""Media type and format by file extension."""

LANGUAGES = {
    "ar": "ARA", "bg": "BUL", "bs": "BOS", "ca": "CAT", "cs": "CES", "cy": "CYM", "da": "DAN",
    "de": "DEU", "el": "ELL", "en": "ENG", "es": "SPA", "et": "EST", "eu": "EUS", "fa": "FAS",
    "fi": "FIN", "fr": "FRA", "ga": "GLE", "gl": "GLG", "he": "HEB", "hi": "HIN", "hr": "HRV",
    "hu": "HUN", "hy": "HYE", "id": "IND", "is": "ISL", "it": "ITA", "ja": "JPN", "ka": "KAT",
    "ko": "KOR", "lb": "LTZ", "lt": "LIT", "lv": "LAV", "mk": "MKD", "mt": "MLT", "nb": "NOB",
    "nl": "NLD", "nn": "NNO", "no": "NOR", "pl": "POL", "pt": "POR", "rm": "ROH", "ro": "RON",
    "ru": "RUS", "sk": "SLK", "sl": "SLV", "sq": "SQI", "sr": "SRP", "sv": "SWE", "th": "THA",
    "tr": "TUR", "uk": "UKR", "vi": "VIE", "zh": "ZHO",
}  # fmt: skip
"""ISO 639-3 codes in the authority table by ISO 639-1 code."""

LICENCES = {
    "CC0-1.0": f"{AUTHORITY}/licence/CC0",
    "CC-BY-4.0": f"{AUTHORITY}/licence/CC_BY_4_0",
    "CC-BY-SA-4.0": f"{AUTHORITY}/licence/CC_BYSA_4_0",
}
"""Licences in the authority table, by SPDX identifier; all others are terms of SPDX."""


def language_of(tag: str) -> str:
    """Return the term of a BCP 47 language, from the EU's table or the Library of Congress."""
    first = tag.split("-")[0].lower()
    if first in LANGUAGES:
        return f"{AUTHORITY}/language/{LANGUAGES[first]}"
    part = "iso639-1" if len(first) == 2 else "iso639-2"
    return f"http://id.loc.gov/vocabulary/{part}/{first}"


def types_of(file: str) -> tuple[str, str] | None:
    """Return the terms of a file's media type and format; None for an unknown extension."""
    found = FILES.get(PurePosixPath(file).suffix)
    return found and (f"{MEDIA}/{found[0]}", f"{AUTHORITY}/file-type/{found[1]}")


SPDX = r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*-[0-9]+(\.[0-9]+)*"
"""Pattern of SPDX identifiers that end with a version, as identifiers of data licences do."""


def is_spdx(licence: str) -> bool:
    """Return whether a licence is an SPDX identifier."""
    return re.fullmatch(SPDX, licence) is not None


def is_iri(text: str) -> bool:
    """Return whether a text is an IRI: a web or mail address, a DOI, a URN or a handle."""
    scheme, colon, rest = text.partition(":")
    known = scheme.lower() in ("http", "https", "urn", "doi", "hdl", "mailto")
    marks = '<>"{}|\\^` '
    return bool(colon and rest) and known and not any(c in marks or c < "!" for c in text)
