"""Several tables of one session, queried and charged together: marginals, cubes, hierarchies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.accessor.answer import ATTRIBUTE
from dprelease.accessor.pricing import (
    budget_of,
    charged_for,
    check_terms,
    column_of,
    plan_queries,
    price_of,
)
from dprelease.accessor.query_options import Terms
from dprelease.accessor.session import Session, Spending
from dprelease.errors import Place, QueryError, RunState, SessionError
from dprelease.errors.printable import amount
from dprelease.exact.post_view import to_pandas
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.families.family_plan import refuse_families
from dprelease.planning.kinds import Weights
from dprelease.planning.plan import Plan
from dprelease.postprocess.consistent.outputs import ESTIMATES, RECORDS
from dprelease.postprocess.families import MEASURED, Family
from dprelease.query.resolve import resolve
from dprelease.release import execute
from dprelease.release.answer_labels import labels_of
from dprelease.schema.load import Declaration
from dprelease.schema.model import Files, relative_reader, validate
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.yaml_text.reader import Document, Plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NAME = "tables"
"""Name of the query, with which the names of its tables begin."""


class Tables(Mapping[str, "pd.DataFrame"]):
    """Published tables by name, coarsest first; each is indexed by its keys.

    Names are the keys joined by "_", and "total" for the table without keys. For consistent tables,
    these are the final ones: the integer tables if they were requested, otherwise the estimates;
    `measurements` and `estimates` hold the tables from which they were computed. `records` holds
    the synthetic persons, one per row, if they were requested.

    `attrs` holds the guarantee, the mechanisms and the privacy cost of all of them together.
    """

    def __init__(self, frames: Mapping[str, pd.DataFrame], attrs: Mapping[str, Any]) -> None:
        parts: dict[str, dict[str, pd.DataFrame]] = {}
        for path, frame in frames.items():
            folder, _, name = path.rpartition("/")
            parts.setdefault(folder, {})[_short(name)] = frame
        self.attrs = dict(attrs)
        self.measurements: Mapping[str, pd.DataFrame] = parts.pop(MEASURED, {})
        invented = parts.pop(RECORDS, {})
        self.records: pd.DataFrame | None = next(iter(invented.values()), None)
        self.estimates: Mapping[str, pd.DataFrame] = parts.get(ESTIMATES, {})
        self._frames = parts[next(reversed(parts))]  # of integer tables, if there are some

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
        """
        from dprelease.accessor.table_plots import plot_margins

        first = next(iter(self._frames.values()))
        known = [name for name in first.columns if f"{name}_moe" in first]
        if not known or (column is not None and column not in known):
            name = "a margin" if column is None else column
            raise SessionError("DP-SESSION-008", what=name, known=", ".join(known) or "none")
        return plot_margins(self._frames, known[0] if column is None else column, axes)

    def __repr__(self) -> str:
        rows = "\n".join(
            f"  {name!r}: {amount(len(frame), 'row', 'rows')} of "
            f"{', '.join(map(str, frame.columns))}"
            for name, frame in self._frames.items()
        )
        return f"<{amount(len(self), 'table', 'tables')}\n{rows}\n>"


def _short(name: str) -> str:
    return "total" if name == NAME else name.removeprefix(f"{NAME}_")


@dataclass(frozen=True, slots=True)
class System:
    """A request for several tables.

    `columns`: aggregates by name, as in a release file. `keys`: the tables, likewise.
    """

    columns: Mapping[str, Mapping[str, Plain]]
    keys: Mapping[str, Plain]
    predicates: tuple[str, ...] = ()
    derive: Mapping[str, Plain] = field(default_factory=dict)


def answer_tables(
    session: Session, token: str, asked: System, terms: Terms, state: RunState
) -> Tables:
    """Charge the session for all tables together, then return them.

    `token`: the id of registered rows. `state` advances with every step.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        As `answer.answer`; an impossible family of tables raises before anything is charged.
    """
    family, plan, price = planned_tables(session, asked, terms)
    charged = charged_for(session, plan, price, "these tables", state)
    drawn = execute.answers(family, plan.columns, session.engine(token), charged)
    keys = {key.column for table in family.tables for key in table.query.key_columns}
    frames = {name: _index_by_keys(name, to_pandas(table), keys) for name, table in drawn.items()}
    told = {ATTRIBUTE: _attributes(plan)}
    for frame in frames.values():
        frame.attrs |= told
    return Tables(frames, told)


def _attributes(plan: Plan) -> dict[str, Any]:
    """Return the guarantee of all tables, and the measurements of each, as JSON values."""
    by_table: dict[str, dict[str, Any]] = {}
    for column in plan.columns:
        margins, mechanisms = by_table.setdefault(
            _short(column.query.name), {"margins_95": {}, "mechanisms": {}}
        ).values()
        margins[column.measurement.name] = float(column.margin())
        mechanisms[column.measurement.name] = column.mechanism.name
    labels = labels_of(plan.queries)
    return {
        "guarantee": plan.guarantee.to_json(),
        "tables": by_table,
        "bounded_rows": plan.bounded_rows(),
        **({"labels": labels} if labels else {}),
    }


def planned_tables(session: Session, asked: System, terms: Terms) -> tuple[Family, Plan, Spending]:
    """Return the requested family of tables, its plan, and its privacy cost."""
    check_terms(terms, NAME)
    _ = budget_of(session, terms)
    declaration = _declaration_of_tables(session, asked, terms)
    consistent = declaration.spec.queries[NAME].consistent
    if consistent is not None and consistent.invariants:
        raise QueryError("DP-CONSIST-007", place=Place(key="consistent.invariants"))
    queries = resolve(declaration)
    plan = plan_queries(session, queries, terms)
    refuse_families(declaration, plan.families)
    if consistent is not None:
        from dprelease.planning.families.family_shares import optimize_shares

        def again(weights: Weights) -> Plan:
            return plan_queries(
                session, queries, terms, shares_of(declaration.spec, queries, weights)
            )

        plan = optimize_shares(declaration, plan, again)
    (family,) = plan.families
    return family, plan, price_of(session, plan, terms)


def _declaration_of_tables(session: Session, asked: System, terms: Terms) -> Declaration:
    """Return the release that would publish these tables of the session's table."""
    described: dict[str, Plain] = {
        name: column_of(spec, terms) for name, spec in asked.columns.items()
    }
    query: dict[str, Plain] = {
        **asked.keys,
        "from": session.table.name,
        "where": " AND ".join(f"({predicate})" for predicate in asked.predicates) or None,
        "derive": dict(asked.derive),
        "private_keys": "true" if terms.get("private_keys") else "false",
        "columns": described,
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
    """Return a table indexed by its keys; tables of persons have no other columns, and no index."""
    if name.startswith(f"{RECORDS}/"):
        return frame
    named = [name for name in frame.columns if name in keys]
    return frame.set_index(named) if named else frame
