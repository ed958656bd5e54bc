"""Names of engines and formats, and settings of engines, which change run time but no value."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from dprelease.schema.field_types import LocalPath, Text, Whole, refuse
from dprelease.schema.model import Model
from dprelease.schema.release_parts.extension_names import (
    ENGINES,
    format_name,
    known_formats,
    not_an_engine,
    suggest_format,
)

_LIMIT = r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([MGT]i?B)"


def _require_unit(value: str | None) -> str | None:
    """Return a memory limit; refuse a limit without a unit."""
    limit = None if value is None else re.fullmatch(_LIMIT, value)
    if value is not None and (limit is None or float(limit[1]) < 1):
        refuse("DP-ENGINE-001")
    return value


def _require_plain_path(value: str | None) -> str | None:
    """Return the path of a folder; refuse parents, `~`, and drive letters."""
    if value is not None:
        parts = value.replace("\\", "/").split("/")
        if ".." in parts or parts[0] == "~" or ":" in value or "\0" in value or not value.strip():
            refuse("DP-ENGINE-002")
    return value


class DuckDBSpec(Model):
    """Resources of DuckDB: memory before it spills, threads, the parent of its spill folder."""

    memory_limit: Annotated[
        Text | None,
        AfterValidator(_require_unit),
        WithJsonSchema({"type": "string", "pattern": f"^{_LIMIT}$"}),
    ] = None
    threads: Annotated[Whole, Field(ge=1, le=1024)] | None = None
    temp_directory: Annotated[LocalPath | None, AfterValidator(_require_plain_path)] = None


class SparkSpec(Model):
    """Where Spark runs; settings that are omitted come from Spark's own configuration.

    `master`: for example local[8], spark://host:7077, yarn, k8s://https://host:443 or, for Spark
    Connect, sc://host. `staging`: a folder (a URI of Spark's) that all executors can write to, for
    the noised parts of large results, which are as confidential as the data; without it, the driver
    adds the noise. These settings are published with the release, like the whole file: put secrets
    into the configuration of Spark itself.
    """

    master: Text | None = None
    staging: Text | None = None
    config: dict[Text, Text] = Field(default_factory=dict)


def _check_engine(value: object) -> object:
    """Return the name of an engine; refuse an unknown name."""
    if not (isinstance(value, str) and value in ENGINES):
        refuse("DP-DECL-003", problem=not_an_engine())
    return value


EngineName = Annotated[
    str, BeforeValidator(_check_engine), WithJsonSchema({"enum": [*ENGINES], "type": "string"})
]


def _known_format(value: object) -> object:
    """Return the name of a format; refuse an unknown name."""
    name = format_name(value)
    if not (isinstance(name, str) and name in known_formats()):
        refuse(
            "DP-EXPORT-001",
            name=value,
            nearest=suggest_format(value),
            known=", ".join(known_formats()),
        )
    return name


FormatName = Annotated[
    str, BeforeValidator(_known_format), WithJsonSchema({"enum": known_formats(), "type": "string"})
]
