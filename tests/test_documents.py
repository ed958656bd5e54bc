"""What documents name is there: paths, commands, targets, folders."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from dprelease.cli import app

ROOT = Path(__file__).parents[1]
# What the changelog names was there in its version.
DOCUMENTS = sorted(
    {
        *ROOT.glob("*.md"),
        *(path for name in ("docs", "examples", "schemas") for path in (ROOT / name).rglob("*.md")),
        *(ROOT / "tests").glob("*/*.md"),
    }
    - {ROOT / "CHANGELOG.md"}
)
SOURCES = [
    path for name in ("dprelease", "tests", "examples") for path in (ROOT / name).rglob("*.py")
]

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
QUOTED = re.compile(r"`([^`\s*<>%{}:()=]+)`")
OF_THE_PROJECT = (".py", ".md", ".toml")
"""Endings of files of the project: what people declare and publish have others."""


def paths(text: str) -> set[str]:
    """Return what a text has between backticks that looks like a path of the project."""
    quoted = set(QUOTED.findall(text))
    return {word for word in quoted if "/" in word.strip("/") or word.endswith(OF_THE_PROJECT)}


def is_there(path: str, document: Path) -> bool:
    """Return whether a path is in the project, in the package, in its tests, or beside a text."""
    homes = (ROOT, ROOT / "dprelease", ROOT / "tests", document.parent)
    return any((home / path).exists() for home in homes)


def ids(path: Path) -> str:
    """Return the name of a document from the root of the project."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_paths_in_documents_exist(document: Path) -> None:
    named = paths(document.read_text(encoding="utf-8"))
    assert sorted(path for path in named if not is_there(path, document)) == []


def test_paths_in_sources_exist() -> None:
    """Of files of the project, that docstrings and comments name."""
    gone = {
        f"{ids(source)}: {path}"
        for source in SOURCES
        for path in paths(source.read_text(encoding="utf-8"))
        if path.endswith(OF_THE_PROJECT) and not is_there(path, source)
    }
    assert sorted(gone) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_commands_in_documents_exist(document: Path) -> None:
    """Targets of the Makefile, commands of the program with their own, and modules to run."""
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|\$ )make ([a-z-]+)", text):
        assert f"\n{target}:" in MAKEFILE, target
    for words in re.findall(r"(?:`|\$ )dprelease ([a-z]+(?: [a-z]+)?)(?![\w./])", text):
        command, *more = words.split()
        assert command in COMMANDS, words
        assert not more or more[0] in getattr(COMMANDS[command], "commands", more), words
    for module in re.findall(r"python -m ([a-z_.]+)", text):
        assert find_spec(module) is not None, module


def test_architecture_names_every_folder() -> None:
    """Its table has a row for each folder of the package, and for no other."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = text.split("## Folders")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    folders = {path.parent.name for path in (ROOT / "dprelease").glob("*/__init__.py")}
    assert sorted(named) == sorted(folders)
