"""Names in a statement that are written in another case than in a schema, or than after AS.

As in DuckDB, upper and lower case do not distinguish names, with or without quotes. A name is
replaced by its spelling in the schema, or after AS. A name that fits several spellings stays as it
is written, and is looked up in the tables of its SELECT.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from sqlglot import exp

from dprelease.query.measurement import WITH_COMPANIONS
from dprelease.schema.field_types import NAME, RESERVED
from dprelease.schema.table import Table

# Names of the declared columns that hold the aggregates of a statement.

MOST_LETTERS = 50
"""Maximum length of a name that is derived from a column's, so that a number can be appended."""


def is_valid_column_name(name: str, taken: Collection[str]) -> bool:
    """Return whether a declared column may have this name; columns of results may have any."""
    is_name = bool(re.fullmatch(NAME, name)) and name.casefold() not in RESERVED
    return is_name and _is_unused(name, taken)


def _is_unused(name: str, taken: Collection[str]) -> bool:
    """Return whether neither a name nor the name of a companion column is taken."""
    return all(f"{name}{part}".casefold() not in taken for part in WITH_COMPANIONS)


def unused_name(new_name: str, taken: Collection[str]) -> str:
    """Return an unused name that a release file may declare, derived from a column's name."""
    name = re.sub("[^A-Za-z0-9_]+", "_", new_name)[:MOST_LETTERS]
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if _is_unused(free, taken))


def use_declared_spelling(tree: exp.Query, tables: Mapping[str, Table]) -> None:
    """Replace the names of columns and tables in a statement by their declared spelling."""
    read = {table.name.casefold() for table in tree.find_all(exp.Table)}
    known = (table.columns for name, table in tables.items() if name.casefold() in read)
    columns = [name for names in known for name in names]
    items = [item.alias for item in tree.find_all(exp.Alias)]
    for alias in tree.find_all(exp.TableAlias):
        items += [column.name for column in alias.columns]
        if isinstance(alias.this, exp.Identifier):
            alias.this.set("this", alias.this.name.casefold())
    aliases = [alias.name for alias in tree.find_all(exp.TableAlias) if alias.this]
    for name in _column_names(tree):
        _respell(name, columns, items)
    for name in _table_names(tree):
        _respell(name, aliases, tables)


def _column_names(tree: exp.Query) -> Iterator[exp.Expr]:
    """Yield the names of columns that a statement reads."""
    for column in tree.find_all(exp.Column):
        yield column.this
    for star in tree.find_all(exp.Star):
        yield from star.args.get("except_") or []
    for join in tree.find_all(exp.Join):
        yield from join.args.get("using") or []


def _table_names(tree: exp.Query) -> Iterator[exp.Expr]:
    """Yield the names of tables in FROM, and those before columns."""
    for table in tree.find_all(exp.Table):
        yield table.this
    for column in tree.find_all(exp.Column):
        if column.args.get("table") is not None:
            yield column.args["table"]


def _respell(node: exp.Expr, *spellings: Iterable[str]) -> None:
    """Replace a name by its spelling in the first of some lists that have a similar name."""
    if not isinstance(node, exp.Identifier):
        return
    for known in spellings:
        found = {one for one in known if one.casefold() == node.name.casefold()}
        if len(found) == 1:
            node.set("this", next(iter(found)))
        if found:
            return
