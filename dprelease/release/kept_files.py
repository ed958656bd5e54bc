"""Copies of the files of a declaration that are no texts, in the folder of a release."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dprelease.documents.audits.audit_name import NAME
from dprelease.errors import DeclarationError, Place
from dprelease.schema.load import Declaration
from dprelease.schema.public_values.large_files import KeptFile
from dprelease.system.files import OPEN, PIECE, refuse_others


def keep_files(declaration: Declaration, folder: Path) -> None:
    """Copy into a release's folder what its declaration was read from, besides texts.

    And the outcome of the audit that it names.

    Raises
    ------
    DeclarationError
        DP-RELEASE-020 for a file that is another one by now.
    OSError
        If a copy can't be written.
    """
    if declaration.audit is not None:
        (folder / NAME).write_bytes(declaration.audit)
    for name, (file, path) in declaration.kept.items():
        copy = folder / file.copy
        copy.parent.mkdir(exist_ok=True)
        if not _is_copied(path, copy, file):
            raise DeclarationError("DP-RELEASE-020", place=Place(name), name=Path(name).name)


def _is_copied(path: Path, copy: Path, file: KeptFile) -> bool:
    """Copy a file; return whether it had the bytes that were read, no more of which are copied."""
    digest, left = hashlib.sha256(), file.size + 1
    try:
        source = os.open(path, OPEN)
    except (OSError, ValueError):
        return False
    with open(source, "rb", buffering=0) as read, copy.open("wb") as written:
        refuse_others(os.fstat(source))
        while left and (piece := read.read(min(PIECE, left))):
            digest.update(piece)
            written.write(piece)
            left -= len(piece)
    return left == 1 and digest.hexdigest() == file.sha256
