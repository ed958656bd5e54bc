"""Catalogue: custom areas and changes, computed from releases."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-AREA-001": Template(
        cause="The areas can't be read: {reason}.",
        fix="use a CSV file, or a frame, with a column `leaf` (or named as the last level of the "
        "hierarchy), a column `area` and optionally `share`: one row for each leaf of an area.",
    ),
    "DP-AREA-002": Template(
        cause="'{leaf}' is not a value of '{column}', the last level of the hierarchy{nearest}.",
        fix="use the values in the release's key file.",
    ),
    "DP-AREA-003": Template(
        cause="The leaf '{leaf}' can't be assigned to '{area}': {reason}.",
        fix="assign each leaf to one area; or state in `share` which fraction of it belongs to "
        "each area: numbers above 0 that sum to at most 1 for each leaf.",
    ),
    "DP-AREA-004": Template(
        cause="Custom areas can't be computed from the release: {reason}.",
        fix="name a release with `hierarchy` and `consistent` that publishes the last level.",
    ),
    "DP-COMPARE-001": Template(
        cause="No table can be compared: {problem}. Tables of both releases: {names}.",
        fix="name one of these tables; tables of both releases need the same name.",
    ),
    "DP-COMPARE-002": Template(
        cause="The two tables can't be compared: {reason}.",
        fix="compare tables with the same keys, contribution limits and columns; select cells of "
        "one release by different values of a key.",
    ),
    "DP-COMPARE-003": Template(
        cause="The shares can't be computed: {reason}.",
        fix="name a count, or a sum of values that are not negative, which no later step changed.",
    ),
}
