"""The query that answers with several tables at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack, cast

from dprelease.accessor.answer import explain_plan
from dprelease.accessor.argument_checks import plain
from dprelease.accessor.query_options import Price, Terms, parse_terms, question
from dprelease.accessor.row_selection import RowSelection
from dprelease.accessor.tabular_queries import TabularQueries
from dprelease.errors import UsageError
from dprelease.schema.model import free_name, same_name
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

    from dprelease.accessor.tables import Tables

WANTED = 'aggregates by name, such as {"income": {"sum": "income"}}'
ROUTES = ("marginals", "cube", "rollup", "hierarchy")


class Systems(TabularQueries):
    """Adds `tables`, which answers several tables with one scan of the rows and one charge."""

    __slots__ = ()

    @question
    def tables(
        self,
        columns: Mapping[str, Mapping[str, object]] | None = None,
        *,
        marginals: Sequence[Sequence[str]] | None = None,
        cube: Sequence[str] | None = None,
        rollup: Sequence[str] | None = None,
        hierarchy: Sequence[str] | None = None,
        marginals_at: Mapping[str, Sequence[Sequence[str]]] | None = None,
        consistent: bool | Mapping[str, object] = False,
        **terms: Unpack[Price],
    ) -> Tables:
        """Return several tables of the rows, charged together.

        Parameters
        ----------
        columns : mapping, optional
            Aggregates by name, as declared in a release file: `{"income": {"sum": "income"}}`. By
            default rows are counted, as `count`.
        marginals : list of lists of str, optional
            The keys of each table; an empty list is the table without keys.
        cube, rollup : list of str, optional
            `cube`: all subsets of these keys. `rollup`: all prefixes of these keys, from the left.
        hierarchy : list of str, optional
            Levels of areas, coarsest first. With `consistent`, combined with the marginals.
        marginals_at : mapping of lists of lists of str, optional
            The keys of each table for some of these levels, instead of the marginals.
        consistent : bool or mapping, default False
            Whether all tables are made consistent; `{"non_negative": True}` returns integer tables.

        Returns
        -------
        Tables
            Frames by name, coarsest first.
        """
        with self._asking() as chosen:
            asked = parse_terms(terms, by=False)
            routes = (marginals, cube, rollup, hierarchy)
            keys = {
                name: _keys(name, given, nested=name == "marginals")
                for name, given in zip(ROUTES, routes, strict=True)
                if given is not None
            }
            if marginals_at is not None:
                keys["marginals_at"] = _by_level(marginals_at)
            if consistent is not False:
                keys["consistent"] = plain(consistent)
            named = _count_column(keys) if columns is None else _columns(columns)
            # a frame if `dry`
            return cast("Tables", _answer_or_explain(chosen, named, keys, asked))


def _count_column(keys: Mapping[str, Plain]) -> dict[str, Mapping[str, Plain]]:
    """Return the count of rows, under a name that no key or published column has."""
    from dprelease.postprocess.consistent.outputs import BESIDE  # loads slowly

    named = [key for route, given in keys.items() if route != "consistent" for key in _texts(given)]
    taken = {same_name(key) for key in named}
    return {free_name("count", taken, ("", *(f"_{ending}" for ending in BESIDE))): {"count": "*"}}


def _texts(value: Plain) -> Iterator[str]:
    """Yield all strings in a list or mapping, nested lists included."""
    if isinstance(value, str):
        yield value
    elif value is not None:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _columns(given: object) -> dict[str, Mapping[str, Plain]]:
    """Return aggregates by name; raise UsageError DP-SESSION-016 for other types."""
    named = plain(given) if isinstance(given, Mapping) else None
    if not isinstance(named, dict):
        kind = type(given).__name__
        raise UsageError("DP-SESSION-016", name="columns", wanted=WANTED, kind=kind)
    columns: dict[str, Mapping[str, Plain]] = {}
    for name, asked in named.items():
        if not isinstance(asked, dict):
            kind = type(asked).__name__
            raise UsageError("DP-SESSION-016", name=f"columns[{name!r}]", wanted=WANTED, kind=kind)
        columns[name] = asked
    return columns


def _by_level(given: object) -> Plain:
    """Return keys by level; raise UsageError DP-SESSION-016 for other types."""
    if not isinstance(given, Mapping):
        kind, wanted = type(given).__name__, "a mapping of levels to lists of lists of names"
        raise UsageError("DP-SESSION-016", name="marginals_at", wanted=wanted, kind=kind)
    return {
        str(level): _keys(f"marginals_at[{level!r}]", tables, nested=True)
        for level, tables in given.items()
    }


def _keys(name: str, given: object, *, nested: bool) -> Plain:
    """Return keys as in a release file; raise UsageError DP-SESSION-016 for other types."""
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    parts = list(given) if isinstance(given, Sequence) else []
    if not is_list or (nested and any(isinstance(keys, str) for keys in parts)):
        wanted = "a list of lists of names" if nested else "a list of names"
        raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=type(given).__name__)
    return plain(parts)


def _answer_or_explain(
    chosen: RowSelection,
    columns: Mapping[str, Mapping[str, Plain]],
    keys: Mapping[str, Plain],
    terms: Terms,
) -> Tables | pd.DataFrame:
    from dprelease.accessor.tables import System, answer_tables, planned_tables

    system = System(columns, keys, chosen.predicates, chosen.derived)
    if chosen.dry:
        _, plan, price = planned_tables(chosen.session, system, terms)
        return explain_plan(chosen.session, plan, price)
    return answer_tables(chosen.session, chosen.token, system, terms, chosen.state)
