"""Amounts in a declaration: shares of the budget, and validators that several models share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from dprelease.numerics.rounding import exact_of, plain_text
from dprelease.schema.field_types import NUMBER_SCHEMA, Exact, ShortForm, refuse, to_exact
from dprelease.schema.model import Model


def require_above_zero(value: Fraction | None) -> Fraction | None:
    """Return the same number, or refuse it if it is not above zero."""
    if value is not None and value <= 0:
        refuse("DP-RELEASE-004")
    return value


def percentage(value: object) -> Fraction:
    """Return a number, or the fraction that a text with a percent sign declares."""
    text = str(value).strip()
    return to_exact(text[:-1].strip()) / 100 if text.endswith("%") else to_exact(value)


def fraction_or_percentage(value: object) -> object:
    """Return a fraction; refuse numbers above 1 without a percent sign, such as 30 for 30 %."""
    share = percentage(value)
    # Without the sign, 30 could be 30 % or 3,000 %.
    if share > 1 and not str(value).strip().endswith("%"):
        refuse("DP-RELEASE-017", percent=f"{plain_text(100 * share)}")
    return share


def confidence_level(value: object) -> Fraction | None:
    """Return the confidence level of margins of error; None if the value is not valid."""
    try:
        number = exact_of(value)
    except ValueError:
        return None
    return number if Fraction(1, 2) <= number <= Fraction(999_999, 1_000_000) else None


def refuse_several_keys(spec: Model, *names: str) -> None:
    """Refuse a declaration that sets more than one of the keys `names`."""
    present = [name for name in names if getattr(spec, name) is not None]
    if len(present) > 1:
        refuse("DP-RELEASE-008", found=" and ".join(present), key=present[-1])


def refuse_edges(edges: Sequence[Fraction], labels: int | None) -> None:
    """Raise DP-SCHEMA-006 for edges that form no intervals, or not one interval per label."""
    cells = len(edges) - 1
    if cells < 1 or any(one >= other for one, other in pairwise(edges)):
        problem = "are not ascending" if cells > 0 else "are fewer than two"
        refuse("DP-SCHEMA-006", column="this column", problem=problem)
    if labels is not None and labels != cells:
        problem = f"make {cells:,} cell{'' if cells == 1 else 's'}, and `labels` has {labels:,}"
        refuse("DP-SCHEMA-006", column="this column", problem=problem, key="labels")


class ShareSpec(Model):
    """A part of the budget: by weight, or an absolute epsilon or rho."""

    weight: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    epsilon: Annotated[Exact | None, AfterValidator(require_above_zero)] = None
    rho: Annotated[Exact | None, AfterValidator(require_above_zero)] = None

    @model_validator(mode="after")
    def _refuse_several_keys(self) -> Self:
        """Refuse a share with more than one of `weight`, `epsilon` and `rho`."""
        refuse_several_keys(self, "weight", "epsilon", "rho")
        return self


def _expand_share(value: object) -> object:
    return {"weight": value} if isinstance(value, str | int | float) else value


Share = Annotated[ShareSpec, BeforeValidator(_expand_share), ShortForm(NUMBER_SCHEMA)]
