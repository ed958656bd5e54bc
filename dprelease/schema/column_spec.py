"""Columns of a query, as declared in a release file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dprelease.schema.aggregate_keywords import WORDS, KeywordOptions, Origin, QuantileSpec
from dprelease.schema.amounts import (
    confidence_level,
    percentage,
    refuse_several_keys,
    require_above_zero,
)
from dprelease.schema.field_types import (
    Exact,
    Flag,
    ShortForm,
    Whole,
    refuse,
    to_bool,
    to_exact,
)
from dprelease.schema.localized_text import Decimals, Documented
from dprelease.schema.mechanism import Mechanism
from dprelease.schema.release_parts.limits import Percentage, Suppression

DEFAULT_CONFIDENCE = Fraction(95, 100)

Options = TypeVar("Options", bound=KeywordOptions)


def _relative_margin(value: object) -> object:
    """Return the margin of error that a text such as "5 % at 1000" declares."""
    parts = re.fullmatch(r"\s*(\S+?)\s*%\s*at\s*(\S+)\s*", str(value))
    if parts is None:
        refuse("DP-RELEASE-009")
    share, size = (to_exact(part) for part in parts.groups())
    return share / 100 * size


def _confidence(value: object) -> object:
    """Return a confidence level; the default level for `true`, and None for `false`."""
    if isinstance(value, bool) or value in ("true", "false"):
        return DEFAULT_CONFIDENCE if to_bool(value) else None
    try:
        share = confidence_level(percentage(value))
    except PydanticCustomError:
        share = None  # the value is neither a boolean nor a number
    if share is None:
        refuse("DP-RELEASE-005")
    return share


def _interval_confidence(value: object) -> object:
    """Return the confidence of an interval, at least the default; None for `false`."""
    share = _confidence(value)
    if isinstance(share, Fraction) and share < DEFAULT_CONFIDENCE:
        # The quality of a value follows from an interval of 95 % or more.
        refuse("DP-DECL-003", problem="an interval has a confidence of at least 95 %")
    return share


KINDS = tuple(WORDS)
"""The aggregate keywords; a column has exactly one of them."""

QUANTILES = frozenset(name for name, word in WORDS.items() if word.origin is Origin.CHOSEN)
"""The aggregate keywords of quantiles, which have an interval."""

CHOSEN = frozenset(
    name for name, word in WORDS.items() if word.origin in (Origin.CHOSEN, Origin.LABEL)
)
"""The aggregate keywords whose values are selected among candidates."""

COMPUTED = frozenset(name for name, word in WORDS.items() if word.origin is Origin.COMPUTED)
"""The aggregate keywords whose values are computed, and have an interval."""

HAS_QUALITY = frozenset((Origin.NOISED, Origin.COMPUTED))
"""Origins of values that have a quality."""

# Type checkers can't follow `create_model`. The keys come from `WORDS`, so that no second list of
# them can differ from it.
if TYPE_CHECKING:

    class WordKeys(Documented):
        """A key for each aggregate keyword, generated from `WORDS`."""

else:
    WordKeys = create_model(
        "WordKeys",
        __base__=Documented,
        __module__=__name__,
        **{name: (word.kind | None, None) for name, word in WORDS.items()},
    )


class ColumnSpec(WordKeys):
    """One column to publish: exactly one aggregate, and the options of its noise."""

    k: Annotated[Whole | None, Field(ge=1, le=1000)] = None
    mechanism: Mechanism | None = None
    weight: Annotated[Exact, AfterValidator(require_above_zero)] = Fraction(1)
    epsilon: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    rho: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    moe: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    relative_moe: Annotated[
        Exact | None,
        BeforeValidator(_relative_margin),
        AfterValidator(require_above_zero),
        WithJsonSchema({"type": "string", "description": "such as 5 % at 1000"}),
    ] = None
    margin: Annotated[
        Exact | None, BeforeValidator(_confidence), ShortForm({"type": "boolean"})
    ] = None
    interval: Annotated[
        Exact | None, BeforeValidator(_interval_confidence), ShortForm({"type": "boolean"}),
        # Editors show the default as a release file would write it, and not as a fraction.
        Field(json_schema_extra={"default": True}),
    ] = DEFAULT_CONFIDENCE  # fmt: skip
    max_sum: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    """The largest absolute sum of one privacy unit in a group; a larger sum is clipped."""
    non_negative: Flag = False
    round_to: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    suppress_below: Suppression = None
    suppress_above: Annotated[Percentage | None, AfterValidator(require_above_zero)] = None
    bottom_code: Exact | None = None
    top_code: Exact | None = None
    labels: Flag = False
    decimals: Decimals | None = None
    quality: Flag = True

    @model_validator(mode="before")
    @classmethod
    def _refuse_flags(cls, values: object) -> object:
        """Refuse `flag_above`, which the quality of every value replaces."""
        if isinstance(values, Mapping) and "flag_above" in values:
            refuse("DP-RELEASE-021", key="flag_above")
        return values

    @model_validator(mode="after")
    def _refuse_clipped_sums(self) -> Self:
        """Refuse a limit of sums for other aggregates."""
        if self.max_sum is not None and self.sum is None:  # type: ignore[attr-defined]
            refuse("DP-DECL-003", problem="`max_sum` is for sums", key="max_sum")
        return self

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse a column without exactly one aggregate, and options that contradict it."""
        present = [name for name in KINDS if getattr(self, name) is not None]
        if len(present) != 1:
            refuse("DP-RELEASE-002", key=(present or [""])[-1])
        refuse_several_keys(self, "epsilon", "rho", "moe", "relative_moe")
        keyword = WORDS[present[0]]
        if (self.k is not None) != keyword.with_k:
            refuse("DP-RELEASE-015")
        if self.margin_wanted is not None and keyword.origin is not Origin.NOISED:
            refuse("DP-RELEASE-012", key="relative_moe" if self.moe is None else "moe")
        no_ends = present[0] in CHOSEN and not self.has_interval
        if (self.margin is not None and present[0] in CHOSEN) or (
            self.suppress_above is not None and no_ends
        ):
            refuse("DP-RELEASE-013", key="suppress_above" if self.margin is None else "margin")
        # The default is not None, so only pydantic's set of declared fields shows whether it is
        # declared.
        if "interval" in self.model_fields_set and keyword.origin is not Origin.CHOSEN:
            problem = "`interval` is for quantiles, medians, minima and maxima"
            refuse("DP-DECL-003", problem=problem, key="interval")
        coded = self.bottom_code is not None or self.top_code is not None
        if self.bottom_code is not None and self.top_code is not None:
            coded = self.bottom_code < self.top_code
        if (self.labels and not coded) or (not coded and self.top_code is not None):
            refuse("DP-RELEASE-016")
        changed = coded or self.non_negative or self.round_to or self.suppress_below is not None
        if changed and keyword.origin is Origin.LABEL:
            refuse("DP-RELEASE-016")
        by_value = self.suppress_below is not None and self.suppress_below.value is not None
        if by_value and keyword.origin is not Origin.NOISED:
            refuse("DP-RELEASE-022", key="suppress_below", word=present[0])
        return self

    @property
    def aggregate_and_column(self) -> tuple[str, str | tuple[str, ...]]:
        """The aggregate keyword, and the column or columns that it names."""
        kind, declared = self.aggregate_and_options
        if not isinstance(declared, KeywordOptions):
            return kind, declared
        columns = declared.columns
        return kind, columns[0] if len(columns) == 1 else columns

    @property
    def aggregate_and_options(self) -> tuple[str, str | tuple[str, ...] | KeywordOptions]:
        """The aggregate keyword and its declared options."""
        kind = next(name for name in KINDS if getattr(self, name) is not None)
        return kind, getattr(self, kind)

    def options_of(self, kind: type[Options]) -> Options:
        """Return the declared options of the aggregate keyword, which are of this kind."""
        _, declared = self.aggregate_and_options
        if not isinstance(declared, kind):
            raise TypeError(f"the keyword has no options of kind {kind.__name__}")
        return declared

    @property
    def at(self) -> Fraction:
        """The fraction of values below the quantile that the column declares."""
        kind, declared = self.aggregate_and_options
        at = declared.at if isinstance(declared, QuantileSpec) else WORDS[kind].at
        if at is None:
            raise TypeError(f"{kind} is no quantile")
        return at

    @property
    def ranks(self) -> int:
        """The number of most frequent values that the column requests."""
        return self.k or 1

    def published_names(self, name: str) -> list[str]:
        """Return the names of all columns that are published for a declared column `name`."""
        if self.ranks > 1:
            return [f"{name}_{rank}" for rank in range(1, self.ranks + 1)]
        has_interval = self.aggregate_and_options[0] in COMPUTED or self.has_interval
        extra_columns = {
            "moe": self.margin is not None and not has_interval,
            "lower": has_interval,
            "upper": has_interval,
            "label": self.labels,
            "quality": self.has_quality,
        }
        return [
            name,
            *(f"{name}_{suffix}" for suffix, is_published in extra_columns.items() if is_published),
        ]

    @property
    def has_quality(self) -> bool:
        """Whether a column with the quality of each value is published, unless the release has
        none."""
        keyword = WORDS[self.aggregate_and_options[0]]
        return self.quality and (keyword.origin in HAS_QUALITY or self.has_interval)

    @property
    def has_interval(self) -> bool:
        """Whether the ends of an interval are published with the column, which is a quantile."""
        keyword = WORDS[self.aggregate_and_options[0]]
        return keyword.origin is Origin.CHOSEN and self.interval is not None

    @property
    def margin_wanted(self) -> Fraction | None:
        """The declared margin of error, in the column's unit."""
        return self.relative_moe if self.moe is None else self.moe
