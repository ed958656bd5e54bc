"""Writes the tables of the documentation that follow from the code: `make docs-tables`.

A table stands between two marks, which name it; what is between them is written anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
START, END = "<!-- {name}: written by `make docs-tables` -->", "<!-- end of {name} -->"


def mechanisms() -> str:
    """Return a row for every mechanism: its summary as far as its guarantee, which is a column."""
    heads = ("name", "noise", "guarantee", "when to use", "parameters")
    return _table([heads, *(_row(registry.get(name)) for name in registry.names())])


def _row(kind: type[Mechanism]) -> tuple[str, ...]:
    noise, _, _ = kind.summary.partition(";")
    guarantee = "pure" if kind.pure else "approximate"
    bounded = ", bounded" if kind.bounded else ""
    shapes = ", ".join(f"`{shape.name}`" for shape in kind.shapes)
    return f"`{kind.name}`", noise, guarantee + bounded, kind.use, shapes


def _table(rows: list[tuple[str, ...]]) -> str:
    heads, *bodies = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *bodies]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


TABLES = {"mechanisms": mechanisms}


def written(text: str) -> str:
    """Return a document with its tables as they follow from the code.

    Raises
    ------
    ValueError
        If a table does not stand there exactly once.
    """
    for name, table in TABLES.items():
        start, end = START.format(name=name), END.format(name=name)
        marks = re.compile(f"{re.escape(start)}\n.*?{re.escape(end)}", flags=re.DOTALL)
        if len(marks.findall(text)) != 1:
            raise ValueError(f"the marks of the table '{name}' are not there once")
        whole = f"{start}\n{table()}\n{end}"
        text = marks.sub(lambda _, whole=whole: whole, text)
    return text


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
