"""The text of a plan of tables, as `plan` prints it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dprelease.cli.shown.shown_tables import table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dprelease.planning.notes.limit_choices import NoiseByLimit
    from dprelease.planning.plan import Plan

WIDE_HEADS = ("cells", "parameters", "sensitivity")
"""Column heads of the table of a plan that are shown only with `--wide`."""


def table_plan_text(planned: Plan, *, wide: bool) -> str:
    """Return the text of a plan of tables."""
    from dprelease.planning.bounded_words import (
        contribution_limits_texts,
        counted_rows_texts,
        differently_bounded,
    )

    warnings = [f"Warning: {one_line(warning)}" for warning in planned.warnings]
    parts = [
        _guarantee_text(planned),
        table_text(_plan_table_rows(planned, 6 if wide else 4), wide=wide, more=WIDE_HEADS),
        _counted_rows_text(planned, wide=wide),
        *_computed_columns_text(planned, wide=wide),
        *counted_rows_texts(planned.queries),
        *_treatments_text(planned, wide=wide),
        *contribution_limits_texts(planned.queries),
        *(f"{one_line(one.words)}." for one in differently_bounded(planned.queries)),
    ]
    return "\n\n".join([*parts, *_attacker_texts(planned), *warnings])


def noise_by_limit_texts(planned: Plan, noises: Sequence[NoiseByLimit], *, wide: bool) -> list[str]:
    """Return a table for each contribution limit of a source: the margins for other limits."""
    from dprelease.planning.notes.limit_choices import TOO_MANY_COLUMNS, has_too_many_columns

    if has_too_many_columns(planned):
        return [TOO_MANY_COLUMNS]
    by_limit: dict[tuple[str, str], list[NoiseByLimit]] = {}
    for noise in noises:
        by_limit.setdefault((noise.source, noise.limit), []).append(noise)
    texts = []
    for (source, limit), found in by_limit.items():
        values = [
            f"{value:,}{' (declared)' * (value == found[0].declared)}" for value in found[0].values
        ]
        rows = [(f"{limit} of {source}:", *values, "at", "unit")]
        rows += [
            (
                noise.column,
                *("none fits" if x is None else f"{x:,.4g}" for x in noise.margins),
                _percent_text(noise.confidence),
                noise.unit,
            )
            for noise in found
        ]
        text = table_text(rows, wide=wide, right=values)
        texts.append(f"Margins of error for other contribution limits, at the same budget\n{text}")
    return texts


def _plan_table_rows(planned: Plan, digits: int) -> list[tuple[str, ...]]:
    """Return the rows of a plan's table: the heads, then noise, errors and cost of every column."""
    confidences = {float(column.confidence) for column in planned.columns}
    several = len(confidences) > 1
    margin = ["margin", "at"] if several else [f"margin at {_percent_text(*confidences)}"]
    heads = ("column", "cells", "mechanism", "parameters", "sensitivity", "mean error")
    rows: list[tuple[str, ...]] = [(*heads, *margin, "unit", "cost alone")]
    for column, price in zip(planned.columns, planned.costs_alone(), strict=True):
        parameters = column.mechanism.parameters
        texts = (f"{name} {_parameter_text(text)}" for name, text in parameters if text != "0.0")
        confidence = float(column.confidence)
        rows.append(
            (
                f"{column.query.name}.{column.measurement.name}",
                "private" if column.query.cells is None else f"{column.query.cells:,}",
                column.mechanism.name,
                ", ".join(texts),
                str(column.measurement.sensitivity),
                f"{column.mean_absolute_error:,.{digits}g}",
                f"{float(column.margin(confidence)):,.{digits}g}",
                *([_percent_text(confidence)] if several else []),
                column.measurement.error_unit,
                "outside" if column.measurement.exact else f"{price:.4g}",
            )
        )
    return rows


def _percent_text(confidence: float) -> str:
    """Return a confidence in percent."""
    return f"{100 * confidence:g} %"


def _counted_rows_text(planned: Plan, *, wide: bool) -> str:
    """Return a table that says which rows each column counts, or which values it adds up."""
    from dprelease.planning.bounded_words import measured_value_text

    named = [
        (f"{c.query.name}.{c.measurement.name}", measured_value_text(c.query, c.measurement))
        for c in planned.columns
    ]
    return table_text([("column", "what it counts"), *named], wide=wide)


def _treatments_text(planned: Plan, *, wide: bool) -> list[str]:
    """Return a table of the treatments of columns in a list; an empty list if there are none."""
    from dprelease.planning.treatments import treatment_rows

    rows = [("column", "missing and undeclared values", "in")]
    rows += [(column, words, tables) for tables, column, words in treatment_rows(planned.queries)]
    return [table_text(rows, wide=wide)] if len(rows) > 1 else []


def _computed_columns_text(planned: Plan, *, wide: bool) -> list[str]:
    """Return a table of the computed columns in a list; an empty list if there are none."""
    rows = [("computed", "from", "margin at 1,000 rows", "unit")]
    for query, column, margin in planned.computed_columns():
        width = "" if margin is None else f"{margin:,.6g}"
        rows.append((f"{query.name}.{column.name}", column.formula, width, column.unit))
    return [table_text(rows, wide=wide)] if len(rows) > 1 else []


def _guarantee_text(planned: Plan) -> str:
    """Return the lines of the guarantee: epsilon, delta, neighbours, rho and chosen mechanisms."""
    guarantee = planned.guarantee
    at = f" at delta {float(guarantee.delta):g}" if guarantee.delta else ""
    lines = [f"epsilon {guarantee.epsilon:.6g}{at}, neighbours {guarantee.neighbours.value}"]
    if guarantee.invariants:
        lines.append("not covering the invariants: see the warnings")
    rho = planned.rho()
    if rho is not None:
        lines.append(f"rho {rho:.6g} (zero-concentrated)")
    if guarantee.delta and math.isfinite(guarantee.pure_epsilon):
        lines.append(f"epsilon {guarantee.pure_epsilon:.6g} without any delta")
    for choice in dict.fromkeys(column.chosen_by for column in planned.columns):
        if choice != "declared":
            lines.append(f"chosen: {choice}")
    return "\n".join(lines)


def _attacker_texts(planned: Plan) -> list[str]:
    """Return texts on what an attacker can learn at most."""
    from dprelease.planning.guarantees import interpretation_of

    read = interpretation_of(planned.guarantee)
    posteriors = ", ".join(
        f"{100 * row['prior']:g} % to {100 * row['posterior']:.4g} %"
        for row in read["largest_posterior"]
    )
    return [
        "An attacker who guesses whether a privacy unit is in the data errs by at least "
        f"{read['least_total_error']:.4g} (false alarms plus misses; 1 is blind guessing).\n"
        f"The belief in a statement about a privacy unit can rise at most from {posteriors}.",
        *([read["invariants_words"]] if "invariants_words" in read else []),
    ]


def _parameter_text(text: str) -> str:
    """Return a parameter of a mechanism with six digits; of a long text, only its length."""
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text if len(text) < 24 else f"({len(text)} characters)"
