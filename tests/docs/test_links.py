"""Links of the documents lead somewhere: inside to files and headings that there are."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from docs import from_code
from tests.docs.fences import DOCS, FENCE, PAGES, ROOT

DOCUMENTS = sorted(
    {
        *PAGES,
        *ROOT.glob("*.md"),
        *(ROOT / "examples").glob("*.md"),
        *(ROOT / "schemas").glob("*.md"),
    }
)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)
TARGET = re.compile(r"^\(([\w-]+)\)=$", flags=re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")


def names(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def slug(heading: str) -> str:
    """Return the anchor of a heading, as those have it who show Markdown."""
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return what links into a document may name, with the parts that come from the code."""
    whole = FENCE.sub("", from_code.written(text))
    return {slug(words) for words in HEADING.findall(whole)} | set(TARGET.findall(whole))


def links(text: str) -> list[str]:
    """Return the targets of a document's links, but for what only looks like one in code."""
    return LINK.findall(CODE.sub("`code`", FENCE.sub("", text)))


def broken(document: Path, text: str) -> list[str]:
    """Return the links of a document that lead nowhere."""
    return [target for target in links(text) if not _leads(document, text, target)]


def _leads(document: Path, text: str, target: str) -> bool:
    parts = urlsplit(target)
    if parts.scheme:  # nobody is asked: an address can be well formed or not
        return parts.scheme == "https" and "." in parts.netloc and "@" not in parts.netloc
    path = document.parent / parts.path if parts.path else document
    if not path.exists() or not path.resolve().is_relative_to(ROOT):
        return False
    if not parts.fragment:
        return True
    there = text if path == document else path.read_text(encoding="utf-8")
    return parts.fragment in anchors(there)


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_links_have_targets(document: Path) -> None:
    assert broken(document, document.read_text(encoding="utf-8")) == []


def test_links_in_generated_parts_have_targets() -> None:
    """Of keys to forms, and of the table of mechanisms to their sections."""
    for page in (DOCS / "reference").glob("*.md"):
        text = from_code.written(page.read_text(encoding="utf-8"))
        assert broken(page, text) == [], page


@pytest.mark.parametrize(
    "link",
    [
        "[a](no-page.md)", "[a](index.md#no-heading)", "[a](#no-heading)", "![a](pictures/no.svg)",
        "[a](http://example.org)", "[a](https://localhost)", "[a](../../outside.md)",
    ],
)  # fmt: skip
def test_broken_link_is_found(link: str) -> None:
    assert broken(DOCS / "tutorial.md", link)


def test_valid_links_are_accepted() -> None:
    text = "# A heading\n[a](index.md), [b](#a-heading), [c](https://doi.org/10.1), `[d](no.md)`"
    assert broken(DOCS / "tutorial.md", text) == []
    assert len(links(text)) == 3
