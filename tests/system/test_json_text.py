"""JSON is refused by its size before it uses memory, in every disguise."""

from __future__ import annotations

import json

import pytest

from dprelease.system.json_text import MOST_ITEMS, parse_json

HIDDEN = '["\u0122"' + ",[]" * (MOST_ITEMS + 1) + ',"\u0122"]'
"""The first byte of its letter in UTF-16 is that of a quote, and what is between is no text."""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("text", [HIDDEN, "[" + "1," * MOST_ITEMS + "1,1]"])
def test_many_items_are_refused_in_every_encoding(encoding: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"larger than what is read|codec can't decode|Expecting"):
        parse_json(text.encode(encoding))


@pytest.mark.parametrize("text", ['{"a": ["\u0122", "\\\\", "\\"", 1]}', "[]", '"\U0001f600"'])
def test_parsed_json_equals_the_standard_library(text: str) -> None:
    assert parse_json(text.encode()) == json.loads(text)
