"""The process that made a reservation, and its machine.

A lock shows whether the holder is alive (see `dprelease.system.locks`). Process numbers are used
only for reservations of older versions, because they mean little in containers.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a machine; `started` distinguishes it from later ones with the same number."""

    host: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Self:
        """Return the running process."""
        return cls(platform.node(), os.getpid(), _start_time(os.getpid()) or "")

    @property
    def is_here(self) -> bool:
        """Return whether it ran on this machine: one of the same name, or under the same kernel."""
        boot = self.started.partition("/")[0]
        return self.host == platform.node() or (boot != "" and boot == _boot())

    @property
    def is_dead(self) -> bool:
        """Return whether the process is certainly dead; only its own machine can know."""
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
    """Return the start time of a process in the kernel's ticks since boot; None if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    boot = _boot()
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not boot:
        return None
    # A zombie, which waits for its parent to collect its status, holds no resources any more.
    return f"{boot}/{'ended' if fields[0] == 'Z' else fields[19]}"


def _boot() -> str:
    """Return the kernel's boot id; empty if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
