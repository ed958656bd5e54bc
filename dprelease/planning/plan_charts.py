"""Charts of a plan: errors against budgets, and the errors that an attacker can't avoid."""

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
from dprelease.planning.charts import save
from dprelease.planning.plan import Plan, make_plan
from dprelease.planning.prepare import prepare
from dprelease.privacy.accounting import epsilon_at
from dprelease.query.resolve import resolve
from dprelease.schema.load import Declaration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
DELTAS = tuple(Fraction(1, 10**i) for i in range(1, 10))
MOST_LINES = 8
"""Lines of one chart; there are as many charts of a unit as its columns need."""

LABEL = 46
"""Letters of a line of a legend."""

APART = 0.02
"""Part of a chart's height by which lines have to be apart, somewhere, to be told apart."""

WIDTH, HEIGHT, LINE = 4.6, 3.1, 0.17
"""Inches of a chart, and of a line of its legend."""

START = "-"
"""Begins every label, for matplotlib leaves out those that begin with an underscore."""

STYLES = ("-", "--", "-.", ":")
MARKERS = "osD^vPX*"


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns of one unit; those whose errors are too near to be told apart share a line."""

    title: str
    lines: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]

    def labels(self) -> list[str]:
        """Return what the legend says of each line: the names of all of its columns."""
        return [_label(names, values) for names, values in self.lines]


def draw_plan(declaration: Declaration, plan: Plan, path: Path) -> None:
    """Write all charts into one file; raise OutputError DP-OUTPUT-002 if it can't be written."""
    from matplotlib.figure import Figure

    counted, amounts, errors = errors_by_budget(declaration, plan)
    charts = charts_of(plan, errors)
    across = 2 if len(charts) + 1 in (2, 4) else 3
    rows = [charts[i : i + across] for i in range(0, len(charts) + 1, across)]
    longest = [max((_legend_lines(chart) for chart in row), default=0) for row in rows]
    height = len(rows) * HEIGHT + LINE * sum(longest)
    figure = Figure(figsize=(WIDTH * across, height), layout="constrained")
    axes = list(figure.subplots(len(rows), across, squeeze=False).flat)
    for place, chart in zip(axes, charts, strict=False):
        _draw_errors(place, chart, counted, amounts)
    _draw_trade_off(axes[len(charts)], plan)
    for place in axes[len(charts) + 1 :]:
        place.remove()
    save(figure, path)


def charts_of(plan: Plan, errors: Mapping[str, Sequence[float]]) -> list[Chart]:
    """Return charts of all columns, unit by unit; no line of one covers another."""
    by_unit: dict[str, dict[str, tuple[float, ...]]] = {}
    for column in plan.noised:
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
    """Return names and errors of lines that can be told apart on a logarithmic axis."""
    drawn = [math.log(v) for values in columns.values() for v in values if _is_drawn(v)]
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


def _is_drawn(error: float) -> bool:
    return 0.0 < error < math.inf


def _distance(one: float, other: float) -> float:
    """Return how far apart two errors are on a logarithmic axis; those that are not on it, 0."""
    if _is_drawn(one) and _is_drawn(other):
        return abs(math.log(one / other))
    return 0.0 if one == other else math.inf


def _label(names: Sequence[str], values: Sequence[float]) -> str:
    missing = "" if any(map(_is_drawn, values)) else ": no mean error"
    return textwrap.fill(", ".join(names) + missing, LABEL, subsequent_indent="  ")


def _legend_lines(chart: Chart) -> int:
    return sum(label.count("\n") + 1 for label in chart.labels())


def _draw_errors(axes: Axes, chart: Chart, counted: str, amounts: Sequence[float]) -> None:
    for i, (label, (_, values)) in enumerate(zip(chart.labels(), chart.lines, strict=True)):
        axes.plot(
            amounts,
            [value if _is_drawn(value) else math.nan for value in values],
            marker=MARKERS[i % len(MARKERS)],
            linestyle=STYLES[i % len(STYLES)],
            markersize=4,
            linewidth=1.2,
            label=f"{START}{label}",
        )
    axes.set(xscale="log", yscale="log", xlabel=counted, ylabel="mean error")
    axes.set_title(chart.title, parse_math=False)  # a unit may hold what stands for a formula
    axes.set_xticks(amounts, [f"{amount:g}" for amount in amounts], minor=False)
    axes.set_xticks([], minor=True)
    legend = axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.22))
    for text in legend.get_texts():
        text.set_text(text.get_text().removeprefix(START))


def _draw_trade_off(axes: Axes, plan: Plan) -> None:
    missed, false_alarms = trade_off(plan)
    axes.plot(false_alarms, missed)
    axes.plot([0, 1], [1, 0], linestyle=":", color="gray")
    axes.set(
        xlabel="false alarms of an attacker",
        ylabel="least share of units missed",
        title="whether one unit is in the data",
        aspect="equal",
    )


def errors_by_budget(
    declaration: Declaration, plan: Plan
) -> tuple[str, list[float], dict[str, list[float]]]:
    """Return what is counted, some budgets around the declared one, and the columns' errors there.

    Budgets at which nothing fits are left out; without an amount there is one: what the plan costs.
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
                scaled = _planned(declaration, {counted: amount * Fraction(factor)})
            except DpReleaseError:
                continue
            plans.append((float(amount) * factor, scaled))
    errors: dict[str, list[float]] = {}
    for _, planned in plans:
        for column in planned.columns:
            name = f"{column.query.name}.{column.measurement.name}"
            errors.setdefault(name, []).append(column.mean_absolute_error)
    return counted, [budget for budget, _ in plans], errors


def _planned(declaration: Declaration, amounts: dict[str, Fraction]) -> Plan:
    """Return the plan at another budget; tables that agree get the best shares there."""
    spec = declaration.spec
    scaled = spec.budget.model_copy(update={**amounts, "spend": "all"})
    if any(query.consistent for query in spec.queries.values()):
        changed = spec.model_copy(update={"budget": scaled})
        return prepare(replace(declaration, spec=changed))[1]
    queries = resolve(declaration)
    return make_plan(queries, scaled, None, shares_of(spec, queries))


def trade_off(plan: Plan) -> tuple[Sequence[float], Sequence[float]]:
    """Return the least shares of misses, and the shares of false alarms that go with them.

    The largest of the curves of all (epsilon, delta) that the release has (Wasserman and Zhou 2010;
    Dong, Roth and Su 2022, arXiv 1905.02383v3, Proposition 2.5).
    """
    vectors = [column.priced for column in plan.noised]
    pairs = [(epsilon_at(vectors, delta), float(delta)) for delta in DELTAS]
    pairs.append((plan.guarantee.pure_epsilon, 0.0))
    alarms = np.linspace(0.0, 1.0, 401)
    missed = np.zeros_like(alarms)
    for epsilon, delta in pairs:
        if math.isinf(epsilon):
            continue
        first = 1.0 - delta - np.exp(min(epsilon, 700.0)) * alarms
        second = math.exp(-epsilon) * (1.0 - delta - alarms)
        missed = np.maximum(missed, np.maximum(first, second))
    return missed.tolist(), alarms.tolist()
