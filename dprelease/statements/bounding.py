"""Contribution bounding: which rows of a unit are kept.

The choice is by a hash of the unit's own rows alone: no other unit, row order, thread or engine can
move it. The hash is MD5 over a text of integers, so it is the same everywhere; ties are rows that
are equal in everything that the query reads, so it does not matter which of them is kept. The hash
only spreads the choice; the guarantee does not rest on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.privacy.unit import PrivacyUnit


def row_hash(values: Sequence[str]) -> str:
    """Return the hash of one row among those of its unit and cell: MD5 of 'cell|value|value...'."""
    return _hash(["cell", *values])


def group_hash() -> str:
    """Return the hash of one cell among those of its unit: MD5 of 'id|cell'."""
    return _hash(["id", "cell"])


def _hash(parts: Sequence[str]) -> str:
    # A missing value is written as '-': no integer is, and concat_ws would skip a NULL.
    texts = [f"coalesce(CAST({part} AS VARCHAR), '-')" for part in parts]
    return f"md5(concat_ws('|', {', '.join(texts)}))"


def kept_rows(unit: PrivacyUnit, values: Sequence[str], cells: int) -> list[tuple[str, str]]:
    """Return common table expressions from `coded` to `kept`: rows (id, cell, values...).

    Guarantee: each id is in at most `max_groups` cells of `kept`, with at most `max_rows_per_group`
    rows in each.
    """
    found = [
        (
            "in_group",
            "SELECT * FROM coded QUALIFY row_number() OVER "
            f"(PARTITION BY id, cell ORDER BY {row_hash(values)}) <= {unit.max_rows_per_group}",
        )
    ]
    if unit.max_groups >= cells:
        return [*found, ("kept", "SELECT * FROM in_group")]
    chosen = (
        "SELECT id, cell FROM (SELECT DISTINCT id, cell FROM coded) QUALIFY row_number() OVER "
        f"(PARTITION BY id ORDER BY {group_hash()}, cell) <= {unit.max_groups}"
    )
    kept = "SELECT in_group.* FROM in_group SEMI JOIN chosen USING (id, cell)"
    return [*found, ("chosen", chosen), ("kept", kept)]


def kept_counts(unit: PrivacyUnit, cells: int) -> list[tuple[str, str]]:
    """Return common table expressions from `coded` to `kept`: one row (id, cell, n) a cell.

    The same bounds for queries that read no value: all rows of an id in a cell are then equal, and
    n of them are kept.
    """
    counted = (
        f"SELECT id, cell, least(count(*), {unit.max_rows_per_group}) AS n "
        "FROM coded GROUP BY id, cell"
    )
    if unit.max_groups >= cells:
        return [("kept", counted)]
    chosen = (
        "SELECT * FROM in_group QUALIFY row_number() OVER "
        f"(PARTITION BY id ORDER BY {group_hash()}, cell) <= {unit.max_groups}"
    )
    return [("in_group", counted), ("kept", chosen)]
