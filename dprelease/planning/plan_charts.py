"""Charts of a plan: errors against budgets, and the unavoidable errors of an attacker."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.errors import DpReleaseError
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.charts import is_drawn, save
from dprelease.planning.plan import Plan, make_plan
from dprelease.planning.prepare import prepare
from dprelease.planning.trade_off import least_missed, pairs_of
from dprelease.query.resolve import resolve
from dprelease.schema.load import Declaration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST_LINES = 4
"""Maximum lines of one chart; each unit gets as many charts as its columns need."""

LABEL = 34
"""Characters in a line of a label."""

APART = 0.02
"""Fraction of a chart's height by which lines must differ somewhere to be drawn separately."""

WIDTH, NAMES, HEIGHT, FRAME, LINE = 3.2, 2.2, 3.1, 0.9, 0.13
"""Inches of a chart: its field, the labels next to it; its height, the part without lines, a
label."""

LINES = "C0"
"""The colour of all lines: labels next to them distinguish them, not colours."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns of one unit; those whose errors are too close share a line."""

    title: str
    lines: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]

    def labels(self) -> list[str]:
        """Return the label of each line: the names of all of its columns."""
        return [_label(names, values) for names, values in self.lines]


def draw_plan(declaration: Declaration, plan: Plan, path: Path) -> None:
    """Write all charts into one file; raise OutputError DP-OUTPUT-002 if it can't be written."""
    from matplotlib.figure import Figure

    counted, amounts, errors = errors_by_budget(declaration, plan)
    charts = charts_of(plan, errors)
    across = 2 if len(charts) + 1 in (2, 4) else 3
    rows = [charts[i : i + across] for i in range(0, len(charts) + 1, across)]
    tall = [max(map(_height, row), default=HEIGHT) for row in rows]
    figure = Figure(figsize=((WIDTH + NAMES) * across, sum(tall)), layout="constrained")
    axes = list(figure.subplots(len(rows), across, squeeze=False, height_ratios=tall).flat)
    for place, chart in zip(axes, charts, strict=False):
        _draw_errors(place, chart, counted, amounts)
    _draw_trade_off(axes[len(charts)], plan)
    for place in axes[len(charts) + 1 :]:
        place.remove()
    save(figure, path)


def _height(chart: Chart) -> float:
    """Return the height in inches of a chart in which all of its labels fit."""
    return max(HEIGHT, LINE * _name_lines(chart) + FRAME)


def charts_of(plan: Plan, errors: Mapping[str, Sequence[float]]) -> list[Chart]:
    """Return charts of all columns, by unit; no line of a chart covers another."""
    by_unit: dict[str, dict[str, tuple[float, ...]]] = {}
    for column in plan.noisy_columns:
        name = f"{column.query.name}.{column.measurement.name}"
        by_unit.setdefault(column.measurement.error_unit, {})[name] = tuple(errors[name])
    charts = []
    for unit, columns in by_unit.items():
        lines = _lines_apart(columns)
        parts = [lines[i : i + MOST_LINES] for i in range(0, len(lines), MOST_LINES)]
        for number, part in enumerate(parts, 1):
            of = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
            charts.append(Chart(f"{unit or 'no unit'}{of}", part))
    return charts


def _lines_apart(
    columns: Mapping[str, tuple[float, ...]],
) -> tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]:
    """Return names and errors of lines that are distinguishable on a logarithmic axis."""
    drawn = [math.log(v) for values in columns.values() for v in values if is_drawn(v)]
    near = APART * (max(drawn) - min(drawn)) if drawn else 0.0
    lines: list[tuple[tuple[str, ...], tuple[float, ...]]] = []
    for name, values in sorted(columns.items(), key=lambda item: item[1], reverse=True):
        for i, (names, known) in enumerate(lines):
            if all(_distance(a, b) <= near for a, b in zip(values, known, strict=True)):
                lines[i] = ((*names, name), known)
                break
        else:
            lines.append(((name,), values))
    return tuple(lines)


def _distance(one: float, other: float) -> float:
    """Return the distance of two errors on a logarithmic axis; 0 if they are not on it."""
    if is_drawn(one) and is_drawn(other):
        return abs(math.log(one / other))
    return 0.0 if one == other else math.inf


def _label(names: Sequence[str], values: Sequence[float]) -> str:
    missing = "" if any(map(is_drawn, values)) else ": no mean error"
    return textwrap.fill(", ".join(names) + missing, LABEL, subsequent_indent="  ")


def _name_lines(chart: Chart) -> int:
    return sum(label.count("\n") + 1 for label in chart.labels())


def _draw_errors(axes: Axes, chart: Chart, counted: str, amounts: Sequence[float]) -> None:
    for _, values in chart.lines:
        drawn = [value if is_drawn(value) else math.nan for value in values]
        axes.plot(amounts, drawn, marker="o", markersize=3.5, linewidth=1.2, color=LINES)
    axes.set(xscale="log", yscale="log", xlabel=counted, ylabel="mean error")
    axes.set_title(chart.title, parse_math=False)  # a unit may look like a formula
    axes.set_xticks(amounts, [f"{amount:g}" for amount in amounts], minor=False)
    axes.set_xticks([], minor=True)
    _plain_numbers(axes)
    axes.spines[["right", "top"]].set_visible(False)
    _label_lines(axes, chart, amounts)


def _plain_numbers(axes: Axes) -> None:
    """Write the numbers of a logarithmic scale in full, and only a few of them."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.yaxis.set_minor_locator(NullLocator())


def _label_lines(axes: Axes, chart: Chart, amounts: Sequence[float]) -> None:
    """Write each label next to the end of its line, connected by a fine line if it had to move."""
    low, high = (math.log(end) for end in axes.get_ylim())
    lines = []
    for label, (_, values) in zip(chart.labels(), chart.lines, strict=True):
        last = next(((a, v) for a, v in zip(amounts[::-1], values[::-1], strict=True)
                     if is_drawn(v)), None)  # fmt: skip
        at = 0.0 if last is None else (math.log(last[1]) - low) / (high - low)
        lines.append((at, label, last))
    lines.sort(key=lambda line: line[0])
    line_height = LINE / (_height(chart) - FRAME)
    heights = [line_height * (label.count("\n") + 1) for _, label, _ in lines]
    for place, (_, label, last) in zip(
        spread([at for at, _, _ in lines], heights), lines, strict=True
    ):
        axes.annotate(
            label,
            (amounts[-1], 1.0) if last is None else last,
            xycoords="data",
            xytext=(1.06, place),
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


def spread(places: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return positions near ascending ones, so that texts of these heights don't overlap.

    Overlapping texts move apart together, around the middle of their original positions; all stay
    within 0 and 1 if they fit there.
    """
    blocks: list[tuple[float, float, int]] = []  # the middle, the height, the number of texts
    for place, height in zip(places, heights, strict=True):
        block = (place, height, 1)
        while blocks and blocks[-1][0] + blocks[-1][1] / 2 > block[0] - block[1] / 2:
            middle, tall, several = blocks.pop()
            number = several + block[2]
            block = ((middle * several + block[0] * block[2]) / number, tall + block[1], number)
        tall = block[1]
        block = (min(max(block[0], tall / 2), max(1.0 - tall / 2, tall / 2)), tall, block[2])
        blocks.append(block)
    found, at = [], 0
    for middle, tall, several in blocks:
        bottom = middle - tall / 2
        for height in heights[at : at + several]:
            found.append(bottom + height / 2)
            bottom += height
        at += several
    return found


def _draw_trade_off(axes: Axes, plan: Plan) -> None:
    missed, false_alarms = trade_off(plan)
    axes.plot([0, 1], [1, 0], linestyle="--", color="0.4", linewidth=1.0)
    axes.plot(false_alarms, missed, color=LINES)
    axes.text(0.62, 0.4, "blind guessing", fontsize=7, color="0.3")
    axes.set(
        xlabel="false alarms of an attacker",
        ylabel="least share of units missed",
        title="whether one unit is in the data",
        aspect="equal",
    )
    axes.spines[["right", "top"]].set_visible(False)


def errors_by_budget(
    declaration: Declaration, plan: Plan
) -> tuple[str, list[float], dict[str, list[float]]]:
    """Return the measure, some budgets around the declared one, and the columns' errors for them.

    Budgets for which nothing fits are left out. Without a declared amount there is one budget: the
    plan's cost.
    """
    spec = declaration.spec.budget
    counted = "epsilon" if spec.rho is None else "rho"
    amount = spec.epsilon if spec.rho is None else spec.rho
    plans: list[tuple[float, Plan]] = []
    if amount is None:
        plans.append((plan.guarantee.epsilon, plan))
    else:
        for factor in FACTORS:
            try:
                scaled = _plan_at_budget(declaration, {counted: amount * Fraction(factor)})
            except DpReleaseError:
                continue
            plans.append((float(amount) * factor, scaled))
    errors: dict[str, list[float]] = {}
    for _, planned in plans:
        for column in planned.columns:
            name = f"{column.query.name}.{column.measurement.name}"
            errors.setdefault(name, []).append(column.mean_absolute_error)
    return counted, [budget for budget, _ in plans], errors


def _plan_at_budget(declaration: Declaration, amounts: dict[str, Fraction]) -> Plan:
    """Return the plan for another budget; consistent tables get the best shares there."""
    spec = declaration.spec
    scaled = spec.budget.model_copy(update={**amounts, "spend": "all"})
    if any(query.consistent for query in spec.queries.values()):
        changed = spec.model_copy(update={"budget": scaled})
        return prepare(replace(declaration, spec=changed))[1]
    queries = resolve(declaration)
    return make_plan(queries, scaled, None, shares_of(spec, queries))


def trade_off(plan: Plan) -> tuple[Sequence[float], Sequence[float]]:
    """Return the least rates of misses, and the corresponding rates of false alarms."""
    vectors = [column.accounting_input for column in plan.noisy_columns]
    alarms = np.linspace(0.0, 1.0, 401)
    missed = least_missed(pairs_of(vectors, plan.guarantee.pure_epsilon), alarms)
    return missed.tolist(), alarms.tolist()
