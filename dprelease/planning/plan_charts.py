"""Charts of a plan: margins by rows in a cell, and the unavoidable errors of an attacker."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.numerics.lattice import Floats
from dprelease.planning.charts import is_drawn, save_chart
from dprelease.planning.families.family_errors import consistent_errors, family_margins
from dprelease.planning.notes.published_columns import Limit
from dprelease.planning.plan import Plan
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.priced_vector import PricedVector
from dprelease.query.quality import RELIABLE, UNRELIABLE
from dprelease.schema.release_parts.limits import QUALITY_LIMITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The unavoidable errors of an attacker who guesses whether one person is in the data.

CURVE_DELTAS = tuple(Fraction(1, 10**i) for i in range(1, 10))

Pairs = Sequence[tuple[float, float]]
"""Pairs (epsilon, delta) that hold for the same release."""


def epsilon_delta_pairs(vectors: Sequence[PricedVector], pure_epsilon: float) -> Pairs:
    """Return pairs (epsilon, delta) that all vectors together have, at several deltas and at 0."""
    pairs = [(epsilon_at(vectors, delta), float(delta)) for delta in CURVE_DELTAS]
    return [*pairs, (pure_epsilon, 0.0)]


def least_missed(pairs: Iterable[tuple[float, float]], alarms: Floats) -> Floats:
    """Return the least rate of misses of an attacker, for each rate of false alarms in `alarms`.

    Each pair (epsilon, delta) of the release gives a lower bound on the rate of misses; the result
    is the largest of these bounds (Wasserman and Zhou 2010; Dong, Roth and Su 2022, arXiv
    1905.02383v3, Proposition 2.5).
    """
    missed = np.zeros_like(alarms)
    for epsilon, delta in pairs:
        if math.isinf(epsilon):
            continue
        first = 1.0 - delta - np.exp(min(epsilon, 700.0)) * alarms
        second = math.exp(-epsilon) * (1.0 - delta - alarms)
        missed = np.maximum(missed, np.maximum(first, second))
    return missed


ROWS = tuple(10.0 ** (power / 4) for power in range(4, 21))
"""Numbers of rows in a cell for which margins are drawn."""

LARGEST_MARGIN = 10.0
"""Margins up to this part of the value are drawn."""

TITLE = "margin of a published number"
NO_MARGIN = ": depends on values, or too large"
MOST_LINES = 4
"""Maximum number of lines in one chart; more columns are divided among several charts."""

LABEL_LENGTH = 34
"""Characters in a line of a label."""

LEAST_DISTANCE = 0.02
"""Lines are drawn separately if they differ somewhere by this fraction of the chart's height."""

FIELD_WIDTH, LABELS_WIDTH, CHART_HEIGHT, FRAME_HEIGHT, LABEL_LINE_HEIGHT = 3.2, 2.2, 3.1, 0.9, 0.13
"""Sizes of a chart in inches: the width of its field and of the labels next to it, the height of
the chart, of its part outside the field, and of a line of a label."""

LINE_COLOUR = "C0"
"""The colour of all lines, which labels distinguish."""


@dataclass(frozen=True, slots=True)
class MarginChart:
    """A chart of relative margins of columns; columns with close margins share a line."""

    title: str
    lines: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]

    def labels(self) -> list[str]:
        """Return the label of each line, with the names of all columns that share the line."""
        return [_label_text(names, values) for names, values in self.lines]


def draw_plan(plan: Plan, path: Path) -> None:
    """Write all charts into one file; raise OutputError DP-OUTPUT-002 if it can't be written."""
    from matplotlib.figure import Figure

    charts = charts_of(relative_margins(plan))
    charts_per_row = 2 if len(charts) + 1 in (2, 4) else 3
    rows = [charts[i : i + charts_per_row] for i in range(0, len(charts) + 1, charts_per_row)]
    row_heights = [max(map(_chart_height, row), default=CHART_HEIGHT) for row in rows]
    figure = Figure(
        figsize=((FIELD_WIDTH + LABELS_WIDTH) * charts_per_row, sum(row_heights)),
        layout="constrained",
    )
    subplots = figure.subplots(len(rows), charts_per_row, squeeze=False, height_ratios=row_heights)
    axes = list(subplots.flat)
    for axis, chart in zip(axes, charts, strict=False):
        _draw_margins(axis, chart)
    _draw_trade_off(axes[len(charts)], plan)
    for axis in axes[len(charts) + 1 :]:
        axis.remove()
    save_chart(figure, path)


def _chart_height(chart: MarginChart) -> float:
    """Return the height in inches of a chart in which all of its labels fit."""
    return max(CHART_HEIGHT, LABEL_LINE_HEIGHT * _label_line_count(chart) + FRAME_HEIGHT)


def relative_margins(plan: Plan) -> dict[str, tuple[float, ...]]:
    """Return the margin of each published column as a part of its value, for all of `ROWS`.

    The values are spread evenly over the bounds. A margin that is not drawn is infinite: it is
    above `LARGEST_MARGIN`, or depends on values. Exactly published columns are left out.
    """
    margins = {}
    for column in plan.published(family_margins(consistent_errors(plan))):
        if column.limit is not Limit.NOTHING:
            found = [column.relative_margin(round(rows)) for rows in ROWS]
            margins[column.name] = tuple(x if x <= LARGEST_MARGIN else math.inf for x in found)
    return margins


def charts_of(margins: Mapping[str, tuple[float, ...]]) -> list[MarginChart]:
    """Return charts of all columns, without lines that cover each other."""
    lines = _distinct_lines(margins)
    parts = [lines[i : i + MOST_LINES] for i in range(0, len(lines), MOST_LINES)]
    return [
        MarginChart(TITLE + (f" ({number} of {len(parts)})" if len(parts) > 1 else ""), part)
        for number, part in enumerate(parts, 1)
    ]


def _distinct_lines(
    columns: Mapping[str, tuple[float, ...]],
) -> tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]:
    """Return the columns' names and errors of each line that a reader can distinguish."""
    drawn = [math.log(v) for values in columns.values() for v in values if is_drawn(v)]
    least_distance = LEAST_DISTANCE * (max(drawn) - min(drawn)) if drawn else 0.0
    lines: list[tuple[tuple[str, ...], tuple[float, ...]]] = []
    for name, values in sorted(columns.items(), key=lambda item: item[1], reverse=True):
        for i, (names, known) in enumerate(lines):
            if all(
                _log_distance(a, b) <= least_distance for a, b in zip(values, known, strict=True)
            ):
                lines[i] = ((*names, name), known)
                break
        else:
            lines.append(((name,), values))
    return tuple(lines)


def _log_distance(one: float, other: float) -> float:
    """Return the distance of two errors on a logarithmic axis.

    Two equal errors that the axis can't show have distance 0; one such error is infinitely far.
    """
    if is_drawn(one) and is_drawn(other):
        return abs(math.log(one / other))
    return 0.0 if one == other else math.inf


def _label_text(names: Sequence[str], values: Sequence[float]) -> str:
    """Return the label of a line: its columns, and whether no margin is drawn."""
    missing = "" if any(map(is_drawn, values)) else NO_MARGIN
    return textwrap.fill(", ".join(names) + missing, LABEL_LENGTH, subsequent_indent="  ")


def _label_line_count(chart: MarginChart) -> int:
    return sum(label.count("\n") + 1 for label in chart.labels())


def _draw_margins(axes: Axes, chart: MarginChart) -> None:
    """Draw the relative margin of each column by rows in a cell, and the limits of the classes."""
    for _, values in chart.lines:
        drawn = [100 * value if is_drawn(value) else math.nan for value in values]
        axes.plot(ROWS, drawn, linewidth=1.2, color=LINE_COLOUR)
    axes.set(xscale="log", yscale="log", xlabel="rows in a cell", ylabel="margin, % of the value")
    limits = [float(limit) for limit in QUALITY_LIMITS]
    low = min([*limits, *(v for _, vs in chart.lines for v in vs if is_drawn(v))])
    axes.set(xlim=(ROWS[0], ROWS[-1]), ylim=(80 * low, 100 * LARGEST_MARGIN))
    axes.set_title(chart.title, fontsize=10)
    for letter, limit in zip(RELIABLE, limits, strict=True):
        axes.axhline(100 * limit, color="0.6", linewidth=0.6, linestyle="--")
        axes.text(ROWS[0] * 1.1, 97 * limit, letter, va="top", fontsize=7, color="0.3")
    axes.text(ROWS[0] * 1.1, 110 * limits[-1], UNRELIABLE, fontsize=7, color="0.3")
    _write_full_numbers(axes)
    axes.spines[["right", "top"]].set_visible(False)
    _label_lines(axes, chart)


def _write_full_numbers(axes: Axes) -> None:
    """Write the numbers of a logarithmic scale in full, and only a few of them."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.yaxis.set_minor_locator(NullLocator())


def _label_lines(axes: Axes, chart: MarginChart) -> None:
    """Write each label next to the end of its line, connected by a fine line if it had to move."""
    low, high = (math.log(end) for end in axes.get_ylim())
    lines = []
    for label, (_, values) in zip(chart.labels(), chart.lines, strict=True):
        last = next(((a, 100 * v) for a, v in zip(ROWS[::-1], values[::-1], strict=True)
                     if is_drawn(v)), None)  # fmt: skip
        height_at_end = 0.0 if last is None else (math.log(last[1]) - low) / (high - low)
        lines.append((height_at_end, label, last))
    lines.sort(key=lambda line: line[0])
    line_height = LABEL_LINE_HEIGHT / (_chart_height(chart) - FRAME_HEIGHT)
    heights = [line_height * (label.count("\n") + 1) for _, label, _ in lines]
    for label_height, (_, label, last) in zip(
        spread_labels([height_at_end for height_at_end, _, _ in lines], heights), lines, strict=True
    ):
        axes.annotate(
            label,
            (ROWS[-1], 100.0) if last is None else last,
            xycoords="data",
            xytext=(1.06, label_height),
            textcoords="axes fraction",
            va="center",
            fontsize=7,
            annotation_clip=False,
            arrowprops=None
            if last is None
            else {
                "arrowstyle": "-",
                "color": "0.6",
                "linewidth": 0.6,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def spread_labels(places: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return positions near the given ascending positions where texts do not overlap.

    `heights` are the heights of the texts. Overlapping texts move apart around the middle of their
    original positions. All texts stay between 0 and 1 if there is enough space.
    """
    blocks: list[tuple[float, float, int]] = []  # the middle, the height, the number of texts
    for position, height in zip(places, heights, strict=True):
        block = (position, height, 1)
        while blocks and blocks[-1][0] + blocks[-1][1] / 2 > block[0] - block[1] / 2:
            middle, block_height, several = blocks.pop()
            number = several + block[2]
            block = (
                (middle * several + block[0] * block[2]) / number,
                block_height + block[1],
                number,
            )
        block_height = block[1]
        block = (
            min(max(block[0], block_height / 2), max(1.0 - block_height / 2, block_height / 2)),
            block_height,
            block[2],
        )
        blocks.append(block)
    found, done = [], 0
    for middle, block_height, several in blocks:
        bottom = middle - block_height / 2
        for height in heights[done : done + several]:
            found.append(bottom + height / 2)
            bottom += height
        done += several
    return found


def _draw_trade_off(axes: Axes, plan: Plan) -> None:
    """Draw the errors of an attacker who guesses whether one unit is in the data."""
    missed, false_alarms = trade_off(plan)
    axes.plot([0, 1], [1, 0], linestyle="--", color="0.4", linewidth=1.0)
    axes.plot(false_alarms, missed, color=LINE_COLOUR)
    axes.text(0.62, 0.4, "blind guessing", fontsize=7, color="0.3")
    axes.set(
        xlabel="false alarms of an attacker",
        ylabel="least share of units missed",
        title="whether one unit is in the data",
        aspect="equal",
    )
    axes.spines[["right", "top"]].set_visible(False)


def trade_off(plan: Plan) -> tuple[Sequence[float], Sequence[float]]:
    """Return the least rates of misses, and the corresponding rates of false alarms."""
    vectors = [column.accounting_input for column in plan.noisy_columns]
    alarms = np.linspace(0.0, 1.0, 401)
    pairs = epsilon_delta_pairs(vectors, plan.tables_guarantee.pure_epsilon)
    if plan.limits is not None:  # its epsilon adds up with each pair
        added = plan.limits.guarantee.pure_epsilon
        pairs = [(epsilon + added, delta) for epsilon, delta in pairs]
    missed = least_missed(pairs, alarms)
    return missed.tolist(), alarms.tolist()
