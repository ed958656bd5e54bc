"""Releases copied into an object store: the manifest is written only when all files are there."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import NAME
from dprelease.errors import DpReleaseError, OutputError, VerificationError
from dprelease.system.stores.objects import Store
from dprelease.verification.after_publication.store_export import CLAIM
from tests.exact.stores.server import Bucket, environment, running_bucket, use
from tests.processes import run
from tests.release.build import RELEASE, write


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with running_bucket() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    server.clear()
    use(server, monkeypatch)
    return server


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_release(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_release(tmp_path_factory.mktemp("two"), more="formats: [csv]\n")


def publish_release(folder: Path, more: str = "") -> Path:
    path = write(folder)
    path.write_text(RELEASE + more)
    return dprelease.run(path).folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def copied_files(bucket: Bucket, prefix: str = "out/") -> dict[str, bytes]:
    return {key.removeprefix(prefix): bucket.get(key) for key in bucket.keys(prefix)}


def test_store_copy_has_all_files(bucket: Bucket, release: Path, tmp_path: Path) -> None:
    bucket.put("output", b"another object with a similar name")
    found = dprelease.export_to_store(release, bucket.uri("out/"))
    assert copied_files(bucket) == contents(release)
    assert found.files[-1] == NAME
    assert set(found.files) == contents(release).keys()
    for name, content in copied_files(bucket).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert dprelease.verify(tmp_path).ok
    assert dprelease.export_to_store(release, bucket.uri("out")).files == ()
    assert copied_files(bucket) == contents(release)


def test_export_command_writes_to_stores(bucket: Bucket, release: Path, other: Path) -> None:
    def export(folder: Path, *more: str) -> Any:
        return CliRunner().invoke(
            cli.app, ["export", str(folder), "--to", bucket.uri("out"), *more]
        )

    assert "Copied" in export(release).output
    assert "already there" in export(release).output
    assert export(other).exit_code != 0
    replaced = export(other, "--overwrite", "--json")
    assert set(json.loads(replaced.output)["files"]) == contents(other).keys()
    assert copied_files(bucket) == contents(other)
    assert export(other, "--output", "x").exit_code == 2
    assert export(other, "--schema", "x").exit_code == 2


def test_store_export_replaces_only_releases(bucket: Bucket, release: Path, other: Path) -> None:
    uri = bucket.uri("out")
    for name in ("notes.txt", NAME, CLAIM):
        bucket.clear()
        bucket.put(f"out/{name}", b"{}" if name == NAME else b"[")
        with pytest.raises(OutputError, match="DP-EXPORT-015"):
            dprelease.export_to_store(release, uri)
        if name != CLAIM:
            with pytest.raises(OutputError, match="DP-EXPORT-015"):
                dprelease.export_to_store(release, uri, overwrite=True)
            assert len(bucket.keys()) == 1
    bucket.clear()
    dprelease.export_to_store(other, uri)
    with pytest.raises(OutputError, match="DP-EXPORT-015"):
        dprelease.export_to_store(release, uri)
    assert copied_files(bucket) == contents(other)
    dprelease.export_to_store(release, uri, overwrite=True)
    assert copied_files(bucket) == contents(release)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://people-bucket", "s3://people-bucket/", "s3://people-bucket/a*/b", "https://a.org/b",
        "s3://user:secret@people-bucket/a", "s3://people-bucket/a?secret=1", "ftp://host/a",
        "s3://people-bucket/../a", "file:///tmp/a", "a/b", "", None, 3,
    ],
)  # fmt: skip
def test_wrong_store_addresses_are_refused(bucket: Bucket, release: Path, uri: Any) -> None:
    code = "DP-EXPORT-014" if isinstance(uri, str) else "DP-SESSION-016"
    with pytest.raises(DpReleaseError, match=code) as refused:
        dprelease.export_to_store(release, uri)
    assert "secret" not in str(refused.value)
    assert bucket.keys() == []


def test_errors_of_the_store_are_reported(
    bucket: Bucket, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutputError, match="DP-EXPORT-014"):
        dprelease.export_to_store(release, "s3://no-such-bucket-anywhere/out")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")
    with pytest.raises(OutputError, match="DP-EXPORT-014"):
        dprelease.export_to_store(release, bucket.uri("out"))


def test_damaged_release_is_not_copied(bucket: Bucket, tmp_path: Path) -> None:
    folder = publish_release(tmp_path)
    table = next(folder.rglob("*.parquet"))
    table.write_bytes(table.read_bytes() + b"x")
    with pytest.raises((VerificationError, dprelease.errors.Findings)):
        dprelease.export_to_store(folder, bucket.uri("out"))
    assert bucket.keys() == []


class StoppedError(Exception):
    """A copy that ends at some request."""


def stop_after(requests: int, patch: pytest.MonkeyPatch) -> None:
    """Let the store accept so many requests that change it, and then stop the copy."""
    left = [requests]

    def counted(name: str) -> Any:
        original = getattr(Store, name)

        def request(*arguments: Any) -> Any:
            if not left[0]:
                raise StoppedError
            left[0] -= 1
            return original(*arguments)

        return request

    for name in ("write", "write_if_unchanged", "remove"):
        patch.setattr(Store, name, counted(name))


@pytest.mark.each
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("stop", range(6))
def test_stopped_store_copy_is_completed(
    bucket: Bucket,
    release: Path,
    other: Path,
    stop: int,
    overwrite: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The manifest is there only with all files that it lists."""
    uri = bucket.uri("out")
    if overwrite:
        dprelease.export_to_store(other, uri)
    with monkeypatch.context() as patch:
        stop_after(stop, patch)
        with pytest.raises(StoppedError):
            dprelease.export_to_store(release, uri, overwrite=overwrite)
    found = copied_files(bucket)
    if NAME in found:
        whole = contents(release) if found[NAME] == contents(release)[NAME] else contents(other)
        assert {name: found[name] for name in whole} == whole
    if CLAIM in found:
        with pytest.raises(OutputError, match="DP-EXPORT-015"):
            dprelease.export_to_store(other, uri)
    dprelease.export_to_store(release, uri, overwrite=overwrite)
    assert copied_files(bucket) == contents(release)


def test_store_copy_has_six_requests(
    bucket: Bucket, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim, removal, two tables, manifest, removal of the claim: the test above stops at each."""
    stop_after(6, monkeypatch)
    dprelease.export_to_store(release, bucket.uri("out"))


def test_store_copy_that_is_replaced_fails(
    bucket: Bucket, release: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second copy replaces the first while the first writes its last file."""
    original, done = Store.write, []

    def write_last(store: Store, key: str, content: bytes | Path) -> None:
        original(store, key, content)
        if not done:
            done.append(key)
            dprelease.export_to_store(other, bucket.uri("out"), overwrite=True)

    monkeypatch.setattr(Store, "write", write_last)
    with pytest.raises(OutputError, match="DP-EXPORT-014"):
        dprelease.export_to_store(release, bucket.uri("out"))
    assert copied_files(bucket)[NAME] == contents(other)[NAME]


def test_killed_store_export_is_completed(bucket: Bucket, release: Path) -> None:
    code = (
        "import os, signal, sys, dprelease\n"
        "from dprelease.system.stores.objects import Store\n"
        "write, files = Store.write, []\n"
        "def kill(store, key, content):\n"
        "    write(store, key, content)\n"
        "    files.append(key)\n"
        "    if len(files) == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Store.write = kill\n"
        "dprelease.export_to_store(*sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, str(release), bucket.uri("out")]
    done = run(command, env={**os.environ, **environment(bucket)})
    assert done.returncode == -signal.SIGKILL
    assert CLAIM in copied_files(bucket)
    assert NAME not in copied_files(bucket)
    dprelease.export_to_store(release, bucket.uri("out"))
    assert copied_files(bucket) == contents(release)
