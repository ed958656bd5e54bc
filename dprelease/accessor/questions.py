"""The table of query methods: which columns each of them takes, and what it returns.

`df.dp`, groups, and columns of groups have a method for every query. Aggregate keywords define the
names of the methods in `agg` and in SQL, and their form in a release file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, Literal, TypeVar, cast, get_args

from dprelease.accessor.answer_libraries import in_library
from dprelease.accessor.argument_checks import refuse_data_arguments, without_numpy_scalars
from dprelease.accessor.query_options import OPTIONS, refuse_unknown_option
from dprelease.errors import RunState
from dprelease.schema.aggregate_keywords import WORDS, Origin
from dprelease.schema.column_spec import CHOSEN, COMPUTED
from dprelease.schema.field_types import Text

Name = Literal[
    "count", "size", "count_distinct", "nunique", "sum", "mean", "weighted_count",
    "effective_size", "variance", "var", "stddev", "std", "cov", "corr", "quantile", "median",
    "min", "max", "mode", "histogram", "value_counts", "describe", "agg", "regression",
    "unique", "crosstab", "tables", "sql",
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


COLUMN_TYPES = {
    "str": "str",
    "str | Sequence[str]": "str or a list of str",
    "str | Sequence[str] | None": "str or a list of str, by default all",
}
"""Types as text of the parameters that name columns, by annotation."""


def query_method(ask: Ask) -> Ask:
    """Decorate a query method: list its options in signature and docstring, and check arguments.

    Type checkers read the options from `Unpack`. `help`, notebooks and completion read the
    signature, which would only show `**options`.

    A call raises UsageError DP-SESSION-012 for an unknown option, and DP-SESSION-016 for a column
    or a frame in place of a name. The decorated method gets NumPy scalars as Python scalars.
    """
    signature = inspect.signature(ask)
    *own, last = signature.parameters.values()
    names = [parameter.name for parameter in own]
    is_of_rows = last.annotation == "Unpack[RowOptions]" or "by" in names
    known = [name for name in OPTIONS if is_of_rows or name != "by"]
    names_columns = last.annotation == "object"  # the keywords of `agg` name its results
    shown = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=OPTIONS[name].default, annotation=kind)
        for name, kind in ((name, OPTIONS[name].annotation) for name in known)
        if name not in names
    ]

    @wraps(ask)
    def checked(self: Any, *arguments: object, **named: object) -> object:
        """Check the arguments, then run the decorated method."""
        state = RunState()
        with state.add_state_to_errors():
            _STATE.set(state)
            values = dict(zip(names[1:], arguments, strict=False)) | named
            refuse_data_arguments(getattr(self, "rows", self), values)
            for name in named:
                is_result = names_columns and name not in OPTIONS
                if name not in names and name not in known and not is_result:
                    refuse_unknown_option(name, known)
            answer = ask(self, *without_numpy_scalars(arguments), **without_numpy_scalars(named))
            return in_library(answer, self._library())

    parameters = [*own, *shown, *([last] if names_columns else [])]
    described: Any = checked
    described.__signature__ = signature.replace(parameters=parameters)
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
