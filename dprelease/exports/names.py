"""Helpers of several formats for file names, JSON and texts of metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dprelease.documents.metadata import Metadata, Texts
from dprelease.schema.field_types import NAME, RESERVED

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
EMPTY: tuple[Any, ...] = (None, "", [], {})


def safe_names(texts: Iterable[str], other: str) -> list[str]:
    """Return unique file names for texts; a text that is a valid name is unchanged.

    `other`: the prefix, before a number, of names for texts that are not valid names.
    """
    names: list[str] = []
    # Some file systems ignore case.
    taken: set[str] = set()
    for i, text in enumerate(texts, 1):
        fits = re.fullmatch(NAME, text) and text.isascii() and text.casefold() not in RESERVED
        name = text if fits else f"{other}-{i}"
        if name.casefold() in taken:
            name = f"{name}-{i}"
        taken.add(name.casefold())
        names.append(name)
    return names


def create_parent_folder(path: Path) -> Path:
    """Create the parent folder of a path and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def nonempty_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties without the ones that are None, or an empty text, list or mapping."""
    return {name: value for name, value in properties.items() if value not in EMPTY}


def write_json(path: Path, value: Any) -> None:
    """Write JSON in UTF-8 with two spaces of indentation, and keys in the order of the mapping."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    create_parent_folder(path).write_text(text, encoding="utf-8", newline="")


def text_in(texts: Texts, metadata: Metadata, language: str = "") -> str:
    """Return a text in a language, or in the first language of the release in which it exists."""
    return next((texts[tag] for tag in (language, *metadata.languages) if tag in texts), "")


def texts_in(several: Iterable[Texts], metadata: Metadata, language: str = "") -> list[str]:
    """Return each text in a language, as `text_in` does; empty texts are left out."""
    return [text for texts in several if (text := text_in(texts, metadata, language))]


def with_translations(
    metadata: Metadata, texts_of: Callable[[str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the properties with texts, and in `translations` those of the other languages.

    `texts_of`: returns the properties with texts in one language. Empty ones are left out.
    """
    others = {tag: nonempty_properties(texts_of(tag)) for tag in metadata.languages[1:]}
    translations = nonempty_properties({"translations": nonempty_properties(others)})
    return {**nonempty_properties(texts_of(metadata.language)), **translations}


def xml_text(text: str) -> str:
    """Return a text with a sign in place of each character that XML can't hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def is_address(text: str) -> bool:
    """Return whether a text is the address of a web page."""
    return re.fullmatch(r"https?://[^\s<>\"{}|\\^`]+", text) is not None
