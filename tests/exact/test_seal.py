"""What executors leave behind is sealed: with a key of one run, in the place that it was made for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dprelease.exact.spark.executors.seal import Seal


def test_every_run_has_a_key_of_its_own() -> None:
    """Whatever its name is, which is public: nobody opens what another run has sealed."""
    one, other = Seal.fresh(), Seal.fresh()
    sealed = one.encrypt_block(3, b"content")
    assert one.decrypt_block(3, sealed) == b"content"
    assert sealed != one.encrypt_block(3, b"content")
    for seal, block in (
        (replace(other, name=one.name), 3),
        (replace(one, name=other.name), 3),
        (one, 4),
    ):
        with pytest.raises(ValueError, match="sealed"):
            seal.decrypt_block(block, sealed)
    assert len(one.key) == 32
    assert one.key.hex() not in one.name
