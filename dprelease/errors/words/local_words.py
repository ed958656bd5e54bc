"""Catalogue: single records with their own noise, and noise that several parties add."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-LOCAL-001": Template(
        cause="A local release protects the values of a record, not whether it exists.",
        fix="write `neighbours: replace` in the budget: the number of records is published.",
    ),
    "DP-LOCAL-002": Template(
        cause="The privacy units of '{table}' are identified by '{id}', and each may have several "
        "records.",
        fix="use a table with one record for each privacy unit and remove `privacy_unit`, or "
        "publish aggregates instead.",
    ),
    "DP-LOCAL-003": Template(
        cause="Records without a declared value of '{column}' can't be dropped: that would reveal "
        "which records have none.",
        fix="declare {keys} for the column: the value that such records get before noise is added.",
    ),
    "DP-LOCAL-004": Template(
        cause="Noise can't be added to single records of '{column}': {reason}.",
        fix="declare public values or both bounds for it, or remove it.",
    ),
    "DP-LOCAL-005": Template(
        cause="'{column}' has {kind}, which '{mechanism}' does not support.",
        fix="use {known}, or remove the mechanism.",
    ),
    "DP-LOCAL-006": Template(
        cause="'{column}' has {found} possible values; randomized response needs 2 to {limit}.",
        fix="declare other bounds or values, or remove the column.",
    ),
    "DP-LOCAL-008": Template(
        cause="Nothing can be estimated: {problem}.",
        fix="{way}.",
    ),
    "DP-LOCAL-007": Template(
        cause="A local release has no chart.",
        fix="remove --plot.",
    ),
}
