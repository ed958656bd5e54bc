"""The published numbers in the page: those of the files, each with its margin and its quality."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.documents.metadata import Role, TableMetadata
from dprelease.exports.export import PublishedRelease
from dprelease.query.quality import AT_BOUND, BLANKS, SIGNS
from dprelease.release.runs.pipeline import run
from dprelease.report.facts import Facts
from dprelease.report.numbers import cells as cells_module
from dprelease.report.numbers.cells import Number, read_cells
from dprelease.report.numbers.charts import MOST_BARS, Scale, class_edges, mark_of, shade_of
from dprelease.report.numbers.numbers_section import MOST_OF_QUERY, MOST_TABLES, select_tables
from dprelease.report.numbers.panels import LARGEST, MOST_PANELS
from dprelease.report.page import page_of
from dprelease.report.words import words_in
from dprelease.schema.load import read_declaration
from tests.replay import Keyed
from tests.report.reading import HTML, SVG, parse_page, text_of
from tests.report.releases import read_release

FolderOf = Callable[[str], Path]
PageFor = Callable[[str], bytes]

NUMBER = words_in("en").number


def articles(root: Element) -> list[Element]:
    """Return the parts of a page on one table each."""
    return list(root.iter(f"{HTML}article"))


def table_rows(article: Element) -> list[list[str]]:
    """Return the cells of the table to open of one part of the page."""
    (details,) = article.iter(f"{HTML}details")
    (body,) = details.iter(f"{HTML}tbody")
    return [[text_of(cell) for cell in row] for row in body]


def shown_table_list(release: PublishedRelease) -> list[TableMetadata]:
    """Return the tables that have a part of their own, in the order of the page."""
    found = select_tables(release.metadata, Facts(release.record))
    totals = [one for one in found.totals if len(one.values) > 1]
    return [*totals, *(one for _, tables in found.pictured for one in tables)]


@pytest.mark.parametrize("name", ["several", "family", "exact", "paid", "wide"])
def test_detail_tables_have_the_published_numbers(
    name: str, folder_of: FolderOf, page_for: PageFor
) -> None:
    """Each value as the file has it, with the decimals of its column; empty cells with a sign."""
    release = read_release(folder_of(name))
    found = articles(parse_page(page_for(name)))
    tables = shown_table_list(release)
    assert len(found) == len(tables) >= 1
    for article, table in zip(found, tables, strict=True):
        rows = pq.read_table(release.folder / table.file).to_pylist()
        told = table_rows(article)
        assert len(told) == min(len(rows), 80)
        for row, cells in zip(rows, told, strict=False):
            assert cells == list(_texts(table, row, cells))


def _texts(table: TableMetadata, row: dict[str, Any], told: list[str]) -> Iterator[str]:
    """Yield the cells that a row should have; margins that no file has are as the page tells."""
    place = max(1, len(table.keys))
    keys = [str(row[key.name]) for key in table.keys]
    yield from (key.lower() if key in ("True", "False") else key for key in keys)
    if not table.keys:
        yield told[0]
    for column in table.values:
        quality = table.companion_of(column.name, Role.QUALITY)
        code = None if quality is None else row[quality.name]
        value = row[column.name]
        numeric = column.kind.startswith(("int", "double", "float", "decimal"))
        if value is None:
            yield SIGNS.get(code or "", "–")
        else:
            text = NUMBER(float(value), column.decimals) if numeric else str(value)
            yield f"{text} {SIGNS[AT_BOUND]}" if code == AT_BOUND else text
        place += 1
        if numeric:
            yield _margin_text(table, column.name, row) or told[place]
            place += 1
        if quality is not None:
            assert (value is None) == (code in BLANKS)
            yield told[place] if value is None else SIGNS.get(code, code)
            place += 1


def _margin_text(table: TableMetadata, name: str, row: dict[str, Any]) -> str:
    """Return the published margin or interval of a value as text; empty if the file has none."""
    ends = [table.companion_of(name, role) for role in (Role.LOWER, Role.UPPER)]
    if None not in ends:
        low, high = (row[end.name] for end in ends if end is not None)
        return f"{NUMBER(float(low))} to {NUMBER(float(high))}"
    margin = table.companion_of(name, Role.MARGIN)
    if margin is None or row[margin.name] is None or row[margin.name] != int(row[margin.name]):
        return ""
    return "" if row[name] is None else f"± {NUMBER(float(row[margin.name]))}"


@pytest.mark.parametrize("name", ["several", "family", "exact", "wide"])
def test_charts_have_tables_and_are_limited(
    name: str, folder_of: FolderOf, page_for: PageFor
) -> None:
    """One picture or a few for each declared table; of a family, those of one stage alone."""
    root = parse_page(page_for(name))
    found = articles(root)
    assert len(found) <= MOST_TABLES + 2 * MOST_OF_QUERY
    tables = shown_table_list(read_release(folder_of(name)))
    for article, table in zip(found, tables, strict=True):
        figures = list(article.iter(f"{HTML}figure"))
        assert bool(figures) == bool(table.keys)
        assert len(figures) <= MOST_PANELS + 1
        for figure in figures:
            assert len(list(figure.iter(f"{HTML}li"))) <= MOST_BARS
            assert any(character.isdigit() for character in text_of(figure))
    if name in ("family", "exact"):
        assert {table.name.partition("/")[0] for table in tables} == {"tables"}
    queries = {table.query for table in read_release(folder_of(name)).metadata.tables_for_readers}
    assert {table.query for table in tables} >= (queries if name != "wide" else set())


AREAS = 1200
RELEASE = """\
title: Areas
tables: [people.yaml]
budget: {{epsilon: 20}}
queries:
  areas: {{from: people, group_by: [area], columns: {{people: {{count: "*", margin: true}}}}}}
  small:
    from: people
    group_by: [kind]
    columns: {{people: {{count: "*"}}, share: {{mean: age}}}}
{more}output: out/areas
"""


@pytest.fixture(scope="module")
def areas(tmp_path_factory: pytest.TempPathFactory) -> PublishedRelease:
    """Return a release with many areas, of which few are large, and with a key of two values."""
    folder = tmp_path_factory.mktemp("areas")
    (folder / "areas.csv").write_text("code\n" + "".join(f"a{i:04d}\n" for i in range(AREAS)))
    (folder / "people.yaml").write_text(
        "table: people\nsource: people.csv\ncolumns:\n"
        "  area: {type: category, values_from: {file: areas.csv, column: code}}\n"
        "  kind: {type: category, values: [big, none]}\n"
        "  age: {type: integer, lower: 0, upper: 99, unit: years}\n"
    )
    rows = [f"a{min(AREAS - 1, int(AREAS / (1 + i))):04d},big,{i % 99}\n" for i in range(3000)]
    (folder / "people.csv").write_text("area,kind,age\n" + "".join(rows))
    (folder / "release.yaml").write_text(RELEASE.format(more=""))
    return read_release(run(read_declaration(folder / "release.yaml"), bits=Keyed("areas")))


@pytest.mark.parametrize("whole", [AREAS, 100])
def test_largest_of_many_areas_are_drawn(
    whole: int, areas: PublishedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the table is read as a whole or batch by batch."""
    monkeypatch.setattr(cells_module, "MOST_WHOLE", whole)
    article = articles(parse_page(page_of(areas)))[0]
    (table,) = (one for one in areas.metadata.tables if one.name == "areas")
    values = pq.read_table(areas.folder / table.file)["people"].to_pylist()
    bars, spread = list(article.iter(f"{HTML}figure"))[:2]
    drawn = [_of_class(row, "number") for row in bars.iter(f"{HTML}li")]
    largest = sorted(values, reverse=True)[:LARGEST]
    assert [text.split()[0] for text in drawn] == [NUMBER(value) for value in largest]
    counts = [_of_class(row, "number") for row in spread.iter(f"{HTML}li")]
    assert sum(int(count.replace(",", "")) for count in counts) == AREAS
    assert len(counts) <= MOST_BARS
    cells = read_cells(areas, Facts(areas.record), table, 200)
    assert cells.is_whole == (whole == AREAS)
    assert cells.size == AREAS
    if whole < AREAS:
        held = [row.numbers[0].value for row in cells.rows]
        assert sorted(held, reverse=True) == sorted(values, reverse=True)[:200]


def _of_class(element: Element, name: str) -> str:
    """Return the text of the element of a class."""
    return text_of(next(one for one in element.iter() if one.attrib.get("class") == name))


def test_unreliable_numbers_are_faded(areas: PublishedRelease) -> None:
    """A mean of nobody has no value that could be quoted, and the page says so where it stands."""
    root = parse_page(page_of(areas))
    (table,) = (one for one in areas.metadata.tables if one.name == "small")
    rows = pq.read_table(areas.folder / table.file).to_pylist()
    article = articles(root)[-1]
    codes = [row["share_quality"] for row in rows]
    assert codes[0] == "A"
    assert codes[1] != "A"
    figure = list(article.iter(f"{HTML}figure"))[1]
    items = list(figure.iter(f"{HTML}li"))
    for item, code, row in zip(items, codes, rows, strict=True):
        (mark,) = item.iter(f"{SVG}svg")
        assert ("faded" in mark.attrib["class"]) == (code in ("D", "at_bound"))
        assert bool(list(mark.iter(f"{SVG}rect"))) == (row["share"] is not None)
        assert SIGNS.get(code, code) in _of_class(item, "number")
    legend = next(one for one in root.iter() if one.attrib.get("class") == "legend")
    signs = [text_of(one).split()[0] for one in legend.iter(f"{HTML}li")]
    published = {
        code
        for one in areas.metadata.tables
        for column in one.columns
        if column.role == Role.QUALITY
        for code in pq.read_table(areas.folder / one.file)[column.name].to_pylist()
    }
    assert {SIGNS.get(code, code) for code in codes} <= {*signs}
    assert {*signs} <= {SIGNS.get(code, code) for code in published}


def test_labels_in_the_requested_language(areas: PublishedRelease) -> None:
    """Labels stand in place of codes in pictures, and before codes in tables."""
    tables = []
    for table in areas.metadata.tables:
        columns = []
        for column in table.columns:
            codes = column.codes
            if column.name == "kind" and codes is not None:
                labels = {"big": {"en": "All", "fr": "Tous"}, "none": {"en": "No", "fr": "Nul"}}
                codes = replace(codes, labels=labels)
            columns.append(replace(column, codes=codes))
        tables.append(replace(table, columns=tuple(columns)))
    metadata = replace(areas.metadata, languages=("en", "fr"), tables=tuple(tables))
    root = parse_page(page_of(replace(areas, metadata=metadata), language="fr"))
    article = articles(root)[-1]
    assert [row[0] for row in table_rows(article)] == ["Tous (big)", "Nul (none)"]
    figures = article.iter(f"{HTML}figure")
    assert not any("none" in text_of(figure) for figure in figures)
    assert "All" not in text_of(article)


def test_report_without_quality_columns(areas: PublishedRelease) -> None:
    tables = [
        replace(table, columns=tuple(c for c in table.columns if c.role != Role.QUALITY))
        for table in areas.metadata.tables
    ]
    metadata = replace(areas.metadata, tables=tuple(tables))
    root = parse_page(page_of(replace(areas, metadata=metadata)))
    assert not [one for one in root.iter() if one.attrib.get("class") == "legend"]
    assert len(articles(root)) == 2


def test_columns_of_one_unit_share_a_chart(tmp_path: Path) -> None:
    """Deciles are read together: as bars of the whole, and as one heat table by group."""
    (tmp_path / "people.yaml").write_text(
        "table: people\nsource: people.csv\ncolumns:\n"
        "  kind: {type: category, values: [big, none]}\n"
        "  day: {type: date, lower: 2024-01-01, upper: 2024-01-20}\n"
        "  age: {type: integer, lower: 0, upper: 99, unit: years}\n"
    )
    rows = [f"{('big', 'none')[i % 2]},2024-01-{1 + i % 20:02d},{i % 99}\n" for i in range(500)]
    (tmp_path / "people.csv").write_text("kind,day,age\n" + "".join(rows))
    deciles = ", ".join(f"p{i}: {{quantile: {{of: age, at: 0.{i}}}}}" for i in range(1, 10))
    (tmp_path / "release.yaml").write_text(
        "title: Deciles\ntables: [people.yaml]\nbudget: {epsilon: 20}\nqueries:\n"
        f"  all: {{from: people, columns: {{{deciles}, people: {{count: '*'}}}}}}\n"
        f"  kinds: {{from: people, group_by: [kind], columns: {{{deciles}}}}}\n"
        "  days: {from: people, group_by: [day], columns: {people: {count: '*'}}}\n"
        "output: out/deciles\n"
    )
    folder = run(read_declaration(tmp_path / "release.yaml"), bits=Keyed("deciles"))
    root = parse_page(page_of(read_release(folder)))
    whole, kinds, days = articles(root)
    (bars,) = whole.iter(f"{HTML}figure")
    (row,) = pq.read_table(folder / "all.parquet").to_pylist()
    drawn = [_of_class(one, "number").split()[0] for one in bars.iter(f"{HTML}li")]
    assert drawn == [NUMBER(row[f"p{i}"]) for i in range(1, 10)]
    (heat,) = kinds.iter(f"{HTML}figure")
    (body,) = heat.iter(f"{HTML}tbody")
    found = pq.read_table(folder / "kinds.parquet").to_pylist()
    for line, held in zip(body, found, strict=True):
        told = [text_of(cell) for cell in line]
        assert told[0] == held["kind"]
        assert all(text.startswith(NUMBER(held[f"p{i + 1}"])) for i, text in enumerate(told[1:]))
    (columns,) = days.iter(f"{HTML}figure")
    assert columns.attrib["class"] == "columns"
    assert len(list(columns.iter(f"{SVG}g"))) == 20
    figures = next(one for one in root.iter() if one.attrib.get("class") == "figures")
    assert len(list(figures)) == 1


@pytest.mark.parametrize(
    "values",
    [[0.0], [5.0, 5.0], [-3.0, 8.0], [1.0, 1e9], [-1e-3, 2e-3], [0.0, -7.0]],
)
def test_marks_are_within_the_scale_and_sorted(values: list[float]) -> None:
    numbers = [Number(value, 2.0, value - 2.0, value + 2.0) for value in values]
    scale = Scale.around([*numbers, Number(None)])
    for number in numbers:
        mark = mark_of(number, scale)
        start, width = (float(text.removesuffix("%")) for text in (mark.start, mark.width))
        assert start >= -1.0
        assert start + width <= 101.1
        zero, at = scale.part(0.0), scale.part(float(number.value))
        assert math.isclose(width, abs(at - zero), abs_tol=0.011)
        assert float(mark.low.removesuffix("%")) <= float(mark.high.removesuffix("%"))
    assert not mark_of(Number(None), scale).has_bar


@pytest.mark.parametrize(
    "values",
    [[3.0], [0.0] * 5, [-5.0, 5.0], [1.0] * 50 + [45_603.0], [-9.0, 2.0, 3.0, 70_000.0],
     list(range(1000)), [0.1, 0.25, 0.4], [1e-9, 3e12]],
)  # fmt: skip
def test_histogram_classes_cover_every_value(values: list[float]) -> None:
    edges = class_edges(values)
    assert edges == sorted(set(edges))
    assert 1 <= len(edges) - 1 <= MOST_BARS
    counts, _ = np.histogram(values, bins=np.asarray(edges))
    assert counts.sum() == len(values)
    assert max(values) < edges[-1]


def test_larger_values_are_darker() -> None:
    shades = [shade_of(value, 100.0) for value in (-1.0, 0.0, 1.0, 10.0, 30.0, 60.0, 100.0)]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (0, 6)
    assert shade_of(None, 100.0) == 0
