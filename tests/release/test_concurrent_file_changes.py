"""If others change the private folder of a run, nothing incomplete is published."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.documents.file_records import listed_files
from dprelease.errors import OutputError, State
from dprelease.ledger.ledger import Ledger
from dprelease.release.folder import Claim
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.verification.verify import verify
from tests.covering import thinned
from tests.ledger.test_ledger import release_with_ledger
from tests.release import test_federated, test_local
from tests.release.build import write


def with_formats(folder: Path) -> Declaration:
    path = write(folder)
    path.write_text(path.read_text() + "formats: [csv, excel, json-stat, datapackage]\n")
    return read_declaration(path)


def with_values(folder: Path) -> Declaration:
    """Return a release that keeps a file of declared values in a folder of its own."""
    path = write(folder)
    pq.write_table(pa.table({"city": ["Bern", "Oslo", "Rome"]}), folder / "cities.parquet")
    schema = folder / "people.yaml"
    values = "values: [Bern, Oslo, Rome]"
    assert values in schema.read_text()
    schema.write_text(schema.read_text().replace(values, "values_from: cities.parquet"))
    return read_declaration(path)


RUNS: dict[str, Callable[[Path], Declaration]] = {
    "central": lambda folder: read_declaration(write(folder)),
    "with a ledger": lambda folder: read_declaration(release_with_ledger(folder)),
    "formats": with_formats,
    "kept values": with_values,
    "local": lambda folder: read_declaration(test_local.write(folder)),
    "federated": lambda folder: test_federated.read_party(test_federated.write(folder, 1)),
}


def last_file(folder: Path) -> Path:
    return max(path for path in folder.rglob("*") if path.is_file())


def replace_with_folder(folder: Path) -> None:
    name = last_file(folder)
    name.unlink()
    name.mkdir()


def replace_with_link(folder: Path) -> None:
    name = last_file(folder)
    moved = folder.parents[1] / "elsewhere"
    shutil.move(name, moved)
    name.symlink_to(moved)


DONE: dict[str, Callable[[Path], object]] = {
    "removed": lambda folder: last_file(folder).unlink(),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "added": lambda folder: (folder / "added").write_text("rows"),
    "hidden": lambda folder: (folder / ".added").write_text("rows"),
    "an empty folder": lambda folder: (folder / "added").mkdir(),
    "a folder": replace_with_folder,
    "a link": replace_with_link,
}


@pytest.mark.share(0.4)
@pytest.mark.parametrize(("kind", "done"), thinned(list(RUNS), list(DONE), together=1))
def test_changed_private_folder_is_refused_and_charged(
    kind: str, done: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is charged because rows were read; undisturbed, it publishes everything."""
    declaration = RUNS[kind](tmp_path)
    real = Claim.sync_files

    def store(claim: Claim) -> None:
        real(claim)
        DONE[done](claim.folder)

    monkeypatch.setattr(Claim, "sync_files", store)
    with pytest.raises(OutputError, match="DP-OUTPUT-017") as caught:
        run(declaration)
    paid = kind == "with a ledger"
    assert caught.value.state is (State.CHARGED if paid else State.READ)
    assert not any((tmp_path / "out").iterdir())
    if paid:
        (held,) = Ledger(tmp_path / "ledger.sqlite").state().reservations.values()
        assert held.is_charged
        assert not held.is_open
    monkeypatch.setattr(Claim, "sync_files", real)
    assert verify(run(declaration)).ok


def test_error_names_the_removed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declaration = read_declaration(write(tmp_path))
    real = Claim.sync_files

    def store(claim: Claim) -> None:
        real(claim)
        (claim.folder / "by_city.parquet").unlink()

    monkeypatch.setattr(Claim, "sync_files", store)
    with pytest.raises(OutputError, match=r"'by_city\.parquet' was removed from"):
        run(declaration)


def test_file_name_check_is_fast(tmp_path: Path) -> None:
    folder = run(with_formats(tmp_path))
    record = json.loads((folder / "manifest.json").read_bytes())
    files = {"manifest.json", *listed_files(record)}
    assert len(files) > 8
    claim, taken = Claim(folder, folder, overwrite=False), []
    for _ in range(20):
        begin = time.perf_counter()
        claim.refuse_others(files)
        taken.append(time.perf_counter() - begin)
    assert min(taken) < 0.002  # 0.1 ms where nothing else is at work
