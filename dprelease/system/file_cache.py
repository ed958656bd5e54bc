"""Whether the system has files in its memory, so that whoever reads them waits for no disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dprelease.system.files import OPEN, refuse_others

PLACES = 32
"""Places at which files are asked for: a few microseconds each."""


def are_cached(files: Sequence[Path]) -> bool:
    """Return whether the system has files in memory, as far as a few places tell.

    False too where it does not say. What is read there goes nowhere.
    """
    asked = files[:: -(-len(files) // PLACES)] if files else ()
    try:
        return all(_is_cached(file, -(-PLACES // len(asked))) for file in asked)
    except (OSError, ValueError, AttributeError):  # gone, no name of a file, not Linux
        return False


def _is_cached(file: Path, places: int) -> bool:
    """Return whether a regular file is in memory; raise OSError where that is not known."""
    refuse_others(file.stat())  # to open some others does something
    handle = os.open(file, OPEN)
    try:
        status = os.fstat(handle)
        refuse_others(status)
        into = [bytearray(1)]
        for place in range(places):
            at = status.st_size * place // places
            os.preadv(handle, into, at, os.RWF_NOWAIT)  # fails at once where it would wait
    finally:
        os.close(handle)
    return True
