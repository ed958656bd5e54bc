"""What consistent tables gain and cost, on people who are invented: so the truth may be looked at.

`python -m examples.census.story FOLDER` generates the small state of `nation/`, publishes its
redistricting tables, and compares measurements, estimates and whole tables with the truth:
`errors.svg` (mean absolute errors by level and table), `sizes.svg` (bias of whole tables and the
share of intervals that hold the truth, by size of cells), and their numbers as CSV, with the errors
of each table by size of cells (`classes.csv`).
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dprelease
from examples.census.nation.generate import LEVELS, Size, generate

SMALL = Size()
NATION = Path(__file__).parent / "nation"
DIGITS = {"whole": 0, "county": 5, "tract": 11, "block_group": 12, "block": 16}
TABLES: dict[str, tuple[str, ...]] = {
    "total": (),
    "race": ("race",),
    "hispanic x race": ("hispanic", "race"),
    "adult x race": ("adult", "race"),
    "adult x hispanic x race": ("adult", "hispanic", "race"),
}
STAGES = {"measurements": "measured", "estimates": "least squares", "tables": "whole numbers"}
COLOURS = {"measurements": "0.55", "estimates": "C0", "tables": "C1"}
EDGES = (0, 1, 10, 100, 1000, 10_000_000)
SIZES = ("0", "1 to 9", "10 to 99", "100 to 999", "1,000 and more")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """All cells of one table at one level: the truth, and what was published of them."""

    level: str
    table: str
    truth: Floats
    published: dict[str, Floats]
    inside: NDArray[np.bool_]

    def error(self, stage: str) -> float:
        """Return the mean absolute error of a stage."""
        return float(np.abs(self.published[stage] - self.truth).mean())


def all_cells(folder: Path) -> Iterator[Cells]:
    """Yield every table of the population's release, level after level."""
    for level, digits in DIGITS.items():
        for table, keys in TABLES.items():
            area = () if level == "whole" else (level,)
            name = f"population_{'_'.join((*area, *keys)) or 'total'}"
            yield _cells(folder, level, table, name, digits, (*area, *keys))


def _cells(
    folder: Path, level: str, table: str, name: str, digits: int, keys: Sequence[str]
) -> Cells:
    out, link = folder / "out" / "redistricting", duckdb.connect()
    rows = f"'{folder / 'data' / 'persons.parquet'}'"
    area = [f"left(block, {digits}) AS {level}"] if digits else []
    own = [key for key in keys if key != level]
    counted = f"SELECT {', '.join([*area, *own, 'count(*) AS truth'])} FROM {rows} GROUP BY ALL"
    joined = " ".join(
        f"JOIN '{out / stage / name}.parquet' {stage} {_using(keys)}"
        for stage in ("estimates", "tables")
    )
    found = link.sql(
        "SELECT coalesce(truth, 0) AS truth, measurements.persons AS measurements, "
        "estimates.persons AS estimates, tables.persons AS tables, "
        "coalesce(truth, 0) BETWEEN persons_lower AND persons_upper AS inside "
        f"FROM '{out / 'measurements' / name}.parquet' measurements {joined} "
        f"LEFT JOIN ({counted}) counted {_using(keys)}"
    ).fetchnumpy()
    published = {stage: np.asarray(found[stage], np.float64) for stage in STAGES}
    truth = np.asarray(found["truth"], np.float64)
    return Cells(level, table, truth, published, np.asarray(found["inside"], bool))


def _using(keys: Sequence[str]) -> str:
    return f"USING ({', '.join(keys)})" if keys else "ON true"


def draw_errors(cells: Sequence[Cells], path: Path) -> None:
    """Draw mean absolute errors: a panel for each level, a row for each table, a dot a stage."""
    levels = [level for level in DIGITS if level != "whole"]  # one draw says little of one area
    figure = Figure(figsize=(8.0, 5.6), layout="constrained")
    panels = figure.subplots(len(levels), 1, sharex=True)
    for level, axes in zip(levels, panels, strict=True):
        here = [one for one in cells if one.level == level]
        for row, one in enumerate(here):
            errors = [one.error(stage) for stage in STAGES]
            axes.plot(errors, [row] * len(errors), color="0.85", linewidth=1, zorder=1)
            for stage, error in zip(STAGES, errors, strict=True):
                axes.plot(error, row, "o", markersize=5, color=COLOURS[stage])
        axes.set(xscale="log", yticks=range(len(here)), yticklabels=[one.table for one in here])
        axes.set_title(level.replace("_", " "), loc="left", fontsize=9, weight="bold")
        axes.invert_yaxis()
        _plain(axes)
    race = next(i for i, name in enumerate(TABLES) if name == "race")
    there = next(one for one in cells if one.level == levels[0] and one.table == "race")
    for stage, words in STAGES.items():
        panels[0].annotate(
            words, (there.error(stage), race), xytext=(0, 6), textcoords="offset points",
            ha="center", size=7, color=COLOURS[stage],
        )  # fmt: skip
    panels[-1].xaxis.set_major_formatter("{x:g}")
    panels[-1].set_xlabel("mean absolute error of a cell, persons")
    figure.savefig(path)


def by_size(cells: Sequence[Cells]) -> list[tuple[str, int, float, float, float]]:
    """Return for each class of true sizes: cells, bias of both layers, share of intervals held."""
    truth = np.concatenate([one.truth for one in cells])
    estimates, whole = (
        np.concatenate([one.published[stage] for one in cells]) for stage in ("estimates", "tables")
    )
    inside = np.concatenate([one.inside for one in cells])
    rows = []
    for name, low, high in zip(SIZES, EDGES, EDGES[1:], strict=False):
        there = (truth >= low) & (truth < high)
        if there.any():
            biases = (float((x[there] - truth[there]).mean()) for x in (estimates, whole))
            rows.append((name, int(there.sum()), *biases, float(inside[there].mean())))
    return rows


def by_table_and_size(cells: Sequence[Cells]) -> list[tuple[str, str, int, float, float]]:
    """Return for each table and class of true sizes: cells, mean absolute errors of both layers."""
    rows = []
    for table in TABLES:
        here = [one for one in cells if one.table == table]
        truth = np.concatenate([one.truth for one in here])
        for name, low, high in zip(SIZES, EDGES, EDGES[1:], strict=False):
            there = (truth >= low) & (truth < high)
            if there.any():
                errors = (
                    np.concatenate([one.published[stage] for one in here])[there] - truth[there]
                    for stage in ("estimates", "tables")
                )
                means = (float(np.abs(error).mean()) for error in errors)
                rows.append((table, name, int(there.sum()), *means))
    return rows


def draw_sizes(rows: Sequence[tuple[str, int, float, float, float]], path: Path) -> None:
    """Draw bias and coverage by size of cells."""
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = range(len(rows))
    for at, stage in ((2, "estimates"), (3, "tables")):
        values = [row[at] for row in rows]
        left.plot(places, values, "o-", markersize=4, linewidth=1, color=COLOURS[stage])
        left.annotate(
            STAGES[stage], (1, values[1]), xytext=(8, 0), textcoords="offset points", va="center",
            size=8, color=COLOURS[stage],
        )  # fmt: skip
    left.axhline(0, color="0.8", linewidth=0.8)
    left.set_title("bias, persons", loc="left", fontsize=9)
    right.plot(places, [100 * row[4] for row in rows], "o-", markersize=4, linewidth=1, color="C1")
    right.axhline(95, color="0.8", linewidth=0.8)
    right.set_title("intervals that hold the truth, %", loc="left", fontsize=9)
    for axes in (left, right):
        axes.set(xticks=places, xlabel="persons in a cell")
        axes.set_xticklabels([row[0] for row in rows], fontsize=7)
        _plain(axes)
    figure.savefig(path)


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=7, length=2)
    axes.grid(axis="x", color="0.93")
    axes.spines[["top", "right"]].set_visible(False)


def tell(folder: Path, size: Size = SMALL) -> None:
    """Publish an invented state into a folder, and write pictures and numbers beside it."""
    shutil.copytree(NATION, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py"))
    generate(folder / "data", size)
    dprelease.read_release(folder / "release.yaml").run(overwrite=True)
    assert set(DIGITS) - {"whole"} <= set(LEVELS)
    # Pictures of the same numbers are the same bytes, with their words as words.
    with mpl.rc_context({"svg.hashsalt": "dprelease", "svg.fonttype": "none"}):
        _write(folder)


def _write(folder: Path) -> None:
    cells = list(all_cells(folder))
    draw_errors(cells, folder / "errors.svg")
    rows = by_size(cells)
    draw_sizes(rows, folder / "sizes.svg")
    with (folder / "errors.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["level", "table", "cells", *STAGES])
        for one in cells:
            errors = (f"{one.error(stage):.4g}" for stage in STAGES)
            writer.writerow([one.level, one.table, len(one.truth), *errors])
    with (folder / "sizes.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["persons", "cells", "bias_estimates", "bias_whole", "held"])
        writer.writerows((n, k, f"{a:.4g}", f"{b:.4g}", f"{c:.4g}") for n, k, a, b, c in rows)
    with (folder / "classes.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "persons", "cells", "error_estimates", "error_whole"])
        writer.writerows(
            (t, n, k, f"{a:.4g}", f"{b:.4g}") for t, n, k, a, b in by_table_and_size(cells)
        )


if __name__ == "__main__":
    tell(Path(sys.argv[1]))
