"""The steps of a local run: as of any release, but record by record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from dprelease.documents import local_manifest as manifest
from dprelease.documents.manifest import sha256
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.metadata_json import field_notes
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.errors import RunState
from dprelease.exact.engine_api import Recording
from dprelease.exact.engines import frame_of, open_engine
from dprelease.exact.postgres.server_link import servers_of
from dprelease.exact.settings import Settings
from dprelease.noise.noised_records import perturb_records
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.local_plan import LocalPlan, prepare_local
from dprelease.query.local_records import Records
from dprelease.release.execute import publishing
from dprelease.release.exporting import exports_of, local_draft, try_exports
from dprelease.schema.load import Declaration
from dprelease.tables.field_notes import with_field_notes
from dprelease.tables.formats import write_table
from dprelease.tables.record_table import records_to_arrow


def run_local(
    declaration: Declaration,
    *,
    output: Path | None,
    overwrite: bool,
    bits: BitSource | None,
    frames: Mapping[str, object],
    progress: Callable[[str], None],
    state: RunState | None,
) -> Path:
    """Publish noised records and return their folder; raises as `pipeline.run`."""
    plan, described = prepare_local(declaration), ReleaseMetadata(declaration.spec)
    source = bits or Entropy()
    queries = [part.query for part in plan.records]
    draft = local_draft(declaration, plan)
    exports = exports_of(declaration, queries, plan)
    with publishing(
        declaration,
        queries,
        plan,
        output=output,
        overwrite=overwrite,
        state=state,
        draft=draft if exports is None else exports.in_draft(draft),
        trial=partial(try_exports, exports, draft),
    ) as release:
        digests: dict[str, str] = {}
        sizes: dict[str, int] = {}
        with ExitStack() as stack:
            engines = _open_engines(declaration, plan, frames, stack)
            release.read()
            for part in plan.records:
                progress(part.name)
                engine = engines[part.declared.table.name]
                told = described.records(part)
                digest, size = _publish_records(engine, part, plan, source, told, release.folder)
                digests[part.name], sizes[part.name] = digest, size
        charged = release.charged.to_json()
        record = manifest.build(declaration, plan, digests, sizes, charged)
        if exports is not None:
            record = exports.write_all(record, release.folder, progress)
        progress("manifest")
        release.publish(record)
    return release.claim.target


def _open_engines(
    declaration: Declaration, plan: LocalPlan, frames: Mapping[str, object], stack: ExitStack
) -> dict[str, Recording]:
    """Return the engine of each table, whose columns serve all its releases of records."""
    opened: dict[str, Recording] = {}
    read = (p.declared for p in plan.records if frame_of(p.declared.table, frames) is None)
    servers = stack.enter_context(servers_of(read))
    for part in plan.records:
        name = part.declared.table.name
        if name not in opened:
            frame = frame_of(part.declared.table, frames)
            engine = open_engine(part.declared, frame, Settings.of(declaration), servers)
            opened[name] = stack.enter_context(engine)
        opened[name].compile_records(part)  # a missing column raises before the charge
    return opened


def _publish_records(
    engine: Recording,
    part: Records,
    plan: LocalPlan,
    bits: BitSource,
    told: TableMetadata,
    folder: Path,
) -> tuple[str, int]:
    """Write one file of noised records; return its digest and the number of records."""
    exact = engine.records(part)
    noisy = perturb_records(exact, plan.of_records(part.name), bits)
    path = folder / told.file
    write_table(with_field_notes(records_to_arrow(noisy, part.columns), field_notes(told)), path)
    return sha256(path.read_bytes()), exact.size
