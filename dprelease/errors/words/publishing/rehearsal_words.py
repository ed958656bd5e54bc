"""Catalogue: rehearsals of a release."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-REHEARSE-001": Template(
        cause="A release of {kind} can't be rehearsed.",
        fix="read its errors in `dprelease plan`: they follow from the declaration alone; a copy "
        "of the release with fewer parties can be rehearsed.",
    ),
    "DP-REHEARSE-002": Template(
        cause="'{found}' is not a valid number of rows for a table of this release.",
        fix="write a whole number from 1 to 1e9, as in --rows 100000 or --rows people=100000; the "
        "tables are {known}.",
    ),
    "DP-REHEARSE-003": Template(
        cause="'{file}' can't replace the table '{table}': {problem}.",
        fix="name a public Parquet, CSV or JSON lines file with the declared columns, as in --on "
        "public.csv=people; without a file, the rehearsal invents people.",
    ),
}

WRITTEN: dict[str, Template] = {
    "DP-REHEARSE-004": Template(
        cause="'{name}' contains something other than a rehearsal, which a rehearsal does not "
        "replace.",
        fix="choose another folder with --output: a release was charged to a budget, and can't be "
        "made again.",
    ),
}
