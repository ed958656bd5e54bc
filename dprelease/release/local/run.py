"""The steps of a local run: the same as of any release, record by record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from dprelease.exact.duckdb import Engine
from dprelease.exact.engines import frame_of
from dprelease.exact.settings import Settings
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.query.records import Records
from dprelease.release.charging import charging
from dprelease.release.folder import publish, refuse_existing, staging
from dprelease.release.local import manifest
from dprelease.release.local.perturb import perturb_records
from dprelease.release.local.plan import LocalPlan, prepare_local
from dprelease.release.local.write import records_to_arrow
from dprelease.release.manifest import NAME, canonical, sha256
from dprelease.release.write import write_parquet
from dprelease.schema.load import Declaration


def run_local(
    declaration: Declaration,
    *,
    output: Path | None,
    overwrite: bool,
    bits: BitSource | None,
    frames: Mapping[str, object],
    progress: Callable[[str], None],
) -> Path:
    """Publish noised records and return their folder; raises as `pipeline.run`."""
    plan = prepare_local(declaration)
    target = output or declaration.folder / declaration.spec.output
    refuse_existing(target, overwrite)
    source = bits or Entropy()
    queries = [part.query for part in plan.records]
    with (
        charging(declaration, queries, plan, target) as charged,
        staging(target) as folder,
        ExitStack() as engines,
    ):
        opened: dict[str, Engine] = {}
        digests: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for part in plan.records:
            name = part.declared.table.name
            if name not in opened:
                frame = frame_of(part.declared.table, frames)
                engine = Engine.open(part.declared, frame, settings=Settings.of(declaration))
                opened[name] = engines.enter_context(engine)
            progress(part.name)
            digest, size = _publish_records(opened[name], part, plan, source, folder)
            digests[part.name], sizes[part.name] = digest, size
        progress("manifest")
        record = manifest.build(declaration, plan, digests, sizes, charged.to_json())
        (folder / NAME).write_bytes(canonical(record))
        charged.publish()
        publish(folder, target)
        charged.commit(record["digest"])
    return target


def _publish_records(
    engine: Engine, part: Records, plan: LocalPlan, bits: BitSource, folder: Path
) -> tuple[str, int]:
    """Write one file of noised records; return its digest and the number of records."""
    exact = engine.records(part)
    noisy = perturb_records(exact, plan.of_records(part.name), bits)
    path = folder / f"{part.name}.parquet"
    write_parquet(records_to_arrow(noisy, part.columns), path)
    return sha256(path.read_bytes()), exact.size
