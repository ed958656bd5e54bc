"""Every example folder is a whole release: it runs, has its expected shape, and verifies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dprelease

EXAMPLES = Path(__file__).parents[1] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/release.yaml"))

SHARED = {"census": ["nist_acs"]}
"""Examples that read the data of others."""


def shape_of(folder: Path) -> dict[str, object]:
    """Return names and types of columns, number of rows, first and last key of each file."""
    shapes: dict[str, object] = {}
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        keys = [field.name for field in table.schema if field.metadata[b"role"] == b"key"]
        ends = [{key: table[key][row].as_py() for key in keys} for row in (0, table.num_rows - 1)]
        shapes[path.relative_to(folder).as_posix()] = {
            "columns": {field.name: str(field.type) for field in table.schema},
            "rows": table.num_rows,
            "first": ends[0],
            "last": ends[1],
        }
    return shapes


def test_examples_exist() -> None:
    """The whole releases that the README speaks of are found."""
    assert {"nist_acs", "bike_trips", "census"} <= {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_has_its_expected_shape(folder: Path, tmp_path: Path) -> None:
    """A copy of the folder releases files of the declared shape, and they verify."""
    work = tmp_path / folder.name
    for name in {folder.name, *SHARED.get(folder.name, ())}:
        ignored = shutil.ignore_patterns("out")
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=ignored)
    published = dprelease.read_release(work / "release.yaml").run()
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert shape_of(published) == expected
    report = dprelease.write_report(published)  # of what verify finds nothing wrong with
    assert 20_000 < report.stat().st_size < 1_000_000
