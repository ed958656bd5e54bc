"""The table of SQL statements that tests answer or refuse."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from docs.from_code.markdown import table

FILE = Path(__file__).parents[2] / "tests" / "sql_conformance" / "statements.yaml"


def pages() -> str:
    """Return a table of the answered statements, and one of the refused statements."""
    cases: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    ordered = sorted(cases, key=lambda case: str(case["expect"]))
    parts = []
    for expect, group in groupby(ordered, key=lambda case: str(case["expect"])):
        rows = [_row(case) for case in group]
        heads = ("statement",) if expect == "answered" else ("statement", "error")
        parts += [f"## {expect.capitalize()}: {len(rows)} statements", table(heads, rows)]
    return "\n\n".join(parts)


def _row(case: dict[str, Any]) -> tuple[str, ...]:
    """Return a statement, and the code of its error if it is refused."""
    statement = f"`{case['sql']}`".replace("|", "\\|")
    return (statement, case["code"]) if "code" in case else (statement,)
