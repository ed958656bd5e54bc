"""The questions that can be asked of registered rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Unpack, cast

from dprelease.accessor import shapes
from dprelease.accessor.answer import (
    Question,
    Terms,
    answer,
    answer_sql,
    checked,
    explained,
    keys_of,
    planned,
)
from dprelease.accessor.session import Session
from dprelease.errors import SessionError, UsageError
from dprelease.query.columns import unknown_column
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

Aggregates = Mapping[str, str | Sequence[str]] | Mapping[str, tuple[str, str]]

QUESTIONS = (
    "count", "count_distinct", "sum", "mean", "variance", "stddev", "quantile", "median",
    "min", "max", "mode", "histogram", "value_counts", "crosstab", "describe", "sql",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rows:
    """The registered rows that satisfy every predicate; asks the session's questions.

    Every question takes `Terms`: `epsilon`, and if need be `delta`, `by`, `mechanism`,
    `confidence`, `private_keys`; where the session counts in rho, `rho` in place of `epsilon`. The
    session is charged before the answer is drawn. Answers have a row for each cell of the declared
    keys, empty cells included, in declared order, and tell in `attrs["dprelease_answer"]` their
    guarantee, margins of error and mechanisms.

    Raises, every question:

    QueryError
        If the question has no bounded meaning; nothing is charged.
    BudgetError
        If the price does not fit; nothing is charged.
    """

    session: Session
    token: str
    predicates: tuple[str, ...] = ()
    derived: Mapping[str, Plain] = field(default_factory=dict)
    dry: bool = False
    """Whether questions are only planned."""

    def where(self, predicate: str) -> Rows:
        """Return the rows that also satisfy a row-wise SQL predicate.

        Raises QueryError DP-WHERE-* (when a question is asked) if it is not row-wise.
        """
        return replace(self, predicates=(*self.predicates, predicate))

    def derive(self, **columns: Mapping[str, Plain]) -> Rows:
        """Return the rows with further columns, declared as in a table schema.

        Such as `age_group={"cut": "age", "edges": [0, 18, 65, 116]}` or
        `yearly={"expression": "monthly * 12", "type": "number", "lower": 0, "upper": 1e6}`.
        """
        return replace(self, derived={**self.derived, **{k: _plain(v) for k, v in columns.items()}})

    def explain(self, question: str, *args: object, **terms: object) -> pd.DataFrame:
        """Return what a question would measure, with which noise, error and price; spends nothing.

        `question`: the name of one, with its arguments: `explain("mean", "income", epsilon=0.1)`.
        With a ledger, `attrs["dprelease_answer"]["ledger"]` tells what it has left.
        """
        if question not in QUESTIONS:
            raise SessionError("DP-SESSION-008", what=question, known=", ".join(QUESTIONS))
        found: pd.DataFrame = getattr(replace(self, dry=True), question)(*args, **terms)
        return found

    def count(self, column: str = "*", **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy counts of rows, or of rows where `column` is not missing.

        Columns: the keys, `value` (integer), and `moe`, the margin of error.
        """
        return self._single({"count": column}, terms)

    def count_distinct(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy counts of distinct ids, or of distinct declared values; as `count`."""
        return self._single({"count_distinct": column}, terms)

    def sum(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy sums of a column with declared bounds, in its unit; as `count`.

        `value` is an integer if the column's step is one, else a float.
        """
        return self._single({"sum": column}, terms)

    def mean(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy means, from a sum around the middle of the bounds and a count; as `count`.

        NaN where the noised count is below 1.
        """
        return self._single({"mean": column}, terms)

    def variance(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy sample variances (ddof 1), as pandas' `var`; NaN below two noised rows."""
        return self._single({"variance": column}, terms)

    def stddev(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy sample standard deviations (ddof 1), as pandas' `std`."""
        return self._single({"stddev": column}, terms)

    def quantile(
        self, column: str, q: float | Sequence[float] = 0.5, **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return noisy quantiles by the exponential mechanism, in the column's unit.

        One `q` gives `value`; several give a column each, named by it, ascending in each cell.
        """
        parts = shapes.listed(q)
        if parts is None:
            return self._single(shapes.quantile(column, str(q)), terms)
        columns = {f"q{i}": shapes.quantile(column, str(at)) for i, at in enumerate(parts)}
        found = self._ask(columns, terms, "quantiles")
        names = {f"q{i}": at for i, at in enumerate(parts)}
        return found if self.dry else found.rename(columns=names)

    def median(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy medians; as `quantile`."""
        return self._single({"median": column}, terms)

    def min(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return values near the smallest ones; as `quantile`."""
        return self._single({"min": column}, terms)

    def max(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return values near the largest ones; as `quantile`."""
        return self._single({"max": column}, terms)

    def mode(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return the declared values that most rows have, or nearly, by permute-and-flip."""
        return self._single({"mode": column}, terms)

    def value_counts(
        self, column: str, *, sort: bool = True, **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return noisy counts of every declared value, the index, in descending order.

        Columns: `count` and `moe`. `sort=False` keeps the declared order. With `by`, keys come
        first in the index, and counts descend within each.
        """
        keys = keys_of(checked(terms))
        by = [*keys, column]
        found = self._ask({"count": {"count": "*"}}, {**terms, "by": by}, "value_counts")
        return found if self.dry else shapes.value_counts(found, keys, column, sort=sort)

    def crosstab(self, index: str, columns: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy counts of two keys, one in rows and one in columns."""
        wanted: Terms = {**checked(terms, by=False), "by": [index, columns]}
        found = self._ask({"count": {"count": "*"}}, wanted, "crosstab")
        return found if self.dry else shapes.crosstab(found, index, columns)

    def histogram(
        self, column: str, bins: Sequence[float], *, closed: str = "left", **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return noisy counts of the values between declared edges, indexed by these intervals.

        `closed`: which end belongs to an interval. With `by`, keys come first in the index.
        """
        ends = shapes.listed(bins)
        if ends is None:
            raise UsageError("DP-SESSION-013", kind=type(bins).__name__)
        edges = [str(edge) for edge in ends]
        band: dict[str, Plain] = {"cut": column, "edges": list(edges), "closed": closed}
        name, keys = f"{column}_band", keys_of(checked(terms))
        asked = replace(self, derived={**self.derived, name: band})
        wanted: Terms = {**terms, "by": [*keys, name]}
        found = asked._ask({"count": {"count": "*"}}, wanted, "histogram")
        return found if self.dry else shapes.histogram(found, keys, column, edges, closed)

    def describe(
        self, columns: str | Sequence[str] | None = None, **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max of numeric columns, as pandas does.

        Without `columns`, of all declared numbers with bounds. All are paid for together. With
        `by`, a row for each group, and the statistics of each column beside each other.
        """
        named = [columns] if isinstance(columns, str) else columns
        chosen = list(dict.fromkeys(named)) if named is not None else self._numbers()
        keys = keys_of(checked(terms))
        asked = {
            f"c{i}_{j}": spec for i, name in enumerate(chosen) for j, spec in shapes.summary(name)
        }
        found = self._ask(asked, terms, "describe")
        return found if self.dry else shapes.describe(found, keys, chosen)

    def groupby(self, by: str | Sequence[str], *, as_index: bool = True) -> Grouped:
        """Return the rows in groups, to be asked for several aggregates at once."""
        given: object = by
        if not isinstance(given, Iterable):
            kind, wanted = type(given).__name__, "a column or a list of columns"
            raise UsageError("DP-SESSION-016", name="by", wanted=wanted, kind=kind)
        return Grouped(self, (by,) if isinstance(by, str) else tuple(by), as_index)

    def sql(self, statement: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return the noisy answer of one SELECT from the session's table, by its declared name.

        Aggregates over declared keys are bounded and noised; arithmetic on them, HAVING, ORDER BY
        and LIMIT are computed from the noised values. The whole statement is charged once.

        Raises
        ------
        QueryError
            DP-SQL-001 to 007 for what has no bounded meaning; nothing is charged.
        BudgetError
            If the price does not fit; nothing is charged.
        """
        if self.dry:
            raise SessionError("DP-SESSION-008", what="sql", known=", ".join(QUESTIONS[:-1]))
        asked, frame = checked(terms, by=False), self.session.snapshot(self.token)
        return answer_sql(self.session, frame, statement, self.predicates, self.derived, asked)

    def _numbers(self) -> list[str]:
        return [
            name
            for name, column in self.session.table.columns.items()
            if isinstance(column, IntegerColumn | NumberColumn)
            and column.lattice is not None
            and name != self.session.table.unit.id
        ]

    def _single(self, spec: Mapping[str, Plain], terms: Terms) -> pd.DataFrame:
        found = self._ask({"answer": spec}, terms, next(iter(spec)))
        return found if self.dry else shapes.single(found)

    def _ask(
        self, columns: Mapping[str, Mapping[str, Plain]], terms: Terms, what: str
    ) -> pd.DataFrame:
        _, question = checked(terms), Question(columns, self.predicates, self.derived, what)
        if self.dry:
            return explained(self.session, *planned(self.session, question, terms))
        frame = self.session.snapshot(self.token)
        return answer(self.session, frame, question, terms)[0]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows in groups of declared keys."""

    rows: Rows
    by: tuple[str, ...]
    as_index: bool = True

    def size(self, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy counts of rows: column `size`."""
        return self._shaped({"size": ("*", "count")}, terms)

    def agg(
        self,
        aggregates: Aggregates | None = None,
        *,
        margins: bool = False,
        epsilon: object = None,
        **named: object,
    ) -> pd.DataFrame:
        """Return several aggregates, paid for together; they share what they have in common.

        As in pandas: `{"income": ["mean", "median"]}` gives columns in two levels,
        `{"income": "mean"}` columns named like their source, and `pay=("income", "mean")` columns
        of any name. Aggregates: count, size, nunique, sum, mean, var, std, median, min, max, mode.
        `margins=True` puts `<name>_moe` beside each column that has a margin of error.
        """
        terms = {key: named.pop(key) for key in list(named) if key in Terms.__annotations__}
        if not isinstance(aggregates, Mapping | None):
            raise UsageError("DP-SESSION-014", kind=type(aggregates).__name__)
        wanted, levels = shapes.aggregates(aggregates, named)
        asked = cast("Terms", {**terms, "epsilon": epsilon})  # checked with all other terms
        found = self._shaped(wanted, asked, margins=margins)
        return found if levels is None or self.rows.dry else shapes.with_levels(found, levels)

    def _shaped(
        self, wanted: Mapping[str, tuple[str, str]], terms: Terms, *, margins: bool = False
    ) -> pd.DataFrame:
        asked: Terms = {**checked(terms, by=False), "by": self.by}
        shapes.check_names(() if self.as_index else self.by, list(wanted), margins=margins)
        specs = {f"a{i}": self._spec(*pair) for i, pair in enumerate(wanted.values())}
        found = self.rows._ask(specs, asked, "groupby")
        if self.rows.dry:
            return found
        return shapes.grouped(
            found, list(self.by), list(wanted), margins=margins, as_index=self.as_index
        )

    def _spec(self, column: str, function: str) -> dict[str, Plain]:
        if column != "*" and column not in {**self.rows.session.table.columns, **self.rows.derived}:
            fields = unknown_column(self.rows.session.table, column)
            raise SessionError("DP-SESSION-009", **fields)
        return shapes.spec_of(column, function)


def _plain(value: object) -> Plain:
    """Return a declaration as YAML would have it: texts, lists and mappings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value)
