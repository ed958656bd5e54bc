"""Contribution bounding: which rows of a person are kept.

The selection depends on the person's own rows alone: no other person, row order, thread or engine
can change it. It has two steps:

1. The cells in which the person has rows are ordered by a hash of id and cell; the first ones are
   kept. The number of rows in a cell does not matter.
2. In each of these cells the person's rows are numbered 0, 1, 2, ... in the order of their values,
   then ordered by a hash of id, cell and number; the first ones are kept. Values are no part of the
   hash, so all rows of the cell are equally likely to be kept: equal rows have different numbers,
   and it does not matter which of them has which.

Where hashes are equal, the cell and the number decide. The hash only spreads the selection; the
guarantee does not depend on it.

The hash is 31-bit and needs only 64-bit integers, so that it is cheap and the same in any language.
It starts at 0. For each part x, a number below 2^31, h becomes h + x, and then, with the constants
of each of `ROUNDS` in turn, h becomes ((h XOR constant) * factor) mod (2^31 - 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.privacy.unit import PrivacyUnit

MODULUS = 2**31 - 1

ROUNDS = ((715827883, 742938285), (1431655765, 950706376), (858993459, 1226874159))
"""Constant and factor of each round. All intermediate numbers stay below 2^63.

The factors are the three best of Fishman and Moore (SIAM J. Sci. Stat. Comput. 7, 1986) for this
modulus. After two rounds, one of two consecutive numbers has the smaller hash in 49.9 % of all
cases; after three, 10^8 hashes show no difference.
"""


def number(value: str, *, text: bool = False) -> str:
    """Return a value, never NULL, as a part of a hash: modulo 2^31 - 1.

    For a text, it is the number in the first 60 bits of its MD5. No value can make it fail, because
    the cast comes after the division.
    """
    if text:
        return f"CAST('0x' || left(md5({value}), 15) AS BIGINT) % {MODULUS}"
    return f"(CAST({value} % {MODULUS} AS BIGINT) + {MODULUS}) % {MODULUS}"


def hash_sql(parts: Sequence[str]) -> str:
    """Return the hash of parts, numbers from 0 to 2^31 - 1."""
    sql = ""
    for part in parts:
        sql = f"{sql} + {part}" if sql else part
        for constant, factor in ROUNDS:
            sql = f"(xor({sql}, {constant})) * {factor} % {MODULUS}"
    return sql


def rows_within_limits(
    unit: PrivacyUnit, values: Sequence[str], cells: int, *, text: bool
) -> list[tuple[str, str]]:
    """Return common table expressions from `coded` to `kept`: rows (id, cell, values...).

    Guarantee: each id is in at most `max_groups` cells of `kept`, with at most `max_rows_per_group`
    rows in each. `text`: ids are texts, not integers.
    """
    group = [number("id", text=text), number("cell")]
    by_value = ", ".join(f"{value} NULLS FIRST" for value in values)
    in_cell = "row_number() OVER (PARTITION BY id, cell ORDER BY {order})"
    numbered = f"SELECT *, {in_cell.format(order=by_value)} - 1 AS number FROM {{rows}}"
    sample = in_cell.format(order=f"{hash_sql([*group, number('number')])}, number")
    within_rows = (
        f"SELECT * EXCLUDE (number) FROM numbered QUALIFY {sample} <= {unit.max_rows_per_group}"
    )
    if unit.max_groups >= cells:
        return [("numbered", numbered.format(rows="coded")), ("kept", within_rows)]
    # The cells come first, because few rows are left then.
    sampled = (
        "SELECT * FROM coded QUALIFY dense_rank() OVER "
        f"(PARTITION BY id ORDER BY {hash_sql(group)}, cell) <= {unit.max_groups}"
    )
    return [
        ("chosen", sampled),
        ("numbered", numbered.format(rows="chosen")),
        ("kept", within_rows),
    ]


def counts_within_limits(
    unit: PrivacyUnit, cells: int, *, text: bool, text_cells: bool = False
) -> list[tuple[str, str]]:
    """Return common table expressions from `coded` to `kept`: one row (id, cell, n) per cell.

    The same limits for queries that read no value: all rows of an id in a cell are then equal, and
    n of them are kept. `text`, `text_cells`: ids, cells are texts, not integers.
    """
    counted = (
        f"SELECT id, cell, least(count(*), {unit.max_rows_per_group}) AS n "
        "FROM coded GROUP BY id, cell"
    )
    if unit.max_groups >= cells:
        return [("kept", counted)]
    order = hash_sql([number("id", text=text), number("cell", text=text_cells)])
    sampled = (
        "SELECT * FROM in_group QUALIFY row_number() OVER "
        f"(PARTITION BY id ORDER BY {order}, cell) <= {unit.max_groups}"
    )
    return [("in_group", counted), ("kept", sampled)]


def windows(rows: str, unit: PrivacyUnit, values: Sequence[str], cells: int, *, text: bool) -> str:
    """Return a SELECT of the kept rows of `id`, `cell` and values; id and cell are never NULL.

    With values it returns these rows, otherwise (id, cell, n), as the expressions above.
    """
    steps = counts_within_limits(unit, cells, text=text)
    if values:
        steps = rows_within_limits(unit, values, cells, text=text)
    named = ", ".join(f"{name} AS ({sql})" for name, sql in [("coded", rows), *steps])
    return f"WITH {named} SELECT * FROM kept"
