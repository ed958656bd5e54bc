"""Describe errors in terms of the documents, because pydantic's messages name Python types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

A_LIST = "a list is needed, such as [a, b]"
A_MAPPING = "keys with values are needed"
A_TEXT = "a text is needed"

WORDS = {
    "tuple_type": A_LIST,
    "list_type": A_LIST,
    "dict_type": A_MAPPING,
    "mapping_type": A_MAPPING,
    "model_type": A_MAPPING,
    "model_attributes_type": A_MAPPING,
    "is_instance_of": A_MAPPING,
    "string_type": A_TEXT,
    "literal_error": "it is one of {expected}",
    "enum": "it is one of {expected}",
    "too_short": "it needs at least {min_length}, and has {actual_length}",
    "too_long": "it takes at most {max_length}, and has {actual_length}",
    "greater_than_equal": "it is at least {ge}",
    "less_than_equal": "it is at most {le}",
}
"""Descriptions by pydantic error type; fields come from its context."""


def words_of(kind: str, context: Mapping[str, Any], otherwise: str) -> str:
    """Return the description of an error; `otherwise`, pydantic's message, for types not listed."""
    template = WORDS.get(kind)
    if template is None:
        return otherwise.removeprefix("Value error, ").lower()
    if context.get("actual_length") == 0:
        context = {**context, "actual_length": "none"}
    return template.format(**context)
