"""Catalogue: variables of release files, and what several releases share."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-VAR-001": Template(
        cause="The release declares no variable '{name}'{nearest}.",
        fix="declare it under `variables`, or leave it out of --set; declared are: {known}.",
    ),
    "DP-VAR-002": Template(
        cause="The variable '{name}' has no value.",
        fix="give it one: --set {name}=... on the command line, variables= from Python.",
    ),
    "DP-VAR-003": Template(
        cause="The variable '{name}' is declared, and stands nowhere.",
        fix="write ${{{name}}} where its value belongs, or take it out.",
    ),
    "DP-VAR-004": Template(
        cause="The variable '{name}' is '{found}', and {problem}.",
        fix="give it a value of its declared type.",
    ),
    "DP-VAR-005": Template(
        cause="There is no variable '{name}'{nearest}.",
        fix="declare it under `variables` of the release; $${{{name}}} stands for the text itself.",
    ),
    "DP-VAR-006": Template(
        cause="No variable can stand here: {problem}.",
        fix="variables stand in output, ledger, tables, where, expressions and texts for readers "
        "of releases (title, about, labels, descriptions, footnotes, notes), and in source, "
        "values_from and expressions of tables; $${{{name}}} stands for the text itself.",
    ),
    "DP-VAR-007": Template(
        cause="The variable '{name}' is '{found}', which is no part of a name of a file.",
        fix="use letters, digits, spaces and . _ - in what stands in a path.",
    ),
    "DP-VAR-008": Template(
        cause="'{found}' sets no variable: {problem}.",
        fix="write --set name=value, once for each variable.",
    ),
    "DP-VAR-009": Template(
        cause="The file '{name}' of `defaults` does not stand beside the release file.",
        fix="name a file of the same folder, such as defaults.yaml: its paths mean the same there.",
    ),
    "DP-VAR-010": Template(
        cause="'{name}' can't be shared by several releases{nearest}.",
        fix="write it into the release files; shared may be: {known}.",
    ),
}
