"""Several tables of one session, queried and charged together: marginals, cubes, hierarchies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dprelease.accessor.answer import Specs, explain_plan
from dprelease.accessor.answer_libraries import Library, in_library
from dprelease.accessor.argument_checks import to_plain
from dprelease.accessor.frame_notes import ATTRIBUTE
from dprelease.accessor.pricing import (
    budget_of,
    charge_before_answer,
    check_options,
    column_declaration,
    plan_queries,
    privacy_cost_of,
    private_keys_of,
)
from dprelease.accessor.query_options import Options
from dprelease.accessor.row_selection import RowSelection
from dprelease.accessor.session import Spending
from dprelease.errors import Place, QueryError, SessionError
from dprelease.errors.argument_types import checked_methods, wrong_argument
from dprelease.errors.printable import count_text
from dprelease.exact.post_view import to_pandas
from dprelease.planning.bounded_words import contribution_limits_texts
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.families.family_plan import refuse_families
from dprelease.planning.kinds import Weights
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.outputs import COMPANION_ROLES, ESTIMATES, RECORDS
from dprelease.postprocess.families import MEASURED, Family
from dprelease.query.resolve import resolve
from dprelease.release import execute
from dprelease.release.after_noise import labels_of
from dprelease.schema.load import Declaration
from dprelease.schema.model import Files, normalized_name, relative_reader, unused_name, validate
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.yaml_text.reader import Document, Plain
from dprelease.system.summaries import Summarized, Summary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dprelease.numerics.lattice import Floats

NAME = "tables"
"""Name of the query, with which the names of all of its tables begin."""

WANTED = 'aggregates by name, such as {"income": {"sum": "income"}}'


@checked_methods
class Tables(Mapping[str, "pd.DataFrame"], Summarized):
    """Published tables by name, coarsest first; each is indexed by its keys.

    A name is the keys joined by "_", or "total" for the table without keys. For consistent tables,
    the mapping holds the final tables: the integer tables if they were requested, otherwise the
    estimates. `measurements` and `estimates` hold the tables from which the final tables were
    computed. `records` holds the synthetic persons, one per row, if they were requested.

    `attrs` holds the guarantee, the mechanisms and the privacy cost of all tables together.
    """

    def __init__(
        self,
        frames: Mapping[str, pd.DataFrame],
        attrs: Mapping[str, Any],
        library: Library = "pandas",
    ) -> None:
        self._all, self._library = frames, library
        parts: dict[str, dict[str, Any]] = {}
        for path, frame in frames.items():
            folder, _, name = path.rpartition("/")
            parts.setdefault(folder, {})[_short_name(name)] = in_library(frame, library)
        self.attrs = dict(attrs)
        self.measurements: Mapping[str, pd.DataFrame] = parts.pop(MEASURED, {})
        invented = parts.pop(RECORDS, {})
        self.records: pd.DataFrame | None = next(iter(invented.values()), None)
        self.estimates: Mapping[str, pd.DataFrame] = parts.get(ESTIMATES, {})
        final = next(reversed(parts))  # the integer tables, if they were requested
        self._frames: Mapping[str, pd.DataFrame] = parts[final]
        self._in_pandas = {
            _short_name(path.rpartition("/")[2]): frame
            for path, frame in frames.items()
            if path.rpartition("/")[0] == final
        }

    def in_library(self, library: Library) -> Tables:
        """Return the same tables as frames of a library."""
        return Tables(self._all, self.attrs, library)

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def plot(self, column: str | None = None, axes: Axes | None = None) -> Axes:
        """Return axes with the median margin of error by cell size, one line per table.

        Parameters
        ----------
        column
            The column whose margins are drawn; by default the first one that has margins.
        axes
            Axes to draw on; by default those of a new figure, `axes.figure`.

        Raises
        ------
        SessionError
            DP-SESSION-008 for a column without margins.
        UsageError
            DP-SESSION-016 for anything but axes of matplotlib.
        """
        if axes is not None and not hasattr(axes, "set_xscale"):
            raise wrong_argument("axes", "axes of matplotlib", axes)
        first = next(iter(self._in_pandas.values()))
        known = [name for name in first.columns if f"{name}_moe" in first]
        if not known or (column is not None and column not in known):
            name = "a margin" if column is None else column
            raise SessionError("DP-SESSION-008", what=name, known=", ".join(known) or "none")
        return plot_margins(self._in_pandas, known[0] if column is None else column, axes)

    def _summary(self) -> Summary:
        """Return the name, the number of rows and the columns of each table."""
        rows = [
            (name, f"{len(frame):,}", ", ".join(map(str, frame.columns)))
            for name, frame in self._in_pandas.items()
        ]
        return count_text(len(self), "table", "tables"), ("table", "rows", "columns"), rows


def _short_name(name: str) -> str:
    """Return the name of a table without the name of the query; "total" without keys."""
    return "total" if name == NAME else name.removeprefix(f"{NAME}_")


def answer_tables(
    rows: RowSelection,
    columns: object,
    lists: Mapping[str, object],
    marginals_at: object,
    consistent: bool | Mapping[str, object],
    options: Options,
) -> Tables:
    """Charge the session for all tables together, then return the tables; if `dry`, their plan.

    `columns`: aggregates by name; by default rows are counted. `lists`: the keys of the tables, by
    the keyword of the release file.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        The same errors as `answer.answer_query`; an impossible family of tables raises before the
        charge.
    """
    keys = {
        name: _declared_keys(name, value, nested=name == "marginals")
        for name, value in lists.items()
        if value is not None
    }
    if marginals_at is not None:
        keys["marginals_at"] = _keys_by_level(marginals_at)
    if consistent is not False:
        keys["consistent"] = to_plain(consistent)
    aggregates = _count_of_rows(keys) if columns is None else _aggregates_by_name(columns)
    family, plan, price = _planned_tables(rows, aggregates, keys, options)
    session = rows.session
    if rows.dry:
        return cast("Tables", explain_plan(session, plan, price))
    charged = charge_before_answer(session, plan, price, "these tables", rows.state)
    drawn = execute.answer_family(family, plan.columns, session._engine(rows.token), charged)
    queries = [table.query for table in family.tables]
    by = {key.column for one in queries for key in (*one.key_columns, *one.groupings)}
    frames = {name: _index_by_keys(name, to_pandas(table), by) for name, table in drawn.items()}
    attrs = {ATTRIBUTE: _attributes(plan)}
    for frame in frames.values():
        frame.attrs |= attrs
    return Tables(frames, attrs)


def _count_of_rows(keys: Mapping[str, Plain]) -> dict[str, Mapping[str, Plain]]:
    """Return the count of rows, under a name that no key and no published column has."""
    tables = [part for name, part in keys.items() if name != "consistent"]
    taken = {normalized_name(key) for part in tables for key in _strings_in(part)}
    return {
        unused_name("count", taken, ("", *(f"_{ending}" for ending in COMPANION_ROLES))): {
            "count": "*"
        }
    }


def _strings_in(value: Plain) -> Iterator[str]:
    """Yield all strings in a list or mapping, also in nested lists."""
    if isinstance(value, str):
        yield value
    elif value is not None:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings_in(part)


def _aggregates_by_name(columns: object) -> dict[str, Mapping[str, Plain]]:
    """Return the aggregates by name; raise UsageError DP-SESSION-016 for other types."""
    if not isinstance(columns, Mapping):
        raise wrong_argument("columns", WANTED, columns)
    aggregates: dict[str, Mapping[str, Plain]] = {}
    for name, value in columns.items():
        spec = to_plain(value)
        if not isinstance(spec, dict):
            raise wrong_argument(f"columns[{str(name)!r}]", WANTED, value)
        aggregates[str(name)] = spec
    return aggregates


def _keys_by_level(tables: object) -> Plain:
    """Return the keys by level; raise UsageError DP-SESSION-016 for other types."""
    if not isinstance(tables, Mapping):
        wanted = "a mapping of levels to lists of lists of names"
        raise wrong_argument("marginals_at", wanted, tables)
    return {
        str(level): _declared_keys(f"marginals_at[{level!r}]", keys, nested=True)
        for level, keys in tables.items()
    }


def _declared_keys(name: str, keys: object, *, nested: bool) -> Plain:
    """Return keys as in a release file; raise UsageError DP-SESSION-016 for other types."""
    is_list = isinstance(keys, Sequence) and not isinstance(keys, str)
    parts = list(keys) if isinstance(keys, Sequence) else []
    if not is_list or (nested and any(isinstance(part, str) for part in parts)):
        wanted = "a list of lists of names" if nested else "a list of names"
        raise wrong_argument(name, wanted, keys)
    return to_plain(parts)


def _attributes(plan: Plan) -> dict[str, Any]:
    """Return the guarantee of all tables, and the measurements of each table, as JSON values."""
    by_table: dict[str, dict[str, Any]] = {}
    for column in plan.columns:
        margins, mechanisms = by_table.setdefault(
            _short_name(column.query.name), {"margins_95": {}, "mechanisms": {}}
        ).values()
        margins[column.measurement.name] = float(column.margin())
        mechanisms[column.measurement.name] = column.mechanism.name
    labels = labels_of(plan.queries)
    return {
        "guarantee": plan.guarantee.to_json(),
        "tables": by_table,
        "bounded_rows": contribution_limits_texts(plan.queries),
        **({"labels": labels} if labels else {}),
    }


def _planned_tables(
    rows: RowSelection, columns: Specs, keys: Mapping[str, Plain], options: Options
) -> tuple[Family, Plan, Spending]:
    """Return the requested family of tables, its plan, and its privacy cost."""
    session = rows.session
    check_options(options, NAME)
    _ = budget_of(session, options)
    declaration = _declaration_of_tables(rows, columns, keys, options)
    consistent = declaration.spec.queries[NAME].consistent
    # Exact values outside the guarantee must be recorded in a manifest, which sessions don't have.
    if consistent is not None and consistent.invariants:
        raise QueryError("DP-CONSIST-007", place=Place(key="consistent.invariants"))
    queries = resolve(declaration)
    plan = plan_queries(session, queries, options)
    refuse_families(declaration, plan.families)
    if consistent is not None:
        from dprelease.planning.families.family_shares import optimize_shares

        def plan_with_weights(weights: Weights) -> Plan:
            """Return the plan in which each vector gets the budget share of its weight."""
            return plan_queries(
                session, queries, options, shares_of(declaration.spec, queries, weights)
            )

        plan = optimize_shares(declaration, plan, plan_with_weights)
    (family,) = plan.families
    return family, plan, privacy_cost_of(session, plan, options)


def _declaration_of_tables(
    rows: RowSelection, columns: Specs, keys: Mapping[str, Plain], options: Options
) -> Declaration:
    """Return the declaration of a release that would publish these tables."""
    session = rows.session
    query: dict[str, Plain] = {
        **keys,
        "from": session.table.name,
        "where": " AND ".join(f"({predicate})" for predicate in rows.predicates) or None,
        "derive": dict(rows.derived),
        "private_keys": private_keys_of(session, options),
        "columns": {name: column_declaration(spec, options) for name, spec in columns.items()},
    }
    values: dict[str, Plain] = {
        "title": NAME,
        "tables": [NAME],
        # The query has its own budget; the neighbouring relation is that of the session.
        "budget": {"epsilon": "1", "neighbours": session.neighbours.value},
        "queries": {NAME: query},
        "output": NAME,
    }
    document = Document(Path(NAME), "", values, {})
    spec = validate(ReleaseSpec, document, Files(relative_reader(Path())))
    return Declaration(spec, document, {session.table.name: session.declared})


def _index_by_keys(name: str, frame: pd.DataFrame, keys: set[str]) -> pd.DataFrame:
    """Return a table indexed by its keys.

    Tables of synthetic persons have no other columns, and get no index.
    """
    if name.startswith(f"{RECORDS}/"):
        return frame
    named = [name for name in frame.columns if name in keys]
    return frame.set_index(named) if named else frame


CLASS_FACTOR = 10.0
"""Cell sizes in one class differ by at most this factor."""


def margins_by_size(frame: pd.DataFrame, column: str) -> tuple[Floats, Floats]:
    """Return a typical cell size for each power of ten, and the median margin of error there.

    Margins are divided by the value of their cell: a relative margin of 1 is as large as the value.
    Cells with a value below 1 are left out, and so are powers of ten without cells.
    """
    size = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
    margin = frame[f"{column}_moe"].to_numpy(dtype=np.float64, na_value=np.nan)
    there = (size >= 1) & np.isfinite(margin)
    size, margin = size[there], margin[there]
    classes = np.floor(np.log(size) / np.log(CLASS_FACTOR)).astype(int)
    found = np.unique(classes)
    middle = np.array([np.exp(np.log(size[classes == one]).mean()) for one in found])
    relative = np.array([np.median(margin[classes == one] / size[classes == one]) for one in found])
    return middle, relative


def plot_margins(frames: Mapping[str, pd.DataFrame], column: str, axes: Axes | None) -> Axes:
    """Return axes with one line per table: the median margin of error of its cells by cell size."""
    if axes is None:
        from matplotlib.figure import Figure

        # Not pyplot, which would keep every figure in memory until it is closed.
        axes = Figure(figsize=(7.0, 4.5), layout="constrained").add_subplot()
    ends: list[tuple[float, float, str]] = []
    for name, frame in frames.items():
        if f"{column}_moe" not in frame:
            continue
        sizes, margins = margins_by_size(frame, column)
        if len(sizes):
            axes.plot(sizes, margins, marker="o", markersize=3, linewidth=1)
            ends.append((float(sizes[-1]), float(margins[-1]), name))
    axes.set(xscale="log", yscale="log", xlabel=f"{column} in a cell")
    axes.set_ylabel("median margin, in parts of the cell")
    for size, margin, name in ends:
        axes.annotate(
            name, (size, margin), xytext=(4, 0), textcoords="offset points", va="center", size=7
        )
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    return axes
