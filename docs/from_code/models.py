"""Documents, key by key, from the JSON Schemas of their models."""

from __future__ import annotations

import json
from typing import Any

from docs.from_code.markdown import anchor, code, plain, table
from dprelease.documents.json_schemas import FORMS, render_schema

Schema = dict[str, Any]
LONGEST_DEFAULT = 40


def document(name: str) -> str:
    """Return a section for every form of a document, with a description and a table of its keys."""
    if name not in FORMS:
        raise ValueError(f"there is no document '{name}'")
    whole = json.loads(render_schema(name))
    parts = [_section(name, f"All keys of a {name.replace('_', ' ')}", whole)]
    for form, schema in sorted(whole.get("$defs", {}).items()):
        if "properties" in schema:
            parts.append(_section(f"{name}-{form}".lower(), form, schema, name))
        else:
            parts.append(_values(f"{name}-{form}".lower(), form, schema))
    return "\n\n".join(parts)


def _section(label: str, title: str, schema: Schema, document: str | None = None) -> str:
    words = plain(schema.get("description", ""))
    needed = dict.fromkeys(schema.get("required", ()), "**refused**")
    for key in schema.get("then", {}).get("required", ()):
        needed[key] = "**refused**, unless `defaults` has it"
    rows = [
        (
            code(key),
            _kind(value, document or label),
            needed.get(key) or _default(value),
            _limits(value),
        )
        for key, value in schema["properties"].items()
    ]
    keys = table(("key", "value", "if the key is omitted", "limits of the value"), rows)
    return f"{anchor(f'form-{label}')}\n### {title}\n\n{words}\n\n{keys}"


def _values(label: str, title: str, schema: Schema) -> str:
    words = plain(schema.get("description", ""))
    kind = _kind(schema, label)
    return f"{anchor(f'form-{label}')}\n### {title}\n\n{words}\n\nOne of: {kind}"


def _kind(schema: Schema, document: str) -> str:
    """Return a text that says which values are allowed, with links to the forms."""
    if "$ref" in schema:
        form = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{form}](#form-{document}-{form.lower()})"
    if "enum" in schema or "const" in schema:
        return ", ".join(code(str(value)) for value in schema.get("enum", [schema.get("const")]))
    for way in ("anyOf", "oneOf", "allOf"):
        if way in schema:
            arms = [_kind(arm, document) for arm in schema[way] if arm.get("type") != "null"]
            return " or ".join(dict.fromkeys(arms))
    kind = schema.get("type", "any value")
    if kind == "array":
        inner = schema.get("items") or schema.get("prefixItems", [{}])[0]
        return f"a list of: {_kind(inner, document)}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        if not isinstance(inner, dict):
            inner = next(iter(schema.get("patternProperties", {}).values()), {})
        return f"a mapping from names to: {_kind(inner, document)}" if inner else "a mapping"
    kinds = kind if isinstance(kind, list) else [kind]
    if set(kinds) == {"string", "integer"}:  # a number that stands for its text
        kinds = ["string"]
    words = " or ".join("text" if one == "string" else one for one in kinds)
    described = schema.get("description")
    return f"{words} ({plain(described)})" if described else words


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default is None or default in ([], {}, ""):
        return ""
    text = json.dumps(default) if not isinstance(default, str) else default
    return code(text) if len(text) <= LONGEST_DEFAULT else "its own defaults"


LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxLength": "at most {} characters",
    "pattern": "as `{}`",
}


def _limits(schema: Schema) -> str:
    arms = [schema, *schema.get("anyOf", ())]
    found = [
        words.format(f"{arm[key]:,}" if isinstance(arm[key], int) else arm[key])
        for arm in arms
        for key, words in LIMITS.items()
        if key in arm
    ]
    return "; ".join(dict.fromkeys(found))
