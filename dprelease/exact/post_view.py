"""Run statements over a noised table in memory: this is post-processing, without access to data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from dprelease.errors import QueryError
from dprelease.exact.connection import Config, disable_progress_bar
from dprelease.system.signal_propagation import reraise_handler_errors

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def run_statement(noised: pa.Table, statement: str, name: str) -> pa.Table:
    """Return the result of a SQL statement over a noised table, which the statement calls `name`.

    The connection has no access to files, to the network or to Python variables.

    Raises
    ------
    QueryError
        DP-SQL-007 if the engine can't compute the result, for example for a wrong type.
    """
    config: Config = {"enable_external_access": False, "python_enable_replacements": False}
    connection = duckdb.connect(config=config)
    failed = False
    try:
        with reraise_handler_errors():
            connection.register(name, noised)
            disable_progress_bar(connection)
            connection.execute("SET lock_configuration = true")
            view: pa.Table = connection.sql(statement).to_arrow_table()
    except duckdb.Error:
        failed = True
    finally:
        connection.close()
    if failed:
        raise QueryError("DP-SQL-007")
    return view


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a result as a pandas frame, with decimals as floats."""
    import pyarrow as pa

    for i, column in enumerate(table.schema):
        if pa.types.is_decimal(column.type):
            floats = table.column(i).cast(pa.float64())
            table = table.set_column(i, column.name, floats)
    frame: pd.DataFrame = table.to_pandas()
    return frame
