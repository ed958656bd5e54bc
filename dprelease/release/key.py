"""The key with which a run signs its manifest, and its entries in a ledger with signers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.schema.load import Declaration

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey


def signed_by(declaration: Declaration, key: str | Path | SigningKey | None) -> Declaration:
    """Return a declaration whose run signs with this key or key file; unchanged without one.

    Raises SignatureError as `signing_key`.
    """
    return declaration if key is None else replace(declaration, key=key_of(key))


def key_of(key: str | Path | SigningKey) -> SigningKey:
    """Return a key, or read it from a path; raises SignatureError as `signing_key`."""
    from dprelease.signatures.keys import signing_key

    return signing_key(key) if isinstance(key, str | Path) else key
