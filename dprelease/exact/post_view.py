"""Run statements over a noised table in memory: this is post-processing, without access to data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import date
from typing import TYPE_CHECKING

import duckdb

from dprelease.errors import QueryError
from dprelease.exact.connection import CONNECTION_OPTIONS, Config
from dprelease.query.outer_sql.null_safe import SETTINGS, macros
from dprelease.system.deferred_signals import reraise_handler_errors
from dprelease.system.forks import Maker, parent_only

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LONGEST_PROBLEM = 200
"""Maximum number of characters that a message quotes of an error of the engine."""


def run_statement(
    statement: str, tables: Mapping[str, pa.Table], *, trial: bool = False
) -> pa.Table:
    """Return the result of an outer statement over noised and public tables, by name.

    The connection has no access to files, to the network, to extensions or to Python variables, its
    settings are locked, and a statement leaves nothing behind for the next one. `trial`: the tables
    have no value of a release, so that an error may quote the engine.

    Raises QueryError: DP-SQL-007 if the engine can't compute the result, for example for a wrong
    type.
    """
    connection = _empty_database().cursor()
    problem: str | None = None
    try:
        with reraise_handler_errors():
            for name, table in tables.items():
                connection.register(name, table)
            connection.execute("BEGIN TRANSACTION READ ONLY")
            result: pa.Table = connection.sql(statement).to_arrow_table()
    except duckdb.Error as error:
        problem = _binder_text(error) if trial else ""
    finally:
        connection.close()
    if problem is not None:
        raise QueryError("DP-SQL-007", problem=problem)
    return result


_DATABASES: list[tuple[Maker, duckdb.DuckDBPyConnection]] = []
"""The database of this process, behind those of the processes from which it was forked."""

_UNTIL_EXIT = ExitStack()


def _empty_database() -> duckdb.DuckDBPyConnection:
    """Return a locked connection to a database that has only the macros of outer statements.

    It is opened once per process, because that takes longer than most statements. Each cursor of it
    has tables of its own, and draws no progress bar.
    """
    for maker, connection in _DATABASES:
        if maker.is_here:
            return connection
    config: Config = {**CONNECTION_OPTIONS, "enable_external_access": False}
    connection = duckdb.connect(config=config)
    with reraise_handler_errors():
        # A plain SET would hold for one connection alone, and each statement has a cursor, which is
        # another connection.
        for setting in SETTINGS:
            connection.execute(setting.replace("SET ", "SET GLOBAL ", 1))
        for prepared in (*macros(), "SET lock_configuration = true"):
            connection.execute(prepared)
    _UNTIL_EXIT.enter_context(parent_only()).append(connection)
    _DATABASES.append((Maker(), connection))
    return connection


def _binder_text(error: duckdb.Error) -> str:
    """Return what the engine says about a wrong name, type or constant, in one line."""
    if "(INTERVAL)" in str(error):
        return ": a difference of timestamps is no number; use date_diff('hour', first, last)"
    mixed = re.search(r" types? (?:of )?(\S+) and (?:type )?(\S+) .*- an explicit cast", str(error))
    if mixed is not None:
        one, other = (name.removesuffix("_LITERAL") for name in mixed.groups())
        advice = "write texts in quotes, and numbers, true and false without"
        cast = "CAST(n AS VARCHAR) or CAST(code AS BIGINT)"
        if {one, other} & {"DATE", "TIMESTAMP"}:
            advice, cast = "write dates as '2020-12-31'", "CAST(text AS DATE)"
        advice += f", or convert one of them, as in {cast}"
        return f": values of the types {one} and {other} are mixed or compared; {advice}"
    return ": " + str(error).partition("\n")[0].partition(": ")[2][:LONGEST_PROBLEM].rstrip(".!")


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a result as a pandas frame, with decimals as floats.

    Days that Python has no date for, such as those after the year 9999, are missing: after the
    charge, no result of a statement may fail.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, column in enumerate(table.schema):
        values = table.column(i)
        if pa.types.is_decimal(column.type):
            table = table.set_column(i, column.name, values.cast(pa.float64()))
        elif pa.types.is_date(column.type):
            first, last = (pa.scalar(end, column.type) for end in (date.min, date.max))
            known = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
            missing = pa.scalar(None, column.type)
            table = table.set_column(i, column.name, pc.if_else(known, values, missing))
    far = any(_has_dates(column.type) for column in table.schema if pa.types.is_nested(column.type))
    frame: pd.DataFrame = table.to_pandas(date_as_object=not far)
    return frame


def _has_dates(kind: pa.DataType) -> bool:
    """Return whether a type of nested values contains dates."""
    return "date32" in str(kind)
