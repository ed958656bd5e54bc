"""Catalogue: computed columns and joined tables. No field holds a value of the data."""

from __future__ import annotations

from dprelease.errors.template import Template

DECLARED: dict[str, Template] = {
    "DP-DERIVE-001": Template(
        cause="'{column}' is declared under `derive`, but is not computed.",
        fix="add an `expression` and a `type`, or a `cut`; stored columns belong in the table's "
        "schema.",
    ),
    "DP-JOIN-001": Template(
        cause="The join is incomplete: {problem}.",
        fix="write {{table: ..., on: {{own column: public column}}}} for a public table, or "
        "{{table: ..., on_unit: true}} for another table about the same people.",
    ),
    "DP-JOIN-002": Template(
        cause="A public table can't have a privacy unit.",
        fix="remove `privacy_unit`; or remove `public: true` if the table is about people.",
    ),
}
ASKED: dict[str, Template] = {
    "DP-DERIVE-002": Template(
        cause="'{column}' is computed from itself: {path}.",
        fix="compute it from stored columns; a column can't depend on itself.",
    ),
    "DP-DERIVE-003": Template(
        cause="'{column}' can't be computed: {problem}.",
        fix="write an expression over columns of the same row whose result can be read as the "
        "declared type.",
    ),
    "DP-DERIVE-004": Template(
        cause="The name '{column}' is already used: {where} has such a column, perhaps in other "
        "case.",
        fix="choose another name: in `derive`, by `name` of the histogram, or in the joined "
        "table's schema.",
    ),
    "DP-JOIN-003": Template(
        cause="'{table}' can't be joined: {reason}.",
        fix="join a public table `on` its key, or another table about the same people with "
        "`on_unit: true`.",
    ),
    "DP-JOIN-004": Template(
        cause="'{left}' and '{right}' can't be compared: {problem}.",
        fix="join integers with integers, texts with texts, dates with dates; declare the true "
        "type of both columns.",
    ),
    "DP-JOIN-005": Template(
        cause="The table '{table}' is public, so nothing in it needs protection.",
        fix="publish it as it is, or join it to a table about people.",
    ),
}
STORED: dict[str, Template] = {
    "DP-DATA-012": Template(
        cause="Several rows of the public table '{table}' have the same key {columns}.",
        fix="keep one row for each key: otherwise a matching row would count several times.",
    ),
}
