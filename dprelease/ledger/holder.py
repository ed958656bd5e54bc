"""Who made a reservation, and on which machine.

Whether a holder is alive is told by a lock (see `dprelease.system.locks`). Numbers of processes
serve reservations of older versions alone: they say little in containers.
"""

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
        return cls(platform.node(), os.getpid(), _start_time(os.getpid()) or "")

    @property
    def is_here(self) -> bool:
        """Return whether it ran on this machine: one of its name, or under the same kernel."""
        boot = self.started.partition("/")[0]
        return self.host == platform.node() or (boot != "" and boot == _boot())

    @property
    def is_dead(self) -> bool:
        """Return whether its number is certainly no living process; its own machine can tell."""
        if self.host != platform.node():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        started = _start_time(self.pid)
        return started is not None and started != self.started

    def to_json(self) -> dict[str, object]:
        """Return the process as JSON values."""
        return {"host": self.host, "pid": self.pid, "started": self.started}


def _start_time(pid: int) -> str | None:
    """Return when a process started, in the kernel's ticks since boot; None where none is told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    boot = _boot()
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not boot:
        return None
    # A process that is only waiting for its parent to notice its end holds nothing any more.
    return f"{boot}/{'ended' if fields[0] == 'Z' else fields[19]}"


def _boot() -> str:
    """Return what the kernel calls its time since it was booted; empty where it has no name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
