"""The DCAT record validated by SHACL, with our own shapes and the official ones.

The official shapes are not part of this project: DCAT_AP_SHAPES is the path of their file, such as
dcat-ap-SHACL.ttl of DCAT-AP 3.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyshacl import validate
from rdflib import RDF, SH, BNode, Graph, Literal, Namespace, URIRef
from rdflib.namespace import DCTERMS as DCT
from rdflib.namespace import RDFS
from rdflib.term import Node

from dprelease.exports.export import PublishedRelease
from tests.exports.test_dcat import ASKED, DCAT, MANY, graph_of, release

assert release is not None  # a fixture
pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")
OWN = Namespace("urn:shapes:")


def shapes() -> Graph:
    """Return the requirements of each class as shapes."""
    graph = Graph()
    for i, (kind, asked) in enumerate(ASKED.items()):
        shape = OWN[f"shape{i}"]
        graph.add((shape, RDF.type, SH.NodeShape))
        graph.add((shape, SH.targetClass, kind))
        for path, (least, most, wanted) in asked.items():
            held = BNode()
            graph.add((shape, SH.property, held))
            graph.add((held, SH.path, path))
            graph.add((held, SH.minCount, Literal(least)))
            if most < MANY:
                graph.add((held, SH.maxCount, Literal(most)))
            kinds: dict[Node, Node] = {RDFS.Literal: SH.Literal, RDFS.Resource: SH.IRI}
            if wanted in kinds:
                graph.add((held, SH.nodeKind, kinds[wanted]))
    return graph


FAULTS: dict[str, Callable[[Graph, Node], object]] = {
    "no title": lambda graph, one: graph.remove((one, DCT.title, None)),
    "a title that is an address": lambda graph, one: graph.add((one, DCT.title, URIRef("urn:x"))),
    "two publishers": lambda graph, one: (
        graph.add((one, DCT.publisher, BNode())) and graph.add((one, DCT.publisher, BNode()))
    ),
    "nowhere to be had": lambda graph, one: graph.remove((None, DCAT.accessURL, None)),
}


def validation_report(graph: Graph, asked: Graph) -> str:
    """Return the report of the validator; empty if the graph conforms."""
    conforms, _, text = validate(graph, shacl_graph=asked, advanced=True)
    return "" if conforms else str(text)


def test_dcat_record_conforms_to_own_shapes(
    release: PublishedRelease,
    tmp_path: Path,
) -> None:
    assert validation_report(graph_of(release, tmp_path), shapes()) == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_dcat_records_are_found(
    fault: str,
    release: PublishedRelease,
    tmp_path: Path,
) -> None:
    graph = graph_of(release, tmp_path)
    (dataset,) = graph.subjects(RDF.type, DCAT.Dataset)
    FAULTS[fault](graph, dataset)
    assert validation_report(graph, shapes())


@pytest.mark.audit
def test_dcat_record_conforms_to_official_shapes(
    release: PublishedRelease,
    tmp_path: Path,
) -> None:
    path = Path(os.environ.get("DCAT_AP_SHAPES", "dcat-ap-SHACL.ttl"))
    if not path.is_file():
        pytest.skip("the shapes of DCAT-AP are not here: DCAT_AP_SHAPES names their file")
    assert validation_report(graph_of(release, tmp_path), Graph().parse(path)) == ""
