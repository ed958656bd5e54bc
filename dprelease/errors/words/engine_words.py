"""Catalogue: settings of the engine."""

from __future__ import annotations

from dprelease.errors.template import Template

DECLARED: dict[str, Template] = {
    "DP-ENGINE-001": Template(
        cause="The memory limit is not a number of at least 1 followed by a unit.",
        fix="write for example `memory_limit: 2GB`; units are MB, GB, TB, MiB, GiB and TiB.",
    ),
    "DP-ENGINE-002": Template(
        cause="The temporary directory is not a plain path.",
        fix="write an absolute path, or one below the release file's folder, without '..', '~' or "
        "':'.",
    ),
}

OPENED: dict[str, Template] = {
    "DP-ENGINE-003": Template(
        cause="No private folder can be made in the temporary directory '{name}'.",
        fix="name a folder that exists, has room, and that you may write to.",
    ),
    "DP-ENGINE-004": Template(
        cause="The engine does not start with the declared settings.",
        fix="raise `memory_limit` or lower `threads`.",
    ),
    "DP-ENGINE-005": Template(
        cause="The {format} files of '{table}' need more memory than the engine may use.",
        fix="raise `memory_limit`, or lower `threads`: each CSV file that is read at the same "
        "time needs its size in memory, up to 256 MiB, and JSON lines need 34 MiB per thread; "
        "Parquet needs less.",
    ),
}
