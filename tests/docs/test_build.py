"""Sphinx builds the manual without a warning, and what it builds needs no other machine."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from docs.pictures import tutorial
from tests import processes
from tests.docs.fences import PAGES, ROOT

FOREIGN = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"(?:https?:)?//")
DRAWN_BY = re.compile(r"Matplotlib v([\d.]+)")


@pytest.mark.audit
def test_manual_builds_without_warnings(tmp_path: Path) -> None:
    """Each page is there, no page loads anything from elsewhere, and no mark is left."""
    words = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = processes.run(
        [sys.executable, *words, "-d", str(tmp_path / "trees"), "docs", str(tmp_path / "html")],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        built = tmp_path / "html" / page.relative_to(ROOT / "docs").with_suffix(".html")
        text = built.read_text(encoding="utf-8")
        assert not FOREIGN.search(text), built
        assert "from the code:" not in text
    errors = (tmp_path / "html/reference/errors.html").read_text(encoding="utf-8")
    assert 'id="dp-budget-001"' in errors


def test_pictures_are_reproducible(tmp_path: Path) -> None:
    """Drawn again they are the same bytes, if the Matplotlib that drew them is there."""
    tutorial.draw(tmp_path)
    for name in tutorial.PICTURES:
        kept = (ROOT / "docs/pictures" / name).read_text(encoding="utf-8")
        drawn = (tmp_path / name).read_text(encoding="utf-8")
        if DRAWN_BY.search(kept)[1] == version("matplotlib"):  # type: ignore[index]
            assert drawn == kept, f"run `python -m docs.pictures.tutorial docs/pictures`: {name}"
        assert re.findall(r">([^<>]+)</text>", drawn) == re.findall(r">([^<>]+)</text>", kept)


def test_margins_of_pictures_equal_plans(tmp_path: Path) -> None:
    """A larger budget has smaller margins, and columns are told apart."""
    (tmp_path / "schemas").symlink_to(tutorial.EXAMPLE / "schemas")
    (tmp_path / "release.yaml").write_text((tutorial.EXAMPLE / "release.yaml").read_text())
    found = tutorial.margins(tmp_path, ("0.5", "2"))
    assert all(small > large for small, large in found.values())
    assert found["persons"][0] < found["income_total.count"][0]


@pytest.mark.parametrize(
    ("text", "loads"),
    [('<script src="https://a.b/c.js">', True), ('<a href="https://a.b">', False)],
)
def test_foreign_parts_are_found(text: str, loads: bool) -> None:
    assert bool(FOREIGN.search(text)) is loads
