"""The steps of a run, in order: all or nothing, by a staging folder and one rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dprelease.errors import OutputError, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.engines import open_engines
from dprelease.exact.scratch import make_private, remove_stale
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.query.resolve import Query
from dprelease.release import manifest
from dprelease.release.answer import answered
from dprelease.release.charging import charging
from dprelease.release.plan import Plan
from dprelease.release.prepare import prepare
from dprelease.release.write import to_arrow, write_parquet
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
) -> Path:
    """Publish a release and return its folder; on any failure nothing becomes readable.

    `frames` gives frames by the name of their table, or by the name in `source: {frame: ...}`.
    `bits` is for tests.

    Raises
    ------
    DpReleaseError
        Any of the tree; the message says whether rows had been read.
    """
    queries, plan = prepare(declaration)
    target = output or declaration.folder / declaration.spec.output
    _refuse_existing(target, overwrite)
    source = bits or Entropy()
    with (
        charging(declaration, queries, plan, target) as charged,
        _staging(target) as folder,
        open_engines(queries, frames or {}) as engines,
    ):
        written: dict[str, manifest.Written] = {}
        for query in queries:
            progress(query.name)
            engine = engines[query.name]
            written[query.name] = _publish_query(engine, query, plan, source, folder)
        progress("manifest")
        record = manifest.build(declaration, queries, plan, written, charged.to_json())
        (folder / manifest.NAME).write_bytes(manifest.canonical(record))
        charged.publish()
        _publish(folder, target)
        charged.commit(record["digest"])
    return target


def _publish_query(
    engine: Engine, query: Query, plan: Plan, bits: BitSource, folder: Path
) -> manifest.Written:
    """Write one noised table and return its digest and its number of rows."""
    answer = answered(engine, plan.of_query(query.name), bits)
    path = folder / f"{query.name}.parquet"
    write_parquet(to_arrow(answer), path)
    return manifest.Written(manifest.sha256(path.read_bytes()), answer.noisy.size)


def _refuse_existing(target: Path, overwrite: bool) -> None:
    _recover(target)
    if not target.exists() and not target.is_symlink():
        return
    if not overwrite:
        raise OutputError("DP-OUTPUT-001", name=target.name)
    if not (target / manifest.NAME).is_file():
        raise OutputError("DP-OUTPUT-003", name=target.name)


def _aside(target: Path) -> Path:
    """Return where a release waits while another one takes its place."""
    return target.parent / f".{target.name}.dprelease-replaced"


def _recover(target: Path) -> None:
    """Finish, or undo, an overwrite that a crash cut short; remove staging of dead processes."""
    aside = _aside(target)
    if aside.exists():
        if target.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(target)
    remove_stale(target.parent, _prefix(target))


def _prefix(target: Path) -> str:
    return f".{target.name}.dprelease-staging-"


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Yield a private folder beside the target, gone afterwards unless it was renamed."""
    folder: Path | None = None
    failure: OutputError | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = make_private(target.parent, _prefix(target))
    except OSError as problem:
        failure = _unwritable(target, problem, State.NOTHING)
    if failure is not None or folder is None:
        raise failure or OutputError("DP-OUTPUT-002", name=target.name, reason="no folder")
    try:
        yield folder
    except OSError as problem:
        failure = _unwritable(target, problem, State.READ)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failure is not None:
        raise failure


def _unwritable(target: Path, problem: OSError, state: State) -> OutputError:
    reason = (problem.strerror or "the system refused").lower()
    return OutputError("DP-OUTPUT-002", name=target.name, reason=reason, state=state)


def _publish(folder: Path, target: Path) -> None:
    """Make the folder readable under its final name; before this rename nothing is."""
    for path in folder.iterdir():
        path.chmod(0o666 & ~_umask())
        _sync(path)
    folder.chmod(0o777 & ~_umask())
    _sync(folder)
    aside = _aside(target)
    if target.exists():
        target.rename(aside)
    folder.rename(target)
    _sync(target.parent)
    if aside.exists():
        shutil.rmtree(aside)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
