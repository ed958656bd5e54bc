"""Catalogue: the confidential profile of the data for its owner."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-PROFILE-001": Template(
        cause="The profile would be as confidential as the data, and the output is not a terminal.",
        fix="run it in a terminal, or write to a new file with --output; use --i-may-see-it only "
        "if whatever reads the output may see the data.",
    ),
    "DP-PROFILE-002": Template(
        cause="'{name}' would be in '{folder}', which is for published files.",
        fix="choose a place that only people who may see the data can reach.",
    ),
    "DP-PROFILE-003": Template(
        cause="A release {problem}; it has no profile.",
        fix="profile a release of aggregates with the engine duckdb, such as a copy of this one "
        "with another source.",
    ),
}
