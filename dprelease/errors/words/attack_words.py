"""Catalogue: attacks on rehearsals."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-ATTACK-002": Template(
        cause="The rows that stood in for the table '{table}' can't be had from '{file}': "
        "{problem}.",
        fix="name the very public file that the rehearsal was made with, as in --on "
        "public.csv={table}; invented people need none.",
    ),
    "DP-ATTACK-003": Template(
        cause="There are too many combinations of attributes to solve for: {found}, and {limit:,} "
        "at most.",
        fix="rehearse a release with fewer tables of that table of people, or with fewer keys.",
    ),
    "DP-ATTACK-005": Template(
        cause="The tables can't be solved area by area by '{column}'.",
        fix="name by --area a column that tables count by, and that most of them have: there are "
        "{known}.",
    ),
    "DP-ATTACK-006": Template(
        cause="Nothing in the rehearsal counts people in a way that can be solved: {reasons}.",
        fix='rehearse a release with a count of all rows (`{{count: "*"}}`) by public keys, '
        "without a condition; --table names the table of people.",
    ),
}

FOUND: dict[str, Template] = {
    "DP-ATTACK-001": Template(
        cause="The folder holds no rehearsal, but '{found}': nobody may know its truth.",
        fix="make a rehearsal of the same release with `dprelease rehearse`, and attack that.",
    ),
    "DP-ATTACK-004": Template(
        cause="'{file}' tells another truth than that of the people that it is about.",
        fix="rehearse again: this folder was changed after it had been written.",
    ),
}
