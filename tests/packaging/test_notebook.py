"""The notebook is what its script writes, has outputs, and can be run again."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from examples.nist_acs import notebook

BOOK = nbformat.read(notebook.NOTEBOOK, as_version=4)

ABSOLUTE = re.compile(r"(?<![\w.:/<])/[\w.-]+/[\w.-]")
"""A path from the root of a file system, of two names or more; neither the end of a tag nor a URL."""


def test_notebook_format() -> None:
    """Of the notebook format, with the cells of the script, each with its own name."""
    nbformat.validate(BOOK)
    cells = [(cell.id, cell.cell_type, cell.source) for cell in BOOK.cells]
    assert cells == list(notebook.CELLS)
    assert len({name for name, _, _ in cells}) == len(cells)
    assert [cell.execution_count for cell in code(BOOK)] == list(range(1, len(code(BOOK)) + 1))


def code(book: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def test_notebook_has_outputs() -> None:
    """Of every cell, in order, none an error, one of them a picture."""
    kinds = {output.output_type for cell in code(BOOK) for output in cell.outputs}
    assert all(cell.outputs for cell in code(BOOK))
    assert kinds <= {"stream", "execute_result", "display_data"}
    pictures = [
        output.data["image/png"]
        for cell in code(BOOK)
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 1
    assert base64.b64decode(pictures[0]).startswith(b"\x89PNG")


def words_of(cell: Any) -> list[str]:
    """Return all that a cell and its outputs say, but for pictures."""
    outputs = [output.get("data", output) for output in cell.get("outputs", [])]
    said = [str(words) for one in outputs for kind, words in one.items() if kind != "image/png"]
    return [cell.source, *said]


def test_notebook_contains_no_machine_details() -> None:
    """No path, no time, no version of anything but the format."""
    text = notebook.NOTEBOOK.read_text(encoding="utf-8")
    assert set(json.loads(text)["metadata"]) == {"kernelspec"}
    assert all(cell.metadata == {} for cell in BOOK.cells)
    words = "\n".join(said for cell in BOOK.cells for said in words_of(cell))
    assert not ABSOLUTE.search(words)
    assert "site-packages" not in words
    for place in (sys.executable, __file__):  # such a one would be found, in any line
        assert ABSOLUTE.search(f"{words}\n{place}")
    assert notebook.NOTEBOOK.stat().st_size < 200_000


@pytest.mark.audit
def test_notebook_is_reproducible(tmp_path: Path) -> None:
    """With outputs of the same kinds, and the same words where there is no noise."""
    again = notebook.executed()
    nbformat.validate(again)
    for old, new in zip(code(BOOK), code(again), strict=True):
        assert [output.output_type for output in old.outputs] == [
            output.output_type for output in new.outputs
        ], old.id
        if old.id in ("declared", "plan", "run", "left"):
            assert old.outputs == new.outputs, old.id
