"""Catalogue: labels, descriptions and other texts for readers."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-LABEL-001": Template(
        cause="The text can't be shown everywhere: {problem}.",
        fix="write one line of visible text: labels of at most 200 characters, descriptions, notes "
        "and footnotes of at most 1000; `>` of YAML makes one line of several.",
    ),
    "DP-LABEL-002": Template(
        cause="{problem}; languages are: {known}.",
        fix="write the text in exactly the languages that `about: {{languages: [...]}}` of the "
        "release lists, or once, without a language, for all of them.",
    ),
    "DP-LABEL-003": Template(
        cause="There is no '{value}' that could have a label: {known}.",
        fix="give labels to declared values and published tables alone, spelt as they are.",
    ),
    "DP-LABEL-004": Template(
        cause="'{found}' {problem}.",
        fix="write each language once by its tag, such as en, fr, pt-BR or zh-Hant.",
    ),
}
