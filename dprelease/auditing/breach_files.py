"""Write the outcome of an audit, and for each breach a release with two small tables."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dprelease.auditing.whole_audit import Outcome
from dprelease.documents.audits.audit_name import NAME
from dprelease.documents.audits.audit_record import encode_audit
from dprelease.errors import OutputError
from dprelease.schema.load import Declaration
from dprelease.system.deferred_signals import temporary_folder

if TYPE_CHECKING:
    from dprelease.auditing.pairs import Pair

SCRIPT = """\
# Two tables of invented rows that differ in one privacy unit, and the release about them: {words}.
# {claimed} is claimed of {query}.{column}; seen: {seen}.
# No ledger is charged for them, and nothing is signed.
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

import dprelease

here = Path(__file__).parent
release = dprelease.read_release(here / {release!r}{variables})
spec = release.declaration.spec.model_copy(update={{"ledger": None}})
release = dprelease.Release(replace(release.declaration, spec=spec, key=None))
for side in ("one", "other"):
    frames = {{path.stem: pq.read_table(path) for path in (here / side).glob("*.parquet")}}
    release.run(output=here / f"out-{{side}}", frames=frames)
"""


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write the outcome of an audit into a new folder; return the path of audit.json.

    After an error there is no folder. For each breach the folder has a subfolder with the release
    as declared, but without its ledger, with both tables, and with a script that runs it.

    Raises
    ------
    OutputError
        DP-AUDIT-002 if the folder exists, DP-OUTPUT-002 if the operating system refuses to write.
    """
    refuse_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(".dprelease-audit-", folder.parent) as private:
            staging = private / "made"
            staging.mkdir()
            _write_all(outcome, staging)
            refuse_folder(folder)
            staging.rename(folder)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError(
            "DP-OUTPUT-002", name=folder.name, reason=reason, refused_by=problem
        ) from None
    return folder / NAME


def _write_all(outcome: Outcome, folder: Path) -> None:
    (folder / NAME).write_bytes(encode_audit(outcome.audit))
    declaration = outcome.declaration
    variables = f", variables={declaration.variables!r}" if declaration.variables else ""
    for number, (found, pair) in enumerate(outcome.pairs, 1):
        place = folder / f"finding-{number}"
        release = _write_declared(declaration, place)
        _write_pair(pair, place)
        named = {key: " ".join(text.split()) for key, text in found.model_dump().items()}
        script = SCRIPT.format(
            release=release.as_posix(), variables=variables, words=named["pair"],
            **{key: named[key] for key in ("claimed", "query", "column", "seen")},
        )  # fmt: skip
        (place / "reproduce.py").write_text(script, encoding="utf-8")


def refuse_folder(folder: Path) -> None:
    """Raise DP-AUDIT-002 for an existing folder."""
    if os.path.lexists(folder):
        raise OutputError("DP-AUDIT-002", name=folder.name)


def _write_declared(declaration: Declaration, place: Path) -> PurePosixPath:
    """Write all files that a release was read from; return the path of the release file.

    The release file is written as many folders deep as relative paths in it go up. Absolute paths
    stay unchanged.
    """
    names = [PurePosixPath(name) for name in (*declaration.texts, *declaration.kept)]
    above = max((name.parts.count("..") for name in names), default=0)
    down = PurePosixPath(*["declared"] * above)
    own = place / down
    for name, text in declaration.texts.items():
        if not PurePosixPath(name).is_absolute():
            _path_with_folders(own, name).write_text(text, encoding="utf-8")
    for name, (_, path) in declaration.kept.items():
        if not PurePosixPath(name).is_absolute():
            shutil.copyfile(path, _path_with_folders(own, name))
    return down / declaration.document.path.name


def _path_with_folders(own: Path, name: str) -> Path:
    """Create the folders of a file's path, and return it."""
    own.mkdir(parents=True, exist_ok=True)
    path = Path(os.path.normpath(own / name))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_pair(pair: Pair, place: Path) -> None:
    import pyarrow.parquet as pq

    for side, tables in zip(("one", "other"), pair.sides, strict=True):
        (place / side).mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            pq.write_table(table, place.absolute() / side / f"{name}.parquet")
