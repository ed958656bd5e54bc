"""A release of one count over as many cells as wanted."""

from __future__ import annotations

from pathlib import Path

import duckdb

SCHEMA = """\
table: t
source: t.parquet
columns:
  key: {{type: integer, lower: 0, upper: {last}}}
  level: {{type: integer, lower: 0, upper: 99}}
"""
RELEASE = """\
title: Wide
tables: [t.yaml]
budget: {epsilon: 1, delta: 1e-8}
mechanism: discrete_gaussian
limits: {max_cells: 1000000000}
queries:
  q:
    from: t
    group_by: [key]
    columns:
      n: {count: "*"}
output: out/wide
"""


def release_of(folder: Path, cells: int, rows: int) -> Path:
    """Return a release file over `cells` cells that `rows` rows are scattered over."""
    target = str(folder / "t.parquet")
    scattered = (
        f"SELECT (hash(i) % {cells})::BIGINT AS key, i % 100 AS level FROM range({rows}) t(i)"
    )
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"COPY ({scattered}) TO '{target}'")
    (folder / "t.yaml").write_text(SCHEMA.format(last=cells - 1))
    (folder / "release.yaml").write_text(RELEASE)
    return folder / "release.yaml"
