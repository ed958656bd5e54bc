"""Writes what an audit found: its outcome, and for each breach a release with two small tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.auditing.whole_audit import Outcome
from dprelease.documents.audits.audit_record import NAME, rendered
from dprelease.errors import OutputError

if TYPE_CHECKING:
    from dprelease.auditing.pairs import Pair

SCRIPT = """\
# Two tables of invented rows that differ in one privacy unit, and the release about them: {words}.
# {claimed} is claimed of {query}.{column}; seen: {seen}.
from pathlib import Path

import pyarrow.parquet as pq

import dprelease

here = Path(__file__).parent
for side in ("one", "other"):
    frames = {{path.stem: pq.read_table(path) for path in (here / side).glob("*.parquet")}}
    release = dprelease.read_release(here / {release!r}{variables})
    release.run(output=here / f"out-{{side}}", frames=frames)
"""


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write the outcome of an audit into a folder that is not there yet; return the file's path.

    For each breach a folder: the release as declared, both tables, and a script that runs it.

    Raises
    ------
    OutputError
        DP-AUDIT-002 if the folder is there, DP-OUTPUT-002 if the system refuses.
    """
    refuse_folder(folder)
    try:
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes(rendered(outcome.audit))
        for number, (found, pair) in enumerate(outcome.pairs, 1):
            place = folder / f"finding-{number}"
            _write_pair(outcome, pair, place)
            declaration = outcome.declaration
            variables = f", variables={declaration.variables!r}" if declaration.variables else ""
            named = {key: " ".join(text.split()) for key, text in found.model_dump().items()}
            script = SCRIPT.format(
                release=declaration.document.path.name, variables=variables, words=named["pair"],
                **{key: named[key] for key in ("claimed", "query", "column", "seen")},
            )  # fmt: skip
            (place / "reproduce.py").write_text(script, encoding="utf-8")
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError("DP-OUTPUT-002", name=folder.name, reason=reason) from None
    return folder / NAME


def refuse_folder(folder: Path) -> None:
    """Raise DP-AUDIT-002 for a folder that is there already."""
    if os.path.lexists(folder):
        raise OutputError("DP-AUDIT-002", name=folder.name)


def _write_pair(outcome: Outcome, pair: Pair, place: Path) -> None:
    import pyarrow.parquet as pq

    for name, text in outcome.declaration.texts.items():
        path = (place / name).resolve()
        if path.is_relative_to(place.resolve()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for side, tables in zip(("one", "other"), pair.sides, strict=True):
        (place / side).mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            pq.write_table(table, place / side / f"{name}.parquet")
