"""Contribution limits: SQL that selects the rows of each person that a query keeps.

The selection depends on the person's own rows alone: no other person, row order, thread or engine
can change it. The selection has three steps:

1. The SQL orders the cells in which the person has rows by a hash of id and cell, and keeps the
   first `max_groups` cells. The number of rows in a cell does not matter.
2. In each of these cells, the SQL numbers the person's rows 0, 1, 2, ... in the order of their
   values, orders the rows by a hash of id, cell and number, and keeps the first
   `max_rows_per_group` rows. The hash does not use the values, so all rows of a cell are equally
   likely to be kept. Equal rows get different numbers, and their order makes no difference.

3. Of these rows, the SQL keeps the first `max_rows` rows, in the order of the same hashes. So the
   rows are kept as if all rows of the person were drawn one after the other, each with the same
   probability, and a row were passed over if its cell is full. If steps 1 and 2 alone keep at most
   `max_rows` rows, step 3 is omitted. Otherwise, if `max_groups` is not below `max_rows`, step 1
   would leave out nothing that step 3 keeps, and is omitted.

Where two hashes are equal, the smaller cell or the smaller number comes first. The hash only
spreads the selection evenly; the privacy guarantee does not depend on the hash.

The hash has 31 bits and needs only 64-bit integers, so that it is cheap to compute and the same in
every programming language. The hash h starts at 0. For each part x, a number below 2^31, h becomes
h + x, and then, with the constant and factor of each of `ROUNDS` in turn, h becomes
((h XOR constant) * factor) mod (2^31 - 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.privacy.unit import PrivacyUnit

Ctes = list[tuple[str, str]]
"""Common table expressions: the name and the SELECT of each."""

MODULUS = 2**31 - 1

ROUNDS = ((715827883, 742938285), (1431655765, 950706376), (858993459, 1226874159))
"""The constant and the factor of each round of the hash. All intermediate numbers are below 2^63.

The factors are the three best of Fishman and Moore (SIAM J. Sci. Stat. Comput. 7, 1986) for this
modulus. After two rounds, one of two consecutive numbers has the smaller hash in 49.9 % of all
cases; after three, 10^8 hashes show no difference.
"""


def hash_part_sql(value: str, *, text: bool = False) -> str:
    """Return SQL that maps a value to a part of a hash: a number from 0 to 2^31 - 2, never NULL.

    An integer is reduced modulo 2^31 - 1. A text (`text`) is first converted to the number in the
    first 60 bits of its MD5 digest. No value can make the expression fail, because the expression
    casts the value after the division.
    """
    if text:
        # 15 digits have 60 bits, so the number always fits into a BIGINT.
        return f"CAST('0x' || left(md5({value}), 15) AS BIGINT) % {MODULUS}"
    # The engine's remainder has the sign of the value, and parts of a hash must not be negative.
    return f"(CAST({value} % {MODULUS} AS BIGINT) + {MODULUS}) % {MODULUS}"


def hash_sql(parts: Sequence[str]) -> str:
    """Return SQL that computes the hash of several parts, each a number from 0 to 2^31 - 1."""
    sql = ""
    for part in parts:
        sql = f"{sql} + {part}" if sql else part
        for constant, factor in ROUNDS:
            sql = f"(xor({sql}, {constant})) * {factor} % {MODULUS}"
    return sql


def limited_row_ctes(unit: PrivacyUnit, values: Sequence[str], cells: int, *, text: bool) -> Ctes:
    """Return common table expressions that select rows (id, cell, values...) by the limits.

    The first expression reads the relation `coded`; the last one is named `kept`. In `kept`, each
    id has rows in at most `max_groups` cells, at most `max_rows_per_group` rows in each cell, and
    at most `max_rows` rows in all. `text` says that ids are texts, not integers.
    """
    group = [hash_part_sql("id", text=text), hash_part_sql("cell")]
    # As in NumPy's selection; where the engine puts missing values is a setting of the engine.
    by_value = ", ".join(f"{value} NULLS FIRST" for value in values)
    by_value = f"ORDER BY {by_value}" if values else ""
    of_row = hash_sql([*group, hash_part_sql("number")])
    number = f"row_number() OVER (PARTITION BY id, cell {by_value}) - 1 AS number"
    sample = f"row_number() OVER (PARTITION BY id, cell ORDER BY {of_row}, number)"
    within_rows = f"FROM numbered QUALIFY {sample} <= {unit.max_rows_per_group}"
    steps, rows = [], "coded"
    if unit.limits_groups(cells):  # cells are selected first, so that fewer rows must be numbered
        sampled = (
            # Ranks of cells and not of rows: the number of a person's rows in a cell must not
            # change which cells are kept.
            "SELECT * FROM coded QUALIFY dense_rank() OVER "
            f"(PARTITION BY id ORDER BY {hash_sql(group)}, cell) <= {unit.max_groups}"
        )
        steps, rows = [("chosen", sampled)], "chosen"
    steps.append(("numbered", f"SELECT *, {number} FROM {rows}"))
    if not unit.limits_all_rows(cells):
        return [*steps, ("kept", f"SELECT * EXCLUDE (number) {within_rows}")]
    of_all = f"row_number() OVER (PARTITION BY id ORDER BY {of_row}, cell, number)"
    within_all = f"SELECT * EXCLUDE (number) FROM within QUALIFY {of_all} <= {unit.max_rows}"
    return [*steps, ("within", f"SELECT * {within_rows}"), ("kept", within_all)]


def limited_count_ctes(
    unit: PrivacyUnit, cells: int, *, text: bool, text_cells: bool = False
) -> Ctes:
    """Return common table expressions that count the rows (id, cell, n) within the limits.

    These expressions apply the same limits to queries that read no values. All rows of an id in a
    cell are then equal, so `kept` has one row for each id and cell, whose `n` is the number of rows
    that the limits keep. `text` says that ids are texts, and `text_cells` that cells are texts,
    not integers.
    """
    if unit.limits_all_rows(cells):
        *steps, (_, rows) = limited_row_ctes(unit, (), cells, text=text)
        counted = "SELECT id, cell, count(*) AS n FROM sampled GROUP BY id, cell"
        return [*steps, ("sampled", rows), ("kept", counted)]
    counted = (
        f"SELECT id, cell, least(count(*), {unit.max_rows_per_group}) AS n "
        "FROM coded GROUP BY id, cell"
    )
    if not unit.limits_groups(cells):
        return [("kept", counted)]
    order = hash_sql([hash_part_sql("id", text=text), hash_part_sql("cell", text=text_cells)])
    sampled = (
        "SELECT * FROM in_group QUALIFY row_number() OVER "
        f"(PARTITION BY id ORDER BY {order}, cell) <= {unit.max_groups}"
    )
    return [("in_group", counted), ("kept", sampled)]


def limited_rows_sql(
    rows: str, unit: PrivacyUnit, values: Sequence[str], cells: int, *, text: bool
) -> str:
    """Return a SELECT of the rows that the contribution limits keep.

    `rows` is a SELECT of `id`, `cell` and the columns `values`; `id` and `cell` are never NULL. If
    there are values, the result has the same columns, and otherwise the columns `id`, `cell` and
    `n`, the number of kept rows.
    """
    steps = limited_count_ctes(unit, cells, text=text)
    if values:
        steps = limited_row_ctes(unit, values, cells, text=text)
    named = ", ".join(f"{name} AS ({sql})" for name, sql in [("coded", rows), *steps])
    return f"WITH {named} SELECT * FROM kept"


def contributions_sql(rows: str) -> str:
    """Return a SELECT of how many ids have so many groups, and so many rows in a group and in all.

    `rows` is a SELECT of `id` and `cell`, which are never NULL. The columns of the result are
    `groups`, `most` (the largest number of rows in a group), `total` and `number`.
    """
    in_cell = f"SELECT id, cell, count(*) AS n FROM ({rows}) GROUP BY id, cell"
    by_id = (
        "SELECT count(*) AS groups, max(n) AS most, CAST(sum(n) AS BIGINT) AS total "
        f"FROM ({in_cell}) GROUP BY id"
    )
    return f"SELECT groups, most, total, count(*) AS number FROM ({by_id}) GROUP BY ALL"
