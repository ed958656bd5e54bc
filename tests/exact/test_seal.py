"""Files of executors are encrypted with a key of the run, and bound to their block."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dprelease.exact.spark.executors.seal import Seal


def test_every_run_has_its_own_key() -> None:
    """The name is public, and no other run can decrypt."""
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
