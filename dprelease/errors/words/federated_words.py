"""Catalogue: noise that is the sum of the noise of several parties."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-FED-001": Template(
        cause="Noise of '{mechanism}' can't be divided among parties: {reason}.",
        fix="use symmetric_alpha_stable, for which the privacy cost of the sum includes the "
        "rounding of every party.",
    ),
    "DP-FED-002": Template(
        cause="'{column}' declares {found}, which a single party can't compute.",
        fix="remove it, and process the sum of all parties instead.",
    ),
    "DP-FED-003": Template(
        cause="The messages do not belong together: {problem}.",
        fix="name one folder for each party, all of the same release.",
    ),
    "DP-FED-004": Template(
        cause="{problem}.",
        fix="agree on a number for each party, starting at 1, and start each run with its own: "
        "`--party 3`.",
    ),
}
