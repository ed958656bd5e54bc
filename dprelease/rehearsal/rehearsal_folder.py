"""Steps shared by all kinds of rehearsal: claim the folder, mark it, write the truth files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.encoding import NAME, sha256, sha256_of
from dprelease.documents.file_records import FileDigest
from dprelease.documents.rehearsal_errors import ColumnErrors, encode_errors
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    FORMATS,
    NOTE,
    NOTED,
    PEOPLE,
    TRUTH,
)
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import OutputError, RunState
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import Plan
from dprelease.rehearsal.stand_ins import Cast
from dprelease.release.execute import Publication, publishing
from dprelease.release.path_conflicts import refuse_own_source
from dprelease.schema.load import Declaration
from dprelease.system.files import read_file
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa

ASIDE = "-rehearsal"
"""The suffix of a rehearsal's folder, after the name of the declared folder."""


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """A requested rehearsal; `declaration` still has its sources. See `rehearse`."""

    declaration: Declaration
    output: Path | None
    overwrite: bool
    bits: BitSource
    progress: Callable[[str], None]
    state: RunState | None

    @property
    def target(self) -> Path:
        """Return the path of the rehearsal: by default next to the folder of the release."""
        declared = self.declaration.spec.output.rstrip("/")
        return self.output or self.declaration.folder / f"{declared}{ASIDE}"


@contextmanager
def rehearsing(
    request: RehearsalRequest,
    cast: Cast,
    plan: Plan,
    *,
    draft: ReleaseManifest,
    files: Sequence[str],
    tables: int = 0,
) -> Iterator[Publication]:
    """Yield the publication of a rehearsal: its folder is claimed, and its tables will be marked.

    The folder must not be inside a declared source. `files` has the names of all possible files in
    addition to the tables. `tables` is the number of bytes of the tables, as in `publishing`.

    Raises
    ------
    OutputError
        DP-REHEARSE-004 if a release would be replaced; also the errors of `publishing`.
    """
    refuse_own_source(request.declaration, plan, request.target, list(files))
    with publishing(
        cast.unpaid,
        plan,
        output=request.target,
        overwrite=request.overwrite,
        state=request.state,
        draft=draft,
        tables=tables,
    ) as release:
        _refuse_release(release.claim.target)
        yield replace(release, notes={NOTED: NOTE})


def _refuse_release(target: Path) -> None:
    """Raise DP-REHEARSE-004 for a folder that is not a rehearsal: releases have used budget."""
    try:
        record = parse_json(read_file(target / NAME, MOST_BYTES))
    except FileNotFoundError:
        return  # without a manifest, the folder was free, or claiming it would have failed
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") not in FORMATS:
        raise OutputError("DP-REHEARSE-004", name=target.name)


def truth_of(name: str) -> str:
    """Return the name of the file that compares a published table with its truth."""
    return formats.file_of(f"{TRUTH}/{name}")


def people_of(table: str) -> str:
    """Return the name of the file of a table's synthetic rows."""
    return formats.file_of(f"{PEOPLE}/{table}")


def written_people(folder: Path, cast: Cast) -> dict[str, FileDigest]:
    """Write the synthetic rows of every table, and return digests and rows by file."""
    files = {people_of(name): table for name, table in cast.invented.items()}
    return {name: written_table(folder, name, table) for name, table in files.items()}


def written_errors(folder: Path, errors: list[ColumnErrors]) -> dict[str, FileDigest]:
    """Write the errors of all columns, and return the digest by file."""
    text = encode_errors(errors)
    (folder / ERRORS).write_bytes(text)
    return {ERRORS: FileDigest(sha256(text), 0)}


def written_table(
    folder: Path, file: str, table: pa.Table, notes: Mapping[str, str] | None = None
) -> FileDigest:
    """Write a table marked as part of a rehearsal, and return its digest and rows."""
    path = folder / file
    path.parent.mkdir(exist_ok=True, parents=True)
    noted = table.replace_schema_metadata(dict(notes or {NOTED: NOTE}))
    rows = formats.write_table(noted, path)
    return FileDigest(sha256_of(path), rows)
