"""Draft a release file for a table whose schema was drafted."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from dprelease.errors.printable import one_line
from dprelease.scaffold.yaml_texts import yaml_text

RELEASE = """\
# A release of the table {table}. Complete {schema} first; then run, from this folder:
#   dprelease check {file}      what the release publishes, and its accuracy; no row is read
#   dprelease run {file}        reads the rows, and publishes the tables to `output`
title: {title}
tables: [{schema}]
budget: {{epsilon: 1}}  # the limit of the privacy loss, which you decide; smaller is more private
queries:
  total:
    from: {table}
    columns:
      {columns}
  # FILL IN a query for each table, for instance of a category of the schema and a number:
  # by_group:
  #   from: {table}
  #   group_by: [FILL IN]
  #   columns:
  #     {columns}
  #     amount: {{sum: FILL IN}}
output: {output}
"""


def release_sketch(schema_text: str, schema: Path, release: Path) -> str:
    """Return the text of a release file that counts the people or rows of a drafted table.

    `schema` and `release`: the paths of the table schema, whose text is `schema_text`, and of the
    release file.
    """
    # Not `read_table`, which refuses a schema with marks; the text is our own.
    values = yaml.safe_load(schema_text)
    table, unit = values["table"], (values.get("privacy_unit") or {}).get("id")
    counted = 'rows: {count: "*"}'
    if unit is not None:
        counted = f"people: {{count_distinct: {yaml_text(str(unit))}}}"
    return RELEASE.format(
        table=table,
        title=yaml_text(str(table)),
        schema=yaml_text(os.path.relpath(schema, release.parent)),
        file=one_line(release.name),
        columns=counted,
        output=yaml_text(f"out/{table}"),
    )
