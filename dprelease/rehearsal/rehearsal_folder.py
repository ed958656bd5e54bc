"""Claim the folder of a rehearsal, mark the folder as a rehearsal, and write its truth files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.documents.encoding import NAME, sha256, sha256_of
from dprelease.documents.file_records import FileDigest
from dprelease.documents.rehearsal_manifest import (
    ERRORS,
    FORMATS,
    NOTE,
    NOTED,
    PEOPLE,
    TRUTH,
    ColumnErrors,
    encode_errors,
)
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import OutputError, RunState
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import Plan
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.release.execute import Publication, open_publication
from dprelease.release.path_conflicts import refuse_own_source
from dprelease.schema.load import Declaration
from dprelease.system.files import read_file
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER_SUFFIX = "-rehearsal"
"""The suffix of the default folder of a rehearsal, after the name of the declared folder."""


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """The arguments of `rehearse`; the declaration still has the sources that stand-ins replace."""

    declaration: Declaration
    output: Path | None
    overwrite: bool
    bits: BitSource
    progress: Callable[[str], None]
    state: RunState | None

    @property
    def target(self) -> Path:
        """Return the folder of the rehearsal, by default next to the folder of the release."""
        declared = self.declaration.spec.output.rstrip("/")
        return self.output or self.declaration.folder / f"{declared}{FOLDER_SUFFIX}"


@contextmanager
def rehearsal_publication(
    request: RehearsalRequest,
    stand_ins: StandIns,
    plan: Plan,
    *,
    draft: ReleaseManifest,
    files: Sequence[str],
    tables: int = 0,
) -> Iterator[Publication]:
    """Yield the publication of a rehearsal, whose folder is claimed, and whose tables get a mark.

    The folder must not be inside a declared source. `files` has the names of all files that may be
    written in addition to the tables. `tables` is the maximum number of bytes of the tables, as in
    `open_publication`.

    Raises OutputError: DP-REHEARSE-004 if a release would be replaced; also the errors of
    `open_publication`.
    """
    refuse_own_source(request.declaration, plan, request.target, list(files))
    with open_publication(
        stand_ins.without_ledger,
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
    """Raise DP-REHEARSE-004 for a folder with any manifest other than that of a rehearsal.

    A rehearsal never replaces a release, because the release has used privacy budget.
    """
    try:
        record = parse_json(read_file(target / NAME, MOST_BYTES))
    except FileNotFoundError:
        return  # a folder without a manifest could only be claimed because it was free
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") not in FORMATS:
        raise OutputError("DP-REHEARSE-004", name=target.name)


def truth_file(name: str) -> str:
    """Return the name of the truth file of a published table, which also has its true values."""
    return formats.table_file_name(f"{TRUTH}/{name}")


def synthetic_rows_file(table: str) -> str:
    """Return the name of the file with the synthetic rows of a table."""
    return formats.table_file_name(f"{PEOPLE}/{table}")


def write_synthetic_rows(folder: Path, stand_ins: StandIns) -> dict[str, FileDigest]:
    """Write the synthetic rows of every table; return digests and numbers of rows, by file."""
    files = {synthetic_rows_file(name): table for name, table in stand_ins.invented.items()}
    return {name: write_marked_table(folder, name, table) for name, table in files.items()}


def write_errors(folder: Path, errors: list[ColumnErrors]) -> dict[str, FileDigest]:
    """Write the file with the errors of all columns, and return its digest by its name."""
    text = encode_errors(errors)
    (folder / ERRORS).write_bytes(text)
    return {ERRORS: FileDigest(sha256(text), 0)}


def write_marked_table(folder: Path, file: str, table: pa.Table) -> FileDigest:
    """Write a table that is marked as part of a rehearsal; return its digest and number of rows."""
    path = folder / file
    path.parent.mkdir(exist_ok=True, parents=True)
    noted = table.replace_schema_metadata({NOTED: NOTE})
    rows = formats.write_table(noted, path)
    return FileDigest(sha256_of(path), rows)
