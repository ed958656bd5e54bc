"""The aggregate keywords of a column in a release file.

A new keyword needs only one entry in `WORDS`: `ColumnSpec`, its checks, the JSON Schema, the SQL
functions and the functions of pandas' `agg` are built from these entries. The aggregate itself is
defined in `query/aggregates` or `query/forms`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from dprelease.numerics.rounding import exact_of
from dprelease.schema.amounts import require_above_zero
from dprelease.schema.field_types import TEXT_SCHEMA, Exact, Flag, ShortForm, Text, refuse
from dprelease.schema.model import Model

MOST_PARTS = 10_000
"""Maximum denominator of a quantile's fraction."""

LEVELS = "number from 0 to 1 with a denominator of at most 10,000, such as 0.9"
"""The fractions of quantiles, in errors."""


RATIO_PROBLEM = (
    "it must be two fractions between 0 and 1, the larger one first, as in "
    "{of: income, over: 0.8, under: 0.2}"
)


def level_of(at: object) -> Fraction | None:
    """Return the fraction of a quantile; None for anything but a fraction that one may have."""
    try:
        level = exact_of(at)
    except ValueError:
        return None
    return level if 0 <= level <= 1 and level.denominator <= MOST_PARTS else None


class KeywordOptions(Model, ABC):
    """The value of a keyword that needs more than the name of a column."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the aggregate reads."""


class OfColumn(KeywordOptions):
    """The value of a keyword that describes one column, with further options."""

    of: Text

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the aggregate reads."""
        return (self.of,)


class WeightedSpec(OfColumn):
    """A column, and the column that has the weight of each row."""

    weight: Text

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of the values, and that of the weights."""
        return self.of, self.weight


MOST_REPLICATES = 1000
"""Maximum number of replicate weights."""

REPLICATES_PROBLEM = (
    "it must be a list of columns, or the first and the last of columns that are numbered, as in "
    "w1-w80"
)


def _expand_replicates(value: object) -> object:
    """Expand a text such as w1-w80 or w01-w80 to the list of the columns' names."""
    if not isinstance(value, str):
        return value
    parts = re.fullmatch(r"\s*(.*?\D)([0-9]{1,4})\s*-\s*\1([0-9]{1,4})\s*", value, re.DOTALL)
    if parts is None:
        refuse("DP-DECL-003", problem=REPLICATES_PROBLEM)
    name, first, last = parts.groups()
    # Zeros in front of the first number, as in w01, belong to the names of all columns.
    width = len(first) if first.startswith("0") or len(first) == len(last) else 0
    return [f"{name}{number:0{width}}" for number in range(int(first), int(last) + 1)]


def _to_factor(value: object) -> object:
    """Return the exact number of a fraction such as 4/80; other values as they are."""
    parts = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([1-9][0-9]{0,8})\s*", str(value))
    return value if parts is None else Fraction(int(parts[1]), int(parts[2]))


class DesignErrorSpec(KeywordOptions):
    """The weight of each row, and the replicate weights of a survey.

    `of` is the column whose weighted sum has the standard error; without it, that of the weighted
    count. The design variance is `scale` times the sum of squared differences between replicate
    estimates and the estimate. A difference between a replicate weight and the weight of a row is
    clamped to `max_difference`.
    """

    weight: Text
    replicates: Annotated[
        tuple[Text, ...],
        BeforeValidator(_expand_replicates),
        Field(min_length=1, max_length=MOST_REPLICATES),
        ShortForm(TEXT_SCHEMA),
    ]
    scale: Annotated[Exact, AfterValidator(require_above_zero), BeforeValidator(_to_factor)]
    of: Text | None = None
    max_difference: Annotated[Exact | None, AfterValidator(require_above_zero)] = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of the weights, those of the replicates, and that of the values, if any."""
        return (self.weight, *self.replicates, *([] if self.of is None else [self.of]))


class QuantileSpec(OfColumn):
    """A quantile of a column."""

    at: Exact

    @field_validator("at")
    @classmethod
    def _check_fraction(cls, at: Fraction) -> Fraction:
        """Refuse a fraction outside 0 to 1, or with too large a denominator."""
        if level_of(at) is None:
            refuse("DP-RELEASE-014")
        return at


class QuantileRatioSpec(OfColumn):
    """The ratio of two quantiles of a column, such as P80 / P20."""

    over: Exact
    under: Exact

    @model_validator(mode="after")
    def _check_fractions(self) -> Self:
        """Refuse fractions outside 0 to 1, in the wrong order, or with too large denominators."""
        if (
            not 0 < self.under < self.over < 1
            or max(self.under.denominator, self.over.denominator) > MOST_PARTS
        ):
            refuse("DP-DECL-003", problem=RATIO_PROBLEM)
        return self


class TotalShareSpec(OfColumn):
    """The share of rows (`*`), or of the sum of a column, in a total.

    `within`: the keys of the table that all cells of a total have in common; without them, the
    total is that of all cells. `percent`: whether shares are from 0 to 100, and not from 0 to 1.
    """

    within: tuple[Text, ...] = ()
    percent: Flag = True


def _expand_share(value: object) -> object:
    """Expand a text to the share of this column in the total of all cells."""
    return {"of": value} if isinstance(value, str) else value


MOST_CONTROLS = 4
"""Maximum number of further predictors of a regression."""


class RegressionSpec(OfColumn):
    """A coefficient of a linear regression of a column on another one, and on further ones.

    `on` is the predictor whose slope is published, and `controls` are the other predictors.
    """

    on: Text
    controls: Annotated[tuple[Text, ...], Field(max_length=MOST_CONTROLS)] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of the outcome, and those of the predictors."""
        return self.of, self.on, *self.controls


class Origin(Enum):
    """How a published value is computed, which determines the options that it accepts."""

    NOISED = auto()
    """Noise is added: an accuracy can be declared."""
    COMPUTED = auto()
    """Computed from noised values: it has a margin of error, but its accuracy can't be declared."""
    CHOSEN = auto()
    """A number is selected among candidates: it has no margin of error in its own unit."""
    LABEL = auto()
    """A declared value is selected: it has no margin of error and no numeric post-processing."""


@dataclass(frozen=True, slots=True)
class AggregateKeyword:
    """Properties of an aggregate keyword.

    `kind` is the type of the keyword's value: a column, several columns, or `KeywordOptions`.
    `of_rows` says that `*` is allowed, which counts rows. `with_k` says that the key `k` is
    allowed. `at` is the fraction of values below, for quantiles with a keyword such as `median`.
    `sql` are the equivalent SQL functions; messages suggest the first one. `pandas` is the name of
    the aggregate in pandas, if it differs. `is_weighted` says that rows are weighted.
    """

    origin: Origin
    kind: Any = Text
    of_rows: bool = False
    with_k: bool = False
    at: Fraction | None = None
    sql: tuple[str, ...] = ()
    pandas: str = ""
    is_weighted: bool = False


def _check_pair(columns: object) -> object:
    """Refuse a list that is not a pair of columns, with a message that shows an example."""
    if isinstance(columns, list | tuple) and len(columns) != 2:
        refuse("DP-DECL-003", problem="it must be two columns, as in [distance, hours]")
    return columns


Pair = Annotated[tuple[Text, Text], BeforeValidator(_check_pair)]

WORDS: dict[str, AggregateKeyword] = {
    "count": AggregateKeyword(Origin.NOISED, of_rows=True, sql=("COUNT",)),
    "sum": AggregateKeyword(Origin.NOISED, sql=("SUM",)),
    "count_distinct": AggregateKeyword(
        Origin.NOISED, sql=("COUNT(DISTINCT ...)",), pandas="nunique"
    ),
    "mean": AggregateKeyword(Origin.COMPUTED, sql=("AVG",)),
    "variance": AggregateKeyword(Origin.COMPUTED, sql=("VARIANCE",), pandas="var"),
    "stddev": AggregateKeyword(Origin.COMPUTED, sql=("STDDEV", "STDDEV_SAMP"), pandas="std"),
    "ratio": AggregateKeyword(Origin.COMPUTED, Pair),
    "covariance": AggregateKeyword(Origin.COMPUTED, Pair, sql=("COVAR_SAMP",)),
    "covariance_pop": AggregateKeyword(Origin.COMPUTED, Pair, sql=("COVAR_POP",)),
    "correlation": AggregateKeyword(Origin.COMPUTED, Pair, sql=("CORR",)),
    "slope": AggregateKeyword(Origin.COMPUTED, RegressionSpec, sql=("REGR_SLOPE",)),
    "intercept": AggregateKeyword(Origin.COMPUTED, RegressionSpec, sql=("REGR_INTERCEPT",)),
    "weighted_count": AggregateKeyword(Origin.NOISED, is_weighted=True),
    "weighted_sum": AggregateKeyword(Origin.NOISED, WeightedSpec, is_weighted=True),
    "weighted_mean": AggregateKeyword(
        Origin.COMPUTED, WeightedSpec, sql=("WEIGHTED_AVG",), is_weighted=True
    ),
    "effective_size": AggregateKeyword(Origin.COMPUTED, is_weighted=True),
    "design_error": AggregateKeyword(Origin.COMPUTED, DesignErrorSpec),
    "share": AggregateKeyword(
        Origin.COMPUTED,
        Annotated[TotalShareSpec, BeforeValidator(_expand_share), ShortForm(TEXT_SCHEMA)],
        of_rows=True,
    ),
    "quantile_ratio": AggregateKeyword(Origin.COMPUTED, QuantileRatioSpec),
    "quantile": AggregateKeyword(Origin.CHOSEN, QuantileSpec, sql=("QUANTILE_CONT",)),
    "median": AggregateKeyword(Origin.CHOSEN, at=Fraction(1, 2), sql=("MEDIAN",)),
    "min": AggregateKeyword(Origin.CHOSEN, at=Fraction(0), sql=("MIN",)),
    "max": AggregateKeyword(Origin.CHOSEN, at=Fraction(1), sql=("MAX",)),
    "mode": AggregateKeyword(Origin.LABEL, sql=("MODE",)),
    "top_k": AggregateKeyword(Origin.LABEL, with_k=True),
}
"""All aggregate keywords, in the order of the JSON Schema."""
