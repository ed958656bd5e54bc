"""Write SDMX-CSV 2.0, with its structures as SDMX-ML 3.0.

This module writes both formats itself. The writer of the package pysdmx has only one language, and
writes the current time into the file. So no version of a package changes the bytes. Each row of a
cube is one observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from dprelease.documents.metadata import ColumnMetadata, Metadata, Texts
from dprelease.exports.csv_tables.csv_files import plain_texts, quote_field
from dprelease.exports.cubes import suppressed_columns
from dprelease.exports.export import Export, Problem, PublishedRelease
from dprelease.exports.names import xml_text
from dprelease.exports.sdmx.sdmx_cubes import (
    RESERVED,
    Cube,
    code_id,
    component_id,
    cubes_of,
    status_of,
    time_period,
)
from dprelease.exports.sdmx.structures import (
    CONCEPTS,
    Component,
    Item,
    Structure,
    Structures,
    is_coded,
    structures_of,
)

if TYPE_CHECKING:
    import pyarrow as pa


Cells = Sequence[str | None]
"""A column as texts; None is a missing value."""

CELLS = 1 << 15
"""Maximum number of cells that are in memory as texts."""

INFORMATION = "I"
"""The action code of SDMX-CSV for a file that does not ask its receiver to change stored data."""


def write_observations(release: PublishedRelease, cube: Cube, flow: str, path: Path) -> None:
    """Write a cube into a new file: its cells in order, and in each cell its measures.

    `flow`: the dataflow of the cube, as `AGENCY:ID(VERSION)`.
    """
    rows = _CubeRows(release, cube)
    fixed = ["dataflow", flow, INFORMATION]
    with path.open("x", encoding="utf-8", newline="") as file:
        file.write(_csv_line(["STRUCTURE", "STRUCTURE_ID", "ACTION", *rows.header]))
        start = "".join(quote_field(text) + "," for text in fixed)
        for batch in release.batches(cube.table, rows.columns):
            # In slices, because texts of cells need far more memory than their columns.
            for first in range(0, batch.num_rows, CELLS):
                file.writelines(start + line for line in rows.lines(batch.slice(first, CELLS)))


class _CubeRows:
    """The rows of a cube as lines of an SDMX-CSV file."""

    def __init__(self, release: PublishedRelease, cube: Cube) -> None:
        self._cube = cube
        self._may_be_empty = suppressed_columns(release, cube.table)
        self._attributes = list(cube.attribute_columns)
        self._last = {value.name: self._constant_fields(value) for value in cube.values}
        self._key_texts = [_texts_of_key(key) for key in cube.table.keys]

    @property
    def header(self) -> list[str]:
        """Return the names of all columns after the first three columns."""
        cube = self._cube
        return [
            *(component_id(key.name) for key in cube.table.keys),
            "MEASURE",
            *(["TIME_PERIOD"] if cube.time is not None else []),
            "OBS_VALUE",
            "OBS_STATUS",
            "CONF_STATUS",
            *self._attributes,
            *(["CONFIDENCE_LEVEL"] if cube.confidence else []),
            *(["UNIT_MEASURE"] if cube.has_units else []),
            *(["DECIMALS"] if cube.has_declared_decimals else []),
        ]

    @property
    def columns(self) -> list[str]:
        """Return the names of the table's columns that are needed."""
        cube = self._cube
        columns = [*cube.table.keys, *cube.values]
        columns += [column for of in cube.attribute_columns.values() for column in of.values()]
        return [column.name for column in columns]

    def _constant_fields(self, value: ColumnMetadata) -> list[str | None]:
        """Return the fields that are equal in all observations of a value."""
        cube = self._cube
        decimals = None if value.decimals is None else str(value.decimals)
        return [
            *([cube.confidence.get(value.name)] if cube.confidence else []),
            *([value.unit or None] if cube.has_units else []),
            *([decimals] if cube.has_declared_decimals else []),
        ]

    def lines(self, batch: pa.RecordBatch) -> Iterator[str]:
        """Yield the lines of the cells in a batch."""
        keys = [
            texts(batch.column(key.name))
            for key, texts in zip(self._cube.table.keys, self._key_texts, strict=True)
        ]
        # A table without keys has one cell, and `zip` of nothing has none.
        cells = [list(cell) for cell in zip(*keys, strict=True)] or [[]] * batch.num_rows
        measured = [self._measure_fields(batch, value) for value in self._cube.values]
        for cell, *several in zip(cells, *measured, strict=True):
            for observed in several:
                yield _csv_line([*cell, *observed])

    def _measure_fields(
        self, batch: pa.RecordBatch, value: ColumnMetadata
    ) -> Iterator[list[str | None]]:
        """Yield the fields after the keys for one measure, cell by cell."""
        cube = self._cube
        first = [component_id(value.name), *([] if cube.time is None else [cube.time])]
        last, may_be_empty = self._last[value.name], value.name in self._may_be_empty
        values = _texts_of_value(value)(batch.column(value.name))
        quality = cube.quality_columns.get(value.name)
        codes = batch.column(quality.name).to_pylist() if quality else [None] * batch.num_rows
        attributes = [self._attribute_texts(batch, name, value.name) for name in self._attributes]
        for text, code, *others in zip(values, codes, *attributes, strict=True):
            status = status_of(text, code, may_be_empty)
            yield [*first, text, *status, *others, *last]

    def _attribute_texts(self, batch: pa.RecordBatch, attribute: str, value: str) -> Cells:
        column = self._cube.attribute_columns[attribute].get(value)
        if column is None:
            return [None] * batch.num_rows
        return _texts_of_value(column)(batch.column(column.name))


def texts_of(array: pa.Array) -> Cells:
    """Return an Arrow array as texts that parse to the same values; null becomes None."""
    texts: Cells = plain_texts(array).to_pylist()
    return texts


def _texts_of_key(key: ColumnMetadata) -> Callable[[pa.Array], Cells]:
    """Return the function that converts the values of a key to texts or to codes."""
    return _code_ids if is_coded(key) else texts_of


def _texts_of_value(value: ColumnMetadata) -> Callable[[pa.Array], Cells]:
    """Return the function that converts a value column to texts or to codes."""
    return texts_of if value.codes is None else _code_ids


def _code_ids(array: pa.Array) -> Cells:
    """Return an Arrow array as the identifiers of its values in a code list."""
    texts = texts_of(array)
    codes = {text: code_id(text) for text in set(texts) if text is not None}
    return [None if text is None else codes[text] for text in texts]


def _csv_line(fields: Iterable[str | None]) -> str:
    """Return a line of CSV; an empty text is quoted, and a missing value is not."""
    return ",".join("" if text is None else quote_field(text) for text in fields) + "\n"


SCHEMAS = "http://www.sdmx.org/resources/sdmxml/schemas/v3_0"
URN = "urn:sdmx:org.sdmx.infomodel"
PREPARED = "1970-01-01"
"""The day on which the message was made, which the standard requires.

A release has no such day, since its files don't depend on the time. No real message can have this
date.
"""


def write_message(structures: Structures, path: Path) -> None:
    """Write the structure message into a new file."""
    root = Element("mes:Structure")
    for prefix, part in (("mes", "message"), ("str", "structure"), ("com", "common")):
        root.set(f"xmlns:{prefix}", f"{SCHEMAS}/{part}")
    _add_header(root, structures)
    _add_structures(SubElement(root, "mes:Structures"), structures)
    indent(root, "  ")
    with path.open("xb") as file:
        ElementTree(root).write(file, encoding="UTF-8", xml_declaration=True)
        file.write(b"\n")


def _add_header(root: Element, structures: Structures) -> None:
    """Add the header of the message: its day, and the agency that sends it."""
    header = SubElement(root, "mes:Header")
    _add_text(header, "mes:ID", "STRUCTURE")
    _add_text(header, "mes:Test", "false")
    _add_text(header, "mes:Prepared", PREPARED)
    SubElement(header, "mes:Sender", id=structures.agency)


def _add_structures(parent: Element, structures: Structures) -> None:
    """Add the agency and all structures: code lists, concepts, data structures."""
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
        _add_text(flow, "str:Structure", urn)
    definitions = SubElement(parent, "str:DataStructures")
    for cube in structures.cubes:
        _add_data_structure(definitions, structures, cube)


def _add_data_structure(parent: Element, structures: Structures, cube: Structure) -> None:
    """Add a data structure: dimensions, attributes and the measure."""
    named = _add_maintainable(parent, "str:DataStructure", cube.item.id, structures, cube.item)
    parts = SubElement(named, "str:DataStructureComponents")
    dimensions = SubElement(parts, "str:DimensionList", id="DimensionDescriptor")
    for number, dimension in enumerate(cube.dimensions, start=1):
        if dimension.id == "TIME_PERIOD":
            _add_component(dimensions, "str:TimeDimension", structures, dimension)
        else:
            _add_component(dimensions, "str:Dimension", structures, dimension, position=str(number))
    attributes = SubElement(parts, "str:AttributeList", id="AttributeDescriptor")
    for attribute in cube.attributes:
        usage = "mandatory" if attribute.mandatory else "optional"
        made = _add_component(attributes, "str:Attribute", structures, attribute, usage=usage)
        related = SubElement(made, "str:AttributeRelationship")
        if attribute.level == "observation":
            SubElement(related, "str:Observation")
        else:
            _add_text(related, "str:Dimension", attribute.level)
    measures = SubElement(parts, "str:MeasureList", id="MeasureDescriptor")
    _add_component(measures, "str:Measure", structures, cube.measure, usage="optional")


def _add_component(
    parent: Element, tag: str, structures: Structures, component: Component, **attributes: str
) -> Element:
    """Add a dimension, an attribute or a measure, and return its element."""
    made = SubElement(parent, tag, {"id": component.id, **attributes})
    concept = _urn(structures, "conceptscheme.Concept", CONCEPTS)
    _add_text(made, "str:ConceptIdentity", f"{concept}.{component.concept}")
    shown = SubElement(made, "str:LocalRepresentation")
    if component.codes:
        _add_text(shown, "str:Enumeration", _urn(structures, "codelist.Codelist", component.codes))
    else:
        SubElement(shown, "str:TextFormat", textType=component.text_type)
    return made


def _add_maintainable(
    parent: Element, tag: str, own: str, structures: Structures, item: Item
) -> Element:
    """Add an element with an agency and a version, and return it."""
    attributes = {"id": own, "agencyID": structures.agency, "version": structures.version}
    made = SubElement(parent, tag, attributes)
    _add_names(made, item)
    return made


def _add_names(element: Element, item: Item) -> None:
    """Add annotations, names and descriptions to an element, in this order, in all languages."""
    notes: list[tuple[str, str, Texts]] = [("FOOTNOTE", "", note) for note in item.footnotes]
    if item.value:
        notes.append(("VALUE", item.value, {}))
    if notes:
        annotations = SubElement(element, "com:Annotations")
        for kind, title, texts in notes:
            annotation = SubElement(annotations, "com:Annotation")
            if title:
                _add_text(annotation, "com:AnnotationTitle", title)
            _add_text(annotation, "com:AnnotationType", kind)
            _add_texts(annotation, "com:AnnotationText", texts)
    _add_texts(element, "com:Name", item.name)
    _add_texts(element, "com:Description", item.description)


def _add_texts(parent: Element, tag: str, texts: Texts) -> None:
    for language, text in texts.items():
        _add_text(parent, tag, text).set("xml:lang", language)


def _add_text(parent: Element, tag: str, text: str) -> Element:
    """Add an element with a text, and return it."""
    made = SubElement(parent, tag)
    made.text = xml_text(text)
    return made


def _urn(structures: Structures, kind: str, own: str) -> str:
    return f"{URN}.{kind}={structures.agency}:{own}({structures.version})"


STRUCTURE = "structure.xml"


class SdmxCsv(Export):
    """The format with a file of observations for each cube, and one message about all cubes."""

    name = "sdmx-csv"

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield the keys whose names the standard reserves."""
        for table in metadata.tables_for_readers:
            for key in table.keys:
                if key.name.upper() in RESERVED:
                    yield Problem(
                        f"the name '{key.name}' means something else in SDMX; derive a key of "
                        "another name",
                        table.name,
                        key.name,
                    )

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the structures, and then the cubes; return the names of the files."""
        (folder / self.name).mkdir()
        structures = structures_of(release.metadata)
        write_message(structures, folder / self.name / STRUCTURE)
        files = [f"{self.name}/{STRUCTURE}"]
        for cube in cubes_of(release.metadata, time_period(release.metadata.about.period)):
            file = f"{self.name}/{cube.id}.csv"
            flow = f"{structures.agency}:{cube.id}({structures.version})"
            write_observations(release, cube, flow, folder / file)
            files.append(file)
        return files


EXPORT = SdmxCsv()
