"""Declared labels of an answer's columns, as plain values for the attributes of a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dprelease.documents.column_metadata import value_labels
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column, CutColumn
from dprelease.schema.localized_text import LocalizedText

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
            told: dict[str, Any] = {}
            if label is not None:
                told["label"] = dict(label.by_language)
            if values:
                told["values"] = {value: dict(said.by_language) for value, said in values.items()}
            if told:
                found[name] = told
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
