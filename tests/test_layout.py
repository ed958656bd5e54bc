"""How the package lies in folders and files: small enough to be read, each name once."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "dprelease"
FILES = sorted(PACKAGE.rglob("*.py"))

MOST_FILES = 20
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50


def test_no_folder_has_many_files() -> None:
    counted = Counter(file.parent for file in FILES)
    assert {str(folder): n for folder, n in counted.items() if n > MOST_FILES} == {}


def test_every_folder_has_a_docstring() -> None:
    folders = {file.parent for file in FILES}
    silent = [
        str(folder)
        for folder in folders
        if not ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_files_are_short() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert [str(file) for file, n in lengths.items() if n > MOST_LINES] == []


def test_functions_are_short() -> None:
    assert [
        f"{file}:{function.lineno}"
        for file in FILES
        for function in _functions(file)
        if _length(function) > MOST_LINES_OF_A_FUNCTION
    ] == []


def _functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of what a function does: without its parameters and its docstring."""
    told = ast.get_docstring(function) is not None and len(function.body) > 1
    first = function.body[1 if told else 0]
    return (function.end_lineno or 0) - first.lineno + 1
