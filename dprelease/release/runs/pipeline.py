"""The steps of a run, in order: all or nothing, by a staging folder and one rename."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from dprelease.documents import manifest
from dprelease.documents.release_metadata import metadata_of
from dprelease.errors import RunState
from dprelease.exact.engines import open_engines
from dprelease.exact.settings import Settings
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.families.family_plan import families_of
from dprelease.planning.prepare import prepare
from dprelease.release.disk import most_bytes
from dprelease.release.execute import publishing
from dprelease.release.exporting import draft_of, exports_of, try_exports
from dprelease.release.runs.family_run import publish_families
from dprelease.schema.load import Declaration

Progress = Callable[[str], None]


def run(
    declaration: Declaration,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    bits: BitSource | None = None,
    frames: Mapping[str, object] | None = None,
    progress: Progress = lambda _step: None,
    state: RunState | None = None,
) -> Path:
    """Publish a release and return its folder; if it fails, nothing becomes readable.

    `frames` maps the name of a table, or the name in `source: {frame: ...}`, to a frame. `bits` is
    for tests. `state` advances with every step; at the end it says what has happened, even after an
    exception.

    Raises
    ------
    DpReleaseError
        Any subclass; the message says whether rows had been read, and what is charged. It also says
        so in the rare case that the release is readable nevertheless.
    """
    other = _other_run(declaration)
    if other is not None:
        return other(
            declaration,
            output=output,
            overwrite=overwrite,
            bits=bits,
            frames=frames or {},
            progress=progress,
            state=state,
        )
    queries, plan = prepare(declaration)
    families = families_of(declaration.spec, plan.columns)
    metadata = metadata_of(declaration, queries, families)
    source = bits or Entropy()
    draft = draft_of(declaration, queries, plan)
    exports = exports_of(declaration, queries, plan)
    with publishing(
        declaration,
        queries,
        plan,
        output=output,
        overwrite=overwrite,
        state=state,
        draft=draft if exports is None else exports.in_draft(draft),
        tables=most_bytes(families) + (0 if exports is None else exports.most_bytes),
        trial=partial(try_exports, exports, draft),
    ) as release:
        settings = Settings.of(declaration)
        with open_engines(queries, frames or {}, declaration.spec, settings) as engines:
            release.read()
            written = publish_families(families, plan, engines, source, release, metadata, progress)
            charged = release.charged.to_json()
            record = manifest.fill_draft(draft, families, metadata, written, charged)
            if exports is not None:
                record = exports.write_all(record, release.folder, progress)
            progress("manifest")
            release.publish(record)
    return release.claim.target


def _other_run(declaration: Declaration) -> Callable[..., Path] | None:
    """Return the run of a local or federated release; None for a central one."""
    if declaration.spec.mode == "local":
        from dprelease.release.runs.local_run import run_local

        return run_local
    if declaration.spec.federated is not None:
        from dprelease.release.runs.party_run import run_federated

        return run_federated
    return None
