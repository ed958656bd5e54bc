"""Write the stub with the types of declarations: `python -m dprelease.schema.typed.generator`."""

from __future__ import annotations

import json
import keyword
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dprelease.schema.json_schema import DOCUMENTS

STUB = Path(__file__).with_name("__init__.pyi")

HEAD = '''\
"""Types of declarations, written by `python -m dprelease.schema.typed.generator`."""

# fmt: off
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Literal, Required, TypedDict

Scalar = str | int | float | Decimal | Fraction | PurePath | date
'''
"""The beginning of the stub. All scalar values of YAML files may be texts or numbers."""

ROOTS = {"release": "ReleaseMapping", "table": "TableMapping"}
OVERRIDES = {
    ("ReleaseMapping", "tables"): "Sequence[str | PurePath | TableMapping]",
    ("TableMapping", "source"): "object",
}
"""What mappings of Python may have in addition: schemas as mappings, and frames as sources."""

WIDTH = 100
Schema = Mapping[str, Any]


def stub_text() -> str:
    """Return the text of the stub."""
    documents = {name: DOCUMENTS[name].model_json_schema(by_alias=True) for name in ROOTS}
    parts = [HEAD]
    models = {
        name: one for document in documents.values() for name, one in document["$defs"].items()
    }
    parts += [_definition(name, model) for name, model in sorted(models.items())]
    parts += [_definition(ROOTS[name], document) for name, document in documents.items()]
    return "\n".join(parts)


def _definition(name: str, model: Schema) -> str:
    """Return the definition of one model as a TypedDict, or as an alias of another type."""
    if "properties" not in model or model.get("additionalProperties"):
        return f"{name} = {_type(model)}\n"
    required = set(model.get("required", ()))
    fields = {}
    for key, one in model["properties"].items():
        kind = OVERRIDES.get((name, key)) or _type(one)
        fields[key] = f"Required[{kind}]" if key in required else kind
    # `from` is a keyword of Python, which the class form of a TypedDict can't have as a field.
    if any(keyword.iskeyword(key) for key in fields):
        lines = [f'{name} = TypedDict("{name}", {{']
        lines += [_wrapped(f'"{key}": {kind},') for key, kind in fields.items()]
        return "\n".join([*lines, "}, total=False)", ""])
    lines = [f"class {name}(TypedDict, total=False):"]
    lines += [_wrapped(f"{key}: {kind}") for key, kind in fields.items()] or ["    ..."]
    return "\n".join([*lines, ""])


def _wrapped(line: str) -> str:
    """Return a field in lines that are not too long, which end inside of brackets."""
    return textwrap.fill(
        line, WIDTH, initial_indent="    ", subsequent_indent=" " * 8,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _type(schema: Schema) -> str:
    """Return the type of the values of a part of a JSON Schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _union([_type(one) for one in schema[key]])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(map(_literal, values))}]"
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return _union([_type({**schema, "type": kind}) for kind in kinds])
    if kinds == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})]
        return f"Sequence[{_union([_type(one) for one in items])}]"
    if kinds == "object":
        return _mapping(schema)
    return {"null": "None", "boolean": "bool", None: "object"}.get(kinds, "Scalar")


def _mapping(schema: Schema) -> str:
    """Return the type of a mapping whose keys are names."""
    inner = [*schema.get("patternProperties", {}).values()]
    more = schema.get("additionalProperties")
    inner += [more] if isinstance(more, Mapping) else []
    return f"Mapping[str, {_union([_type(one) for one in inner]) if inner else 'object'}]"


def _literal(value: object) -> str:
    """Return a value as it is written in Python, with texts in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _union(kinds: list[str]) -> str:
    """Return the union of types, each once."""
    parts = dict.fromkeys(part for kind in kinds for part in _parts(kind))
    return "object" if "object" in parts else " | ".join(parts)


def _parts(kind: str) -> list[str]:
    """Return the members of a union; those in brackets stay together."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(kind):
        depth += (letter in "[") - (letter in "]")
        if depth == 0 and kind.startswith(" | ", i):
            parts.append(kind[start:i])
            start = i + 3
    return [*parts, kind[start:]]


if __name__ == "__main__":
    STUB.write_text(stub_text(), encoding="utf-8")
