"""Keys that several releases of a folder share; each release may override them.

`defaults: defaults.yaml` in a release file names a file in the same folder. A key in the release
replaces the shared one as a whole; nothing is merged below the first level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dprelease.errors import DeclarationError, Place
from dprelease.errors.suggestions import nearest
from dprelease.schema.model import unreadable_text
from dprelease.schema.yaml_text.reader import (
    Document,
    KeyPath,
    not_utf8_text,
    parse_yaml,
    too_large_error,
)
from dprelease.system.files import TooLarge

KEY = "defaults"
SHARED = (
    "about", "budget", "duckdb", "engine", "formats", "ledger", "limits", "mechanism", "quality",
    "spark", "tables", "variables",
)  # fmt: skip
"""The keys that releases can share. Queries and output belong to a single release."""


def with_defaults(
    document: Document, read: Callable[[str], str], texts: dict[str, str]
) -> Document:
    """Return a release file with its shared keys filled in, and store their file's text.

    Raises DeclarationError: DP-YAML-001 or 002 if the file can't be read, 003 to 007 for its form;
    DP-VAR-009 if the file is in another folder.
    """
    name = document.values.get(KEY)
    if not isinstance(name, str):
        return document
    place = document.place(KEY)
    # In the same folder, relative paths mean the same in both files.
    if "/" in name or "\\" in name or name in ("", ".", "..", document.path.name):
        raise DeclarationError("DP-VAR-009", place=place, name=name[:100])
    other = parse_yaml(_read_shared_keys(name, read, place), document.path.parent / name)
    texts[name] = other.text
    findings = dict(document.findings)
    for key in other.values:
        if key not in SHARED:
            known, close = ", ".join(SHARED), nearest(key[:100], SHARED)
            findings[KEY, key] = DeclarationError(
                "DP-VAR-010", place=other.place(key), name=key[:100], nearest=close, known=known
            )
    taken = {key for key in SHARED if key in other.values and key not in document.values}
    findings |= {
        keys: finding for keys, finding in other.findings.items() if _first_key(keys) in taken
    }
    values = {key: value for key, value in other.values.items() if key in taken}
    lines = {keys: line for keys, line in other.lines.items() if _first_key(keys) in taken}
    return replace(
        document,
        values=document.values | values,
        lines=document.lines | lines,
        findings=findings,
        borrowed=dict.fromkeys(taken, name),
    )


def _read_shared_keys(name: str, read: Callable[[str], str], place: Place) -> str:
    """Return the text of the file of shared keys; raise its errors at the release file."""
    reason = ""
    try:
        return read(name)
    except UnicodeDecodeError as problem:
        reason = f"'{name[:100]}' is {not_utf8_text(problem)}"
    except TooLarge:
        raise too_large_error(Place(name)) from None
    except (OSError, KeyError) as problem:
        reason = unreadable_text(name, problem)
    raise DeclarationError("DP-YAML-001", place=place, reason=reason)


def _first_key(keys: KeyPath) -> str:
    """Return the first key of a key path; empty for the empty path."""
    return str(keys[0]) if keys else ""
