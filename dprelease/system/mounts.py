"""Detect mount points, which can't be renamed."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
"""The mounts of this process; the fifth field of each line is the mount point, see proc(5)."""


def is_mounted(path: Path) -> bool:
    """Return whether a file system, or a file or folder of one, is mounted at exactly this path.

    stat(2) does not reveal a bind mount of the same file system.
    """
    real = os.fsencode(os.path.realpath(path))
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return os.path.ismount(real)
    return any(_mount_point(line) == real for line in lines)


def _mount_point(line: bytes) -> bytes:
    words = line.split(b" ", 5)
    place = words[4] if words[4:] else b""
    if b"\\" not in place:
        return place
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), place)
