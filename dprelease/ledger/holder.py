"""Identify the process that made a reservation, and its machine.

A lock shows whether this process is alive (see `dprelease.system.locks`). Process numbers are used
only for reservations that older versions wrote, because the same number can mean different
processes in different containers.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a machine; `started` tells it apart from later processes with its number."""

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Self:
        """Return the running process."""
        return cls(platform.node(), os.getpid(), _start_time(os.getpid()) or "")

    @property
    def is_here(self) -> bool:
        """Return whether the process ran on this machine, by host name or by the kernel's boot."""
        boot = self.started.partition("/")[0]
        return self.host == platform.node() or (boot != "" and boot == _boot_id())

    @property
    def is_dead(self) -> bool:
        """Return whether the process has certainly ended; always False on other machines."""
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
    boot = _boot_id()
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not boot:
        return None
    # A zombie, which waits for its parent to collect its status, holds no resources any more.
    return f"{boot}/{'ended' if fields[0] == 'Z' else fields[19]}"


def _boot_id() -> str:
    """Return the kernel's boot id; empty if the kernel provides none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
