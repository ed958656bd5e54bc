"""The base of all models of documents that are written: manifests, audits, outcomes of attacks."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of a document: known keys of known types.

    A key with a default is written only where its value differs from the default.
    """

    # Built when first used: most commands define more models than they use.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    def to_json(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        return self.model_dump(by_alias=True, exclude_defaults=True)
