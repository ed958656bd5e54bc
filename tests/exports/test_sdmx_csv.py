"""SDMX-CSV and its structures: pysdmx, DuckDB and pandas read every value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pysdmx.io import get_datasets, read_sdmx
from pysdmx.model import Codelist, DataStructureDefinition

from dprelease.documents.metadata import (
    About,
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
)
from dprelease.documents.metadata import code_text as plain
from dprelease.exports.export import PublishedRelease
from dprelease.exports.sdmx.sdmx_cubes import RESERVED, component_id, cubes_of, decode_id
from dprelease.exports.sdmx_csv import EXPORT, texts_of
from dprelease.tables import formats
from tests.exports import full_release

Row = Mapping[str, Any]
STRUCTURE = "sdmx-csv/structure.xml"
NAMES = {
    "str": "http://www.sdmx.org/resources/sdmxml/schemas/v3_0/structure",
    "com": "http://www.sdmx.org/resources/sdmxml/schemas/v3_0/common",
}
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
BESIDE = {
    "MARGIN_OF_ERROR": "_moe",
    "STANDARD_ERROR": "_se",
    "LOWER_BOUND": "_lower",
    "UPPER_BOUND": "_upper",
    "VALUE_LABEL": "_label",
    "ADJUSTED": "_adjusted",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PublishedRelease:
    return full_release.publish_release(tmp_path_factory.mktemp("sdmx"))


@pytest.fixture(scope="module")
def folder(release: PublishedRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdmx written")
    files = EXPORT.write(release, out)
    assert sorted(files) == sorted(str(p.relative_to(out)) for p in out.rglob("*.*"))
    return out


def by_duckdb(path: Path, _structure: Path) -> list[Row]:
    found = duckdb.sql(f"FROM read_csv('{path}', all_varchar = true, header = true)")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def by_pandas(path: Path, _structure: Path) -> list[Row]:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    rows = frame.to_dict("records")
    return [{name: text or None for name, text in row.items()} for row in rows]


def by_pysdmx(path: Path, structure: Path) -> list[Row]:
    (found,) = get_datasets(path, structure)
    rows = found.data.to_dict("records")
    return [{name: _text(value) for name, value in row.items()} for row in rows]


def _text(value: Any) -> str | None:
    """Return a cell as text; pysdmx (1.21) reads codes such as true as booleans."""
    if pd.isna(value) or value == "":
        return None
    return plain(value).lower() if value in ("True", "False") else plain(value)


READERS = [by_duckdb, by_pandas, by_pysdmx]


def observations(release: PublishedRelease) -> Iterator[tuple[str, dict[tuple[str, ...], Row]]]:
    """Yield each cube with its cells as the Parquet tables have them, one by one."""
    for cube in cubes_of(release.metadata, None):
        table = pq.read_table(release.folder / cube.table.file).to_pylist()
        cells = {}
        for row in table:
            keys = [plain(row[key.name]) for key in cube.table.keys]
            for value in cube.values:
                cells[*keys, value.name] = {"column": value.name, **row}
        yield cube.id, cells


@pytest.mark.parametrize("read", READERS)
def test_sdmx_readers_find_every_value(
    read: Callable[[Path, Path], list[Row]], release: PublishedRelease, folder: Path
) -> None:
    close = approximately if read is by_pysdmx else lambda x: x
    several = 0
    for name, cells in observations(release):
        rows = read(folder / "sdmx-csv" / f"{name}.csv", folder / STRUCTURE)
        (table,) = [cube.table for cube in cubes_of(release.metadata, None) if cube.id == name]
        keys = [component_id(key.name) for key in table.keys]
        found = {(*(decode_id(row[key]) for key in keys), row["MEASURE"]): row for row in rows}
        assert list(found) == list(cells)
        assert len(rows) == len(cells)
        for place, row in found.items():
            there = cells[place]
            column = there["column"]
            assert number(row["OBS_VALUE"], there[column]) == close(there[column])
            for attribute, end in BESIDE.items():
                wanted = there.get(column + end)
                assert number(row.get(attribute), wanted) == close(wanted)
            several += 1
    assert several > 140


def approximately(value: Any) -> Any:
    """Return what a reader that parses floats quickly may make of a value."""
    return pytest.approx(value, rel=1e-15) if isinstance(value, float) else value


def number(text: str | None, like: Any) -> Any:
    """Return a text as a value of the kind of another one; None for None."""
    if text is None or like is None:
        return text
    if isinstance(like, bool):
        return {"true": True, "false": False}[text]
    if isinstance(like, str):
        return decode_id(text)
    return int(float(text)) if isinstance(like, int) else type(like)(text)


def test_sdmx_statuses_of_empty_and_unreliable_cells(
    release: PublishedRelease, folder: Path
) -> None:
    """Left empty by the rule, missing without one, unreliable, and all others."""
    seen = set()
    for name, cells in observations(release):
        rows = by_duckdb(folder / "sdmx-csv" / f"{name}.csv", folder / STRUCTURE)
        for (place, there), row in zip(cells.items(), rows, strict=True):
            column = there["column"]
            quality = there.get(f"{column}_quality")
            wanted = ("U" if quality in ("D", "at_bound") else "A", "F")
            if there[column] is None:
                wanted = ("Q", "N") if column == "n" else ("O", "F")
            assert (row["OBS_STATUS"], row["CONF_STATUS"]) == wanted, place
            assert row.get("QUALITY") == quality, place
            seen.add(wanted)
    assert seen == {("A", "F"), ("U", "F"), ("Q", "N"), ("O", "F")}


def test_sdmx_constants_of_a_measure(release: PublishedRelease, folder: Path) -> None:
    rows = by_duckdb(folder / "sdmx-csv/by_area.csv", folder / STRUCTURE)
    names = ("MEASURE", "CONFIDENCE_LEVEL", "UNIT_MEASURE", "DECIMALS")
    assert {tuple(row[name] for name in names) for row in rows} == {
        ("n", "0.9", "rows", None),
        ("pay", "0.95", "EUR", None),
        ("paid", "0.95", "EUR", "1"),
        ("coded", None, "rows", None),
    }
    first = [rows[0][name] for name in ("STRUCTURE", "STRUCTURE_ID", "ACTION", "TIME_PERIOD")]
    assert first == ["dataflow", "Office_of_Statistics:by_area(1.2.0)", "I", "2024"]


def test_sdmx_structures_are_valid_and_complete(release: PublishedRelease, folder: Path) -> None:
    """By the XML Schema of the standard; columns of files are components, and values codes."""
    message = read_sdmx(folder / STRUCTURE, validate=True)
    definitions = [s for s in message.structures if isinstance(s, DataStructureDefinition)]
    lists = {s.id: {c.id for c in s.items} for s in message.structures if isinstance(s, Codelist)}
    assert len(definitions) == len(list(cubes_of(release.metadata, None)))
    coded = 0
    for definition in definitions:
        rows = by_duckdb(folder / "sdmx-csv" / f"{definition.id}.csv", folder / STRUCTURE)
        names = [component.id for component in definition.components]
        assert sorted(names) == sorted(set(rows[0]) - {"STRUCTURE", "STRUCTURE_ID", "ACTION"})
        for component in definition.components:
            if component.local_codes is not None:
                coded += 1
                there = {row[component.id] for row in rows} - {None}
                assert there <= lists[component.local_codes.id]
    assert coded > 40


def test_sdmx_has_labels_in_every_language(release: PublishedRelease, folder: Path) -> None:
    root = ElementTree.parse(folder / STRUCTURE).getroot()
    told = {(found.get(LANG), found.text) for found in root.iter() if found.get(LANG)}
    wanted = set()
    for table in release.metadata.tables_for_readers:
        if table.values:
            wanted |= {told for note in table.footnotes for told in note.items()}
            wanted |= {*table.label.items(), *table.description.items()}
            for column in (*table.keys, *table.values):
                wanted |= set(column.label.items())
                labels = column.codes.labels.values() if column.codes else ()
                wanted |= {told for label in labels for told in label.items()}
    assert len(wanted) > 50
    assert wanted <= told


def test_sdmx_codes_keep_their_values(folder: Path) -> None:
    root = ElementTree.parse(folder / STRUCTURE).getroot()
    codes = root.findall(".//str:Codelist[@id='CL_area']/str:Code", NAMES)
    title = "com:Annotations/com:Annotation[com:AnnotationType='VALUE']/com:AnnotationTitle"
    values = [code.findtext(title, code.get("id"), NAMES) for code in codes]
    assert values == full_release.AREAS


def test_sdmx_bytes_do_not_depend_on_batches(
    release: PublishedRelease, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BATCH_ROWS", 3)
    for file in EXPORT.write(release, tmp_path):
        assert (tmp_path / file).read_bytes() == (folder / file).read_bytes()


def change_column(
    metadata: Metadata, name: str, change: Callable[[ColumnMetadata], Any]
) -> Metadata:
    """Return metadata in which one column of the first table is another."""
    first, *others = metadata.tables
    columns = tuple(change(c) if c.name == name else c for c in first.columns)
    return replace(metadata, tables=(replace(first, columns=columns), *others))


@pytest.mark.each
@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("writing", [str.lower, str.upper, str.title])
def test_reserved_key_names_are_refused(
    release: PublishedRelease, name: str, writing: Callable[[str], str]
) -> None:
    other = change_column(release.metadata, "area", lambda c: replace(c, name=writing(name)))
    (found,) = EXPORT.problems(other)
    assert (found.table, found.column) == ("by_area", writing(name))


@pytest.mark.parametrize("name", ["n", "action", "measure", "OBS_VALUE"])
def test_sdmx_measures_may_have_any_name(release: PublishedRelease, name: str) -> None:
    """They are codes of MEASURE, which reserves none."""
    other = change_column(release.metadata, "n", lambda c: replace(c, name=name))
    assert list(EXPORT.problems(other)) == []


def test_sdmx_accepts_other_columns(release: PublishedRelease) -> None:
    assert list(EXPORT.problems(release.metadata)) == []


def test_different_labels_of_a_key_get_own_concepts(
    release: PublishedRelease, tmp_path: Path
) -> None:
    """Tables with other labels or codes of a key have their own concepts and lists."""
    other = change_column(
        release.metadata,
        "Größe",
        lambda c: replace(c, label={"en": "Height"}, codes=CodeList(("klein", "groß", "?"))),
    )
    EXPORT.write(replace(release, metadata=other), tmp_path)
    message = read_sdmx(tmp_path / STRUCTURE, validate=True)
    told = {}
    for definition in message.structures:
        if isinstance(definition, DataStructureDefinition):
            for component in definition.components:
                if component.id.startswith("Gr_"):
                    codes = [code.name for code in component.local_codes.items]
                    told[definition.id] = (component.concept.name, codes)
    assert told.pop("by_area") == ("Height", ["klein", "groß", "?"])
    assert set(map(str, told.values())) == {
        str(("Größe", ["small <en> & 'it'", "tall <en> & 'it'"]))
    }


HOSTILE = "]]><script>alert(1)</script> & \"q\" 'p' \x01\x0b\ufffe =HYPERLINK() \u202e"


def test_sdmx_timestamps_follow_xml_schema() -> None:
    times = pa.array([datetime(2024, 2, 29, 23, 59, 1), None], pa.timestamp("us"))
    assert texts_of(times) == ["2024-02-29T23:59:01", None]


def test_hostile_sdmx_labels_are_texts(release: PublishedRelease, tmp_path: Path) -> None:
    other = change_column(
        release.metadata,
        "area",
        lambda c: replace(c, label={"en": HOSTILE}, codes=CodeList((HOSTILE, *full_release.AREAS))),
    )
    EXPORT.write(replace(release, metadata=other), tmp_path)
    read_sdmx(tmp_path / STRUCTURE, validate=True)
    root = ElementTree.parse(tmp_path / STRUCTURE).getroot()
    shown = HOSTILE.replace("\x01", "\ufffd").replace("\x0b", "\ufffd").replace("\ufffe", "\ufffd")
    assert root.findtext(".//str:Concept[@id='area']/com:Name", None, NAMES) == shown
    code = root.find(".//str:Codelist[@id='CL_area']/str:Code", NAMES)
    assert decode_id(code.get("id")) == HOSTILE


def test_release_without_metadata_is_valid_sdmx(release: PublishedRelease, tmp_path: Path) -> None:
    """No agency, period, label or unit: still valid, and no field is invented."""
    tables = tuple(
        TableMetadata(
            t.name, t.file, t.query, tuple(map(without_labels, t.columns)), t.rows, t.measured
        )
        for t in release.metadata.tables
    )
    about = About("A title")
    said = Metadata(about, ("en",), tables)
    EXPORT.write(replace(release, metadata=said), tmp_path)
    message = read_sdmx(tmp_path / STRUCTURE, validate=True)
    assert {s.agency for s in message.structures} == {"SDMX", "UNSPECIFIED"}
    header = (tmp_path / "sdmx-csv/by_area.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "TIME_PERIOD" not in header
    assert "UNIT_MEASURE" not in header
    (found,) = get_datasets(tmp_path / "sdmx-csv/by_area.csv", tmp_path / STRUCTURE)
    assert set(found.data["area"]) == set(full_release.AREAS)


def without_labels(column: ColumnMetadata) -> ColumnMetadata:
    codes = column.codes if column.role is Role.VALUE else None
    return ColumnMetadata(column.name, column.kind, column.role, column.of, codes=codes)
