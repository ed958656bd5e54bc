"""Fenced blocks of the manual, and what each of them is.

A block of a file begins with a comment that names it, `# release.yaml`; a part of one with `# in
release.yaml`. A CSV file, which has no comments, is named behind its language: `csv people.csv`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted(DOCS.rglob("*.md"))

RUN = frozenset({"python", "console", "sql", "yaml", "csv"})
"""Languages whose blocks are run, checked or written as files."""

SHOWN = frozenset({"text", "json", "{toctree}", "{include}", "{image}", "{figure}"})
"""Blocks that are shown, and those that are Sphinx's."""

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ ]*$", flags=re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# (in )?([\w./-]+\.(?:yaml|py))\n")


@dataclass(frozen=True)
class Block:
    """One block: its language, its text, and the file that it is or belongs to."""

    language: str
    text: str
    line: int
    file: str | None = None
    is_part: bool = False


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a document, in order."""
    return [_block(text, found) for found in FENCE.finditer(text)]


def _block(text: str, found: re.Match[str]) -> Block:
    language, _, argument = found[1].strip().partition(" ")
    line = text.count("\n", 0, found.start()) + 1
    if language == "csv":
        return Block(language, found[2], line, argument or None)
    named = NAMED.match(found[2])
    if named is None:
        return Block(language, found[2], line)
    return Block(language, found[2], line, named[2], named[1] is not None)
