"""Catalogue: the formats that a release is published in beside Parquet."""

from __future__ import annotations

from dprelease.errors.template import Template

DECLARED: dict[str, Template] = {
    "DP-EXPORT-001": Template(
        cause="There is no format '{name}'{nearest}.",
        fix="formats are: {known}.",
    ),
    "DP-EXPORT-002": Template(
        cause="The format {format} can't be had of this release: {problem}.",
        fix="leave it out of `formats`, or do as is said; what others need can be written after "
        "the run, from the release alone, by `dprelease export`.",
    ),
    "DP-EXPORT-003": Template(
        cause="The format {format} needs a package that is not installed: {packages}.",
        fix="install the extra: pip install 'dprelease[{extra}]'.",
    ),
    "DP-EXPORT-004": Template(
        cause="{what} are not published in {format}.",
        fix="leave it out; there is {known}.",
    ),
    "DP-EXPORT-005": Template(
        cause="No table can be laid out wide by '{key}': {problem}.",
        fix="name a key of a table with declared keys, which has another key beside it.",
    ),
    "DP-EXPORT-008": Template(
        cause="The format {format} failed when it was tried on blank tables: {problem}.",
        fix="mend what it names, such as a label, or leave the format out of `formats`: the same "
        "release can be written in it afterwards, by `dprelease export`. If nothing is wrong with "
        "what is declared, please report it together with the release file.",
    ),
}

FOUND: dict[str, Template] = {
    "DP-EXPORT-010": Template(
        cause="A rehearsal has no other formats: a file such as a CSV could not say of itself that "
        "its numbers are not about the declared people.",
        fix="look at its Parquet tables, or at the page that `dprelease report` makes of it, and "
        "export the release once it has been run.",
    ),
}

WRITTEN: dict[str, Template] = {
    "DP-EXPORT-006": Template(
        cause="The output '{name}' is already there, and nothing in it is replaced.",
        fix="name a folder that is not there yet with --output, or remove that one first.",
    ),
    "DP-EXPORT-007": Template(
        cause="The output '{name}' lies inside of the release, which stays as it was published.",
        fix="name a folder outside of it with --output.",
    ),
    "DP-EXPORT-009": Template(
        cause="The format {format} failed on the tables of this release: {problem}.",
        fix="leave the format out; a run without it charges again what the state says is spent. "
        "Please report it together with the release file; no value of the data is needed.",
    ),
}
