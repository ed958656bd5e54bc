"""The table of people as users have it: codes that are integers, floats with a long tail, dates.

Incomes are 64-bit floats in cents, one in four missing and few of them in the millions; counties
and races are 32-bit codes that are declared as categories; wages are decimals. Every value is a hash
of the row number, so that two machines make the same table.
"""

from __future__ import annotations

from tests.benchmarks.people import COUNTIES, STATES

FIRST_COUNTY = 1001
RACES = 6

ROWS_SQL = f"""
WITH ids AS (SELECT range AS i FROM range({{rows}})),
     draws AS (
       SELECT i,
              hash(i, 1) % {COUNTIES} AS county_number,
              hash(i, 2) % 100 AS sex_draw,
              hash(i, 3) % 1000 AS race_draw,
              hash(i, 4) % 116 AS age,
              hash(i, 5) % 1000003 / 1000003.0 AS income_draw,
              hash(i, 6) % 100 AS null_draw,
              hash(i, 7) AS more
       FROM ids)
SELECT 'S' || lpad((county_number % {STATES})::VARCHAR, 2, '0') AS state,
       (county_number + {FIRST_COUNTY})::INTEGER AS county,
       CASE WHEN sex_draw < 51 THEN 'F' ELSE 'M' END AS sex,
       CASE WHEN race_draw < 600 THEN 1 WHEN race_draw < 730 THEN 2 WHEN race_draw < 790 THEN 3
            WHEN race_draw < 800 THEN 4 WHEN race_draw < 803 THEN 5 ELSE 6 END::INTEGER AS race,
       age::INTEGER AS age,
       DATE '2024-12-31' - (age * 365 + more % 365)::INTEGER AS born,
       (more % 8000 / 100)::DECIMAL(9, 2) AS wage,
       CASE WHEN age < 15 OR null_draw < 10 THEN NULL
            ELSE round(20000 * pow(1 - income_draw, -0.6), 2) END::DOUBLE AS income
FROM draws
"""

SCHEMA = """\
table: residents
source: {source}
columns:
  state: {{type: category, values: [{states}]}}
  county: {{type: category, values: [{counties}]}}
  sex: {{type: category, values: [F, M]}}
  race: {{type: category, values: [{races}]}}
  age: {{type: integer, lower: 0, upper: 115, unit: years}}
  born: {{type: date, lower: 1908-01-01, upper: 2024-12-31}}
  wage: {{type: number, lower: 0, upper: 100, step: "0.01", unit: USD/hour}}
  income: {{type: number, lower: 0, upper: 200000, step: 1, unit: USD/year}}
"""


def schema(source: str) -> str:
    """Return the table schema."""
    return SCHEMA.format(
        source=source,
        states=", ".join(f"S{i:02}" for i in range(STATES)),
        counties=", ".join(str(FIRST_COUNTY + i) for i in range(COUNTIES)),
        races=", ".join(str(i + 1) for i in range(RACES)),
    )
