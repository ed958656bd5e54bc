"""Catalogue: variables of release files, and defaults that several releases share."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-VAR-001": Template(
        cause="The release declares no variable '{name}'{nearest}.",
        fix="declare it under `variables`, or remove it from --set; declared are: {known}.",
    ),
    "DP-VAR-002": Template(
        cause="The variable '{name}' has no value.",
        fix="set it: with --set {name}=... on the command line, or variables= in Python.",
    ),
    "DP-VAR-003": Template(
        cause="The variable '{name}' is declared, but not used.",
        fix="write ${{{name}}} where its value belongs, or remove the declaration.",
    ),
    "DP-VAR-004": Template(
        cause="The variable '{name}' is set to '{found}': {problem}.",
        fix="set it to a value of its declared type.",
    ),
    "DP-VAR-005": Template(
        cause="There is no variable '{name}'{nearest}.",
        fix="declare it under `variables` of the release; write $${{{name}}} for the literal text.",
    ),
    "DP-VAR-006": Template(
        cause="Variables can't be used here: {problem}.",
        fix="use variables only in output, ledger, tables, where, expressions and texts for "
        "readers of releases (title, about, labels, descriptions, footnotes, notes), and in "
        "source, values_from and expressions of tables; write $${{{name}}} for the literal text.",
    ),
    "DP-VAR-007": Template(
        cause="The variable '{name}' is set to '{found}', which can't be part of a file name.",
        fix="use only letters, digits, spaces and . _ - in variables that are part of a path.",
    ),
    "DP-VAR-008": Template(
        cause="'{found}' does not set a variable: {problem}.",
        fix="write --set name=value, once for each variable.",
    ),
    "DP-VAR-009": Template(
        cause="The file '{name}' of `defaults` is not in the same folder as the release file.",
        fix="name a file in that folder, such as defaults.yaml; the paths in it then mean the "
        "same in both files.",
    ),
    "DP-VAR-010": Template(
        cause="'{name}' can't be shared by several releases{nearest}.",
        fix="move it to the release files; these keys can be shared: {known}.",
    ),
}
