"""Catalogue: computed columns and joined tables. No field holds a value of the data."""

from __future__ import annotations

from dprelease.errors.template import Template

DECLARED: dict[str, Template] = {
    "DP-DERIVE-001": Template(
        cause="'{column}' stands in `derive`, but is not computed.",
        fix="give it an `expression` and a `type`, or a `cut`; stored columns belong into the "
        "table's schema.",
    ),
    "DP-JOIN-001": Template(
        cause="The join is not complete: {problem}.",
        fix="write {{table: ..., on: {{own column: public column}}}} for a public table, or "
        "{{table: ..., on_unit: true}} for another table about the same people.",
    ),
    "DP-JOIN-002": Template(
        cause="A public table has no privacy unit.",
        fix="leave out `privacy_unit`, or `public: true` if the table is about people.",
    ),
}
ASKED: dict[str, Template] = {
    "DP-DERIVE-002": Template(
        cause="'{column}' is computed from itself: {path}.",
        fix="compute it from stored columns; no column may lead back to itself.",
    ),
    "DP-DERIVE-003": Template(
        cause="'{column}' can't be computed: {problem}.",
        fix="write an expression over columns of the same row, of a kind that the declared type "
        "can be read from.",
    ),
    "DP-DERIVE-004": Template(
        cause="The name '{column}' is taken: {where} has such a column, perhaps in other case.",
        fix="choose another name: in `derive`, by `name` of the histogram, or in the joined "
        "table's schema.",
    ),
    "DP-JOIN-003": Template(
        cause="'{table}' can't be joined: {reason}.",
        fix="join a public table `on` its key, or another table about the same people by "
        "`on_unit: true`.",
    ),
    "DP-JOIN-004": Template(
        cause="'{left}' and '{right}' can't be compared: {problem}.",
        fix="join integers with integers, texts with texts, dates with dates; declare both sides "
        "as what they are.",
    ),
    "DP-JOIN-005": Template(
        cause="The table '{table}' is public; nothing in it needs protection.",
        fix="publish it as it is, or join it to a table about people.",
    ),
}
STORED: dict[str, Template] = {
    "DP-DATA-012": Template(
        cause="Several rows of the public table '{table}' have the same key {columns}.",
        fix="keep one row for each key: a row that matches several would count several times.",
    ),
}
