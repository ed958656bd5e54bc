"""Catalogue: areas that are drawn from a release."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-AREA-001": Template(
        cause="The areas can't be read: {reason}.",
        fix="give a CSV file, or a frame, with a column `leaf` (or named as the last level of "
        "areas), a column `area`, and maybe `share`: one row for each leaf of an area.",
    ),
    "DP-AREA-002": Template(
        cause="'{leaf}' is no value of '{column}', the last level of the release's areas{nearest}.",
        fix="name leaves as the release's key file does.",
    ),
    "DP-AREA-003": Template(
        cause="The leaf '{leaf}' can't lie so in '{area}': {reason}.",
        fix="let each leaf lie in one area, or say by `share` which part of it lies in each: "
        "numbers above 0 that sum to at most 1 for each leaf.",
    ),
    "DP-AREA-004": Template(
        cause="Areas can't be made of the release: {reason}.",
        fix="name a release with `hierarchy` and `consistent`, published down to its last level.",
    ),
}
