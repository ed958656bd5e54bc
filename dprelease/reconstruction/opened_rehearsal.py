"""Verify and open a rehearsal for an attack; its rows are about stand-ins only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dprelease.documents.encoding import NAME, sha256_of
from dprelease.documents.manifest import RehearsalManifest
from dprelease.documents.rehearsal_manifest import RehearsalRecord
from dprelease.errors import DeclarationError, Place, VerificationError, raise_all
from dprelease.planning.kinds import CENTRAL
from dprelease.planning.plan import PlannedColumn
from dprelease.postprocess.families import Family
from dprelease.postprocess.family_steps import families_of
from dprelease.query.resolve import Query
from dprelease.rehearsal.rehearsal_folder import synthetic_rows_file
from dprelease.rehearsal.rehearsal_options import OptionValues, requested_files
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.verification.central import recorded_columns
from dprelease.verification.manifest_reader import read_any_manifest
from dprelease.verification.report import Report, resolve_declaration
from dprelease.verification.verify import verify


@dataclass(frozen=True, slots=True)
class OpenedRehearsal:
    """A verified rehearsal: its folder, declaration, queries, planned noise and stand-ins."""

    folder: Path
    declaration: Declaration
    queries: tuple[Query, ...]
    columns: tuple[PlannedColumn, ...]
    families: tuple[Family, ...]
    stand_ins: StandIns


def open_rehearsal(folder: Path, on: OptionValues = None) -> OpenedRehearsal:
    """Verify a rehearsal and return it; `on` are the public stand-in files that it names.

    Raises VerificationError: DP-VERIFY-001 to 003 for a folder without a manifest; DP-ATTACK-001
    for a release, whose true values must stay unknown; all errors of `verify`. Raises
    DeclarationError: DP-ATTACK-002 for public files that are missing or different; also the errors
    of `requested_files`.
    """
    record = read_any_manifest(folder)
    if not isinstance(record, RehearsalManifest):
        place = Place(NAME, None, "format")
        raise VerificationError("DP-ATTACK-001", place=place, found=record.format)
    raise_all(verify(folder, rehearsal=True).findings)
    report = Report(folder)
    resolved = resolve_declaration(report, record, CENTRAL)
    if resolved is None:
        raise_all(report.findings)
        raise AssertionError("what verifies can be resolved")
    declaration, queries = resolved
    columns = recorded_columns(report, record.measurements, queries)
    if columns is None:
        raise_all(report.findings)
        raise AssertionError("what verifies has its noise")
    families = families_of(columns)
    stand_ins = _opened_stand_ins(
        folder, record.rehearsal, declaration, requested_files(declaration, on)
    )
    return OpenedRehearsal(folder, declaration, queries, columns, families, stand_ins)


def _opened_stand_ins(
    folder: Path, rehearsal: RehearsalRecord, declaration: Declaration, on: Mapping[str, Path]
) -> StandIns:
    """Return the stand-ins: public files with the digests in the manifest, and synthetic people."""
    stand_in_records = {one.table: one for one in rehearsal.stand_ins}
    public = {name: one for name, one in stand_in_records.items() if one.by == "public"}
    for name, one in public.items():
        problem = _stand_in_problem(on.get(name), one.sha256)
        if problem:
            file = f"{one.file}={name}"
            raise DeclarationError("DP-ATTACK-002", table=name, file=file, problem=problem)
    for name in on.keys() - public.keys():
        problem = "its people were invented, and are stored in the rehearsal"
        raise DeclarationError("DP-ATTACK-002", table=name, file=on[name].name, problem=problem)
    stand_ins = StandIns.of(declaration, dict(on), {})
    invented = {
        name: formats.PUBLISHED_FORMAT.read(folder / synthetic_rows_file(name))
        for name in stand_in_records.keys() - public.keys()
    }
    return replace(stand_ins, invented=invented)


def _stand_in_problem(path: Path | None, digest: str | None) -> str:
    """Return why a file is not the public stand-in in the manifest; empty if it is."""
    if path is None:
        return "it is not given"
    try:
        same = sha256_of(path) == digest
    except OSError:
        return "the file does not exist"
    return "" if same else "the SHA-256 of the file is not that in the manifest"
