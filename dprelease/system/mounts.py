"""Detect mount points, which can't be renamed or replaced."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
"""The file with the mounts of this process; a line's fifth field is the mount point (proc(5))."""


def is_mounted(path: Path) -> bool:
    """Return whether a file system, or a single file or folder, is mounted at exactly this path.

    This can't be determined by stat(2) alone, which does not show bind mounts of the same file
    system.
    """
    real = os.fsencode(os.path.realpath(path))
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return os.path.ismount(real)
    return any(_mount_point(line) == real for line in lines)


def _mount_point(line: bytes) -> bytes:
    """Return the path at which a line of the list of mounts says that something is mounted."""
    fields = line.split(b" ", 5)
    mount_point = fields[4] if fields[4:] else b""
    if b"\\" not in mount_point:
        return mount_point
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), mount_point)
