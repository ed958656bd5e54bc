"""Catalogue: violated assumptions of this library, and commands that a signal ended."""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
    "DP-INTERNAL-001": Template(
        cause="An internal check failed: {check}.",
        fix="please report this with the release file; no value of the data is needed.",
    ),
}

REFUSED: dict[str, Template] = {
    "DP-SYSTEM-001": Template(
        cause="The system ran out of a resource that the command needs: {reason}.",
        fix="free memory, disk space, open files (`ulimit -n`) or threads (`ulimit -u`), or "
        "provide a temporary folder; then run again.",
    ),
}

ENDED: dict[str, Template] = {
    "DP-SIGNAL-001": Template(
        cause="The command was ended by {signal}.",
        fix="run it again when it can finish; whatever the state below reports stays done.",
    ),
}
