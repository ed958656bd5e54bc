"""Read the rows of a public table, which computations after the noise may use."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dprelease.exact.duckdb import Engine
from dprelease.exact.input_checks import refuse_missing_columns
from dprelease.exact.reading.sources import locate_errors
from dprelease.exact.settings import Settings
from dprelease.query.expressions.computed_order import with_input_columns
from dprelease.query.expressions.used_columns import Formulas
from dprelease.schema.columns import is_stored
from dprelease.schema.load import Declared
from dprelease.statements.layers import public_table_sql

ARROW_TYPES = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
"""The Arrow type of each declared type; those of categories, texts and cuts are texts."""


def blank_rows(declared: Declared, names: Sequence[str]) -> pa.Table:
    """Return a table without rows, with the types of some columns of a public table."""
    columns = declared.table.columns
    kinds = {name: getattr(columns[name], "type", "cut") for name in names}
    return pa.schema(
        [(name, ARROW_TYPES.get(kind, pa.string())) for name, kind in kinds.items()]
    ).empty_table()


def read_public_rows(
    declared: Declared,
    frame: object | None,
    formulas: Formulas,
    names: Sequence[str],
    settings: Settings,
) -> pa.Table:
    """Return some columns of the rows of a public table, in their declared types.

    `frame`: a frame that is read in place of the table's source, or None.

    Raises DataError: DP-DATA-001 to 004 or 009 if the source is not as declared, or has numbers
    that are too large; other errors of sources as for any other table.
    """
    if not declared.table.public:
        # A last check: the rows that this module returns go to the publication without noise.
        raise TypeError("only rows of public tables can be read")
    with PublicRows.open(declared, frame, settings=settings) as engine:
        return engine.rows(formulas, names)


class PublicRows(Engine):
    """An engine over one public table, which returns its rows."""

    def rows(self, formulas: Formulas, names: Sequence[str]) -> pa.Table:
        """Return some columns of all rows."""
        table, given = self.declared.table, self._inputs[0]
        needed = with_input_columns(table.columns, formulas, names)
        refuse_missing_columns(given, [name for name in needed if is_stored(table.columns[name])])
        with locate_errors(self._inputs):
            sql = public_table_sql(table, formulas, names, self.physical)
        schema = blank_rows(self.declared, names).schema
        rows = self._set_up(lambda link: link.sql(sql).to_arrow_table().cast(schema), given)
        self.refuse_change()
        return rows
