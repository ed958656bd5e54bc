"""Field types of engine and format names; an unknown name raises an error that lists the names."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from dprelease.schema.field_types import refuse
from dprelease.schema.release_parts.extension_names import (
    ENGINES,
    known_formats,
    not_an_engine,
    suggest_format,
)


def _known_engine(value: object) -> object:
    """Return the name of an engine; refuse an unknown name."""
    if not (isinstance(value, str) and value in ENGINES):
        refuse("DP-DECL-003", problem=not_an_engine())
    return value


EngineName = Annotated[
    str, BeforeValidator(_known_engine), WithJsonSchema({"enum": [*ENGINES], "type": "string"})
]


def _known_format(value: object) -> object:
    """Return the name of a format; refuse an unknown name."""
    if not (isinstance(value, str) and value in known_formats()):
        refuse(
            "DP-EXPORT-001",
            name=value,
            nearest=suggest_format(value),
            known=", ".join(known_formats()),
        )
    return value


FormatName = Annotated[
    str, BeforeValidator(_known_format), WithJsonSchema({"enum": known_formats(), "type": "string"})
]
