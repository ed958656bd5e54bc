"""A generated table of visits: users with 1 to 200 rows, the many with few, in 1,000 stores.

Rows of a user lie all over the file, and popular stores have many times the visits of others.
"""

from __future__ import annotations

STORES = 1000
MEAN_ROWS = 37.5
"""Rows of a user, on average: 201 to the power of a number that is even between 0 and 1."""

ROWS_SQL = f"""
WITH people AS (
       SELECT range AS user_id,
              greatest(1, floor(pow(201, hash(range, 11) % 1000003 / 1000003.0))::INTEGER) AS n
       FROM range(({{rows}} / {MEAN_ROWS})::BIGINT + 1)),
     visits AS (SELECT user_id, unnest(range(n)) AS visit FROM people)
SELECT user_id,
       'T' || lpad(floor({STORES} * pow(hash(user_id, visit, 1) % 1000003 / 1000003.0, 2))
                   ::INTEGER::VARCHAR, 4, '0') AS store,
       (hash(user_id, visit, 2) % 50000)::INTEGER AS spent
FROM visits ORDER BY hash(user_id, visit)
"""

SCHEMA = """\
table: visits
source: {source}
privacy_unit: {{id: user_id, max_groups: 5, max_rows_per_group: 5}}
columns:
  user_id: {{type: integer}}
  store: {{type: category, values: [{stores}]}}
  spent: {{type: integer, lower: 0, upper: 50000, unit: cents}}
"""


def schema(source: str) -> str:
    """Return the table schema."""
    return SCHEMA.format(source=source, stores=", ".join(f"T{i:04}" for i in range(STORES)))
