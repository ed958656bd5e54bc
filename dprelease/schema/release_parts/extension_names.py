"""The lists of engines, and of formats in addition to Parquet: their names, and their modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dprelease.errors.suggestions import nearest

DEFAULT_ENGINE = "duckdb"
"""The engine if a release names none, and the only engine that reads single records."""

SPARK = "spark"
"""The engine for tables that are distributed over machines."""

ENGINES = {
    DEFAULT_ENGINE: "dprelease.exact.duckdb_factory",
    SPARK: "dprelease.exact.spark.spark_factory",
}
"""The module of each engine by name, which defines `ENGINE` (`exact.engine_api.EngineKind`).

Modules are named by strings, so that names can be checked, and releases verified, without any
engine installed.
"""


def not_an_engine() -> str:
    """Return the text of an error that lists the valid names of engines."""
    *names, last = map(repr, ENGINES)
    return f"it must be {', '.join(names)} or {last}"


PARQUET = "parquet"
"""The format of the tables themselves, which is always published."""

FORMATS = {
    "csv": "dprelease.exports.csv_tables.csv_files",
    "excel": "dprelease.exports.workbooks.excel",
    "ods": "dprelease.exports.workbooks.ods",
    "sdmx-csv": "dprelease.exports.sdmx_csv",
    "json-stat": "dprelease.exports.json_stat",
    "px": "dprelease.exports.px.px_files",
    "dp-event": "dprelease.exports.dp_event",
    "mbi": "dprelease.exports.mbi",
    "report": "dprelease.exports.html_report",
    "registry": "dprelease.exports.deployment_registry",
    "datapackage": "dprelease.exports.data_package",
    "dcat": "dprelease.exports.dcat",
}
"""The module of each format by name, which defines `EXPORT` (`exports.export.Export`).

Modules are named by strings, so that names can be checked without loading any format. Formats are
written in this order, whatever the order in a release file is, so that formats that list the files
of other formats come last.
"""

OTHER_NAMES = {"xlsx": "excel", "html": "report"}
"""The formats that can also be named by the ending of their files."""

OF_RECORDS = ("csv", "report", "datapackage")
"""The formats that can hold single records, which are not tables with keys."""


def format_name(name: object) -> object:
    """Return the name of a format that is given by it or by another name; other values as given."""
    return OTHER_NAMES.get(name, name) if isinstance(name, str) else name


def known_formats() -> list[str]:
    """Return the names that a release file may have under `formats`."""
    return [PARQUET, *FORMATS]


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return the formats to write in addition to Parquet, in the order of `FORMATS`."""
    requested = set(names)
    return tuple(name for name in FORMATS if name in requested)


def refuse_formats(names: Sequence[str], wide: Sequence[str], known: Sequence[str]) -> None:
    """Raise DP-EXPORT-004 for a format, or a wide layout, that does not suit the release."""
    # not imported above, because --help lists the formats without pydantic
    from dprelease.schema.field_types import refuse

    what = "The records of a local release" if known else "The messages of a party"
    others = [name for name in names if name not in known]
    if others or wide:
        request_text = f"the format {others[0]}" if others else "a wide layout"
        had, key = ", ".join((PARQUET, *known)), "formats" if others else "wide"
        refuse("DP-EXPORT-004", what=what, format=request_text, known=had, key=key)


def suggest_format(name: object) -> str:
    """Return the text " (did you mean '...'?)" for an unknown format, or an empty text."""
    return nearest(name, known_formats()) if isinstance(name, str) else ""
