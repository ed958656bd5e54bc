"""What the scripts share: printed numbers beside ours, independent computations, and figures.

A printed number holds to half a unit of its last digit. Where a paper is wrong, the script says so:
a known misprint is listed with its corrected value, and neither may turn out to be the other.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from examples.papers.charts import Figure


@dataclass(frozen=True)
class Line:
    """One line of a paper's table: what, there, here, and whether they agree."""

    what: str
    there: str
    ours: str
    good: bool = True


@dataclass(frozen=True)
class Misprint:
    """A printed value or formula that is wrong, and what is right."""

    what: str
    printed: str
    corrected: str


class Report:
    """Gathers lines and figures by section, and counts what is off."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.off = 0
        self.sections: list[tuple[str, list[Line]]] = []
        self.figures: list[Figure] = []
        self.misprints: list[Misprint] = []

    def section(self, title: str) -> None:
        """Start a table of numbers."""
        self.sections.append((title, []))

    def printed(self, what: str, there: str, ours: float) -> None:
        """Compare with a number as it is printed, to half a unit of its last digit."""
        self._add(what, f"printed {there}", f"{ours:.6g}", rounds_to(ours, there))

    def misprint(self, what: str, there: str, corrected: str, ours: float) -> None:
        """List a printed number that is wrong: ours is the corrected one, and not the printed."""
        good = rounds_to(ours, corrected) and not rounds_to(ours, there)
        self._add(what, f"printed {there}, right {corrected}", f"{ours:.6g}", good)
        self.misprints.append(Misprint(what, there, corrected))

    def wrong_formula(self, what: str, printed: str, corrected: str) -> None:
        """List a printed formula that is wrong; lines beside it show both."""
        self.misprints.append(Misprint(what, printed, corrected))

    def same(self, what: str, independent: float, ours: float, digits: int = 9) -> None:
        """Compare with a computation that shares nothing with the package's."""
        good = math.isclose(independent, ours, rel_tol=10.0**-digits, abs_tol=0.0)
        self._add(what, f"{independent:.{digits}g}", f"{ours:.{digits}g}", good)

    def holds(self, what: str, true: bool) -> None:
        """State what the paper claims, or what its picture shows, and whether it holds here."""
        self._add(what, "claimed", "yes" if true else "no", bool(true))

    def note(self, text: str) -> None:
        """Add a remark."""
        self._add(text, "", "", True)

    def figure(self, figure: Figure) -> None:
        """Add a picture."""
        self.figures.append(figure)

    def words(self) -> str:
        """Return all of it as text."""
        lines = [self.title]
        for title, found in self.sections:
            lines.append(f"\n{title}")
            lines += [
                f"  {one.what:<76}{one.there:>30}{one.ours:>18}{'' if one.good else '   OFF'}"
                for one in found
            ]
        lines.append(f"\n{'all agree' if not self.off else f'{self.off} off'}")
        return "\n".join(lines)

    def _add(self, what: str, there: str, ours: str, good: bool) -> None:
        self.off += not good
        self.sections[-1][1].append(Line(what, there, ours, good))


def rounds_to(value: float, printed: str) -> bool:
    """Return whether a value lies within half a unit of the last digit that is printed."""
    number = Decimal(printed)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not math.isfinite(value):
        return str(value) == printed
    return abs(Decimal(value) - number) <= Decimal(5).scaleb(exponent - 1)


def write_curves(figure: Figure, folder: Path) -> None:
    """Write the points of a figure's curves as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("panel", "curve", "x", "y"))
        for panel in figure.panels:
            for series in panel.series:
                rows = zip(series.x, series.y, strict=True)
                writer.writerows((panel.y_label, series.label, x, y) for x, y in rows)


def run(title: str, tell: Callable[[Report], None]) -> int:
    """Print a paper's tables; return 1 if a number is off."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--curves", type=Path, help="write the curves as CSV into this folder")
    folder: Path | None = parser.parse_args().curves
    report = Report(title)
    tell(report)
    sys.stdout.write(report.words() + "\n")
    for figure in report.figures if folder else ():
        write_curves(figure, folder or Path())
    return int(report.off > 0)
