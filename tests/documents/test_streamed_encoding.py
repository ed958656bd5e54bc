"""The one encoding of manifests, in pieces: the bytes of the standard library, none held twice."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.documents import encoding
from dprelease.documents.encoding import digest_of, encoded_pieces, is_canonical
from tests.covering import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=12), one, max_size=4),
    max_leaves=20,
)
RECORDS = st.dictionaries(st.text(max_size=12), VALUES, max_size=6)


def plain(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


@pytest.mark.parametrize("letters", [1, 7, 1 << 16])
@examples(60)
@given(record=RECORDS)
def test_pieces_equal_the_plain_encoding(letters: int, record: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "LETTERS", letters)
        raw = plain(record)
        assert b"".join(encoded_pieces(record)) == raw
        assert is_canonical(record, raw)
        assert not is_canonical(record, raw[:-1])
        assert not is_canonical(record, raw + b"\n")
        without = {key: value for key, value in record.items() if key != "digest"}
        assert digest_of(record) == hashlib.sha256(plain(without)).hexdigest()


@pytest.mark.parametrize("texts", [["x" * (1 << 24)], ["x" * 60_000] * 300])
def test_encoding_memory_is_limited_to_one_text(texts: list[str]) -> None:
    """Its quoted text, and the bytes of that; of texts below the limit, no more than a piece."""
    longest = max(map(len, texts))
    record = {"some": "words", "texts": texts, "then": "more"}
    tracemalloc.start()
    try:
        size = sum(map(len, encoded_pieces(record)))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > sum(map(len, texts))
    assert most < 2.1 * max(longest, 4 * encoding.LETTERS)
