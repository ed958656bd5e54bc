"""Catalogue: the Spark engine."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-SPARK-001": Template(
        cause="Spark can't read the source of the table '{table}': it is {format}.",
        fix="store it as Parquet, CSV or JSON lines, each column with one type in all of its "
        "files, or use the engine duckdb.",
    ),
    "DP-SPARK-002": Template(
        cause=(
            "The column '{column}' is stored as {physical}, which Spark does not know, or not as "
            "others do: its values might be read differently."
        ),
        fix="convert the column in the source, or use the engine duckdb.",
    ),
    "DP-SPARK-003": Template(
        cause="No Spark session can be started: {problem}.",
        fix="{remedy}.",
    ),
    "DP-SPARK-004": Template(
        cause="The executors of Spark can't work: {problem}.",
        fix="{remedy}.",
    ),
    "DP-SPARK-005": Template(
        cause="Spark can't run what the release asks for: {problem}.",
        fix="use the engine duckdb.",
    ),
    "DP-SPARK-006": Template(
        cause="Spark alone can read the source of the table '{table}': it is {format}.",
        fix="set `engine: spark`, or name files of this machine.",
    ),
}
