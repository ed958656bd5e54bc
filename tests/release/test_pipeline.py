"""Outputs are not overwritten without --overwrite and never partial; errors state what happened."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dprelease
from dprelease.errors import DataError, OutputError, State
from dprelease.exact.results.true_table import ExactTable
from dprelease.noise.noised_vectors import perturb
from dprelease.numerics.lattice import LIMIT
from dprelease.planning.prepare import prepare
from dprelease.release import folder
from dprelease.release.runs import family_run
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.tables.arrays import scale_steps
from tests.release.build import ROWS, publish, write
from tests.replay import Keyed


def test_existing_output_is_refused(tmp_path: Path) -> None:
    declaration = read_declaration(write(tmp_path))
    target = run(declaration)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    with pytest.raises(OutputError, match="DP-OUTPUT-001") as caught:
        run(declaration)
    assert caught.value.state is State.NOTHING
    assert before == {path.name: path.read_bytes() for path in target.iterdir()}
    assert dprelease.verify(target / "manifest.json").checked == dprelease.verify(target).checked
    run(declaration, overwrite=True)
    assert before != {path.name: path.read_bytes() for path in target.iterdir()}
    photos = tmp_path / "photos"
    photos.mkdir()
    for overwrite in (False, True):  # `overwrite` is not suggested where it can't help
        with pytest.raises(OutputError, match="DP-OUTPUT-003"):
            run(declaration, output=photos, overwrite=overwrite)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="DP-OUTPUT-003"):
        run(declaration, output=tmp_path / "link")


def test_unwritable_output_is_refused(tmp_path: Path) -> None:
    declaration = read_declaration(write(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="DP-OUTPUT-002") as caught:
        run(declaration, output=tmp_path / "file" / "below")
    assert caught.value.state is State.NOTHING


@pytest.mark.parametrize("step", ["write_pieces", "rename_new", "_sync_to_disk", "streaming"])
def test_full_disk_leaves_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "out").mkdir()  # a new folder is synced before anything is read
    monkeypatch.setattr(
        folder if step in ("_sync_to_disk", "rename_new") else family_run, step, full
    )
    with pytest.raises(OutputError, match="no space left") as caught:
        run(read_declaration(write(tmp_path)))
    assert caught.value.state is State.READ
    assert list((tmp_path / "out").iterdir()) == []


def test_failing_overwrite_keeps_the_old_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _ = publish(tmp_path)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    (tmp_path / "people.csv").write_text("")
    with pytest.raises(DataError):
        run(read_declaration(tmp_path / "release.yaml"), overwrite=True)
    assert before == {path.name: path.read_bytes() for path in target.iterdir()}
    assert os.listdir(tmp_path / "out") == ["people"]


def test_published_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        target, _ = publish(tmp_path)
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o640}


def test_noise_at_the_limit_of_64_bits_saturates(tmp_path: Path) -> None:
    """No wrap and no error for any value and noise (V07)."""
    _, plan = prepare(read_declaration(write(tmp_path)))
    columns = plan.of_query("all")
    for value in (LIMIT, -LIMIT, 0):
        exact = ExactTable("all", 1, {"rows": np.array([value])})
        for word in (0, 2**63):
            from tests.replay import Replay

            noisy = perturb(exact, columns, Replay([word] + [0] * 40, fill=2**64 - 1)).columns[
                "rows"
            ]
            assert abs(int(noisy[0])) <= LIMIT
            assert (int(noisy[0]) > value) == (word == 0 and value < LIMIT) or abs(value) == LIMIT


@pytest.mark.parametrize("step", ["1", "0.5", "0.001", "10", "25", "0.00000000000000001"])
def test_scaled_steps_are_exact(step: str) -> None:
    steps = np.array([0, 1, -1, 12345, LIMIT, -LIMIT])
    found = scale_steps(steps, Fraction(step)).to_pylist()
    assert [Fraction(value) for value in found] == [int(k) * Fraction(step) for k in steps]


def test_frames_replace_a_source(tmp_path: Path) -> None:
    rows = [row.strip().split(",") for row in ROWS]
    columns = dict(zip(("person", "city", "age", "pay"), zip(*rows, strict=True), strict=True))
    frame = pa.table(
        {
            "person": [int(x) for x in columns["person"]],
            "city": columns["city"],
            "age": [int(x) for x in columns["age"]],
            "pay": [float(x) for x in columns["pay"]],
        }
    )
    from_file, _ = publish(tmp_path / "file")
    declaration = read_declaration(write(tmp_path / "frame", []))
    from_frame = run(declaration, frames={"people": frame}, bits=Keyed("noise"))
    text = (tmp_path / "frame" / "people.yaml").read_text().replace("people.csv", "{frame: survey}")
    (tmp_path / "frame" / "people.yaml").write_text(text)
    named = read_declaration(tmp_path / "frame" / "release.yaml")
    by_name = run(named, frames={"survey": frame}, bits=Keyed("noise"), output=tmp_path / "named")
    with pytest.raises(DataError, match="DP-DATA-008"):
        run(named, output=tmp_path / "none")
    for name in ("all.parquet", "by_city.parquet"):
        assert (from_file / name).read_bytes() == (by_name / name).read_bytes()
        assert (from_file / name).read_bytes() == (from_frame / name).read_bytes()
