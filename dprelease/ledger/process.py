"""Who holds a reservation, and whether it still can."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a machine; `started` tells it from a later one with the same number."""

    host: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Self:
        """Return the running process."""
        return cls(platform.node(), os.getpid(), _started(os.getpid()) or "")

    @property
    def is_here(self) -> bool:
        """Return whether it ran on this machine."""
        return self.host == platform.node()

    @property
    def is_dead(self) -> bool:
        """Return whether it has certainly ended; only its own machine can tell."""
        if not self.is_here:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        found = _started(self.pid)
        return found is not None and found != self.started

    def to_json(self) -> dict[str, object]:
        """Return the process as JSON values."""
        return {"host": self.host, "pid": self.pid, "started": self.started}


def _started(pid: int) -> str | None:
    """Return when a process started, in the kernel's ticks since boot; None where none is told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # A process that is only waiting for its parent to notice its end holds nothing any more.
    return None if len(fields) < 20 else f"{boot}/{'ended' if fields[0] == 'Z' else fields[19]}"
