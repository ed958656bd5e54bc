"""The form of one entry of the error catalogue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """Cause and fix of one error code; `{fields}` are filled in when the error is raised."""

    cause: str
    fix: str
