"""Catalogue: attacks on rehearsals."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-ATTACK-002": Template(
        cause="The rows that the rehearsal used for the table '{table}' can't be read from "
        "'{file}': {problem}.",
        fix="name the same public file that the rehearsal was made with, as in --on "
        "public.csv={table}; a rehearsal with invented people needs none.",
    ),
    "DP-ATTACK-003": Template(
        cause="There are too many combinations of attributes to solve for: {found}; the limit is "
        "{limit:,}.",
        fix="rehearse a release with fewer tables about these people, or with fewer keys.",
    ),
    "DP-ATTACK-005": Template(
        cause="The attack can't solve the tables area by area by '{column}'.",
        fix="name with --area a key that most of the tables have: {known}.",
    ),
    "DP-ATTACK-006": Template(
        cause="The rehearsal has no counts of people that the attack can use: {reasons}.",
        fix='rehearse a release with a count of all rows (`{{count: "*"}}`) by public keys, '
        "without a condition; --table names the table of people.",
    ),
}

FOUND: dict[str, Template] = {
    "DP-ATTACK-001": Template(
        cause="The folder contains '{found}', not a rehearsal; only for a rehearsal are the true "
        "values known.",
        fix="rehearse the same release with `dprelease rehearse`, and attack the rehearsal.",
    ),
    "DP-ATTACK-004": Template(
        cause="The true values in '{file}' are not those of the people in the rehearsal.",
        fix="rehearse again: this folder was changed after it was written.",
    ),
}
