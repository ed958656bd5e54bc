"""Catalogue: rehearsals of a release."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-REHEARSE-001": Template(
        cause="A release of {kind} can't be rehearsed.",
        fix="`dprelease plan` tells its errors; they follow from the declaration alone; a copy "
        "of the release with fewer parties can be rehearsed.",
    ),
    "DP-REHEARSE-002": Template(
        cause="'{found}' is no number of rows for a table of this release.",
        fix="give a whole number from 1 to 1e9, as in --rows 100000 or --rows people=100000; there "
        "are the tables {known}.",
    ),
    "DP-REHEARSE-003": Template(
        cause="'{file}' can't stand in for the table '{table}': {problem}.",
        fix="name a public Parquet, CSV or JSON lines file with the declared columns, as in --on "
        "public.csv=people; without one, people are invented.",
    ),
}

WRITTEN: dict[str, Template] = {
    "DP-REHEARSE-004": Template(
        cause="What is in '{name}' is no rehearsal, and is not replaced by one.",
        fix="choose another folder with --output: a release was paid for, and can't be had again.",
    ),
}
