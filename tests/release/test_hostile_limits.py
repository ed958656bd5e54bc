"""Folders of private limits that somebody else wrote, or replaced with links."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.documents.encoding import NAME
from dprelease.errors import OutputError, State
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.release.test_private_limits import CHOICE, TABLES, charges, manifest, reseal, write

FILE = "max_groups_1.parquet"


@pytest.fixture(scope="module")
def published_limits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a release, its limits and its ledger."""
    folder = tmp_path_factory.mktemp("published")
    run(read_declaration(write(folder, ledger="10", people=6)))
    return folder


@pytest.fixture
def limits_copy(published_limits: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may change."""
    return Path(shutil.copytree(published_limits, tmp_path / "copy"))


def _link_to_copy(path: Path) -> None:
    """Move a file or folder elsewhere, and link to it."""
    moved = path.parents[2] / f"moved-{path.name}"
    shutil.move(path, moved)
    path.symlink_to(moved)


def _replace_with(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a change that puts something in the place of a file or folder."""

    def change(path: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(path)

    return change


CHANGES: dict[str, Callable[[Path], object]] = {
    "a link to a copy": _link_to_copy,
    "a link to its folder": _replace_with(lambda path: path.symlink_to(".")),
    "a link to itself": _replace_with(lambda path: path.symlink_to(path.name)),
    "a link to nothing": _replace_with(lambda path: path.symlink_to("nothing")),
    "an endless device": _replace_with(lambda path: path.symlink_to("/dev/zero")),
    "a pipe": _replace_with(os.mkfifo),
    "an empty folder": _replace_with(Path.mkdir),
    "an empty file": _replace_with(Path.touch),
}


def _refused_run(world: Path) -> None:
    """Run the release, which must refuse its limits before it charges or writes anything."""
    before, out = charges(world), manifest(world / "out" / "visits")
    with pytest.raises(OutputError) as caught:
        run(read_declaration(world / "release.yaml"), overwrite=True)
    assert caught.value.code == "DP-OUTPUT-023"
    assert caught.value.state is State.NOTHING
    assert charges(world) == before == [CHOICE, TABLES]
    assert manifest(world / "out" / "visits") == out


@pytest.mark.each
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("name", ["", FILE, NAME])
def test_links_in_place_of_limits_are_refused(limits_copy: Path, name: str, what: str) -> None:
    CHANGES[what](limits_copy / "out" / "visits-limits" / name)
    _refused_run(limits_copy)


@pytest.mark.each
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("name", ["limits", f"limits/{FILE}", f"limits/{NAME}"])
def test_links_inside_a_release_are_found(limits_copy: Path, name: str, what: str) -> None:
    """The digests of the files are right in a copy, but a link may lead elsewhere tomorrow."""
    out = limits_copy / "out" / "visits"
    assert verify(out).ok
    CHANGES[what](out / name)
    codes = {finding.code for finding in verify(out).findings}
    assert codes >= {"DP-VERIFY-004"}


@pytest.mark.parametrize("name", ["../secret.txt", "/dev/null", "{absolute}", "..", "a/../x", ""])
def test_manifest_naming_files_outside_its_folder_is_refused(limits_copy: Path, name: str) -> None:
    """No file outside of the folder of the limits is read, copied or overwritten."""
    limits, secret = limits_copy / "out" / "visits-limits", limits_copy / "out" / "secret.txt"
    secret.write_text("secret")
    record = manifest(limits)
    name = name.format(absolute=secret)
    record["files"].append({**record["files"][0], "name": name})
    record["files"][-1]["sha256"] = sha256(b"secret").hexdigest()
    reseal(limits, record)
    _refused_run(limits_copy)
    assert secret.read_text() == "secret"


def test_invalid_tables_of_limits_are_refused(limits_copy: Path) -> None:
    limits = limits_copy / "out" / "visits-limits"
    whole = manifest(limits)
    for values in ([], [1, 1], [0], [7], [None], ["x"], [1.5], [True]):
        pq.write_table(pa.table({"max_groups": values}), limits / FILE)
        raw = (limits / FILE).read_bytes()
        record = json.loads(json.dumps(whole))
        record["files"][0]["sha256"] = sha256(raw).hexdigest()
        reseal(limits, record)
        _refused_run(limits_copy)
    for raw in (b"", b"PAR1", b"\xff" * 1000):
        (limits / FILE).write_bytes(raw)
        record = json.loads(json.dumps(whole))
        record["files"][0]["sha256"] = sha256(raw).hexdigest()
        reseal(limits, record)
        _refused_run(limits_copy)


def test_limits_missing_from_the_ledger_are_refused(limits_copy: Path) -> None:
    """The value of a limit is changed, and the manifest fits it: but it is another manifest."""
    folder = limits_copy / "out" / "visits-limits"
    table = pq.read_table(folder / FILE)
    kind, old = table.schema.field(0), table.column(0)[0].as_py()
    other = table.set_column(0, kind, pa.array([1 if old != 1 else 2], kind.type))
    pq.write_table(other, folder / FILE)
    record = manifest(folder)
    for file in record["files"]:
        file["sha256"] = sha256((folder / FILE).read_bytes()).hexdigest()
    reseal(folder, record)
    _refused_run(limits_copy)


def test_verify_finds_limits_with_forged_noise(limits_copy: Path) -> None:
    """A run copies limits with a smaller stated cost, but `verify` refuses the release."""
    limits = limits_copy / "out" / "visits-limits"
    text = (limits_copy / "release.yaml").read_text().replace("ledger: ledger.sqlite\n", "")
    (limits_copy / "release.yaml").write_text(text)
    shutil.rmtree(limits_copy / "out")
    out = run(read_declaration(limits_copy / "release.yaml"))
    assert verify(out).ok
    whole = manifest(limits)
    for forge in (_with_smaller_cost, _with_more_noise):
        record = json.loads(json.dumps(whole))
        forge(record)
        reseal(limits, record)
        run(read_declaration(limits_copy / "release.yaml"), overwrite=True)
        assert manifest(out)["limits"]["manifest"] == manifest(limits)["digest"]
        codes = {finding.code for finding in verify(out).findings}
        assert codes == {"DP-VERIFY-027"}


def _with_smaller_cost(record: dict[str, Any]) -> None:
    for part in (record["guarantee"], record["privacy_parameters"]):
        part["epsilon"] = "0.001"


def _with_more_noise(record: dict[str, Any]) -> None:
    parameters = record["measurements"][0]["parameters"]
    name = sorted(parameters)[0]
    parameters[name] = str(2 * float(parameters[name]))
