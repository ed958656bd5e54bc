"""How keys that are not public are found."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from dprelease.schema.amounts import require_above_zero
from dprelease.schema.field_types import Exact, ShortForm, refuse, to_bool
from dprelease.schema.model import Model


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
