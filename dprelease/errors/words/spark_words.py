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
        cause="Spark does not support columns stored as {physical}, or may read their values "
        "differently from other engines: '{column}'.",
        fix="convert the column in the source, or use the engine duckdb.",
    ),
    "DP-SPARK-003": Template(
        cause="No Spark session can be started: {problem}.",
        fix="{remedy}.",
    ),
    "DP-SPARK-004": Template(
        cause="The Spark executors can't run the release: {problem}.",
        fix="{remedy}.",
    ),
    "DP-SPARK-005": Template(
        cause="Spark can't compute this release: {problem}.",
        fix="use the engine duckdb.",
    ),
    "DP-SPARK-006": Template(
        cause="Only Spark can read the source of the table '{table}': it is {format}.",
        fix="set `engine: spark`, or use local files, or a URI with s3://, gs://, az:// or "
        "https://, as the source.",
    ),
}
