"""The declaration of consistent tables: known values, accuracy targets, and published tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from dprelease.schema.amounts import refuse_several_keys, require_above_zero
from dprelease.schema.field_types import (
    NAME,
    TEXT_SCHEMA,
    Exact,
    Flag,
    ShortForm,
    Text,
    as_list,
    refuse,
    to_bool,
    to_text,
)
from dprelease.schema.model import Model


class PublishSpec(Model):
    """Which of the computed tables are published.

    `down_to`: the finest level with estimates. `records`: publish the finest integer cells as rows.
    `partition`: a level; the tables below it have one file for each of its areas.
    """

    down_to: Text | None = None
    partition: Text | None = None
    records: Flag = False


class InvariantSpec(Model):
    """A table that is published exactly at a level, outside the guarantee.

    Without a level, it is the table of the whole area. `table`: its keys without the level.
    `column`: the published column, which must be named if the query has several columns.
    """

    level: Text | None = None
    table: tuple[Text, ...] = ()
    column: Text | None = None


class TargetSpec(Model):
    """Weight of the errors of a table at a level, or their maximum.

    `column`: the column in question; by default all columns.
    """

    level: Text | None = None
    table: tuple[Text, ...] = ()
    column: Text | None = None
    weight: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    moe: Annotated[Exact | None, AfterValidator(require_above_zero)] = None

    @model_validator(mode="after")
    def _require_one_key(self) -> Self:
        """Refuse a target without exactly one of `weight` and `moe`."""
        refuse_several_keys(self, "weight", "moe")
        if self.weight is None and self.moe is None:
            refuse("DP-DECL-003", problem="a `weight` or a `moe` is needed")
        return self


def _impossible_combination(value: object) -> dict[str, tuple[str, ...]]:
    """Return the values of each key in a combination that never occurs."""
    if not isinstance(value, Mapping) or not value:
        refuse("DP-DECL-003", problem="it must be a mapping, such as {sex: m, pregnant: y}")
    found = {}
    for key, values in value.items():
        several = values if isinstance(values, list | tuple) else [values]
        if not several:
            refuse("DP-DECL-003", problem="it must be a value or a list of values")
        found[to_text(key)] = tuple(to_text(one) for one in several)
    return found


Zero = Annotated[
    dict[str, tuple[str, ...]],
    BeforeValidator(_impossible_combination),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "anyOf": [TEXT_SCHEMA, {"type": "array", "minItems": 1, "items": TEXT_SCHEMA}]
            },
        }
    ),
]
"""Values of some keys that never occur together: for each key, a value or a list of values."""


class ConsistentSpec(Model):
    """The tables of a query as one family: estimates that add up, by least squares.

    `non_negative`: integers of at least 0 that add up as well. `zeros`: impossible cells.
    `invariants`: true values, outside the guarantee, which `acknowledge` must confirm word by word:
    "invariants are published exactly". `targets`: what the budget is divided for. `method`: how
    integer tables are computed; by default least squares over all measured tables, and fast (along
    one chain of nested tables) at levels with very many cells. `composition`: totals of integer
    tables follow the composition of the area above, which needs the fast method. `groupings`: other
    columns within whose areas the last level lies; their tables are sums of those of this level,
    and those that `marginals_at` names are also measured.
    """

    non_negative: Flag = False
    zeros: tuple[Zero, ...] = ()
    publish: PublishSpec = PublishSpec()
    invariants: tuple[InvariantSpec, ...] = ()
    acknowledge: Text | None = None
    targets: tuple[TargetSpec, ...] = ()
    method: Literal["least_squares", "fast"] | None = None
    composition: Literal["parent"] | None = None
    groupings: Annotated[tuple[Text, ...], BeforeValidator(as_list), ShortForm(TEXT_SCHEMA)] = ()


def grouping_table_name(table: str, keys: Sequence[str], grouping: str, number: int) -> str:
    """Return the name of the table of a grouping that sums the table `table` of the last level.

    The grouping replaces the last level, the first of `keys`, in the name. A number is added
    instead to a name that does not end with the keys.
    """
    end, rest = "_".join(keys), "_".join((grouping, *keys[1:]))
    label = table.removesuffix(end) + rest
    return label if table.endswith(end) and re.fullmatch(NAME, label) else f"{table}_{number}"


def _expand_boolean(value: object) -> object:
    """Expand true to a mapping of no keys, and false to None."""
    if isinstance(value, bool) or value in ("true", "false"):
        return {} if to_bool(value) else None
    if isinstance(value, str):
        refuse("DP-DECL-003", problem="it must be true, false or a mapping of keys to values")
    return value


Consistent = Annotated[
    # `true` stands for a mapping without keys.
    ConsistentSpec | None, BeforeValidator(_expand_boolean), ShortForm({"type": "boolean"}), Field()
]
