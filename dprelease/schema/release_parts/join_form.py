"""Declared joins: with a public table by its key, or with another table about the same people."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dprelease.schema.field_types import Flag, Text, Whole, refuse
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
