"""The functions that SQL statements may apply to noisy values."""

from __future__ import annotations

from collections.abc import Iterable

from docs.from_code.markdown import table
from dprelease.query.outer_sql.functions import AGGREGATES, SCALARS, WINDOW_FUNCTIONS


def functions() -> str:
    """Return a table of the names, by what the functions are about."""
    rows = [(about, _codes(names.split())) for about, names in SCALARS.items()]
    rows.append(("aggregates of noisy rows, also as window functions", _codes(AGGREGATES)))
    rows.append(("window functions", _codes(WINDOW_FUNCTIONS)))
    return table(("about", "functions"), rows)


def _codes(names: Iterable[str]) -> str:
    """Return names as code."""
    return ", ".join(f"`{name}`" for name in sorted(names))
