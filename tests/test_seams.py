"""What is added without touching anything else: each seam is shown by something that is added."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease import mechanisms
from dprelease.mechanisms import registry
from dprelease.postprocess import family_steps
from dprelease.release.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.tables import formats
from tests.release import adding_up
from tests.release.build import write

OTHERS = "      pay: {sum: pay, mechanism: laplace}\n"
"""What the family has beside its counts in that release."""

QUIET = """
from dprelease.mechanisms.laplace import Laplace
from dprelease.mechanisms.randomizer import PlaceInAuto


class QuietLaplace(Laplace):
    name = "quiet_laplace"
    auto = PlaceInAuto()


MECHANISM = QuietLaplace
"""


def forget() -> None:
    registry.names.cache_clear()
    registry.kind_of.cache_clear()


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mechanism in a file of its own, which nothing else knows of."""
    folder = tmp_path / "mechanisms"
    folder.mkdir()
    (folder / "quiet_laplace.py").write_text(QUIET)
    monkeypatch.setattr(mechanisms, "__path__", [*mechanisms.__path__, str(folder)])
    forget()
    yield "quiet_laplace"
    sys.modules.pop("dprelease.mechanisms.quiet_laplace", None)
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("noise", ["{0}", "{{name: auto, allowed: {0}}}"])
def test_a_mechanism_is_one_file(quiet: str, noise: str, tmp_path: Path) -> None:
    """It is found, planned, drawn, chosen by `auto`, recorded and verified."""
    path = write(tmp_path)
    text = path.read_text().replace("mechanism: gaussian", f"mechanism: {noise.format(quiet)}")
    (tmp_path / "own.yaml").write_text(text)
    folder = run(read_declaration(tmp_path / "own.yaml"), output=tmp_path / "out own")
    record = json.loads((folder / "manifest.json").read_text())
    assert quiet in json.dumps(record)
    assert dprelease.verify(folder).ok
    assert quiet in registry.names()


class ArrowFiles:
    """Another format: Arrow's own files."""

    extension = "arrow"

    def write(self, tables: Iterable[pa.Table], path: Path) -> int:
        held = pa.concat_tables(tables)
        with pa.ipc.new_file(path, held.schema) as writer:
            writer.write_table(held)
        return len(held)

    def read(self, path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        held = pa.ipc.open_file(path.read_bytes()).read_all()
        return held if columns is None else held.select(columns)

    def shape(self, path: Path) -> tuple[pa.Schema, int]:
        held = self.read(path)
        return held.schema, len(held)

    def batches(self, path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        yield from self.read(path, columns).to_batches()


def test_a_format_is_one_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is published, listed by its digest, and verified down to keys and rows."""
    monkeypatch.setattr(formats, "PUBLISHED", ArrowFiles())
    folder = run(read_declaration(write(tmp_path)), output=tmp_path / "out own")
    assert sorted(path.name for path in folder.iterdir()) == [
        "all.arrow", "by_city.arrow", "manifest.json",
    ]  # fmt: skip
    assert dprelease.verify(folder).ok
    (folder / "all.arrow").write_bytes((folder / "by_city.arrow").read_bytes())
    assert not dprelease.verify(folder).ok


def test_a_step_of_a_family_is_one_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets all tables of a rollup as noised integers; what it makes of them is verified."""
    monkeypatch.setattr(family_steps, "FAMILY_STEPS", [adding_up.asked])
    text = write(tmp_path).read_text().replace("by_city:", f"{adding_up.QUERY}:")
    text = text.replace("group_by: [city]", "rollup: [city]").replace(OTHERS, "")
    (tmp_path / "own.yaml").write_text(text)
    folder = run(read_declaration(tmp_path / "own.yaml"), output=tmp_path / "out own")
    names = [f"tables/{adding_up.QUERY}_{keys}.parquet" for keys in ("total", "city")]
    total, cities = (pq.read_table(folder / name)["people"].to_pylist() for name in names)
    assert total == [sum(cities)]
    assert dprelease.verify(folder).ok
    (folder / names[0]).write_bytes((folder / names[1]).read_bytes())
    assert not dprelease.verify(folder).ok
