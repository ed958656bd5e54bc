"""Catalogue: the steward's confidential check."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-PROFILE-001": Template(
        cause="What would be printed is as confidential as the data, and no terminal reads it.",
        fix="run it at a terminal, write a new file of your own with --output, or say "
        "--i-may-see-it where whatever reads the output may see the data.",
    ),
    "DP-PROFILE-002": Template(
        cause="'{name}' would lie in '{folder}', which is for what is published.",
        fix="choose a place that only those reach who may see the data.",
    ),
    "DP-PROFILE-003": Template(
        cause="A release {problem}; it has no profile.",
        fix="profile a release of aggregates with the engine duckdb, such as the same one with "
        "another source.",
    ),
}
