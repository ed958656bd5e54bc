"""Rows of the reference tables."""

from __future__ import annotations

import csv
import math
from pathlib import Path

FOLDER = Path(__file__).parent / "peers"


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of one table."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float:
    """Return a number such as 0.5, ln3 or 2ln3."""
    times, logarithm, of = text.partition("ln")
    return float(times or 1) * math.log(float(of)) if logarithm else float(text)
