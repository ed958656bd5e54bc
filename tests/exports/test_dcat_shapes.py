"""The record for catalogues by SHACL: with shapes of what is asked here, and with the official ones.

The profile's own shapes are no part of this project: DCAT_AP_SHAPES names their file, such as
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
    """Return the table of what is asked of each class as shapes."""
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


def told(graph: Graph, asked: Graph) -> str:
    """Return what a validator finds in a graph; nothing if it conforms."""
    conforms, _, text = validate(graph, shacl_graph=asked, advanced=True)
    return "" if conforms else str(text)


def test_the_record_has_the_shapes_that_are_asked(
    release: PublishedRelease,
    tmp_path: Path,
) -> None:
    assert told(graph_of(release, tmp_path), shapes()) == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_record_of_another_shape_is_found(
    fault: str,
    release: PublishedRelease,
    tmp_path: Path,
) -> None:
    graph = graph_of(release, tmp_path)
    (dataset,) = graph.subjects(RDF.type, DCAT.Dataset)
    FAULTS[fault](graph, dataset)
    assert told(graph, shapes())


@pytest.mark.audit
def test_the_record_has_the_official_shapes(
    release: PublishedRelease,
    tmp_path: Path,
) -> None:
    path = Path(os.environ.get("DCAT_AP_SHAPES", "dcat-ap-SHACL.ttl"))
    if not path.is_file():
        pytest.skip("the shapes of DCAT-AP are not here: DCAT_AP_SHAPES names their file")
    assert told(graph_of(release, tmp_path), Graph().parse(path)) == ""
