"""The plan of an answer, its guarantee, margins and labels, as plain values and frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from dprelease.documents.column_metadata import value_labels
from dprelease.planning.bounded_words import contribution_limits_texts, measured_value_text
from dprelease.planning.plan import Plan
from dprelease.query.resolve import Query
from dprelease.release.after_noise import NO_KEYS, DeclaredKeys
from dprelease.schema.columns import Column, CutColumn
from dprelease.schema.localized_text import LocalizedText

if TYPE_CHECKING:
    import pandas as pd

Labels = dict[str, dict[str, Any]]
"""By declared column: its `label` and the labels of its `values`, by language.

The language `""` stands for every language.
"""


def labels_of(queries: Iterable[Query]) -> Labels:
    """Return the declared labels of all columns that queries group by or measure."""
    found: Labels = {}
    for query in queries:
        for name in _column_names(query):
            declared = query.table.columns.get(name)
            if declared is None:
                continue
            values, label = value_labels(declared), _declared_label(declared, query)
            labels: dict[str, Any] = {}
            if label is not None:
                labels["label"] = dict(label.by_language)
            if values:
                labels["values"] = {value: dict(said.by_language) for value, said in values.items()}
            if labels:
                found[name] = labels
    return found


def _declared_label(declared: Column, query: Query) -> LocalizedText | None:
    """Return the label of a column; for a cut without a label, the label of the column it cuts."""
    if declared.label is None and isinstance(declared, CutColumn):
        return query.table.columns[declared.cut].label
    return declared.label


def _column_names(query: Query) -> Iterator[str]:
    """Yield the declared columns that an answer groups by or measures."""
    yield from (key.column for key in query.key_columns)
    for measurement in query.measurements:
        column = measurement.aggregate.column
        if column is not None:
            yield column


def explained(
    plan: Plan | None, public: Iterable[str] = (), keys: DeclaredKeys = NO_KEYS
) -> pd.DataFrame:
    """Return a plan: a row for each measurement, then one for each computed column.

    `public`: the public tables that the statement reads by itself; each has a row as well, as
    each of the declared `keys` that it lists.
    """
    import pandas as pd

    rows = [] if plan is None else _plan_rows(plan)
    rows += [{"table": name, "counts": "public table, read without noise"} for name in public]
    rows += [{"column": name, "counts": "declared values, which are public"} for name in keys.names]
    frame = pd.DataFrame(rows)
    noted = keys.attributes() if plan is None else answer_attributes(plan, public)
    frame.attrs["dprelease"] = {**noted, **keys.note()}
    return frame


def _plan_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each measurement of a plan, then one for each computed column."""
    rows: list[dict[str, Any]] = [
        {
            "table": column.query.name,
            "column": column.measurement.name,
            "counts": measured_value_text(column.query, column.measurement),
            "mechanism": column.mechanism.name,
            "cells": column.query.cells,
            "sensitivity": str(column.measurement.sensitivity),
            "mean_error": column.mean_absolute_error,
            "margin": float(column.margin()),
            "unit": column.measurement.error_unit,
            "cost_alone": alone,
        }
        for column, alone in zip(plan.columns, plan.costs_alone(), strict=True)
    ]
    rows += [
        {
            "table": query.name,
            "column": column.name,
            "mechanism": column.formula,
            "margin": margin,
            "unit": column.unit,
        }
        for query, column, margin in plan.computed_columns()
    ]
    return rows


def answer_attributes(plan: Plan, public: Iterable[str] = ()) -> dict[str, Any]:
    """Return guarantee, margins, mechanisms, labels and row rules of an answer, as JSON values.

    `public`: the public tables that the statement reads by itself.
    """
    labels, tables = labels_of(plan.queries), list(public)
    return {
        "guarantee": plan.guarantee.to_json(),
        "margins_95": {
            c.measurement.name: float(c.margin())
            for c in plan.columns
            if not c.measurement.is_choice
        },
        "ranks_95": {
            c.measurement.name: float(c.margin()) for c in plan.columns if c.measurement.is_choice
        },
        "mechanisms": {c.measurement.name: c.mechanism.name for c in plan.columns},
        "bounded_rows": contribution_limits_texts(plan.queries),
        **({"labels": labels} if labels else {}),
        **({"public_tables": tables} if tables else {}),
    }
