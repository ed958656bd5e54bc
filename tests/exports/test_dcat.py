"""The DCAT record: requirements of DCAT-AP 3 for each class, read by rdflib offline."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rdflib import FOAF, RDF, XSD, Graph, Literal, Namespace, URIRef
from rdflib.namespace import DCTERMS as DCT
from rdflib.namespace import RDFS
from rdflib.term import Node

from dprelease.documents.metadata import About, Metadata
from dprelease.exports.dcat import EXPORT, licence_node
from dprelease.exports.export import PublishedRelease
from dprelease.exports.vocabularies import is_iri, language_of, types_of
from tests.exports import full_release

pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")
"""rdflib's own reader of JSON-LD makes one (7.6)."""

BASE = "https://office.example/people/"
SPDX = Namespace("http://spdx.org/rdf/terms#")
DCAT = Namespace("http://www.w3.org/ns/dcat#")
VCARD = Namespace("http://www.w3.org/2006/vcard/ns#")
DPV = Namespace("https://w3id.org/dpv#")
MANY = 10**6

ASKED: dict[Node, dict[Node, tuple[int, int, Node]]] = {
    DCAT.Dataset: {
        DCT.title: (1, MANY, RDFS.Literal),
        DCT.description: (1, MANY, RDFS.Literal),
        DCT.publisher: (0, 1, FOAF.Agent),
        DCAT.contactPoint: (0, MANY, VCARD.Kind),
        DCT.temporal: (0, MANY, DCT.PeriodOfTime),
        DCT.spatial: (0, MANY, DCT.Location),
        DCT.language: (0, MANY, DCT.LinguisticSystem),
        DCT.accessRights: (0, 1, DCT.RightsStatement),
        DCT.provenance: (0, MANY, DCT.ProvenanceStatement),
        DCT.replaces: (0, MANY, RDF.Alt),
        FOAF.page: (0, MANY, FOAF.Document),
        DCAT.version: (0, 1, RDFS.Literal),
        DCAT.distribution: (0, MANY, DCAT.Distribution),
    },
    DCAT.Distribution: {
        DCAT.accessURL: (1, MANY, RDFS.Resource),
        DCAT.downloadURL: (0, MANY, RDFS.Resource),
        DCT.title: (0, MANY, RDFS.Literal),
        DCT.license: (0, 1, DCT.LicenseDocument),
        DCT.format: (0, 1, DCT.MediaTypeOrExtent),
        DCAT.mediaType: (0, 1, DCT.MediaType),
        DCAT.byteSize: (0, 1, XSD.nonNegativeInteger),
        SPDX.checksum: (0, 1, SPDX.Checksum),
    },
    SPDX.Checksum: {
        SPDX.algorithm: (1, 1, RDFS.Resource),
        SPDX.checksumValue: (1, 1, XSD.hexBinary),
    },
    FOAF.Agent: {FOAF.name: (1, MANY, RDFS.Literal)},
    DCT.PeriodOfTime: {DCAT.startDate: (0, 1, XSD.date), DCAT.endDate: (0, 1, XSD.date)},
    DCT.ProvenanceStatement: {RDFS.label: (1, MANY, RDFS.Literal)},
}
"""Of each class its properties: how often at least and at most, and what their values are."""

KNOWN_ELSEWHERE = {RDF.type, DPV.hasTechnicalMeasure}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PublishedRelease:
    found = full_release.publish_release(tmp_path_factory.mktemp("dcat"))
    return replace(
        found, written={"parquet": [file["name"] for file in found.record.to_json()["files"]]}
    )


def graph_of(release: PublishedRelease, folder: Path) -> Graph:
    assert EXPORT.write(release, folder) == ["dcat.jsonld"]
    text = (folder / "dcat.jsonld").read_text(encoding="utf-8")
    return Graph().parse(data=text, format="json-ld", publicID=f"{BASE}dcat.jsonld")


def profile_violations(graph: Graph) -> list[str]:
    """Return where the record violates the profile."""
    found = []
    for kind, asked in ASKED.items():
        for subject in graph.subjects(RDF.type, kind):
            held = set(graph.predicates(subject)) - set(asked) - KNOWN_ELSEWHERE
            found += [f"{kind}: {p}" for p in held if "skos" not in p]
            for predicate, (least, most, wanted) in asked.items():
                values = list(graph.objects(subject, predicate))
                if not least <= len(values) <= most:
                    found.append(f"{kind} has {len(values)} {predicate}")
                found += [f"{predicate} {v!r}" for v in values if not is_a(graph, v, wanted)]
    return found


def is_a(graph: Graph, value: Node, wanted: Node) -> bool:
    if wanted == RDF.Alt:  # anything that has a name: an address, or an identifier
        return isinstance(value, URIRef) or (value, DCT.identifier, None) in graph
    if wanted == RDFS.Literal:
        return isinstance(value, Literal)
    if wanted == RDFS.Resource:
        return isinstance(value, URIRef)
    if isinstance(value, Literal):
        return value.datatype == wanted and value.value is not None
    return (value, RDF.type, wanted) in graph


def test_dcat_record_follows_the_profile(release: PublishedRelease, tmp_path: Path) -> None:
    graph = graph_of(release, tmp_path)
    assert profile_violations(graph) == []
    dataset = URIRef(BASE)
    assert (dataset, RDF.type, DCAT.Dataset) in graph
    of = {p: {str(v) for v in graph.objects(dataset, p)} for p in ASKED[DCAT.Dataset]}
    assert of[DCT.title] == {"People & pay <en> & 'it'", "People & pay auf Deutsch"}
    assert of[DCT.replaces] == {"https://office.example/people/2023"}
    assert of[DCAT.version] == {"1.2"}
    assert (dataset, DPV.hasTechnicalMeasure, DPV.DifferentialPrivacy) in graph
    ends = [str(next(graph.objects(None, p))) for p in (DCAT.startDate, DCAT.endDate)]
    assert ends == ["2024-01-01", "2024-12-31"]
    told = str(next(graph.objects(None, RDFS.label)))
    assert f"epsilon {release.record.to_json()['guarantee']['epsilon']} at delta 0.00000001" in told
    assert str(next(graph.objects(None, VCARD.hasEmail))) == "mailto:data@office.example"


def test_dcat_distributions_have_size_and_digest(release: PublishedRelease, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/by_area.csv").write_text("a,b\n")
    written = {**release.written, "csv": ["csv/by_area.csv"]}
    graph = graph_of(replace(release, written=written), tmp_path)
    assert profile_violations(graph) == []
    found = {}
    for subject in graph.subjects(RDF.type, DCAT.Distribution):
        (address,) = graph.objects(subject, DCAT.downloadURL)
        (size,) = graph.objects(subject, DCAT.byteSize)
        (digest,) = graph.objects(next(graph.objects(subject, SPDX.checksum)), SPDX.checksumValue)
        found[str(address).removeprefix(BASE)] = (int(size), str(digest).lower())
    paths = {
        file["name"]: release.folder / file["name"] for file in release.record.to_json()["files"]
    }
    paths["csv/by_area.csv"] = tmp_path / "csv/by_area.csv"
    assert found == {
        name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for name, path in paths.items()
    }
    recorded = {file["name"]: file["sha256"] for file in release.record.to_json()["files"]}
    assert all(found[name][1] == digest for name, digest in recorded.items())


def test_unwritten_files_are_no_distributions(release: PublishedRelease, tmp_path: Path) -> None:
    graph = graph_of(replace(release, written={}), tmp_path)
    assert profile_violations(graph) == []
    assert (None, RDF.type, DCAT.Distribution) not in graph


ABOUTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no mail": {"contact": "Desk 4, second floor"},
    "a page": {"contact": "https://office.example/contact"},
    "licence in words": {"licence": "Our own terms: ask first"},
    "licence of SPDX": {"licence": "OGL-UK-3.0"},
    "a day": {"period": "2024-02-29"},
    "an area of GeoNames": {"area": "https://sws.geonames.org/2658434/"},
    "a number that is replaced": {"replaces": "release 7"},
    "hostile": {"publisher": '"}, "@id": "x', "area": "<a> & \\u202e", "version": "\\n"},
}


@pytest.mark.parametrize("about", ABOUTS)
def test_dcat_record_is_valid_for_every_about_section(
    release: PublishedRelease, tmp_path: Path, about: str
) -> None:
    said = Metadata(About("T", **ABOUTS[about]), ("und",), release.metadata.tables)
    graph = graph_of(replace(release, metadata=said), tmp_path)
    assert profile_violations(graph) == []
    texts = {str(value) for value in graph.objects() if isinstance(value, Literal)}
    addresses = {str(value) for value in graph.objects() if isinstance(value, URIRef)}
    for value in ABOUTS[about].values():
        assert any(value in told for told in texts | addresses)
    assert (None, DCT.language, None) not in graph


def test_dcat_records_are_reproducible(release: PublishedRelease, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        EXPORT.write(release, tmp_path / name)
    one, other = ((tmp_path / n / "dcat.jsonld").read_bytes() for n in ("one", "other"))
    assert one == other
    assert isinstance(json.loads(one)["@context"], dict)


@pytest.mark.parametrize(
    ("licence", "found"),
    [
        ("CC-BY-4.0", "http://publications.europa.eu/resource/authority/licence/CC_BY_4_0"),
        ("ODbL-1.0", "https://spdx.org/licenses/ODbL-1.0"),
        ("https://office.example/terms", "https://office.example/terms"),
        ("Internal", None),
        ("see page 2", None),
    ],
)
def test_licences_have_their_iris(licence: str, found: str | None) -> None:
    assert licence_node(licence, "en").get("@id") == found


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ("en", "language/ENG"), ("pt-BR", "language/POR"), ("zh-Hant", "language/ZHO"),
        ("eo", "iso639-1/eo"), ("gsw", "iso639-2/gsw"),
    ],
)  # fmt: skip
def test_languages_have_their_iris(tag: str, found: str) -> None:
    assert language_of(tag).endswith(found)


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("https://a.example/b", True), ("urn:isbn:1", True), ("10.1/2", False), ("https:", False),
        ("http://a b", False), ("javascript:alert(1)", False), ("Note: see", False), ("", False),
    ],
)  # fmt: skip
def test_iris_are_recognised(text: str, yes: bool) -> None:
    assert is_iri(text) is yes


def test_unknown_files_have_no_media_type() -> None:
    assert types_of("x.bin") is None
    assert types_of("a/b.csv") is not None
