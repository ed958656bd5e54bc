"""The table of visits as users have it: sparse ids of 40 bits, amounts as floats with cents."""

from __future__ import annotations

from tests.benchmarks import visits

ROWS_SQL = (
    "SELECT (hash(user_id) % 1099511627776)::BIGINT AS user_id, store, "
    "spent / 100.0::DOUBLE AS spent, DATE '2024-01-01' + spent % 366 AS day "
    f"FROM ({visits.ROWS_SQL})"
)

SCHEMA = """\
table: purchases
source: {source}
privacy_unit: {{id: user_id, max_groups: 5, max_rows_per_group: 1}}
columns:
  user_id: {{type: integer}}
  store: {{type: category, values: [{stores}]}}
  spent: {{type: number, lower: 0, upper: 500, step: "0.01", unit: USD}}
  day: {{type: date, lower: 2024-01-01, upper: 2024-12-31}}
"""


def schema(source: str) -> str:
    """Return the table schema."""
    return SCHEMA.format(source=source, stores=", ".join(f"T{i:04}" for i in range(visits.STORES)))
