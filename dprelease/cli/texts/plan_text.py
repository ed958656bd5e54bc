"""The text of a plan of tables, as `plan` prints it: one line for each published column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dprelease.cli.texts.text_tables import table_text
from dprelease.errors.printable import one_line
from dprelease.planning.notes.published_columns import NO_ESTIMATES, Limit, PublishedColumn

if TYPE_CHECKING:
    from dprelease.planning.notes.limit_choices import NoiseByLimit
    from dprelease.planning.plan import Plan

WIDE_HEADS = ("cells", "parameters", "sensitivity")
"""Column heads of the table of all noise that are shown only with `--wide`."""

DIGITS = 4
"""Significant digits of margins, which are rounded up."""

FEW_TABLES = 4
"""A note lists fewer tables than this by name."""

LIMIT_TEXTS = {
    Limit.BUDGET: (
        "budget: the column's share. Columns may share measurements, so shares may add up to more "
        "than 100 %."
    ),
    Limit.CONTRIBUTIONS: (
        "limits: the contribution limits, max_groups x max_rows_per_group, or max_rows."
    ),
    Limit.BOUNDS: "wide bounds: the bounds of the values are far apart.",
    Limit.ROWS: "few rows: a cell has few rows.",
}
"""What the words of the last column mean."""


def table_plan_text(
    planned: Plan,
    *,
    wide: bool,
    ledger: Sequence[str] = (),
    estimates: Mapping[tuple[str, str], float] = NO_ESTIMATES,
) -> str:
    """Return the guarantee, the ledger, a line for each published column, notes and warnings.

    `estimates` are the margins of columns of consistent tables, by table and column.
    """
    published = planned.published(estimates)
    warnings = [f"Warning: {one_line(warning)}" for warning in planned.warnings]
    notes = [*_margin_notes(published), *_limit_notes(published), *_contribution_notes(planned)]
    notes += [*_weak_notes(published), *_key_notes(planned), *_family_notes(planned)]
    parts = [
        "\n".join([_guarantee_text(planned), *ledger]),
        table_text(_published_rows(published), wide=wide, unbroken=["limited by"])
        if published
        else "",
        "\n".join([*_selection_notes(planned), *notes]),
        "\n".join(warnings),
    ]
    return "\n\n".join(part for part in parts if part)


def explained_plan_texts(planned: Plan, *, wide: bool) -> list[str]:
    """Return the texts on all noise, all counted rows, and what an attacker can learn at most."""
    from dprelease.planning.bounded_words import (
        contribution_limits_texts,
        counted_rows_texts,
        differently_bounded,
        differently_counted,
    )

    return [
        *_definition_texts(planned),
        table_text(_noise_rows(planned, 6 if wide else 4), wide=wide, more=WIDE_HEADS),
        *_choice_notes(planned),
        _counted_rows_text(planned, wide=wide),
        *_computed_columns_text(planned, wide=wide),
        *counted_rows_texts(planned.queries),
        *_treatments_text(planned, wide=wide),
        *contribution_limits_texts(planned.queries),
        *(f"{one_line(one.words)}." for one in differently_bounded(planned.queries)),
        *(f"{one_line(one.words)}." for one in differently_counted(planned.queries)),
        *_attacker_texts(planned),
        *planned.rows_inside_texts(),
    ]


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
            f"{value:,}{f' ({found[0].what})' * (value == found[0].declared)}"
            for value in found[0].values
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


def _guarantee_text(planned: Plan) -> str:
    guarantee = planned.guarantee
    at = f" at delta {float(guarantee.delta):g}" if guarantee.delta else ""
    parts = [f"epsilon {guarantee.epsilon:.6g}{at}", f"neighbours {guarantee.neighbours.value}"]
    if guarantee.rho is not None:
        exempt = f" up to a delta of {guarantee.rho_delta:.3g}" if guarantee.rho_delta else ""
        parts.append(f"rho {guarantee.rho:.6g}{exempt}")
    if guarantee.invariants:
        parts.append("not covering the invariants: see the warnings")
    return ", ".join(parts)


def _published_rows(published: Sequence[PublishedColumn]) -> list[tuple[str, ...]]:
    """Return the rows of the table of published columns, with their heads."""
    confidences = {column.confidence for column in published}
    several = len(confidences) > 1
    margin = "margin" if several else f"margin at {_percent_text(*confidences)}"
    rows: list[tuple[str, ...]] = [("column", margin, "mechanism", "limited by")]
    for column in published:
        at = f" ({_percent_text(column.confidence)})" if several else ""
        rows.append(
            (
                column.name,
                f"{_margin_text(column)}{at}",
                ", ".join(column.mechanisms),
                column.limit_text,
            )
        )
    return rows


def _margin_text(column: PublishedColumn) -> str:
    """Return a margin with its unit, rounded up; a text if it depends on the values."""
    if column.margin is None:
        return "depends on values"
    if math.isinf(column.margin):
        return "none: the divisor may be 0"
    if column.says_nothing:
        return "none: whole range"
    ranks = "" if column.ranks is None else f" ({rounded_up_text(column.ranks)} ranks)"
    return f"{rounded_up_text(column.margin)} {column.unit}".rstrip() + ranks


def rounded_up_text(value: float) -> str:
    """Return a number with four significant digits, rounded up, without an exponent if possible."""
    if value == 0 or not 1e-6 < abs(value) < 1e15:
        return f"{value:g}"
    unit = Fraction(10) ** (math.floor(math.log10(abs(value))) + 1 - DIGITS)
    rounded = math.ceil(Fraction(value) / unit) * unit
    return f"{float(rounded):,.15g}" if abs(value) < 1 else f"{float(rounded):,.10g}"


def _percent_text(confidence: Fraction | float) -> str:
    return f"{100 * float(confidence):g} %"


def _margin_notes(published: Sequence[PublishedColumn]) -> list[str]:
    """Return a note on the number of rows for which margins hold."""
    by_rows = [column for column in published if column.depends_on_rows]
    numbers = sorted({column.rows for column in by_rows if column.margin is not None})
    notes = []
    if numbers:
        rows = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
        source = ", the declared `size` by cells" if by_rows[0].rows_declared else ""
        notes.append(
            f"Margins of means, variances and quantiles: in a cell of {rows} rows{source}."
        )
    if any(column.ranks is not None for column in published):
        notes.append(
            "Margins of quantiles: half of the interval, cut at the bounds (minima, maxima: all of "
            "it). Ranks: rows of this cell from the true quantile to the farther end."
        )
    return notes


def _limit_notes(published: Sequence[PublishedColumn]) -> list[str]:
    """Return a line on each word in the last column."""
    found = dict.fromkeys(column.limit for column in published)
    return [LIMIT_TEXTS[limit] for limit in found if limit in LIMIT_TEXTS]


def _contribution_notes(planned: Plan) -> list[str]:
    """Return notes on rows that contribution limits leave out; empty if there are none."""
    from dprelease.planning.bounded_words import differently_bounded

    tables = list(dict.fromkeys(c.query.name for c in planned.columns if c.is_bounded))
    if not tables:
        return []
    return [
        "Rows above the contribution limits are left out; no margin covers this: "
        f"{_names_text(tables)} (see --explain).",
        *(
            "These tables need not add up, even without noise: "
            f"{_names_text(one.tables)} (see --explain)."
            for one in differently_bounded(planned.queries)
        ),
    ]


def _weak_notes(published: Sequence[PublishedColumn]) -> list[str]:
    """Return a note on columns that will mostly be unreliable if the declared size is right."""
    weak = [one for one in published if one.rows_declared and one.is_expected_unreliable]
    names = [f"{one.query.name}.{one.column.name}" for one in weak]
    more = f" and {len(names) - FEW_TABLES} more" if len(names) > FEW_TABLES else ""
    return [
        "At the declared size, these columns have a margin too wide to quote them (quality D) in a "
        f"cell of middle size: {one_line(', '.join(names[:FEW_TABLES]))}{more}. Use fewer keys or "
        "broader groups, a larger share of the budget, or lower contribution limits. "
        "`dprelease rehearse` shows with invented people how many cells are empty."
    ] * bool(weak)


def _selection_notes(planned: Plan) -> list[str]:
    """Return a line for each table of private keys without columns."""
    return [
        f"{one_line(column.query.name)}: only keys, selected by {column.mechanism.name}."
        for column in planned.columns
        if not column.query.columns
    ]


def _key_notes(planned: Plan) -> list[str]:
    """Return a note on tables that leave out other rows than other tables of the same source."""
    from dprelease.planning.bounded_words import differently_counted

    return [
        "Rows without a declared value of "
        f"{one_line(', '.join(key for keys, _ in one.without for key in keys))} are left out of "
        f"some tables and may count in others: {_names_text(one.tables)} (see --explain)."
        for one in differently_counted(planned.queries)
    ]


def _family_notes(planned: Plan) -> list[str]:
    """Return a note for each family in which rows without a declared value count in no table.

    A total leaves out such rows, too, although it does not have the key.
    """
    keys: dict[str, list[str]] = {}
    tables: dict[str, list[str]] = {}
    for query in planned.queries:
        if query.finest is not None:
            found = [key.column for key in query.finest.keys if key.leaves_out_rows]
            keys[query.family] = found
            tables.setdefault(query.family, []).append(query.name)
    return [
        f"Rows without a declared value of {one_line(', '.join(found))} count in none of the "
        f"consistent tables, also not in totals: {_names_text(tables[family])} (see --explain)."
        for family, found in keys.items()
        if found
    ]


def _names_text(tables: Sequence[str]) -> str:
    """Return the names of a few tables, or the number of many tables."""
    return one_line(", ".join(tables) if len(tables) < FEW_TABLES else f"{len(tables)} tables")


def _definition_texts(planned: Plan) -> list[str]:
    """Return the guarantee in other definitions, and the mechanisms that `auto` has chosen."""
    guarantee, rho = planned.guarantee, planned.rho()
    lines = [] if rho is None else [f"rho {rho:.6g} (zero-concentrated)"]
    if guarantee.delta and math.isfinite(guarantee.pure_epsilon):
        lines.append(f"epsilon {guarantee.pure_epsilon:.6g} without any delta")
    chosen = dict.fromkeys(column.chosen_by for column in planned.columns)
    lines += [f"chosen: {choice}" for choice in chosen if choice != "declared"]
    return ["\n".join(lines)] if lines else []


def _noise_rows(planned: Plan, digits: int) -> list[tuple[str, ...]]:
    """Return the heads, then noise, errors and cost of every noised vector."""
    heads = ("noised vector", "cells", "mechanism", "parameters", "sensitivity", "mean error")
    rows: list[tuple[str, ...]] = [(*heads, "margin", "at", "unit", "cost alone")]
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
                _percent_text(column.confidence),
                column.measurement.error_unit,
                "outside" if column.measurement.exact else f"{price:.4g}",
            )
        )
    return rows


def _choice_notes(planned: Plan) -> list[str]:
    """Return a note on the margins of selected quantiles in the table of noise, in a list."""
    if all(c.measurement.aggregate.part is None for c in planned.columns):
        return []
    return [
        "Margins of selected quantiles and of ends in this table are the largest distances from "
        "the true quantile in rows, each at its confidence, in a cell with many rows. The margin "
        "of the published column is half of the expected width of the interval between the ends."
    ]


def _counted_rows_text(planned: Plan, *, wide: bool) -> str:
    """Return a table that says which rows each vector counts, or which values it adds up."""
    from dprelease.planning.bounded_words import measured_value_text

    named = [
        (f"{c.query.name}.{c.measurement.name}", measured_value_text(c.query, c.measurement))
        for c in planned.columns
    ]
    return table_text([("noised vector", "what it counts"), *named], wide=wide)


def _treatments_text(planned: Plan, *, wide: bool) -> list[str]:
    """Return a table of the treatments of columns in a list; an empty list if there are none."""
    from dprelease.planning.treatments import treatment_rows

    rows = [("column", "missing and undeclared values", "in")]
    rows += [(column, words, tables) for tables, column, words in treatment_rows(planned.queries)]
    return [table_text(rows, wide=wide)] if len(rows) > 1 else []


def _computed_columns_text(planned: Plan, *, wide: bool) -> list[str]:
    """Return a table of the computed columns in a list; an empty list if there are none."""
    rows = [
        (f"{query.name}.{column.name}", column.formula)
        for query, column, _ in planned.computed_columns()
    ]
    return [table_text([("computed", "from"), *rows], wide=wide)] if rows else []


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
