"""Two tables without missing values and with one row for each person, and four public tables."""

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

PUBLIC_TABLES = {
    "states": """\
table: states
public: true
source: states.csv
columns:
  code: {type: text}
  name: {type: text}
  region: {type: category, values: [north, south]}
  inhabitants: {type: integer}
""",
    "modes": """\
table: modes
public: true
source: modes.csv
columns:
  mode: {type: text}
  carrier: {type: category, values: [airline, post, railway]}
  tariff: {type: integer, lower: 1, upper: 9}
""",
    "climates": """\
table: climates
public: true
source: climates.csv
columns:
  region: {type: text}
  climate: {type: text}
  frost_days: {type: integer}
""",
    "flags": """\
table: flags
public: true
source: flags.csv
columns:
  flag: {type: text}
  meaning: {type: text}
  is_final: {type: boolean}
""",
}


def frames() -> dict[str, pd.DataFrame]:
    """Return the rows of all tables."""
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
    states = {
        "code": ["CT", "MA", "ME", "NH", "VT"],
        "name": ["Connecticut", "Massachusetts", "Maine", "New Hampshire", "Vermont"],
        "region": ["south", "south", "north", "north", "north"],
        "inhabitants": [3_600_000, 7_000_000, 1_400_000, 1_400_000, 650_000],
    }
    modes = {
        "mode": ["AIR", "MAIL", "RAIL", "TRUCK"],
        "carrier": ["airline", "post", "railway", "post"],
        "tariff": [9, 2, 5, 7],
    }
    climates = {
        "region": ["north", "south"], "climate": ["cold", "mild"], "frost_days": [140, 90]
    }  # fmt: skip
    flags = {
        "flag": ["A", "N", "R"],
        "meaning": ["accepted", "none", "returned"],
        "is_final": [True, False, True],
    }
    tables = {
        "people": people, "lineitem": lineitem, "states": states, "modes": modes,
        "climates": climates, "flags": flags,
    }  # fmt: skip
    return {name: pd.DataFrame(columns) for name, columns in tables.items()}


def write_tables(folder: Path) -> list[Path]:
    """Write the tables and their schemas into a folder; return the paths of the schemas."""
    for name, frame in frames().items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / "lineitem.yaml").write_text(LINEITEM)
    for name, schema in PUBLIC_TABLES.items():
        (folder / f"{name}.yaml").write_text(schema)
    return [folder / f"{name}.yaml" for name in frames()]
