"""Catalogue: records that are noised one by one, and noise that several parties add up."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-LOCAL-001": Template(
        cause="A local release protects what a record says, not that it is there.",
        fix="write `neighbours: replace` in the budget: the number of records is published.",
    ),
    "DP-LOCAL-002": Template(
        cause="The units of '{table}' are named by '{id}' and may have several records each.",
        fix="give the table one record for each unit and leave `privacy_unit` out, or publish "
        "aggregates instead.",
    ),
    "DP-LOCAL-003": Template(
        cause="Records without a declared value of '{column}' can't be dropped one by one: who has "
        "none would show.",
        fix="declare {keys} of the column: the value that such records get before the noise.",
    ),
    "DP-LOCAL-004": Template(
        cause="'{column}' can't be noised record by record: {reason}.",
        fix="declare public values or both bounds for it, or leave it out.",
    ),
    "DP-LOCAL-005": Template(
        cause="'{column}' has {kind}, which '{mechanism}' is not for.",
        fix="use {known}, or leave the mechanism out.",
    ),
    "DP-LOCAL-006": Template(
        cause="'{column}' has {found} possible values; randomized response needs 2 to {limit}.",
        fix="declare other bounds or values, or leave the column out.",
    ),
    "DP-LOCAL-007": Template(
        cause="There is no chart of a local release.",
        fix="leave out --plot.",
    ),
}
