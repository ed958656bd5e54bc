"""How processor time grows in rows, tables and cells: whole releases in process, and a picture."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.benchmarks import large, people

Line = list[tuple[int, float]]
"""Numbers of what grows, and processor seconds."""

ROWS = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
TABLES = (25, 50, 100, 200)
CELLS = ("county", "county, sex, race", "county, age", "county, age, sex", "county, age, sex, race")
FEW_ROWS = 1_000_000
TIMES = 3


def _least_seconds(work: Callable[[], object]) -> float:
    """Return the least processor seconds of several times, after one more."""
    taken = []
    for _ in range(TIMES + 1):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken[1:])


def _release(path: Path) -> float:
    return _least_seconds(lambda: run(read_declaration(path), overwrite=True))


def measure(folder: Path) -> dict[str, Line]:
    """Return processor seconds of releases with more and more rows, tables and cells."""
    lines: dict[str, Line] = {"rows": [], "tables": [], "cells": []}
    for rows in ROWS:
        people.make(folder / str(rows), rows)
        release = folder / str(rows) / "rows.yaml"
        release.write_text(_counts("cube: [state, sex, race, age]"))
        lines["rows"].append((rows, _release(release)))
    large.make(folder / "large", FEW_ROWS)
    head, queries = large.release().split("queries:\n")
    for tables in TABLES:
        release = folder / "large" / "tables.yaml"
        chosen = queries.splitlines()[:tables]
        release.write_text("\n".join([f"{head}queries:", *chosen, "output: tables", ""]))
        lines["tables"].append((tables, _release(release)))
    for keys in CELLS:
        release = folder / str(FEW_ROWS) / "cells.yaml"
        release.write_text(_counts(f"group_by: [{keys}]"))
        sizes = {"county": people.COUNTIES, "age": 116, "sex": 2, "race": 6}
        cells = int(np.prod([sizes[key] for key in keys.split(", ")]))
        lines["cells"].append((cells, _release(release)))
    for name, line in lines.items():
        print(f"{name:<8}" + "".join(f"{number:>12,}: {seconds:.2f} s" for number, seconds in line))
    return lines


def _counts(keys: str) -> str:
    column = 'n: {count: "*", mechanism: discrete_laplace}'
    query = f"  q: {{from: people, {keys}, columns: {{{column}}}}}"
    head = "title: Growth\ntables: [people.yaml]\nbudget: {epsilon: 1}\nqueries:"
    return f"{head}\n{query}\noutput: out\n"


def draw(target: Path, lines: dict[str, Line]) -> None:
    """Draw one panel for each line, with the straight line of least relative squares, as an SVG."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "growth", "svg.fonttype": "none", "backend": "svg"}):
        _draw(target, lines)


def _draw(target: Path, lines: dict[str, Line]) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(lines), figsize=(9, 2.6), layout="constrained")
    for panel, (name, line) in zip(panels, lines.items(), strict=True):
        numbers, seconds = np.array(line, dtype=np.float64).T
        slope, start = np.polyfit(numbers, seconds, 1, w=1.0 / seconds)
        ends = np.array([0.0, numbers.max()])
        panel.plot(ends, start + slope * ends, color="0.7", linewidth=1)
        panel.plot(numbers, seconds, "o", color="C0", markersize=4)
        panel.set_xlabel(name)
        panel.set_ylim(bottom=0)
        panel.xaxis.set_major_formatter(mpl.ticker.EngFormatter(sep=""))
    panels[0].set_ylabel("processor seconds")
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
