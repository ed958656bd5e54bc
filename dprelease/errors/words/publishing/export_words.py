"""Catalogue: the formats other than Parquet in which a release is published."""

from __future__ import annotations

from dprelease.errors.template import Template

DECLARED: dict[str, Template] = {
    "DP-EXPORT-001": Template(
        cause="There is no format '{name}'{nearest}.",
        fix="use one of: {known}.",
    ),
    "DP-EXPORT-002": Template(
        cause="This release can't be published in the format {format}: {problem}.",
        fix="remove it from `formats`, or correct the cause; `dprelease export` can write further "
        "formats after the run, from the release alone.",
    ),
    "DP-EXPORT-003": Template(
        cause="The format {format} needs a package that is not installed: {packages}.",
        fix="install the extra: pip install 'dprelease[{extra}]'.",
    ),
    "DP-EXPORT-004": Template(
        cause="{what} are not available in {format}.",
        fix="remove it; available are: {known}.",
    ),
    "DP-EXPORT-005": Template(
        cause="No table can be published wide by '{key}': {problem}.",
        fix="name a key with declared values in a table that has another key as well.",
    ),
    "DP-EXPORT-008": Template(
        cause="The format {format} failed in a test on empty tables: {problem}.",
        fix="correct what the message names, such as a label; or remove the format from "
        "`formats`, and write the release in it after the run with `dprelease export`. If the "
        "declaration is correct, please report this with the release file.",
    ),
}

FOUND: dict[str, Template] = {
    "DP-EXPORT-010": Template(
        cause="A rehearsal can't be exported: a file such as a CSV could not state that its "
        "numbers are not about the declared people.",
        fix="use its Parquet tables, or the page that `dprelease report` makes of it; export the "
        "release after it has been run.",
    ),
}

WRITTEN: dict[str, Template] = {
    "DP-EXPORT-006": Template(
        cause="The output '{name}' already exists, and nothing in it is replaced.",
        fix="name a new folder with --output, or remove this one first.",
    ),
    "DP-EXPORT-007": Template(
        cause="The output '{name}' is inside the release, which must stay as it was published.",
        fix="name a folder outside the release with --output.",
    ),
    "DP-EXPORT-009": Template(
        cause="The format {format} failed on the tables of this release: {problem}.",
        fix="remove the format and run again; if the state below says that the budget counts as "
        "spent, the new run is charged in addition. Please report this with the release file; no "
        "value of the data is needed.",
    ),
    "DP-EXPORT-011": Template(
        cause="The database can't be written: {problem}.",
        fix="use a new or existing file of DuckDB (.duckdb) or SQLite (.sqlite), or "
        "postgresql://... without a password; nothing was changed in it.",
    ),
    "DP-EXPORT-012": Template(
        cause="The database already has a table '{name}', which is not replaced.",
        fix="write into another file or schema; --overwrite replaces only tables of releases that "
        "an export has written there.",
    ),
    "DP-EXPORT-013": Template(
        cause="The name '{name}' has more than the {limit} bytes that the database allows.",
        fix="write into a file of DuckDB or SQLite, or publish the release with shorter names.",
    ),
    "DP-EXPORT-014": Template(
        cause="The release can't be copied into the store: {problem}.",
        fix="{way}. The release in the local folder is unchanged, and no budget was spent; if the "
        "copy was begun, it has no manifest, and the same command completes it.",
    ),
    "DP-EXPORT-015": Template(
        cause="The folder in the store holds {found}, and nothing in it is replaced.",
        fix="use another folder{way}.",
    ),
}
