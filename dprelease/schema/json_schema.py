"""JSON Schemas of the documents that people write, for editors."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from dprelease.schema.release import ReleaseSpec
from dprelease.schema.release_parts.defaults import SHARED
from dprelease.schema.table import Table


def _keep_only_shared_keys(schema: dict[str, Any]) -> None:
    """Keep only the keys that several releases may share, and make all keys optional."""
    # These come from `_require_unless_defaults` of the release, which this model inherits.
    for key in ("required", "if", "then"):
        schema.pop(key, None)
    schema["properties"] = {name: schema["properties"][name] for name in SHARED}


class DefaultsSpec(ReleaseSpec):
    """Keys that several releases share: a file that they name under `defaults`."""

    model_config = ConfigDict(json_schema_extra=_keep_only_shared_keys)


DOCUMENTS: dict[str, type[BaseModel]] = {
    "table": Table,
    "release": ReleaseSpec,
    "defaults": DefaultsSpec,
}


def render_schema(name: str, model: type[BaseModel]) -> str:
    """Return the JSON Schema of one document model as text."""
    schema = model.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    schema["title"] = f"dprelease {name}"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
