"""Plot the margins of error of several tables against the size of their cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dprelease.numerics.lattice import Floats

CLASS_FACTOR = 10.0
"""Cell sizes in one class differ by at most this factor."""


def margins_by_size(frame: pd.DataFrame, column: str) -> tuple[Floats, Floats]:
    """Return a typical cell size for each power of ten, and the median margin of error there.

    Margins are divided by the value of their cell: a relative margin of 1 is as large as the value.
    Cells with a value below 1 are left out, and so are powers of ten without cells.
    """
    size = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
    margin = frame[f"{column}_moe"].to_numpy(dtype=np.float64, na_value=np.nan)
    there = (size >= 1) & np.isfinite(margin)
    size, margin = size[there], margin[there]
    classes = np.floor(np.log(size) / np.log(CLASS_FACTOR)).astype(int)
    found = np.unique(classes)
    middle = np.array([np.exp(np.log(size[classes == one]).mean()) for one in found])
    relative = np.array([np.median(margin[classes == one] / size[classes == one]) for one in found])
    return middle, relative


def plot_margins(frames: Mapping[str, pd.DataFrame], column: str, axes: Axes | None) -> Axes:
    """Return axes with one line per table: the median margin of error of its cells by cell size."""
    if axes is None:
        from matplotlib.figure import Figure

        # Not pyplot, which would keep every figure in memory until it is closed.
        axes = Figure(figsize=(7.0, 4.5), layout="constrained").add_subplot()
    ends: list[tuple[float, float, str]] = []
    for name, frame in frames.items():
        if f"{column}_moe" not in frame:
            continue
        sizes, margins = margins_by_size(frame, column)
        if len(sizes):
            axes.plot(sizes, margins, marker="o", markersize=3, linewidth=1)
            ends.append((float(sizes[-1]), float(margins[-1]), name))
    axes.set(xscale="log", yscale="log", xlabel=f"{column} in a cell")
    axes.set_ylabel("median margin, in parts of the cell")
    for size, margin, name in ends:
        axes.annotate(
            name, (size, margin), xytext=(4, 0), textcoords="offset points", va="center", size=7
        )
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    return axes
