"""What the scripts share: numbers beside numbers, and curves in files."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path


class Report:
    """Prints the paper's number beside ours and remembers whether one was off."""

    def __init__(self, title: str) -> None:
        parser = argparse.ArgumentParser(description=title)
        parser.add_argument("--curves", type=Path, help="write the curves as CSV into this folder")
        self._folder: Path | None = parser.parse_args().curves
        self._off = 0
        print(title)

    def section(self, title: str) -> None:
        """Start a table of numbers."""
        print(f"\n{title}\n{'':<58}{'paper':>16}{'ours':>16}")

    def compare(self, what: str, paper: float, ours: float, *, digits: int = 6) -> None:
        """Print both; they have to agree to as many significant digits as the paper has."""
        agree = math.isclose(paper, ours, rel_tol=0.6 * 10.0 ** (1 - digits), abs_tol=1e-300)
        self._off += not agree
        mark = "" if agree else "   OFF"
        print(f"  {what:<56}{paper:>16.{digits}g}{ours:>16.{max(digits, 6)}g}{mark}")

    def holds(self, what: str, true: bool) -> None:
        """Print a statement of the paper, and whether it holds here."""
        self._off += not true
        print(f"  {what:<72}{'yes' if true else 'NO':>16}")

    def note(self, text: str) -> None:
        """Print a remark."""
        print(f"  {text}")

    def curve(self, name: str, heads: Sequence[str], rows: Iterable[Sequence[float]]) -> None:
        """Write one figure's curves, where the caller asked for files."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(heads)
            writer.writerows(rows)

    def end(self) -> int:
        """Return the exit code: 1 if a number was off."""
        print(f"\n{'all agree' if not self._off else f'{self._off} off'}")
        return int(self._off > 0)
