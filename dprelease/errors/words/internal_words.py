"""Catalogue: broken promises of this library, and ends that came from outside."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-INTERNAL-001": Template(
        cause="An internal check failed: {check}.",
        fix="please report it together with the release file; no value of the data is needed.",
    ),
}

REFUSED: dict[str, Template] = {
    "DP-SYSTEM-001": Template(
        cause="The system refused what the command needs: {reason}.",
        fix="make room: memory, disk, open files (`ulimit -n`), threads (`ulimit -u`), a folder to "
        "work in; run again.",
    ),
}

ENDED: dict[str, Template] = {
    "DP-SIGNAL-001": Template(
        cause="The command was ended by {signal}.",
        fix="run it again when it can end; what the state says is done stays done.",
    ),
}
