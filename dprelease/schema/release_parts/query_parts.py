"""Parts of a query: joins with another table, histograms, and how private keys are found."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dprelease.schema.amounts import require_above_zero
from dprelease.schema.columns import CutColumn, CutLabels
from dprelease.schema.field_types import Exact, Flag, ShortForm, Text, Whole, refuse, to_bool
from dprelease.schema.localized_text import Documented
from dprelease.schema.model import Model


class JoinSpec(Model):
    """A second table, which is joined to the table of a query.

    `on`: for each compared column of the query's table, the equal column of the public table.
    `on_unit`: whether all rows of the same person are joined; the contribution limits then apply to
    the joined rows. `unmatched: drop` leaves out rows without a match in the public table.
    `without`: columns of the joined table that the query doesn't read, for instance because both
    tables have a column of this name.
    """

    table: Text
    on: dict[Text, Text] = Field(default_factory=dict)
    on_unit: Flag = False
    without: tuple[Text, ...] = ()
    unmatched: Literal["keep", "drop"] = "keep"
    max_groups: Annotated[Whole, Field(ge=1, le=10**6)] | None = None
    max_rows_per_group: Annotated[Whole, Field(ge=1, le=10**9)] | None = None
    max_rows: Annotated[Whole, Field(ge=1, le=10**9)] | None = None

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse a join without exactly one of `on` and `on_unit`, and unsuitable keys."""
        if bool(self.on) == self.on_unit:
            refuse("DP-JOIN-001", problem="give either `on` or `on_unit: true`")
        if self.on and (self.max_groups or self.max_rows_per_group or self.max_rows):
            refuse("DP-JOIN-001", problem="a public table does not change the contribution limits")
        if self.on_unit and self.unmatched != "keep":
            problem = "`unmatched` is for public tables; on_unit joins only people of both tables"
            refuse("DP-JOIN-001", problem=problem)
        if len(set(self.on.values())) < len(self.on):
            refuse("DP-JOIN-001", problem="a public column is listed twice in `on`")
        return self


class HistogramSpec(Documented):
    """Bands of one column as an additional key, after the keys of `group_by`.

    `name`: the name of the key instead of `<column>_band`.
    """

    column: Text
    edges: tuple[Exact, ...]
    closed: Literal["left", "right"] = "left"
    labels: CutLabels = None
    name: Text | None = None

    @property
    def key(self) -> str:
        """The name of the key."""
        return self.name or f"{self.column}_band"

    @property
    def cut(self) -> CutColumn:
        """The intervals as a cut column."""
        documentation = {name: getattr(self, name) for name in Documented.model_fields}
        edges = {"edges": self.edges, "closed": self.closed, "labels": self.labels}
        return CutColumn.model_validate({"cut": self.column, **edges, **documentation})

    @model_validator(mode="after")
    def _refuse_invalid_edges(self) -> Self:
        """Refuse edges that are not valid for a cut column."""
        _ = self.cut  # the validators of the cut check the edges
        return self


class PrivateKeysSpec(Model):
    """How private keys are found: keys that enough people have are selected.

    `partition_selection`: the optimal rule for an epsilon. `truncated_laplace` and
    `gaussian_threshold`: a noised number of people must reach a threshold, and may be published.
    `auto`: gaussian_threshold for a rho, else partition_selection. `delta`: the part of delta.
    """

    mechanism: Literal["auto", "partition_selection", "truncated_laplace", "gaussian_threshold"] = (
        "auto"
    )
    weight: Annotated[Exact, AfterValidator(require_above_zero)] = Fraction(1)
    epsilon: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    delta: Annotated[Exact | None, AfterValidator(require_above_zero)] = None


def _expand_private_keys(value: object) -> object:
    """Return the mapping that a boolean stands for; None for false."""
    if isinstance(value, bool) or value in ("true", "false"):
        return {} if to_bool(value) else None
    if isinstance(value, str):
        refuse("DP-DECL-003", problem="it must be true, false or a mapping of keys to values")
    return value


PrivateKeys = Annotated[
    PrivateKeysSpec | None, BeforeValidator(_expand_private_keys), ShortForm({"type": "boolean"})
]
