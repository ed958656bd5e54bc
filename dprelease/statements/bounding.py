"""Contribution bounding: which rows of a unit are kept.

The choice looks at the unit's own rows alone: no other unit, row order, thread or engine can move
it. Cells are ordered by a hash of id and cell, rows in a cell by a hash of id, cell and values;
ties are broken by the cell and the values. What is still equal is equal in all that the query
reads, and it does not matter which of it is kept. The hash only spreads the choice; the guarantee
does not rest on it.

The hash is 31-bit and needs no more than 64-bit integers, so that it is cheap and the same in any
language: it starts at 0; for each part x, a number below 2^31, h becomes h + x, and then twice,
with the constants of `ROUNDS`, h becomes ((h XOR constant) * factor) mod (2^31 - 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.privacy.unit import PrivacyUnit

MODULUS = 2**31 - 1
"""Also the part that stands for a missing value: no number modulo it is equal to it."""

ROUNDS = ((715827883, 1103515245), (1431655765, 1597334677))
"""Constant and factor of both rounds. All numbers on the way stay below 2^63."""


def number(value: str, *, text: bool = False) -> str:
    """Return a value as a part of a hash: modulo 2^31 - 1, for a text the first 28 bits of its MD5.

    No value can make it fail: the cast comes after the division.
    """
    if text:
        return f"coalesce(CAST('0x' || left(md5({value}), 7) AS BIGINT), {MODULUS})"
    small = f"(CAST({value} % {MODULUS} AS BIGINT) + {MODULUS}) % {MODULUS}"
    return f"coalesce({small}, {MODULUS})"


def hashed(parts: Sequence[str]) -> str:
    """Return the hash of parts, each made by `number`."""
    sql = ""
    for part in parts:
        sql = f"{sql} + {part}" if sql else part
        for constant, factor in ROUNDS:
            sql = f"(xor({sql}, {constant})) * {factor} % {MODULUS}"
    return sql


def kept_rows(
    unit: PrivacyUnit, values: Sequence[str], cells: int, *, text: bool
) -> list[tuple[str, str]]:
    """Return common table expressions from `coded` to `kept`: rows (id, cell, values...).

    Guarantee: each id is in at most `max_groups` cells of `kept`, with at most `max_rows_per_group`
    rows in each. `text`: ids are texts, not whole numbers.
    """
    group = [number("id", text=text), number("cell")]
    row = ", ".join([hashed([*group, *map(number, values)]), *(f"{v} NULLS FIRST" for v in values)])
    in_group = (
        "SELECT * FROM {rows} QUALIFY row_number() OVER "
        f"(PARTITION BY id, cell ORDER BY {row}) <= {unit.max_rows_per_group}"
    )
    if unit.max_groups >= cells:
        return [("kept", in_group.format(rows="coded"))]
    # The cells come first: what is left then has few rows.
    chosen = (
        "SELECT * FROM coded QUALIFY dense_rank() OVER "
        f"(PARTITION BY id ORDER BY {hashed(group)}, cell) <= {unit.max_groups}"
    )
    return [("chosen", chosen), ("kept", in_group.format(rows="chosen"))]


def kept_counts(
    unit: PrivacyUnit, cells: int, *, text: bool, text_cells: bool = False
) -> list[tuple[str, str]]:
    """Return common table expressions from `coded` to `kept`: one row (id, cell, n) a cell.

    The same bounds for queries that read no value: all rows of an id in a cell are then equal, and
    n of them are kept. `text`, `text_cells`: ids, cells are texts, not whole numbers.
    """
    counted = (
        f"SELECT id, cell, least(count(*), {unit.max_rows_per_group}) AS n "
        "FROM coded GROUP BY id, cell"
    )
    if unit.max_groups >= cells:
        return [("kept", counted)]
    order = hashed([number("id", text=text), number("cell", text=text_cells)])
    chosen = (
        "SELECT * FROM in_group QUALIFY row_number() OVER "
        f"(PARTITION BY id ORDER BY {order}, cell) <= {unit.max_groups}"
    )
    return [("in_group", counted), ("kept", chosen)]


def windows(rows: str, unit: PrivacyUnit, values: Sequence[str], cells: int, *, text: bool) -> str:
    """Return a SELECT of what is kept of rows of `id`, `cell` and values, none of the first NULL.

    With values it has these rows, else (id, cell, n), as the expressions above say.
    """
    steps = kept_counts(unit, cells, text=text)
    if values:
        steps = kept_rows(unit, values, cells, text=text)
    named = ", ".join(f"{name} AS ({sql})" for name, sql in [("coded", rows), *steps])
    return f"WITH {named} SELECT * FROM kept"
