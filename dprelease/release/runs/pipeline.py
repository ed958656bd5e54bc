"""Run a declared release: plan it, then execute the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import RunState
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.release.execute import RunRequest, execute
from dprelease.release.kinds import plan_release
from dprelease.release.run_options import with_table_versions
from dprelease.release.runs.limit_run import with_private_limits
from dprelease.schema.load import Declaration


def run(
    declaration: Declaration,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    bits: BitSource | None = None,
    frames: Mapping[str, object] | None = None,
    progress: Callable[[str], None] = lambda _step: None,
    state: RunState | None = None,
) -> Path:
    """Publish a release and return its folder; if the run fails, nothing becomes readable.

    `frames` maps the name of a table, or the name in `source: {frame: ...}`, to a frame. `bits`: a
    source of random bits, only for tests. `state` is updated by every step, and is valid even after
    an exception.

    Raises DpReleaseError: any of its subclasses. The message says whether rows were read, and what
    is charged. It also says so in the rare case that the release is readable nevertheless.
    """
    request = RunRequest(
        output, overwrite, bits or Entropy(), frames or {}, progress, state or RunState()
    )
    return publish(declaration, request)[0]


def publish(declaration: Declaration, request: RunRequest) -> tuple[Path, ReleaseManifest]:
    """Publish a release; return its folder and its manifest. Errors are those of `run`."""
    declaration = with_table_versions(declaration, request.frames)
    declaration = with_private_limits(declaration, request)
    return execute(plan_release(declaration), request)
