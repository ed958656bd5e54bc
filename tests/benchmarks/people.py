"""A generated person table: 51 states, 3,143 counties, 2 sexes, 6 races, ages, income with nulls.

Every value is a hash of the row number, so that two machines make the same table.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

STATES, COUNTIES = 51, 3143

ROWS_SQL = f"""
WITH ids AS (SELECT range AS i FROM range({{rows}})),
     draws AS (
       SELECT i,
              hash(i, 1) % {COUNTIES} AS county_number,
              hash(i, 2) % 100 AS sex_draw,
              hash(i, 3) % 1000 AS race_draw,
              hash(i, 4) % 116 AS age,
              hash(i, 5) % 1000003 / 1000003.0 AS income_draw,
              hash(i, 6) % 100 AS null_draw
       FROM ids)
SELECT 'S' || lpad((county_number % {STATES})::VARCHAR, 2, '0') AS state,
       'C' || lpad(county_number::VARCHAR, 4, '0') AS county,
       CASE WHEN sex_draw < 51 THEN 'F' ELSE 'M' END AS sex,
       CASE WHEN race_draw < 600 THEN 'A' WHEN race_draw < 730 THEN 'B'
            WHEN race_draw < 790 THEN 'C'
            WHEN race_draw < 800 THEN 'D' WHEN race_draw < 803 THEN 'E' ELSE 'F' END AS race,
       age::INTEGER AS age,
       CASE WHEN age < 15 OR null_draw < 10 THEN NULL
            ELSE (20000 * exp(3 * income_draw))::INTEGER END AS income
FROM draws
"""

SCHEMA = """\
table: people
source: {source}
columns:
  state: {{type: category, values: [{states}]}}
  county: {{type: category, values: [{counties}]}}
  sex: {{type: category, values: [F, M]}}
  race: {{type: category, values: [A, B, C, D, E, F]}}
  age: {{type: integer, lower: 0, upper: 115, unit: years}}
  income: {{type: integer, lower: 0, upper: 200000, unit: USD/year, fill: drop}}
"""


def make(folder: Path, rows: int) -> Path:
    """Return `folder`, filled with the table and its schema."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "people.parquet"
    if not source.exists():
        half_made = source.with_suffix(".part")
        query = ROWS_SQL.format(rows=rows)
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.execute(f"COPY ({query}) TO '{half_made}' (FORMAT parquet)")
        half_made.rename(source)
    states = ", ".join(f"S{i:02}" for i in range(STATES))
    counties = ", ".join(f"C{i:04}" for i in range(COUNTIES))
    schema = SCHEMA.format(source=source.name, states=states, counties=counties)
    (folder / "people.yaml").write_text(schema)
    return folder
