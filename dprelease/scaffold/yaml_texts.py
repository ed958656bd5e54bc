"""Write names, values and labels into the YAML of a draft."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from dprelease.errors.printable import one_line
from dprelease.numerics.rounding import exact
from dprelease.schema.load import CONFIRM
from dprelease.schema.localized_text import LONGEST_LABEL, display_problem

LABELS = (
    f"  {CONFIRM}: the codes and labels in the metadata of the file. If they are public, and not "
    "taken from the data, remove this comment"
)
MOST_CODES = 9
"""A comment on a column names at most so many codes."""


def label_text(name: str, label: str) -> str:
    """Return the key `label` of a column; empty without a usable label."""
    text = label.strip()
    if text in ("", name) or display_problem(text, LONGEST_LABEL) is not None:
        return ""
    return f", label: {quote_yaml(text)}"


def values_text(labels: Mapping[str, str]) -> str:
    """Return values in YAML: a mapping if each value has a usable label, or else a list."""
    texts = [label.strip() for label in labels.values()]
    if all(text and display_problem(text, LONGEST_LABEL) is None for text in texts):
        pairs = zip(map(quote_yaml, labels), map(quote_yaml, texts), strict=True)
        return f"{{{', '.join(f'{value}: {label}' for value, label in pairs)}}}"
    return f"[{', '.join(map(quote_yaml, labels))}]"


def labelled_category(labels: Mapping[str, str]) -> str:
    """Return the text of a category with the labels of a file's metadata."""
    return f"{{type: category, values: {values_text(labels)}}}{LABELS}"


def some_labels_text(codes: Sequence[str]) -> str:
    """Return a comment on a column of which only some values have labels."""
    first = ", ".join(map(one_line, codes[:MOST_CODES])) + ", ..." * (len(codes) > MOST_CODES)
    return f"only some values have labels: {first}; if these are missing ones, add `missing: [...]`"


def yaml_text(text: str) -> str:
    """Return a text as YAML: without quotes if it is a plain word, and with quotes otherwise."""
    plain = text.isascii() and text.replace("_", "").replace(".", "").replace("-", "").isalnum()
    word = (
        plain
        and text[0].isalpha()
        # Other readers of YAML take these words as booleans or as null.
        and text.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    )
    try:
        exact(text)
    except ValueError:
        return text if word else quote_yaml(text)
    return json.dumps(text)


def quote_yaml(value: object) -> str:
    """Return a text, a number or a list of them as YAML in which a terminal shows all characters.

    Texts have quotes.
    """
    return "".join(map(_escape, json.dumps(value, ensure_ascii=False)))


def _escape(character: str) -> str:
    """Return a character as YAML can write it, escaped if it is not printable."""
    if one_line(character) == character:
        return character
    code = ord(character)
    # JSON's pair of surrogates would be two broken characters in YAML.
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"
