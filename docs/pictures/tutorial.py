"""The tutorial's pictures: `python -m docs.pictures.tutorial FOLDER`.

Two show what one release published, kept beside this file as CSV, for another run has other noise;
one shows what plans say, which is the same for everybody. The same numbers make the same bytes.
"""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dprelease

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "nist_acs"
BUDGETS = ("0.1", "0.3", "1", "3", "10")
SEXES = {"1": ("men", "C0", -0.12), "2": ("women", "C1", 0.12)}
SHOWN = {"persons": "persons in a cell", "income_total.count": "persons with an income, by area"}


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a file beside this one."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draw_persons(path: Path) -> None:
    """Draw persons of one area by age and sex, each with its margin."""
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    axes = figure.subplots()
    found = rows("tutorial-persons.csv")
    ages = list(dict.fromkeys(row["age_group"] for row in found))
    for sex, (name, colour, aside) in SEXES.items():
        own = [row for row in found if row["SEX"] == sex]
        places = [ages.index(row["age_group"]) + aside for row in own]
        values = [float(row["persons"]) for row in own]
        margins = [float(row["persons_moe"]) for row in own]
        axes.errorbar(places, values, margins, fmt="o", markersize=4, linewidth=1, color=colour)
        last = max(range(len(own)), key=lambda i: values[i])
        side = -1 if aside < 0 else 1
        axes.annotate(
            name, (places[last], values[last]), xytext=(side * 8, 0), va="center", color=colour,
            textcoords="offset points", ha="right" if side < 0 else "left", size=8,
        )  # fmt: skip
    axes.axhline(0, color="0.8", linewidth=0.8)
    axes.set(xticks=range(len(ages)), xticklabels=ages, xlabel="age")
    axes.set_title("Persons in PUMA 24-01004, and margins of 95 %", loc="left", fontsize=9)
    _plain(axes, "y")
    figure.savefig(path, metadata={"Date": None})


def draw_income(path: Path) -> None:
    """Draw mean incomes of all areas in order, each with its margin."""
    found = sorted(rows("tutorial-income.csv"), key=lambda row: float(row["income_mean"]))
    with (EXAMPLE / "schemas" / "pumas.csv").open(encoding="utf-8", newline="") as file:
        names = {row["puma"]: row["name"].partition("--")[0] for row in csv.DictReader(file)}
    labels = [f"{names[row['PUMA']].partition(' (')[0]}  {row['PUMA']}" for row in found]
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    values = [float(row["income_mean"]) / 1000 for row in found]
    margins = [float(row["income_mean_moe"]) / 1000 for row in found]
    axes.errorbar(
        values, range(len(found)), xerr=margins, fmt="o", markersize=4, linewidth=1, color="C0"
    )
    axes.set(yticks=range(len(found)), yticklabels=labels, xlabel="thousand USD a year")
    axes.set_title("Mean income of persons of 15 and more, and margins of 95 %", loc="left",
                   fontsize=9)  # fmt: skip
    _plain(axes, "x")
    figure.savefig(path, metadata={"Date": None})


def margins(folder: Path, budgets: Sequence[str] = BUDGETS) -> dict[str, list[float]]:
    """Return the margins of the shown columns, each at all budgets; opens no data."""
    found: dict[str, list[float]] = {name: [] for name in SHOWN}
    text = (folder / "release.yaml").read_text(encoding="utf-8")
    for budget in budgets:
        one = folder / f"at-{budget}.yaml"
        one.write_text(text.replace("epsilon: 1,", f"epsilon: {budget},"), encoding="utf-8")
        for column in dprelease.read_release(one).plan().columns:
            name = column.measurement.name
            if name in found and column.query.name in ("persons", "income"):
                found[name].append(float(column.margin()))
    return found


def draw_budgets(path: Path) -> None:
    """Draw how margins shrink with the budget."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "nist_acs"
        shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("data", "out"))
        found = margins(copy)
    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    axes = figure.subplots()
    at = [float(budget) for budget in BUDGETS]
    for i, (name, words) in enumerate(SHOWN.items()):
        axes.plot(at, found[name], "o-", markersize=4, linewidth=1, color=f"C{i}")
        axes.annotate(
            words, (at[1], found[name][1]), xytext=(8, 4) if i else (-6, -8), size=8,
            textcoords="offset points", ha="left" if i else "right", color=f"C{i}",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xticks=at, xlabel="epsilon, at delta 1e-9")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title("Margins of 95 %, persons", loc="left", fontsize=9)
    _plain(axes, "both")
    figure.savefig(path, metadata={"Date": None})


def _plain(axes: Axes, grid: str) -> None:
    axes.tick_params(labelsize=7, length=2)
    axes.xaxis.label.set_size(8)
    axes.grid(axis=grid, color="0.93")  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


PICTURES = {
    "tutorial-persons.svg": draw_persons,
    "tutorial-income.svg": draw_income,
    "tutorial-budgets.svg": draw_budgets,
}


def draw(folder: Path) -> None:
    """Draw all pictures into a folder."""
    # Words stay words, and nothing tells when a picture was drawn.
    settings = {"svg.hashsalt": "dprelease", "svg.fonttype": "none"}
    with mpl.rc_context(settings):
        for name, picture in PICTURES.items():
            picture(folder / name)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
