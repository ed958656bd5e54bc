"""The table of purchases by cards, whose ids are hashes: texts of 32 characters."""

from __future__ import annotations

from tests.benchmarks import purchases

ROWS_SQL = f"SELECT md5(user_id::VARCHAR) AS user_id, store, spent, day FROM ({purchases.ROWS_SQL})"


def schema(source: str) -> str:
    """Return the table schema."""
    text = purchases.schema(source).replace("table: purchases", "table: cards")
    return text.replace("user_id: {type: integer}", "user_id: {type: text}")
