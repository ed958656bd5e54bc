"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells may hold anything but are put on one line."""
    lines = [heads, ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def code(text: str) -> str:
    """Return a text as code, whatever backticks it has."""
    fence = "``" if "`" in text else "`"
    inner = f" {text} " if "`" in text else text
    return f"{fence}{inner}{fence}" if text else ""


def anchor(name: str) -> str:
    """Return a target that other pages can link to by `#name`."""
    return f"({name})="


def plain(text: str) -> str:
    """Return words of code in which no sign means anything to Markdown but backticks."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        for sign in "\\<>*_[]{}":
            parts[i] = parts[i].replace(sign, f"\\{sign}")
    return "`".join(parts)
