"""The table of query methods: which columns each of them takes, and what it returns.

`df.dp`, groups, and columns of groups have a method for every query. Aggregate keywords define the
names of the methods in `agg` and in SQL, and their form in a release file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast, get_args

from dprelease.accessor.answer_libraries import in_library
from dprelease.accessor.argument_checks import (
    HasSelection,
    refuse_data_arguments,
    without_numpy_scalars,
)
from dprelease.accessor.query_options import OPTIONS
from dprelease.errors import DpReleaseError, Findings, RunState, UnavailableError
from dprelease.errors.argument_types import arguments_by_name, refuse_wrong_types, types_in
from dprelease.errors.suggestions import nearest
from dprelease.schema.aggregate_keywords import WORDS, Origin
from dprelease.schema.column_spec import CHOSEN, COMPUTED
from dprelease.schema.field_types import Text

Name = Literal[
    "count", "size", "count_distinct", "nunique", "sum", "mean", "weighted_count",
    "effective_size", "variance", "var", "stddev", "std", "cov", "corr", "quantile", "median",
    "min", "max", "mode", "histogram", "value_counts", "describe", "agg", "regression",
    "design_error", "unique", "crosstab", "tables", "sql",
]  # fmt: skip
NAMES: tuple[str, ...] = get_args(Name)
"""The names of all query methods; a method with two names is listed by both."""

_STATE: ContextVar[RunState | None] = ContextVar("_STATE", default=None)
"""The state of a query method until its query begins. The method and the query share it, so that an
interrupt between both says what was charged."""

Ask = TypeVar("Ask", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class QueryMethodHelp:
    """A query method as `help` describes it.

    `of`: the description of the columns that it takes. `value`: the values that it returns for one
    column. `answer`: the description of its answer, if it returns another kind of table.
    """

    of: str = ""
    value: str = ""
    answer: str = ""


BOUNDED = "Any column of numbers with declared bounds."
NUMBERS = "Any column of numbers with declared bounds; its values are clamped to the bounds."
PAIRS = "Two or more columns of numbers with declared bounds, or booleans."
WEIGHTS = "Any column of numbers with declared bounds of 0 or more."
VALUES = "Any column with declared values."
COUNTS = (
    "`count`, `moe` (the margin of error) and `quality`, indexed by the keys and then by the {}."
)

QUESTIONS: dict[Name, QueryMethodHelp] = {
    "count": QueryMethodHelp(
        "A column that the table schema declares; `*` counts all rows.", "integers"
    ),
    "size": QueryMethodHelp(value="integers"),
    "count_distinct": QueryMethodHelp(
        "The id of the privacy unit, or a column with declared values.", "integers"
    ),
    "sum": QueryMethodHelp(NUMBERS, "integers if the step of the column is one, else floats"),
    "mean": QueryMethodHelp(NUMBERS, "NaN where the noisy count is not clearly above 0"),
    "weighted_count": QueryMethodHelp(WEIGHTS, "the sums of the weights"),
    "effective_size": QueryMethodHelp(WEIGHTS, "NaN where a noisy sum is not clearly above 0"),
    "variance": QueryMethodHelp(NUMBERS, "NaN where the noisy count is not clearly above 1"),
    "stddev": QueryMethodHelp(NUMBERS, "NaN where the noisy count is not clearly above 1"),
    "quantile": QueryMethodHelp(BOUNDED),
    "median": QueryMethodHelp(BOUNDED),
    "min": QueryMethodHelp(BOUNDED),
    "max": QueryMethodHelp(BOUNDED),
    "mode": QueryMethodHelp(VALUES),
    "cov": QueryMethodHelp(PAIRS),
    "corr": QueryMethodHelp(PAIRS),
    "histogram": QueryMethodHelp("Any column of numbers.", answer=COUNTS.format("intervals")),
    "value_counts": QueryMethodHelp(VALUES, answer=COUNTS.format("values")),
    "describe": QueryMethodHelp(
        f"{BOUNDED} All of them are charged together.",
        answer="A row for each statistic of the columns; with keys, a row for each group.",
    ),
    "agg": QueryMethodHelp(answer="The keys, and a column for each aggregate."),
}
"""The query methods of rows, of groups and of their columns. `crosstab`, `tables` and `sql`
define their own keys, and are methods of rows only."""

ON_ROWS = "no single row can be published with noise: {}"
ON_ANSWER = "call it on the answer of a query, which is a frame and has no further cost"
INSTEAD: dict[str, str] = {
    "filter query loc mask dropna drop_nulls drop_nans get_group": (
        'select rows by where, before groupby, as in df.dp.where("age >= 18")'
    ),
    "assign with_columns select eval apply map transform pipe astype fillna cut isin": (
        'compute columns by derive, before groupby, as in df.dp.derive(adult={"expression": '
        '"age >= 18", "type": "boolean"})'
    ),
    "ngroups groups indices": "the keys have declared values: call unique of df.dp",
    "group_by": "call groupby",
    "aggregate": "call agg",
    "clip": "declare bounds of the column, to which its values are clamped",
    "len shape height": "call size, which counts rows",
    "[...]": "name columns in a query, as in mean('income'), or after groupby, as in "
    "groupby('state')['income']",
    "iter": "run a query, and iterate over its answer, which has a row for each group",
    "n_unique": "call nunique",
    "isna isnull notna notnull null_count": "call count of a column, which counts its values",
    "design_error regression": "call it on df.dp, with the keys as `by`",
    "any all": "call sum or mean of a boolean column",
    "pivot pivot_table": "call crosstab, or agg with several keys, and pivot the answer",
    "skew kurt kurtosis prod product": "its noise has no limit; call std, quantile or histogram, "
    "which describe a distribution too",
    "resample": "call sql, as in SELECT date_trunc('month', day) AS m, COUNT(*) FROM t GROUP BY m",
    "sem": "divide the answer of std by the root of the answer of size",
    "head tail first last nth sample iloc iat at xs": ON_ROWS.format("count rows, or call unique"),
    "idxmax idxmin nlargest nsmallest rank": ON_ROWS.format("call quantile, max, min or mode"),
    "dtypes columns info": "read the table schema, which declares them",
    "cumsum cumprod cummax cummin diff shift pct_change rolling expanding ewm sort "
    "sort_values sort_index rename reset_index set_index round unstack stack melt join merge plot "
    "hist boxplot to_csv to_excel to_parquet write_csv write_parquet to_pandas to_dict": ON_ANSWER,
}
"""What to use instead of methods of pandas and polars that queries don't have, by their names."""


class QueryMethods:
    """An object with query methods; other names raise an error that says what to use instead."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers report such names

        def __getattr__(self, name: str) -> NoReturn:
            """Raise UnavailableError DP-SESSION-023, which is also an AttributeError."""
            # Python and notebooks look such names up, and expect a plain AttributeError.
            if name.startswith("_"):
                raise AttributeError(name)
            self._refuse(name)

        def __len__(self) -> NoReturn:
            """Raise UnavailableError DP-SESSION-023; so do [...] and iteration."""
            self._refuse("len")

        def __bool__(self) -> bool:
            """Return True, without the number of rows."""
            return True

        def __getitem__(self, _: object) -> NoReturn:
            self._refuse("[...]")

        def __iter__(self) -> NoReturn:
            self._refuse("iter")

    def _refuse(self, name: str) -> NoReturn:
        """Raise UnavailableError DP-SESSION-023, with what to use instead."""
        kind = type(self)
        known = [one for one in dir(kind) if one[0] != "_" and callable(getattr(kind, one))]
        raise unavailable(name, known, is_column=name in self._column_names())

    def _queried_rows(self) -> HasSelection:
        """Return the rows of the queries: the object itself, or the rows of groups."""
        return cast("HasSelection", self)

    def _column_names(self) -> Collection[str]:
        """Return the names of the columns of the rows; none if the rows can't be queried."""
        try:
            rows = self._queried_rows()._selection()
        except DpReleaseError:
            return ()
        return {*rows.session.table.columns, *rows.derived}


def unavailable(name: str, known: Sequence[str], *, is_column: bool = False) -> UnavailableError:
    """Return the error for a name that is not one of the known methods, or functions of `agg`."""
    if is_column:
        advice = f"name the column in a query, as in mean({name!r}, epsilon=0.1), or select it "
        advice += f"after groupby, as in groupby('state')[{name!r}]"
        return UnavailableError("DP-SESSION-023", name=name, nearest="", advice=advice)
    found = (f"{advice}; " for names, advice in INSTEAD.items() if name in names.split())
    advice = f"{next(found, '')}available are: {', '.join(known)}"
    return UnavailableError(
        "DP-SESSION-023", name=name, nearest=nearest(name, known), advice=advice
    )


FUNCTIONS: dict[str, str] = {
    name: kind
    for kind, word in WORDS.items()
    for name in (kind, word.pandas)
    if name and word.kind is Text and not word.with_k
} | {"size": "size"}
"""Aggregate keywords by the functions of `agg`, with the names of pandas and of release files."""

PARAMETERS: dict[str, tuple[str, str]] = {
    "q": ("float or a list of floats, default 0.5", "From 0 to 1."),
    "bins": ("a list of floats", "The edges, ascending; they are never computed from the data."),
    "closed": ("{'left', 'right'}", "The side on which intervals are closed."),
    "sort": (
        "bool, default True",
        "Whether to sort by descending count within each cell of the other keys; otherwise values "
        "are in declared order.",
    ),
    "normalize": (
        "bool, default False",
        "Whether to return shares of each cell of the other keys as `proportion`, instead of "
        "counts. They are computed from the noisy counts. `lower` and `upper` are the ends of "
        "their 95 % intervals; a share is missing if its total is not clearly above 0.",
    ),
    "weight": (
        "str, optional",
        "The column with the weight of each row, which has declared bounds of 0 or more. The "
        "margin of error covers the noise and the rounding alone, and no variance of a sampling "
        "design.",
    ),
    "max_sum": (
        "int, float, str, Decimal or Fraction, optional",
        "The largest absolute sum of one privacy unit in a cell; larger sums are clipped to it, "
        "which needs less noise. A multiple of the column's step.",
    ),
    "functions": ("str or a list of str", f"One or several of: {', '.join(FUNCTIONS)}."),
    "aggregates": (
        "mapping, optional",
        'As in pandas: `{"income": ["mean", "median"]}` gives columns in two levels, `{"income": '
        '"mean"}` columns named like their source. Functions: ' + f"{', '.join(FUNCTIONS)}.",
    ),
    "margins": (
        "bool, default False",
        "Whether to add the margin of error `<name>_moe`, the interval of means and quantiles in "
        "`<name>_lower` and `<name>_upper`, and `<name>_quality`. Without it, quantiles have no "
        "interval, which would need its own part of the budget.",
    ),
    "named": ("", 'Result columns of any name, as in `pay=("income", "mean")`.'),
}
"""Type as text, and description, of the other parameters, which are the same in all methods."""

RAISES = """

Raises
------
QueryError
    If the question has no bounded meaning; nothing is charged.
BudgetError
    If the budget does not cover it; nothing is charged.
SessionError, UsageError, DataError
    If it can't be asked in this way, or of these rows; its message says whether it is charged."""


CHECKED = ("str", "str | None", "bool", "Number | None")
"""Annotations of parameters whose types `query_method` checks; methods check all others."""

SEVERAL = "one column name; agg answers about several, as in agg({'age': 'mean', 'income': 'sum'})"
WANTED = {
    "statement": "one SELECT",
    "closed": "'left' or 'right'",
    "column": SEVERAL,
    "value_counts.column": "one column name; further keys are named in by=['state']",
    "crosstab.index": "one column name; count(by=[...]) counts by several keys",
    "crosstab.columns": "one column name; count(by=[...]) counts by several keys",
}
"""Descriptions of texts, in errors, by the parameter, or by the method and the parameter."""

COLUMN_TYPES = {
    "str": "str",
    "Sequence[str]": "list of str",
    "str | Sequence[str]": "str or a list of str",
    "str | Sequence[str] | None": "str or a list of str, by default all",
}
"""Types as text of the parameters that name columns, by annotation."""


def query_method(ask: Ask) -> Ask:
    """Decorate a query method: list its options in signature and docstring, and check arguments.

    Type checkers read the options from `Unpack`. `help`, notebooks and completion read the
    signature, which would only show `**options`.

    A call raises UsageError DP-SESSION-012 or 022 for arguments that the method doesn't have or
    lacks, and DP-SESSION-016 for other types, such as a column or a frame in place of a name. The
    decorated method gets NumPy scalars as Python scalars.
    """
    signature = inspect.signature(ask)
    *own, last = signature.parameters.values()
    names = [parameter.name for parameter in own]
    is_of_rows = last.annotation == "Unpack[RowOptions]" or "by" in names
    known = [name for name in OPTIONS if is_of_rows or name != "by"]
    shown = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=OPTIONS[name].default, annotation=kind)
        for name, kind in ((name, OPTIONS[name].annotation) for name in known)
        if name not in names
    ]
    parameters = [*own, *shown, *([last] if last.annotation == "object" else [])]
    complete = signature.replace(parameters=parameters)
    listed = signature.replace(parameters=[*own, *shown])
    types = {one.name: types_in(one.annotation) for one in own if one.annotation in CHECKED}
    words = {
        name: WANTED.get(f"{ask.__name__}.{name}", WANTED.get(name, "a column name"))
        for name, known in types.items()
        if "str" in known
    }

    @wraps(ask)
    def checked(self: Any, *arguments: object, **named: object) -> object:
        """Check the arguments, then run the decorated method."""
        state = RunState()
        with state.add_state_to_errors():
            _STATE.set(state)
            others = named.keys() & OPTIONS.keys() - complete.parameters.keys()
            if others:  # not the names of results of `agg`
                arguments_by_name(listed, ask, (self,), dict.fromkeys(others))
            values = arguments_by_name(complete, ask, (self, *arguments), named)
            refuse_data_arguments(self._queried_rows(), values)
            refuse_wrong_types(values, types, words)
            try:
                answer = ask(
                    self, *without_numpy_scalars(arguments), **without_numpy_scalars(named)
                )
            except Findings as found:  # several aggregates of a query have the same error
                raise found.with_each_cause_once() from None
            return in_library(answer, self._library())

    described: Any = checked
    described.__signature__ = complete
    described.__doc__ = _complete_docstring(ask, parameters[1:], is_of_rows=is_of_rows)
    return cast("Ask", described)


def state_of_query() -> RunState:
    """Return the state of the query method that is running, for its first query; or a new state."""
    state = _STATE.get() or RunState()
    _STATE.set(None)
    return state


def _complete_docstring(
    ask: Callable[..., object], parameters: Sequence[Parameter], *, is_of_rows: bool
) -> str:
    """Return the docstring of a query method in numpydoc form, with all parameters.

    If the method already describes its parameters, only the options are added.
    """
    described = QUESTIONS.get(cast("Name", ask.__name__), QueryMethodHelp())
    doc, _, returns = (inspect.getdoc(ask) or "").partition("\n\nReturns\n-------\n")
    is_written = "\nParameters\n----------\n" in doc
    doc += "" if is_written else "\n\nParameters\n----------"
    for parameter in parameters:
        if parameter.name in OPTIONS or not is_written:
            doc += "\n" + _parameter_text(parameter, described)
    returns = returns or _returns_text(ask, described, is_of_rows=is_of_rows)
    return f"{doc}\n\nReturns\n-------\n{returns}{RAISES}"


def _parameter_text(parameter: Parameter, described: QueryMethodHelp) -> str:
    """Return the lines of a docstring that describe one parameter."""
    name, default = parameter.name, parameter.default
    if parameter.kind is Parameter.VAR_KEYWORD:
        return f"**{name}\n    {PARAMETERS[name][1]}"
    if name in OPTIONS:
        return f"{name} : {OPTIONS[name].kind}\n    {OPTIONS[name].meaning}"
    if name in PARAMETERS:
        kind, meaning = PARAMETERS[name]
        return f"{name} : {kind}\n    {meaning}"
    kind = COLUMN_TYPES[parameter.annotation]
    kind += "" if default in (Parameter.empty, None) else f", default {default!r}"
    return f"{name} : {kind}\n    {described.of}"


def _companions_text(name: str) -> str:
    """Return the words for the columns after the value of one aggregate."""
    if name in WORDS and WORDS[name].origin is Origin.LABEL:  # `size` is no keyword
        return ""
    if name in COMPUTED or name in CHOSEN:
        return ", `lower` and `upper`, the ends of its interval, and `quality`"
    return ", `moe`, the margin of error, and `quality`"


def _returns_text(
    ask: Callable[..., object], described: QueryMethodHelp, *, is_of_rows: bool
) -> str:
    """Return the lines of a docstring that describe the answer."""
    if described.answer:
        return f"pandas.DataFrame\n    {described.answer}"
    values = f" ({described.value})" if described.value else ""
    if is_of_rows:
        return f"pandas.DataFrame\n    The keys, `value`{values}{_companions_text(ask.__name__)}."
    kind = "pandas.DataFrame"
    if inspect.signature(ask).return_annotation == "Shape":
        kind = "pandas.Series or pandas.DataFrame"
    return f"{kind}\n    Each column by its name{values}."
