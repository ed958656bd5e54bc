"""Codes that changed: a mapping of old codes to new ones, or a CSV file with both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, WithJsonSchema

from dprelease.schema.field_types import Text, refuse
from dprelease.schema.model import Files, shorten
from dprelease.schema.public_values.key_files import ValuesFrom, expand_file_name, values_of_file

OLD, NEW = "old", "new"
"""The columns of a correspondence table, and the keys that declare other names of them."""

MOST_CHANGES = 10_000
"""Maximum number of codes that change: each row is compared with them."""


def _read_changes(value: object, info: ValidationInfo) -> object:
    """Return new codes by old code; read them if the value names a file.

    Raises PydanticCustomError: DP-SCHEMA-004 for a file that can't be read, DP-DECL-003 for a code
    with two new codes, because a row has only one, and for one column of both.
    """
    spec = expand_file_name(value)
    if not isinstance(spec, Mapping) or "file" not in spec:
        return value
    others = {key: given for key, given in spec.items() if key not in (OLD, NEW)}
    columns = spec.get(OLD, OLD), spec.get(NEW, NEW)
    try:
        source, target = (ValuesFrom.model_validate({**others, "column": one}) for one in columns)
    except ValidationError:
        problem = (
            "it needs `file`, and may have `delimiter` (one character), `encoding` (a known one), "
            "and the names of its columns, `old` and `new`"
        )
        refuse("DP-DECL-003", problem=problem)
    if source.column == target.column:
        problem = f"'{shorten(str(source.column))}' can't be the column of old and of new codes"
        refuse("DP-DECL-003", problem=problem)
    # Files are passed as pydantic's context, which models that are validated in Python code don't
    # have.
    if not isinstance(info.context, Files):
        refuse("DP-DECL-003", problem="a file can be read only for a schema: write the codes")
    changes: dict[str, str] = {}
    new_codes = str(target.column)
    for old, new in zip(*values_of_file(source, info.context, [new_codes]), strict=True):
        if changes.setdefault(old, new) != new:
            problem = f"the code '{shorten(old)}' has several new codes, and a row has only one"
            refuse("DP-DECL-003", problem=problem)
    return changes


CodeChanges = Annotated[
    dict[Text, Text],
    BeforeValidator(_read_changes),
    Field(max_length=MOST_CHANGES),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"file": {"type": "string"}},
                    "additionalProperties": {"type": ["string", "integer"]},
                },
            ]
        }
    ),
]
"""New codes by old code, or a CSV file with both, by default in the columns old and new."""
