"""Whether a name is that of a mount: what has one can't be renamed, nor found beside its files."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
"""Mounts as this process sees them; the fifth word of each line is the place, see proc(5)."""


def is_mounted(path: Path) -> bool:
    """Return whether a file system, or a file or folder of one, is mounted at this very name.

    A bind mount of the same file system shows in no number that stat(2) gives.
    """
    real = os.fsencode(os.path.realpath(path))
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return os.path.ismount(real)
    return any(_place(line) == real for line in lines)


def _place(line: bytes) -> bytes:
    words = line.split(b" ", 5)
    place = words[4] if words[4:] else b""
    if b"\\" not in place:
        return place
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), place)
