"""Catalogue: labels, descriptions and other texts for readers."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-LABEL-001": Template(
        cause="This text can't be displayed everywhere: {problem}.",
        fix="write one line of visible text: at most 200 characters for labels, at most 1000 for "
        "descriptions, notes and footnotes; in YAML, `>` joins several lines into one.",
    ),
    "DP-LABEL-002": Template(
        cause="{problem}; languages are: {known}.",
        fix="write the text in exactly the languages that `about: {{languages: [...]}}` of the "
        "release lists, or once, without a language, for all of them.",
    ),
    "DP-LABEL-003": Template(
        cause="There is no '{value}' to label: {known}.",
        fix="label only declared values and published tables, with the same spelling.",
    ),
    "DP-LABEL-004": Template(
        cause="'{found}' {problem}.",
        fix="write each language once, by its tag, such as en, fr, pt-BR or zh-Hant.",
    ),
}
