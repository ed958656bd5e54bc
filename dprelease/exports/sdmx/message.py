"""The message of structures: SDMX-ML 3.0.

Written here and not by pysdmx, whose writer has one language and the time of the day.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from dprelease.documents.metadata import Texts
from dprelease.exports.sdmx.structures import CONCEPTS, Component, Item, Structure, Structures

SCHEMAS = "http://www.sdmx.org/resources/sdmxml/schemas/v3_0"
URN = "urn:sdmx:org.sdmx.infomodel"
PREPARED = "1970-01-01"
"""The standard wants a day on which a message was made. A release knows none, and its files are the
same whenever they are made: this one says so, as no such message can be."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_message(structures: Structures, path: Path) -> None:
    """Write the message into a file, which must not be there."""
    root = Element("mes:Structure")
    for prefix, part in (("mes", "message"), ("str", "structure"), ("com", "common")):
        root.set(f"xmlns:{prefix}", f"{SCHEMAS}/{part}")
    _header(root, structures)
    _structures(SubElement(root, "mes:Structures"), structures)
    indent(root, "  ")
    with path.open("xb") as file:
        ElementTree(root).write(file, encoding="UTF-8", xml_declaration=True)
        file.write(b"\n")


def _header(root: Element, structures: Structures) -> None:
    header = SubElement(root, "mes:Header")
    _text(header, "mes:ID", "STRUCTURE")
    _text(header, "mes:Test", "false")
    _text(header, "mes:Prepared", PREPARED)
    SubElement(header, "mes:Sender", id=structures.agency)


def _structures(parent: Element, structures: Structures) -> None:
    agencies = SubElement(parent, "str:AgencySchemes")
    scheme = SubElement(agencies, "str:AgencyScheme", id="AGENCIES", agencyID="SDMX")
    _add_names(scheme, Item("", {"en": "Agencies"}))
    agency = SubElement(scheme, "str:Agency", id=structures.agency)
    _add_names(agency, Item("", {structures.languages[0]: structures.agency_name}))
    lists = SubElement(parent, "str:Codelists")
    for own, (item, codes) in structures.code_lists.items():
        code_list = _add_maintainable(lists, "str:Codelist", own, structures, item)
        for code in codes:
            _add_names(SubElement(code_list, "str:Code", id=code.id), code)
    schemes = SubElement(parent, "str:ConceptSchemes")
    title = Item("", {structures.languages[0]: structures.title})
    concepts = _add_maintainable(schemes, "str:ConceptScheme", CONCEPTS, structures, title)
    for own, concept in structures.concepts.items():
        _add_names(SubElement(concepts, "str:Concept", id=own), concept)
    flows = SubElement(parent, "str:Dataflows")
    for cube in structures.cubes:
        flow = _add_maintainable(flows, "str:Dataflow", cube.item.id, structures, cube.item)
        urn = _urn(structures, "datastructure.DataStructure", cube.item.id)
        _text(flow, "str:Structure", urn)
    definitions = SubElement(parent, "str:DataStructures")
    for cube in structures.cubes:
        _definition(definitions, structures, cube)


def _definition(parent: Element, structures: Structures, cube: Structure) -> None:
    named = _add_maintainable(parent, "str:DataStructure", cube.item.id, structures, cube.item)
    parts = SubElement(named, "str:DataStructureComponents")
    dimensions = SubElement(parts, "str:DimensionList", id="DimensionDescriptor")
    for place, dimension in enumerate(cube.dimensions, start=1):
        if dimension.id == "TIME_PERIOD":
            _component(dimensions, "str:TimeDimension", structures, dimension)
        else:
            _component(dimensions, "str:Dimension", structures, dimension, position=str(place))
    attributes = SubElement(parts, "str:AttributeList", id="AttributeDescriptor")
    for attribute in cube.attributes:
        usage = "mandatory" if attribute.mandatory else "optional"
        made = _component(attributes, "str:Attribute", structures, attribute, usage=usage)
        related = SubElement(made, "str:AttributeRelationship")
        if attribute.level == "observation":
            SubElement(related, "str:Observation")
        else:
            _text(related, "str:Dimension", attribute.level)
    measures = SubElement(parts, "str:MeasureList", id="MeasureDescriptor")
    _component(measures, "str:Measure", structures, cube.measure, usage="optional")


def _component(
    parent: Element, tag: str, structures: Structures, component: Component, **attributes: str
) -> Element:
    made = SubElement(parent, tag, {"id": component.id, **attributes})
    concept = _urn(structures, "conceptscheme.Concept", CONCEPTS)
    _text(made, "str:ConceptIdentity", f"{concept}.{component.concept}")
    shown = SubElement(made, "str:LocalRepresentation")
    if component.codes:
        _text(shown, "str:Enumeration", _urn(structures, "codelist.Codelist", component.codes))
    else:
        SubElement(shown, "str:TextFormat", textType=component.text_type)
    return made


def _add_maintainable(
    parent: Element, tag: str, own: str, structures: Structures, item: Item
) -> Element:
    attributes = {"id": own, "agencyID": structures.agency, "version": structures.version}
    made = SubElement(parent, tag, attributes)
    _add_names(made, item)
    return made


def _add_names(element: Element, item: Item) -> None:
    """Add annotations, names and descriptions, in this order, each in every language it has."""
    notes: list[tuple[str, str, Texts]] = [("FOOTNOTE", "", note) for note in item.footnotes]
    if item.value:
        notes.append(("VALUE", item.value, {}))
    if notes:
        annotations = SubElement(element, "com:Annotations")
        for kind, title, texts in notes:
            annotation = SubElement(annotations, "com:Annotation")
            if title:
                _text(annotation, "com:AnnotationTitle", title)
            _text(annotation, "com:AnnotationType", kind)
            _texts(annotation, "com:AnnotationText", texts)
    _texts(element, "com:Name", item.name)
    _texts(element, "com:Description", item.description)


def _texts(parent: Element, tag: str, texts: Texts) -> None:
    for language, text in texts.items():
        _text(parent, tag, text).set("xml:lang", language)


def _text(parent: Element, tag: str, text: str) -> Element:
    made = SubElement(parent, tag)
    made.text = _NO_XML.sub("\ufffd", text)
    return made


def _urn(structures: Structures, kind: str, own: str) -> str:
    return f"{URN}.{kind}={structures.agency}:{own}({structures.version})"
