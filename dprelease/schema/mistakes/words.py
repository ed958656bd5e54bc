"""Texts of validation errors in terms of the documents; pydantic's messages name Python types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

A_LIST = "it must be a list, such as [a, b]"
A_MAPPING = "it must be a mapping of keys to values"
A_TEXT = "it must be a text"

WORDS = {
    "tuple_type": A_LIST,
    "list_type": A_LIST,
    "dict_type": A_MAPPING,
    "mapping_type": A_MAPPING,
    "model_type": A_MAPPING,
    "model_attributes_type": A_MAPPING,
    "is_instance_of": A_MAPPING,
    "string_type": A_TEXT,
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "too_short": "it needs at least {min_length}, but has {actual_length}",
    "too_long": "it can have at most {max_length}, but has {actual_length}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
}
"""The texts by pydantic's error type; the fields come from the error's context."""


def validation_text(kind: str, context: Mapping[str, Any], otherwise: str) -> str:
    """Return the text of an error; for unlisted types, pydantic's message `otherwise`."""
    template = WORDS.get(kind)
    if template is None:
        return otherwise.removeprefix("Value error, ").lower()
    if context.get("actual_length") == 0:
        context = {**context, "actual_length": "none"}
    return template.format(**context)
