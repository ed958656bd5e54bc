"""The steps of a run, in order: all or nothing, by a staging folder and one rename."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from dprelease.exact.duckdb import Engine
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.query.resolve import Query
from dprelease.release import manifest
from dprelease.release.charging import charging
from dprelease.release.folder import publish, refuse_existing, staging
from dprelease.release.perturb import perturb
from dprelease.release.plan import Plan
from dprelease.release.prepare import prepare
from dprelease.release.write import to_arrow, write_parquet
from dprelease.schema.load import Declaration, Declared

Progress = Callable[[str], None]


def run(
    declaration: Declaration,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    bits: BitSource | None = None,
    frames: Mapping[str, object] | None = None,
    progress: Progress = lambda _step: None,
) -> Path:
    """Publish a release and return its folder; on any failure nothing becomes readable.

    `frames` gives frames by the name of their table, or by the name in `source: {frame: ...}`.
    `bits` is for tests.

    Raises
    ------
    DpReleaseError
        Any of the tree; the message says whether rows had been read.
    """
    other = _other_run(declaration)
    if other is not None:
        return other(
            declaration,
            output=output,
            overwrite=overwrite,
            bits=bits,
            frame_of=lambda declared: frame_of(declared, frames or {}),
            progress=progress,
        )
    queries, plan = prepare(declaration)
    target = output or declaration.folder / declaration.spec.output
    refuse_existing(target, overwrite)
    source = bits or Entropy()
    with (
        charging(declaration, queries, plan, target) as charged,
        staging(target) as folder,
        ExitStack() as engines,
    ):
        opened: dict[str, Engine] = {}
        digests: dict[str, str] = {}
        for query in queries:
            name = query.table.name
            if name not in opened:
                frame = frame_of(query.declared, frames or {})
                opened[name] = engines.enter_context(Engine.open(query.declared, frame))
            progress(query.name)
            digests[query.name] = _publish_query(opened[name], query, plan, source, folder)
        progress("manifest")
        record = manifest.build(declaration, queries, plan, digests, charged.to_json())
        (folder / manifest.NAME).write_bytes(manifest.canonical(record))
        charged.publish()
        publish(folder, target)
        charged.commit(record["digest"])
    return target


def _other_run(declaration: Declaration) -> Callable[..., Path] | None:
    """Return the run of single records, or of one party; None for what is published here."""
    if declaration.spec.mode == "local":
        from dprelease.release.local.run import run_local

        return run_local
    if declaration.spec.federated is not None:
        from dprelease.release.federated.run import run_federated

        return run_federated
    return None


def frame_of(declared: Declared, frames: Mapping[str, object]) -> object | None:
    """Return the frame given for a table, by the table's name or by the declared frame's."""
    source = declared.table.source
    named = None if source is None else source.frame
    return frames.get(declared.table.name, frames.get(named or ""))


def _publish_query(engine: Engine, query: Query, plan: Plan, bits: BitSource, folder: Path) -> str:
    """Write one noised table and return its digest."""
    columns = plan.of_query(query.name)
    noisy = perturb(engine.run(query), columns, bits)
    path = folder / f"{query.name}.parquet"
    write_parquet(to_arrow(noisy, columns), path)
    return manifest.sha256(path.read_bytes())
