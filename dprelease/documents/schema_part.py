"""What all parts of a manifest's model have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of a manifest: known keys of known types."""

    model_config = ConfigDict(extra="forbid", strict=True)
