"""Catalogue: noise that several parties add up."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-FED-001": Template(
        cause="Noise of '{mechanism}' can't be divided among parties: {reason}.",
        fix="use symmetric_alpha_stable, whose sums are priced with the rounding of every party.",
    ),
    "DP-FED-002": Template(
        cause="'{column}' declares {found}, which a party alone can't do.",
        fix="leave it out; finish the sum of all parties instead.",
    ),
    "DP-FED-003": Template(
        cause="The messages don't belong together: {problem}.",
        fix="give one folder of each party, all of the same release.",
    ),
    "DP-FED-004": Template(
        cause="{problem}.",
        fix="agree on a number for each party, from 1 on, and give each run its own: `--party 3`.",
    ),
}
