"""Two tables without missing values and with one row for each person, as schemas and as frames."""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

import pandas as pd

ROWS = 600
STATES, FLAGS, MODES = ["CT", "MA", "ME", "NH"], ["A", "N", "R"], ["AIR", "MAIL", "RAIL", "SHIP"]

PEOPLE = """\
table: people
source: people.csv
privacy_unit: {id: person_id, max_groups: 1, max_rows_per_group: 1}
columns:
  person_id: {type: integer}
  state: {type: category, values: [CT, MA, ME, NH]}
  sex: {type: category, values: [F, M]}
  age: {type: integer, lower: 0, upper: 99}
  income: {type: integer, lower: 0, upper: 100000}
  employed: {type: boolean}
"""
LINEITEM = """\
table: lineitem
source: lineitem.csv
privacy_unit: {id: orderkey, max_groups: 1, max_rows_per_group: 1}
columns:
  orderkey: {type: integer}
  returnflag: {type: category, values: [A, N, R]}
  shipmode: {type: category, values: [AIR, MAIL, RAIL, SHIP]}
  quantity: {type: integer, lower: 1, upper: 50}
  price: {type: integer, lower: 0, upper: 10000}
  discount: {type: integer, lower: 0, upper: 10}
  shipdate: {type: date, lower: 1994-01-01, upper: 1994-12-31}
"""


def frames() -> dict[str, pd.DataFrame]:
    """Return the rows of both tables."""
    numbers, drawn = range(ROWS), random.Random(50)
    people = {
        "person_id": numbers,
        "state": drawn.choices(STATES, [4, 3, 2, 1], k=ROWS),
        "sex": drawn.choices(["F", "M"], [5, 4], k=ROWS),
        "age": [i * 37 % 100 for i in numbers],
        "income": [i * 7919 % 100_001 for i in numbers],
        "employed": [i % 3 > 0 for i in numbers],
    }
    lineitem = {
        "orderkey": numbers,
        "returnflag": drawn.choices(FLAGS, [4, 3, 2], k=ROWS),
        "shipmode": drawn.choices(MODES, [4, 3, 2, 1], k=ROWS),
        "quantity": [1 + i * 13 % 50 for i in numbers],
        "price": [i * 6007 % 10_001 for i in numbers],
        "discount": [i % 11 for i in numbers],
        "shipdate": [date(1994, 1, 1) + timedelta(i * 11 % 365) for i in numbers],
    }
    return {"people": pd.DataFrame(people), "lineitem": pd.DataFrame(lineitem)}


def write_tables(folder: Path) -> list[Path]:
    """Write the tables and their schemas into a folder; return the paths of the schemas."""
    for name, frame in frames().items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / "lineitem.yaml").write_text(LINEITEM)
    return [folder / "people.yaml", folder / "lineitem.yaml"]
