"""The page is valid, accessible, reproducible, small, and without foreign code."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dprelease.documents.metadata import About, CodeList, Metadata, TableMetadata
from dprelease.errors import InternalError
from dprelease.exports.export import PublishedRelease
from dprelease.report import page as page_module
from dprelease.report.facts import Checks
from dprelease.report.page import MOST_BYTES, page_of
from dprelease.report.words import en
from tests import processes
from tests.report.reading import (
    HEADS,
    HTML,
    SVG,
    XLINK,
    colour_schemes,
    contrast,
    named_by,
    parse_page,
    shape_of,
    text_of,
)
from tests.report.releases import KINDS, read_release

TITLES = (f"{HTML}figcaption", f"{HTML}caption")
READABLE = (
    ("--ink", "--paper", "--tint", "--s1", "--s2", "--s3", "--s4"),
    ("--muted", "--paper", "--tint"),
    ("--link", "--paper"),
    ("--deep", "--s5", "--s6"),
    *((f"--{letter}-ink", f"--{letter}") for letter in "abcd"),
)
"""Colours of texts, each with the colours that are behind it."""

FolderOf = Callable[[str], Path]
PageFor = Callable[[str], bytes]


@pytest.mark.share(0.3)
@pytest.mark.parametrize("name", KINDS)
def test_page_is_valid_and_accessible(name: str, page_for: PageFor) -> None:
    root = parse_page(page_for(name))
    html = root if root.tag == f"{HTML}html" else next(root.iter(f"{HTML}html"))
    assert html.attrib["lang"] == "en"
    ids = [one.attrib["id"] for one in root.iter() if "id" in one.attrib]
    assert len(ids) == len(set(ids))
    for one in root.iter():
        for name_of_other in one.attrib.get("aria-labelledby", "").split():
            assert name_of_other in ids
        target = one.attrib.get("href", one.attrib.get(XLINK, "#report"))
        assert target[0] == "#"
        assert target[1:] in ids
        assert not {"src", "srcset", "style", "action"} & one.attrib.keys()
        assert not any(str(key).startswith("on") for key in one.attrib)
    for landmark in ("header", "nav", "main", "footer"):
        assert len(list(root.iter(f"{HTML}{landmark}"))) == 1
    levels = [HEADS.index(one.tag) for one in root.iter() if one.tag in HEADS]
    assert levels.count(0) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    assert all(text_of(one) for one in root.iter() if one.tag in HEADS)
    regions = [one for one in root.iter() if one.attrib.get("role") == "region"]
    names = [named_by(root, one) for one in (*regions, *root.iter(f"{HTML}section"))]
    assert all(names)
    assert len(names) == len(set(names))
    assert not {f"{HTML}script", f"{HTML}img", f"{HTML}iframe", f"{HTML}object"} & {
        one.tag for one in root.iter()
    }
    assert not list(root.iter(f"{SVG}style"))


@pytest.mark.parametrize("name", KINDS)
def test_charts_and_tables_have_captions(name: str, page_for: PageFor) -> None:
    root = parse_page(page_for(name))
    pictures = list(root.iter(f"{SVG}svg"))
    assert len(pictures) >= 2
    for one in pictures:
        assert one.attrib["role"] == "img"
        assert re.search("[0-9]", named_by(root, one)) or "mark" in one.attrib["class"]
        assert named_by(root, one)
        assert "viewBox" not in one.attrib  # which would scale texts
        for mark in one.iter():
            for place in ("x", "x1", "x2", "cx"):
                held = mark.attrib.get(place, "0")
                assert held == "0" or -1.0 <= float(held.removesuffix("%")) <= 101.0
    for figure in root.iter(f"{HTML}figure"):
        assert text_of(next(one for one in figure.iter() if one.tag in TITLES))
    for table in root.iter(f"{HTML}table"):
        assert text_of(next(table.iter(f"{HTML}caption")))
        heads = next(table.iter(f"{HTML}thead"))
        columns = len(list(heads.iter(f"{HTML}th")))
        assert {one.attrib["scope"] for one in heads.iter(f"{HTML}th")} == {"col"}
        for row in next(table.iter(f"{HTML}tbody")).iter(f"{HTML}tr"):
            assert len(list(row)) == columns
            assert row[0].attrib["scope"] == "row"


def test_contrast_in_light_and_dark_mode(page_for: PageFor) -> None:
    """Each colour of a text on each colour behind it, with the contrast that WCAG asks for."""
    for colours in colour_schemes(parse_page(page_for("several"))):
        for text, *behind in READABLE:
            for name in behind:
                assert contrast(colours[text], colours[name]) >= 4.5, (text, name)


@pytest.mark.parametrize("name", ["several", "family"])
def test_page_is_reproducible(name: str, folder_of: FolderOf, page_for: PageFor) -> None:
    """A second time, and with another order of sets in another process."""
    folder = folder_of(name)
    assert page_of(read_release(folder)) == page_for(name)
    if name == "several":
        code = (
            "import sys; from pathlib import Path; from tests.report.releases import read_release;"
            "from dprelease.report.page import page_of;"
            f"sys.stdout.buffer.write(page_of(read_release(Path({str(folder)!r}))))"
        )
        done = processes.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True,
            check=True, env={"PYTHONHASHSEED": "7", "PATH": ""},
        )  # fmt: skip
        assert done.stdout == page_for(name)


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "style": "</style></title></caption><style>*{display:none}</style>",
    "svg": "</text></svg><svg onload=alert(1)><a xlink:href='javascript:x'>",
    "attributes": "\" onmouseover=\"x\" ' onfocus='x' autofocus=",
    "template": "{{ 7*7 }} {% raw %} {0} {name} %s $x$",
    "entities": "&amp;&lt;script&gt;&#0; ]]> <!-- -->",
    "bidi": "a \u202eb\u2066c\u200fd \u0007\u001b[31m",
    "joined": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \ue000 \U0001f469\u200d\U0001f469",
    "wide": "\u6771\u4eac" * 200,
    "long": "x" * 100_000,
    "lines": "one\ntwo\r\nthree",
}
"""Labels of people who mean harm, or who write in other ways."""

FORBIDDEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f]"
)


def metadata_with_text(metadata: Metadata, text: str) -> Metadata:
    """Return metadata in which every text is this one."""
    said = {"en": text}

    def table_of(table: TableMetadata) -> TableMetadata:
        columns = tuple(
            replace(
                column, label=said, description=said, footnotes=(said,), unit=text,
                codes=None if column.codes is None
                else CodeList(column.codes.values, dict.fromkeys(column.codes.values, said)),
            )
            for column in table.columns
        )  # fmt: skip
        return replace(
            table, label=said, description=said, footnotes=(said,), columns=columns, query=text
        )

    about = About(text, text, text, text, text, text, text, text, text, said, (said, said), said)
    return Metadata(about, ("en",), tuple(map(table_of, metadata.tables)))


PLAIN: dict[str, Counter[tuple[Any, ...]]] = {}
"""The elements of a release's page whose labels mean no harm."""


def with_labels(release: PublishedRelease, text: str) -> bytes:
    """Return the page of a release in which every text is this one."""
    labels = metadata_with_text(release.metadata, text)
    return page_of(replace(release, metadata=labels), checks=Checks((text,), (text,)))


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("name", "case"),
    [
        *(("paid", case) for case in HOSTILE),
        *(("several", c) for c in ("attributes", "bidi", "long")),
    ],
)
def test_labels_are_escaped(name: str, case: str, folder_of: FolderOf) -> None:
    """The page has the elements that it has with any other labels, and is no larger than it may."""
    release, text = read_release(folder_of(name)), HOSTILE[case]
    if name not in PLAIN:
        PLAIN[name] = shape_of(parse_page(with_labels(release, "plain")))
    page = with_labels(release, text)
    assert len(page) <= MOST_BYTES
    root = parse_page(page)
    assert shape_of(root) == PLAIN[name]
    assert not FORBIDDEN.search(page.decode().replace("\n", ""))
    told = text_of(next(root.iter(f"{HTML}main")))
    assert text.split()[0][:12] in told
    if case == "bidi":
        assert "\\u202e" in told
    if case == "joined":
        assert "\u06cc\u200c\u062e" in told


def test_labels_have_language_attributes(folder_of: FolderOf) -> None:
    """In the language that was asked for, and in the first one where that has none."""
    release = read_release(folder_of("several"))
    tables = [
        replace(table, label={"en": "The two", "fr": "Les deux"} if i else {"en": "Only English"})
        for i, table in enumerate(release.metadata.tables)
    ]
    metadata = replace(release.metadata, languages=("en", "fr"), tables=tuple(tables))
    root = parse_page(page_of(replace(release, metadata=metadata), language="fr"))
    marked = {(text_of(one), one.attrib.get("lang")) for one in root.iter(f"{HTML}bdi")}
    assert {("Les deux", "fr"), ("Only English", "en"), ("people", None)} <= marked
    assert "The two" not in text_of(root)


def test_many_tables_are_summarized(page_for: PageFor, folder_of: FolderOf) -> None:
    page = page_for("wide")
    tables = len(list(read_release(folder_of("wide")).metadata.tables_for_readers))
    assert tables > 200
    assert len(page) < 200_000
    assert en.SENTENCES["page.shortened"] in page.decode()
    root = parse_page(page)
    rows = [len(list(one.iter(f"{HTML}tr"))) for one in root.iter(f"{HTML}table")]
    assert max(rows) <= page_module.ROWS[0] + 1


def test_large_page_gets_shorter_tables(
    folder_of: FolderOf, page_for: PageFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, whole = read_release(folder_of("family")), page_for("family")
    monkeypatch.setattr(page_module, "ROWS", (page_module.ROWS[0], 3))
    monkeypatch.setattr(page_module, "MOST_BYTES", len(whole) - 1)
    shorter = page_of(release)
    assert len(shorter) < len(whole)
    parse_page(shorter)
    monkeypatch.setattr(page_module, "MOST_BYTES", 10_000)
    with pytest.raises(InternalError):
        page_of(release)


SOURCES = sorted((Path(page_module.__file__).parent).rglob("*"))
SENTENCES = Path(page_module.__file__).parent / "words" / "en"


def test_every_sentence_is_used_and_defined() -> None:
    """Names are written out, or begin with what a kind of picture or a part of the page is called."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in SOURCES
        if path.suffix in (".py", ".html") and not path.is_relative_to(SENTENCES)
    ]
    text = "\n".join(texts)
    for name in {name.removesuffix(".one") for name in en.SENTENCES}:
        start, _, last = name.rpartition(".")
        found = f'"{name}"' in text or f"'{name}'" in text
        kind = last in ("title", "caption") and f'"{start}"' in text
        part = start in ("about", "made.head", "label", "margin", "quality", "made") and re.search(
            rf"""["']({last}|{start})["']""", text
        )
        assert found or kind or part or f"{start}." in text, name
    said = re.findall(r"""(?:say|plain|many)\(\s*["']([a-z_.]+)["']""", text)
    assert len(said) > 100
    assert [name for name in said if not name.endswith(".") and name not in en.SENTENCES] == []


@pytest.mark.parametrize("name", en.SENTENCES)
def test_sentences_are_well_formed(name: str) -> None:
    """Whatever stands in their places: each is a name, and tags are closed."""
    text = en.SENTENCES[name]
    places = re.findall(r"\{([^}]*)\}", text)
    assert all(place.isidentifier() for place in places), text
    assert text.format(**dict.fromkeys(places, "x"))
    tags = re.findall(r"<(/?)(\w+)>", text)
    assert text.count("<") == len(tags)
    assert [tag for _, tag in tags[::2]] == [tag for _, tag in tags[1::2]]
