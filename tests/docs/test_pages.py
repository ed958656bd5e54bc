"""Whatever the manual shows is run as it stands there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dprelease.errors import DpReleaseError
from tests.docs.fences import DOCS, PAGES, RUN, SHOWN, Block, blocks
from tests.docs.reader import Reader, added, commands, looks_like

FIRST = DOCS / "how-to" / "first-release.md"
"""Whose files the other guides build on."""

ELSEWHERE = {"architecture.md", "formats-of-publication.md", "tables-that-agree.md"}
"""Pages whose blocks are run by other tests, or are parts of examples that they run."""

OWN = {"tutorial.md": DOCS.parent / "examples" / "nist_acs"}
"""Pages about an example, in a copy of its folder."""


SLOW = {"how-to/audit.md"}
"""Pages that are run in audits alone: of an audit of a whole release, which other tests have."""


def names(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


def is_run(page: Path) -> bool:
    """Return whether a page has blocks to run."""
    found = blocks(page.read_text(encoding="utf-8"))
    return names(page) not in ELSEWHERE and any(block.language in RUN for block in found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a reader."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.share(0.1)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=names(page), marks=[pytest.mark.audit] * (names(page) in SLOW))
        for page in PAGES
        if is_run(page)
    ],
)
def test_blocks_of_a_page_run_as_shown(page: Path, folder: Path) -> None:
    """Every block in order, in one folder, after the files of the first guide."""
    reader = Reader(folder)
    example = OWN.get(names(page))
    if example is not None:
        shutil.copytree(
            example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("out", "*.ipynb")
        )
    elif page.parent.name == "how-to" and page != FIRST:
        for block in blocks(FIRST.read_text(encoding="utf-8")):
            if block.file is not None:
                reader.follow(block)
    for block in blocks(page.read_text(encoding="utf-8")):
        reader.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_languages_are_known(page: Path) -> None:
    """A block is run, or of a kind that is only shown: no block is skipped by a misspelt name."""
    found = {block.language for block in blocks(page.read_text(encoding="utf-8"))}
    assert found <= RUN | SHOWN


def test_pages_are_found() -> None:
    run = {names(page) for page in PAGES if is_run(page)}
    assert {"tutorial.md", "how-to/sums.md", "how-to/pandas.md", "how-to/spark.md"} <= run
    assert len(run) > 25


BROKEN = {
    "a command that there is not": Block("console", "$ dprelease chek release.yaml\n", 1),
    "an output that it has not": Block("console", "$ dprelease --version\nnothing\n", 1),
    "a failing program": Block("console", "$ false\n", 1),
    "an unknown key": Block("yaml", "# in release.yaml\nbudgt: 1\n", 1, "release.yaml", True),
    "a name that there is not": Block("python", "import dprelease\ndprelease.nothing\n", 1),
    "a column that there is not": Block("sql", "SELECT SUM(wage) FROM people", 1),
    "a file without a name": Block("yaml", "title: T\n", 1),
}


def follow(reader: Reader, *these: Block) -> None:
    for block in these:
        reader.follow(block)


@pytest.mark.share(0.25)
@pytest.mark.parametrize("kind", BROKEN)
def test_wrong_blocks_are_found(kind: str, folder: Path) -> None:
    reader = Reader(folder)
    for block in blocks(FIRST.read_text(encoding="utf-8")):
        if block.file is not None:
            reader.follow(block)
    checked = Block("console", "$ dprelease check release.yaml\n", 1)
    reader.follow(checked)
    with pytest.raises((AssertionError, AttributeError, DpReleaseError)):
        follow(reader, BROKEN[kind], checked)


def test_parts_of_files_are_merged() -> None:
    whole = {"budget": {"epsilon": "1"}, "queries": {"a": {"from": "t", "columns": {"n": {}}}}}
    part = {"budget": {"rho": "1"}, "queries": {"a": {"columns": {"m": {}}}, "b": {}}}
    assert added(whole, part) == {
        "budget": {"rho": "1"},
        "queries": {"a": {"from": "t", "columns": {"n": {}, "m": {}}}, "b": {}},
    }


def test_commands_are_separated_from_outputs() -> None:
    text = "$ one \\\n    two   # why\nout\n$ three\n"
    assert commands(text) == [("one      two", "out\n"), ("three", "")]
    assert looks_like("a  b\nc\n", "a b\n")
    assert looks_like("x\na b\n", "...\na b")
    assert not looks_like("a c\n", "a b")
