"""The catalogue of errors: cause and fix of every code, one module for each exception class."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """Cause and fix of one error code; `{fields}` are filled in when the error is raised."""

    cause: str
    fix: str
