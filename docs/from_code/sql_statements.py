"""The table of SQL statements that tests answer or refuse."""

from __future__ import annotations

import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from docs.from_code.markdown import table
from dprelease.errors import DpReleaseError
from dprelease.errors.error_tree import Findings
from dprelease.release.question import sql
from tests.sql_conformance.tables import write_tables

FILE = Path(__file__).parents[2] / "tests" / "sql_conformance" / "statements.yaml"


def pages() -> str:
    """Return a table of the answered statements, and one of the refused statements."""
    cases: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    ordered = sorted(cases, key=lambda case: str(case["expect"]))
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        schemas = write_tables(Path(folder))
        for expect, group in groupby(ordered, key=lambda case: str(case["expect"])):
            rows = [_row(case, schemas) for case in group]
            heads = ("statement",) if expect == "answered" else ("statement", "error", "reason")
            parts += [f"## {expect.capitalize()}: {len(rows)} statements", table(heads, rows)]
    return "\n\n".join(parts)


def _row(case: dict[str, Any], schemas: list[Path]) -> tuple[str, ...]:
    """Return a statement, and the code and the reason of its error if it is refused."""
    statement = f"`{case['sql']}`"
    cells = (statement, case["code"], _reason(case["sql"], schemas)) if "code" in case else ()
    return tuple(cell.replace("|", "\\|") for cell in cells or (statement,))


def _reason(statement: str, schemas: list[Path]) -> str:
    """Return the reason for which a statement is refused, before any row is read."""
    try:
        sql(f"EXPLAIN {statement}", schemas, epsilon=1)
    except DpReleaseError as error:
        first = error.errors[0] if isinstance(error, Findings) else error
        return str(first.cause).replace("*", "\\*").replace("<", "&lt;")
    raise AssertionError(f"the statement is answered: {statement}")
