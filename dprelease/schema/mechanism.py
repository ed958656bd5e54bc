"""Mechanisms, as a release file declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, model_validator

from dprelease.schema.field_types import TEXT_SCHEMA, ShortForm, Text, to_text
from dprelease.schema.model import Model

AUTO = "auto"


class MechanismSpec(Model):
    """A mechanism by name, and its shape; with `auto` the plan selects it.

    In addition to `name`, each mechanism has its own keys, which the plan checks: `dprelease
    mechanisms` lists them.
    """

    # Mechanisms are defined in layers above this one, so only the plan knows their keys.
    model_config = ConfigDict(extra="allow")

    name: Text

    @model_validator(mode="before")
    @classmethod
    def _parameter_texts(cls, value: object) -> object:
        """Return the declared keys with their values as texts."""
        if isinstance(value, Mapping):
            return {key: _as_text(shape) for key, shape in value.items()}
        return value

    @property
    def shape(self) -> dict[str, str]:
        """The declared keys other than the name, as texts."""
        return {key: str(value) for key, value in (self.model_extra or {}).items()}


def _as_text(value: object) -> str:
    """Return a declared parameter as a text; a list becomes a text with commas."""
    if isinstance(value, list):
        return ",".join(_as_text(part) for part in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return to_text(value)


def _expand_mechanism(value: object) -> object:
    """Expand the name of a mechanism to the long form."""
    return {"name": value} if isinstance(value, str) else value


Mechanism = Annotated[MechanismSpec, BeforeValidator(_expand_mechanism), ShortForm(TEXT_SCHEMA)]
